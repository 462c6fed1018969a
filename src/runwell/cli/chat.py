"""`runwell chat`: talk to a model, with tools, on a thread that survives."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from runwell.cli.conversation import show
from runwell.cli.screen import err, out, print_json, short
from runwell.cli.target import load_all

__all__ = ["chat"]


def chat(model: str, tools: list[str], thread: str, db: str | None, system: str | None, as_json: bool) -> None:
    """Read questions until end of input; Ctrl-C stops an answer, not the program."""
    from runwell.agents import create_agent
    from runwell.persistence import SqliteSaver

    if model.startswith("local:"):
        from runwell.cli.models import ensure
        from runwell.providers.local.catalogue import is_gguf_path

        name = model.removeprefix("local:")
        if not is_gguf_path(name):
            ensure(name)
    path = db or str(_default_db())
    with SqliteSaver(path) as saver:
        agent = create_agent(model, load_all(tools), system_prompt=system, checkpointer=saver, approvals="destructive")
        config = {"configurable": {"thread_id": thread}}
        before = agent.get_state(config).values.get("messages") or []
        if not as_json:
            err.print(f"{model} · thread {thread!r} in {path} · {len(before)} messages so far", style="dim")
            err.print("Ctrl-C stops an answer, Ctrl-D leaves.", style="dim")
        for question in _questions(as_json):
            _turn(agent, {"messages": [{"role": "user", "content": question}]}, config, as_json)
    if not as_json:
        err.print("The conversation is kept; the same command goes on with it.", style="dim")


def _default_db() -> Path:
    from runwell.providers.local.cache import home

    folder = home()
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "chat.sqlite"


def _turn(agent: Any, given: Any, config: dict[str, Any], as_json: bool) -> None:
    from runwell.ports.command import Command

    while given is not None:
        try:
            if as_json:
                result = agent.invoke(given, config)
                print_json({"messages": result["messages"][-1:], "interrupts": result.get("__interrupt__", [])})
                return
            shown = show(agent, given, config)
        except KeyboardInterrupt:
            err.print("\nstopped", style="dim")
            return
        given = None
        for question in shown.interrupts:
            answer = _decide(question)
            if answer is None:
                return
            given = Command(resume=answer, actor=os.environ.get("USER"))


def _decide(question: Any) -> Any:
    """Ask the person at the terminal about gated calls; None leaves the run paused."""
    requests = question.value.get("action_requests") if isinstance(question.value, dict) else None
    if not requests:
        out.print(f"[bold]{short(question.value)}[/bold]")
        return _ask("answer> ")
    decisions = {}
    for request in requests:
        out.print(f"[bold]May {request['name']}({short(request['args'])}) run?[/bold]")
        said = _ask("y / n / text for the model> ")
        if said is None:
            err.print("left paused: answer it by starting the same command again", style="dim")
            return None
        if said.lower() in ("y", "yes"):
            decisions[request["id"]] = {"type": "approve"}
        else:
            reason = {} if said.lower() in ("n", "no", "") else {"message": said}
            decisions[request["id"]] = {"type": "reject", **reason}
    return {"decisions": decisions}


def _ask(prompt: str) -> str | None:
    try:
        return input(prompt).strip()
    except (EOFError, KeyboardInterrupt):
        return None


def _questions(quiet: bool) -> Iterator[str]:
    read = _reader(quiet)
    while True:
        try:
            question = read().strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if question in ("/quit", "/exit"):
            return
        if question:
            yield question


def _reader(quiet: bool) -> Callable[[], str]:
    """A line editor with history on a terminal, plain lines otherwise."""
    if os.isatty(0) and os.isatty(1):
        with contextlib.suppress(ModuleNotFoundError):
            from prompt_toolkit import PromptSession
            from prompt_toolkit.history import FileHistory

            from runwell.providers.local.cache import home

            session: PromptSession[str] = PromptSession(history=FileHistory(str(home() / "chat_history")))
            return lambda: session.prompt("you> ")
    prompt = "" if quiet or not os.isatty(0) else "you> "
    return lambda: input(prompt)
