"""`runwell demo`: the main job, for real, each step checked."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from runwell.cli.conversation import Shown, show
from runwell.cli.screen import err, out, print_json, short
from runwell.errors import RunwellError

__all__ = ["continue_killed", "demo"]

QUESTIONS: list[tuple[str, str, Callable[[Shown], bool]]] = [
    ("What is 23 * 47?", "calculator", lambda shown: "1081" in shown.text.replace(",", "")),
    ("What time is it now?", "current_time", lambda shown: _minutes(shown) in shown.text),
    ("Search the docs: what does error RW701 mean?", "search_docs", lambda shown: "budget" in shown.text.lower()),
]
NOTE = "Save a note that says: buy milk"
TWO_TOOLS = "What is 23 * 47, and what time is it now?"
KILLED_THREAD = "killed"
WAIT_FOR_A_PERSON_S = 20


class DemoFailed(Exception):
    """A step did not come out as it has to."""


class _Tally:
    def __init__(self) -> None:
        self.tokens = 0
        self.steps = 0
        self.tools = 0

    def add(self, shown: Shown) -> None:
        self.tokens += shown.tokens
        self.steps += shown.steps
        self.tools += len(shown.tools)


def demo(model: str, as_json: bool) -> int:
    """Run it; 0 when every step came out right, 1 otherwise."""
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="runwell-demo-"))
    os.environ["RUNWELL_DEMO_FOLDER"] = str(folder)
    tally = _Tally()
    failed: str | None = None
    try:
        _steps(model, folder, tally)
    except (DemoFailed, RunwellError, subprocess.SubprocessError) as error:
        failed = str(error)
    seconds = round(time.monotonic() - began, 1)
    trace = folder / "trace.jsonl"
    facts = {"ok": failed is None, "failed": failed, "seconds": seconds, "tokens": tally.tokens,
             "steps": tally.steps, "tool_calls": tally.tools, "trace": str(trace), "threads": str(folder / "threads.sqlite")}  # fmt: skip
    if as_json:
        print_json(facts)
    elif failed is None:
        out.rule("done")
        out.print(f"{seconds} s · {tally.tokens} tokens · {tally.steps} steps · {tally.tools} tool calls")
        out.print(f"trace    {trace}\nthreads  {folder / 'threads.sqlite'}")
        out.print("Next: runwell chat", style="dim")
    else:
        err.print(f"[bold red]The demo failed:[/bold red] {failed}")
        err.print(f"trace    {trace}")
    return 0 if failed is None else 1


def _steps(model: str, folder: Path, tally: _Tally) -> None:
    from runwell.agents import create_agent
    from runwell.cli.demo_tools import calculator, current_time, save_note, search_docs
    from runwell.models import init_chat_model
    from runwell.observe import JsonlTrace
    from runwell.persistence import SqliteSaver

    out.rule("1 · a language model on this machine")
    chat = _loaded(model, init_chat_model)
    with SqliteSaver(folder / "threads.sqlite") as saver, JsonlTrace(folder / "trace.jsonl", redact=None) as trace:
        agent = create_agent(
            chat, [calculator, search_docs, current_time, save_note], approvals="destructive", checkpointer=saver
        )

        def config(thread: str) -> dict[str, Any]:
            return {"configurable": {"thread_id": thread}, "callbacks": [trace]}

        out.rule("2 · an agent answers with tools")
        for number, (question, tool, right) in enumerate(QUESTIONS):
            out.print(f"\n[bold]{question}[/bold]")
            shown = show(agent, _said(question), config(f"question-{number}"), indent="  ")
            tally.add(shown)
            _must(tool in shown.tools, f"{question!r} was to be answered with {tool!r}, and {shown.tools} ran.")
            _must(right(shown), f"{question!r} was answered {shown.text!r}, which is not right.")

        out.rule("3 · a tool that needs approval")
        _approval(agent, config("approval"), folder, tally)

    out.rule("4 · killed in the middle, and continued")
    with _served(model) as (reached, environment):
        _killed(reached, folder, tally, environment)


def _loaded(model: str, init: Callable[[str], Any]) -> Any:
    if model.startswith("local:"):
        from runwell.cli.models import ensure
        from runwell.providers.local.catalogue import is_gguf_path

        name = model.removeprefix("local:")
        if not is_gguf_path(name):
            ensure(name)
    start = time.monotonic()
    with err.status(f"loading {model}"):
        chat = init(model)
        chat.invoke("Hello")
    out.print(f"{model} is ready ({time.monotonic() - start:.1f} s)")
    return chat


def _said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def _must(true: bool, otherwise: str) -> None:
    if not true:
        raise DemoFailed(otherwise)


def _minutes(shown: Shown) -> str:
    return shown.results[-1][3:5] if shown.results else "?"


# -- approval


def _approval(agent: Any, config: dict[str, Any], folder: Path, tally: _Tally) -> None:
    from runwell.cli.demo_tools import notes_file
    from runwell.ports.command import Command

    out.print(f"\n[bold]{NOTE}[/bold]")
    shown = show(agent, _said(NOTE), config, indent="  ")
    tally.add(shown)
    _must(bool(shown.interrupts), "save_note was to wait for approval, and did not.")
    _must(not notes_file().exists(), "save_note ran before it was approved.")
    decisions, actor = {}, "runwell demo"
    for request in shown.interrupts[0].value["action_requests"]:
        out.print(f"  [bold]waits:[/bold] may {request['name']}({short(request['args'])}) run?")
        decisions[request["id"]] = {"type": "approve" if _person_says_yes() else "reject"}
    shown = show(agent, Command(resume={"decisions": decisions}, actor=actor), config, indent="  ")
    tally.add(shown)
    approved = any(decision["type"] == "approve" for decision in decisions.values())
    _must(notes_file().exists() == approved, "what was decided about save_note is not what happened.")


def _person_says_yes() -> bool:
    """The person's word if there is one at the terminal, and they speak in time; else the demo's own yes."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        out.print("  [dim]nobody is at a terminal: the demo approves[/dim]")
        return True
    import select

    out.print(f"  [Y/n, yes after {WAIT_FOR_A_PERSON_S} s] ", end="")
    sys.stdout.flush()
    ready, _, _ = select.select([sys.stdin], [], [], WAIT_FOR_A_PERSON_S)
    if not ready:
        out.print()
        return True
    return sys.stdin.readline().strip().lower() not in ("n", "no")


# -- killed and continued


@contextlib.contextmanager
def _served(model: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The model for other processes, and their environment: this process's own, through its OpenAI-compatible
    endpoint, so that it is loaded once. A model that is not local is reached as it is."""
    if not model.startswith("local:") or importlib.util.find_spec("openai") is None:
        yield model, {}
        return
    from runwell.providers.local.serve import LocalServer

    name = model.removeprefix("local:")
    with LocalServer(name, embeddings=None) as server:
        yield f"openai:{name}", {"RUNWELL_DEMO_URL": server.url, "RUNWELL_DEMO_KEY": server.key}


def _killed(model: str, folder: Path, tally: _Tally, environment: dict[str, str]) -> None:
    log = folder / "ran.log"
    before = log.read_text().splitlines().count("calculator")
    through = "through this one's OpenAI-compatible endpoint" if environment else "on its own"
    out.print(f"\n[bold]{TWO_TOOLS}[/bold]  [dim](in another process, {through})[/dim]")
    environment = {**os.environ, **environment}
    command = [sys.executable, "-m", "runwell.cli.demo", str(folder), model]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**environment, "RUNWELL_DEMO_HOLD": "1"}
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            held = "HOLDING" in line  # another thread writes to the same line
            if told := line.replace("HOLDING", "").rstrip():
                out.print(f"  {told}", markup=False)
            if held:
                break
        else:
            raise DemoFailed("the process ended before it could be killed.")
        os.kill(process.pid, signal.SIGKILL)
    out.print(f"  [red]kill -9 {process.pid}[/red] while its second tool runs; a new process goes on:")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    out.print("".join(f"  {line}\n" for line in done.stdout.splitlines()), end="", markup=False)
    _must(done.returncode == 0, f"the new process failed: {done.stderr[-500:]}")
    times = log.read_text().splitlines().count("calculator") - before
    _must(times == 1, f"the finished tool was to run once, and ran {times} times.")
    tally.steps += 1


def continue_killed(folder: str, model: str) -> None:
    """The child process's part: start the thread, or go on with it if it is there."""
    from runwell.agents import create_agent
    from runwell.cli.demo_tools import calculator, current_time
    from runwell.models import init_chat_model
    from runwell.observe import JsonlTrace
    from runwell.persistence import SqliteSaver

    path = Path(folder)
    with SqliteSaver(path / "threads.sqlite") as saver, JsonlTrace(path / "trace.jsonl", redact=None) as trace:
        url = os.environ.get("RUNWELL_DEMO_URL")
        where: dict[str, Any] = (
            {"base_url": url, "api_key": os.environ["RUNWELL_DEMO_KEY"], "temperature": 0} if url else {}
        )
        agent = create_agent(init_chat_model(model, **where), [calculator, current_time], checkpointer=saver)
        config = {"configurable": {"thread_id": KILLED_THREAD}, "callbacks": [trace]}
        begun = bool(agent.get_state(config).values)
        show(agent, None if begun else _said(TWO_TOOLS), config)


if __name__ == "__main__":
    continue_killed(*sys.argv[1:])
