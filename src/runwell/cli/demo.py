"""`runwell demo`: the main job, for real, each step checked."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from runwell.cli.conversation import Shown, arguments, show
from runwell.cli.demo_killed import KILLED_THREAD, TWO_TOOLS, kill_and_continue, said, served
from runwell.cli.extras import require
from runwell.cli.screen import err, out, print_json, safe
from runwell.errors import RunwellError

__all__ = ["demo"]

QUESTIONS: list[tuple[str, str, Callable[[Shown], bool]]] = [
    ("What is 23 * 47?", "calculator", lambda shown: _is_product(shown.text)),
    ("What time is it now?", "current_time", lambda shown: _minutes(shown) in shown.text),
    ("Search the docs: what does error RW701 mean?", "search_docs", lambda shown: "budget" in shown.text.lower()),
]
NOTE = "Save a note that says: buy milk"
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
        self.tools += len(shown.results)


def demo(model: str, as_json: bool) -> int:
    """Run it; 0 when every step came out right, 1 otherwise. A missing extra is named before anything is begun."""
    require("The demo", *(["local"] if model.startswith("local:") else []), "retrieval")
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="runwell-demo-"))
    os.environ["RUNWELL_DEMO_FOLDER"] = str(folder)
    tally = _Tally()
    say = err if as_json else out
    failed: str | None = None
    try:
        _Demo(model, folder, tally, say).run()
    except (DemoFailed, RunwellError, subprocess.SubprocessError) as error:
        failed = str(error)
    trace, threads = folder / "trace.jsonl", folder / "threads.sqlite"
    facts = {
        "ok": failed is None,
        "failed": failed,
        "seconds": round(time.monotonic() - began, 1),
        "tokens": tally.tokens,
        "steps": tally.steps,
        "tool_calls": tally.tools,
        "trace": str(trace),
        "threads": str(threads),
    }
    if as_json:
        print_json(facts)
    elif failed is None:
        out.rule("done")
        out.print(f"{facts['seconds']} s · {tally.tokens} tokens · {tally.steps} steps · {tally.tools} tool calls")
        out.print(f"trace    {trace}\nthreads  {threads}")
        out.print("Next: runwell chat", style="dim")
    else:
        err.print(f"The demo failed: {safe(failed)}", style="bold red")
        err.print(f"What happened until then is in {folder}")
    return 0 if failed is None else 1


class _Demo:
    """The four parts. `say` is where the story is told."""

    def __init__(self, model: str, folder: Path, tally: _Tally, say: Console) -> None:
        self.model = model
        self.folder = folder
        self.tally = tally
        self.say = say

    def run(self) -> None:
        from runwell.agents import create_agent
        from runwell.cli.demo_tools import calculator, current_time, save_note, search_docs
        from runwell.observe import JsonlTrace
        from runwell.persistence import SqliteSaver

        self.say.rule("1 · a language model on this machine" if self._is_here() else f"1 · {self.model}")
        chat = self._ready()
        with (
            SqliteSaver(self.folder / "threads.sqlite") as saver,
            JsonlTrace(self.folder / "trace.jsonl", redact=None) as trace,
        ):
            agent = create_agent(
                chat, [calculator, search_docs, current_time, save_note], approvals="destructive", checkpointer=saver
            )

            def config(thread: str) -> dict[str, Any]:
                return {"configurable": {"thread_id": thread}, "callbacks": [trace]}

            self.say.rule("2 · an agent answers with tools")
            for number, (question, tool, right) in enumerate(QUESTIONS):
                shown = self._turn(agent, question, config(f"question-{number}"))
                _must(tool in shown.tools, f"{question!r} was to be answered with {tool!r}, and {shown.tools} ran.")
                _must(right(shown), f"{question!r} was answered {shown.text!r}, which is not right.")

            self.say.rule("3 · a tool that needs approval")
            self._approval(agent, config("approval"))

            self.say.rule("4 · killed in the middle, and continued")
            self._killed()
            self._check_continued(agent.get_state(config(KILLED_THREAD)))

    def _is_here(self) -> bool:
        return self.model.startswith("local:")

    def _ready(self) -> Any:
        from runwell.cli.models import ready

        chat = ready(self.model)
        start = time.monotonic()
        with err.status(f"loading {safe(self.model)}"):
            load = getattr(chat, "load", None)  # a model of a provider is asked for a word instead
            load() if load is not None else chat.invoke("Hello")
        self.say.print(f"{self.model} is ready ({time.monotonic() - start:.1f} s)")
        return chat

    def _turn(self, agent: Any, question: str, config: dict[str, Any]) -> Shown:
        self.say.print(f"\n{question}", style="bold")
        shown = show(agent, said(question), config, indent="  ", to=self.say)
        self.tally.add(shown)
        return shown

    def _approval(self, agent: Any, config: dict[str, Any]) -> None:
        from runwell.cli.demo_tools import notes_file
        from runwell.ports.command import Command

        shown = self._turn(agent, NOTE, config)
        _must(bool(shown.interrupts), "save_note was to wait for approval, and did not.")
        _must(not notes_file().exists(), "save_note ran before it was approved.")
        decisions = {}
        for request in shown.interrupts[0].value["action_requests"]:
            self.say.print(f"  waits: may {request['name']}({arguments(request['args'])}) run?", style="bold")
            decisions[request["id"]] = {"type": "approve" if self._person_says_yes() else "reject"}
        answer: Command[str] = Command(resume={"decisions": decisions}, actor="runwell demo")
        shown = show(agent, answer, config, indent="  ", to=self.say)
        self.tally.add(shown)
        approved = any(decision["type"] == "approve" for decision in decisions.values())
        _must(notes_file().exists() == approved, "what was decided about save_note is not what happened.")

    def _person_says_yes(self) -> bool:
        """The person's word if there is one at the terminal, and they speak in time; else the demo's own yes."""
        if not (sys.stdin.isatty() and self.say.is_terminal) or sys.platform == "win32":
            self.say.print("  nobody is at a terminal: the demo approves", style="dim")
            return True
        import select

        self.say.print(f"  [Y/n, yes after {WAIT_FOR_A_PERSON_S} s] ", end="")
        self.say.file.flush()
        ready, _, _ = select.select([sys.stdin], [], [], WAIT_FOR_A_PERSON_S)
        if not ready:
            self.say.print("nobody answers: yes")
            return True
        return sys.stdin.readline().strip().lower() not in ("n", "no")

    def _killed(self) -> None:
        with served(self.model) as (reached, environment):
            through = "through this one's OpenAI-compatible endpoint" if environment else "on its own"
            self.say.print(f"\n{TWO_TOOLS}", style="bold", end="  ")
            self.say.print(f"(in another process, {through})", style="dim")
            log = self.folder / "ran.log"
            before = log.read_text().splitlines().count("calculator")
            problem = kill_and_continue(reached, self.folder, environment, self.say)
            _must(problem is None, problem or "")
            times = log.read_text().splitlines().count("calculator") - before
            _must(times == 1, f"the finished tool was to run once, and ran {times} times.")

    def _check_continued(self, state: Any) -> None:
        """What the two other processes made of the thread, read from the file that they shared."""
        shown = Shown()
        for message in state.values.get("messages") or []:
            shown.message(message)
        shown.steps = max(0, (state.metadata or {}).get("step") or 0)
        self.tally.add(shown)
        _must(not state.next, f"the continued thread did not finish: {state.next} is still to come.")
        _must(_is_product(shown.text), f"{TWO_TOOLS!r} was answered {shown.text!r}, which is not right.")


def _must(true: bool, otherwise: str) -> None:
    if not true:
        raise DemoFailed(otherwise)


def _is_product(text: str) -> bool:
    return "1081" in text.replace(",", "")


def _minutes(shown: Shown) -> str:
    return shown.results[-1][3:5] if shown.results else "?"
