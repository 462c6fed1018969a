"""`runwell run`: run a graph or agent once."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from runwell.cli.screen import err, out, print_json, short
from runwell.cli.target import load
from runwell.errors import InvalidInput

__all__ = ["run"]


def run(target: str, given: str | None, thread: str | None, db: str | None, resume: str | None, as_json: bool) -> int:
    """Run `module:name` on a JSON input; 0 when it finished, 3 when it paused for an answer."""
    from runwell.ports.command import Command

    graph = load(target)
    if not hasattr(graph, "invoke"):
        raise InvalidInput(
            f"{target!r} is {short(repr(graph))}, which cannot be run.", hint="Name a graph or an agent."
        )
    value: Any = Command(resume=_json("--resume", resume)) if resume is not None else _json("--input", given)
    if value is None and thread is None:
        raise InvalidInput("There is nothing to run.", hint="Pass --input '{...}', or --thread to go on with a thread.")
    config: dict[str, Any] = {"configurable": {"thread_id": thread or "cli"}}
    with contextlib.ExitStack() as stack:
        if db is not None:
            graph = _with_saver(graph, db, stack)
        if as_json:
            result = graph.invoke(value, config)
            print_json(result)
            return _status(result)
        return _watched(graph, value, config)


def _watched(graph: Any, value: Any, config: dict[str, Any]) -> int:
    if not hasattr(graph, "get_state"):
        out.print(short(graph.invoke(value, config), 2000))
        return 0
    questions: list[Any] = []
    for mode, item in graph.stream(value, config, stream_mode=["updates", "values"]):
        if mode == "values":
            last = item
            continue
        for node, update in item.items():
            if node == "__interrupt__":
                questions = list(update)
            else:
                err.print(f"{node}  {short(update)}", style="dim")
    for name, state in last.items():
        if name == "messages" and state:
            out.print(state[-1].text)
        elif name != "__interrupt__" and name != "messages":
            out.print(f"{name}: {short(state, 2000)}")
    for question in questions:
        out.print(f"[bold]waits for an answer[/bold] ({question.id}): {short(question.value, 1000)}")
    return 3 if questions else 0


def _status(result: Any) -> int:
    return 3 if isinstance(result, dict) and result.get("__interrupt__") else 0


def _json(option: str, text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"{option} is not JSON: {error}.", hint="""Quote it for the shell: --input '{"messages": "hello"}'."""
        ) from error


def _with_saver(graph: Any, db: str, stack: contextlib.ExitStack) -> Any:
    """The same graph, saved in an SQLite file."""
    import copy

    from runwell.persistence import SqliteSaver

    saved = copy.copy(graph)
    saved.__dict__.pop("saver_calls", None)
    saved.checkpointer = stack.enter_context(SqliteSaver(db))
    return saved
