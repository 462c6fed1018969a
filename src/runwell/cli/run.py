"""`runwell run`: run a graph or agent once."""

from __future__ import annotations

import contextlib
import json
import uuid
from typing import Any

from runwell.cli.screen import err, one_line, out, print_json, safe, short
from runwell.cli.target import load
from runwell.errors import InvalidInput

__all__ = ["run"]

PAUSED = 3
"""The exit status of a run that waits for an answer."""


def run(target: str, given: str | None, thread: str | None, db: str | None, resume: str | None, as_json: bool) -> int:
    """Run `module:name` on a JSON input; 0 when it finished, 3 when it paused for an answer."""
    from runwell.ports.command import Command

    graph = load(target)
    if not (hasattr(graph, "invoke") and hasattr(graph, "stream")) or isinstance(graph, type):
        raise InvalidInput(
            f"{target!r} is {short(repr(graph))}, which cannot be run.", hint="Name a graph, an agent or a chain."
        )
    if given is not None and resume is not None:
        raise InvalidInput("--input and --resume exclude each other.", hint="--resume answers the thread's question.")
    value: Any = _json("--input", given)
    if resume is not None:
        value = Command(resume=_json("--resume", resume))
    if not _saves(graph, db):
        _refuse_thread(target, hasattr(graph, "with_checkpointer"), thread, db, resume)
    elif resume is not None and thread is None:
        raise InvalidInput("--resume does not say whose question it answers.", hint="Name the thread: --thread NAME.")
    if value is None and thread is None:
        raise InvalidInput(
            "There is nothing to run.", hint="Pass --input '{...}', or --thread NAME to go on with a thread."
        )
    config: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        if db is not None:
            from runwell.persistence import SqliteSaver

            graph = graph.with_checkpointer(stack.enter_context(SqliteSaver(db)))
        if _saves(graph, db):
            thread = thread or uuid.uuid4().hex[:12]
            config["configurable"] = {"thread_id": thread}
            err.print(f"thread {thread!r}{f' in {db}' if db else ''}", style="dim")
        if as_json:
            result = graph.invoke(value, config)
            print_json(result)
            return PAUSED if isinstance(result, dict) and result.get("__interrupt__") else 0
        return _watched(graph, value, config)


def _saves(graph: Any, db: str | None) -> bool:
    own = getattr(graph, "checkpointer", None)
    return hasattr(graph, "with_checkpointer") and (db is not None or (own is not None and not isinstance(own, bool)))


def _refuse_thread(target: str, can_save: bool, thread: str | None, db: str | None, resume: str | None) -> None:
    for option, said in (("--db", db), ("--thread", thread), ("--resume", resume)):
        if said is None:
            continue
        if not can_save:
            raise InvalidInput(f"{option} needs a graph or an agent; {target!r} keeps no threads.")
        raise InvalidInput(
            f"{option} needs a place where {target!r} is saved, and it has none.",
            hint="Pass --db FILE, or compile it with a checkpointer.",
        )


def _watched(graph: Any, value: Any, config: dict[str, Any]) -> int:
    """Run it with each step told on standard error; the result and open questions go to standard output."""
    if not hasattr(graph, "with_checkpointer"):
        result = graph.invoke(value, config)
        text = getattr(result, "text", result)
        out.print(safe(text) if isinstance(text, str) else one_line(result))
        return 0
    questions: list[Any] = []
    state: dict[str, Any] = {}
    for mode, item in graph.stream(value, config, stream_mode=["updates", "values"]):
        if mode == "values":
            state = item
            continue
        for node, update in item.items():
            if node == "__interrupt__":
                questions = list(update)
            else:
                err.print(f"{safe(node)}  {short(update)}", style="dim")
    for name, held in state.items():
        if name == "messages" and isinstance(held, list) and held and hasattr(held[-1], "text"):
            if not questions:
                out.print(safe(held[-1].text))
        elif name != "__interrupt__":
            out.print(f"{safe(name)}: {one_line(held)}")
    for question in questions:
        out.print("waits for an answer", style="bold", end=" ")
        out.print(f"({question.id}): {one_line(question.value)}")
    if questions:
        err.print("Answer it: the same command with --thread and --resume JSON instead of --input.", style="dim")
    return PAUSED if questions else 0


def _json(option: str, text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"{option} is not JSON: {error}.", hint="""Quote it for the shell: --input '{"messages": "hello"}'."""
        ) from error
