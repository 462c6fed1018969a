"""`runwell chat`: talk to a model, with tools, on a thread that survives."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from runwell.cli.conversation import show
from runwell.cli.questions import answers
from runwell.cli.screen import err, error_facts, out, print_error, print_json
from runwell.cli.stopping import Stopped, Stopping
from runwell.cli.target import load_all
from runwell.errors import InvalidResume, RunwellError, StorageError

__all__ = ["chat"]

QUESTION = "you> "


def chat(model: str, tools: list[str], thread: str, db: str | None, system: str | None, as_json: bool) -> int:
    """Read questions until end of input; the exit status: 0, 1 after a failed answer, 3 with a question left open.

    What can be known to be wrong ends it before anything is fetched or written.
    """
    from runwell.agents import create_agent
    from runwell.cli.models import ready
    from runwell.persistence import SqliteSaver

    agent = create_agent(ready(model), load_all(tools), system_prompt=system, approvals="destructive")
    path = db or str(_folder() / "chat.sqlite")
    with SqliteSaver(path) as saver, Stopping() as stopping:
        talk = _Chat(agent.with_checkpointer(saver), thread, as_json, stopping)
        if not as_json:
            err.print(f"{model} · thread {thread!r} in {path} · {talk.length()} messages so far", style="dim")
            err.print("Ctrl-C stops an answer, Ctrl-D leaves.", style="dim")
        return talk.run()


def _folder() -> Path:
    """Where conversations are kept if nobody says where: they are no cache, and nobody else's to read."""
    own = os.environ.get("RUNWELL_HOME")
    folder = Path(own or Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share") / "runwell").expanduser()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"The folder for conversations {str(folder)!r} cannot be made: {error.strerror}.",
            hint="Say where: --db FILE, or set RUNWELL_HOME.",
        ) from error
    return folder


class _Chat:
    def __init__(self, agent: Any, thread: str, as_json: bool, stopping: Stopping) -> None:
        self.agent = agent
        self.thread = thread
        self.config = {"configurable": {"thread_id": thread}}
        self.as_json = as_json
        self.stopping = stopping
        self.person = os.isatty(0)
        self.ended = False
        self.failed = False
        self.ask = _asker(self.person and not as_json)

    def length(self) -> int:
        return len(self.agent.get_state(self.config).values.get("messages") or [])

    def run(self) -> int:
        state = self.agent.get_state(self.config)
        if state.interrupts:
            self.say("This thread waits for an answer:")
            if self.as_json:
                self.put(None, [], list(state.interrupts))
            self.turn(None)
        elif state.next:
            self.say("The last answer was not finished: /continue goes on with it.")
        while (question := self.read(QUESTION)) is not None:
            if question in ("/quit", "/exit"):
                break
            if question == "/continue":
                self.turn(None)
            elif question:
                self.turn({"messages": [{"role": "user", "content": question}]})
        self.say("The conversation is kept; the same command goes on with it.")
        if self.failed and not self.person:
            return 1
        return 3 if self.agent.get_state(self.config).interrupts else 0

    def say(self, text: str) -> None:
        if not self.as_json:
            err.print(text, style="dim")

    def read(self, prompt: str) -> str | None:
        """A line; None at the end. Ctrl-C at a prompt begins a new line for a person, and ends a script's chat."""
        while not self.ended:
            line = self.stopping.do(lambda: self.ask(prompt))
            if isinstance(line, Stopped):
                if not self.person:
                    raise KeyboardInterrupt
                err.print()
                continue
            if isinstance(line, str):
                return line.strip()
            self.ended = True
        return None

    def read_answer(self, prompt: str) -> str | None:
        """An answer to an open question; Ctrl-C leaves it open."""
        line = None if self.ended else self.stopping.do(lambda: self.ask(prompt))
        if line is None:
            self.ended = True
        return line if isinstance(line, str) else None

    # -- a question and all that follows from it

    def turn(self, given: Any) -> None:
        from runwell.ports.command import Command

        # A question left open is not put to the model again: the person is.
        questions = list(self.agent.get_state(self.config).interrupts) if given is None else []
        while True:
            if questions:
                answered = answers(questions, self.read_answer, err if self.as_json else out)
                if answered is None:
                    self.say("Left open: /continue asks again, as does the same command; a new question drops it.")
                    return
                given = Command(resume=answered, actor=os.environ.get("USER") or os.environ.get("USERNAME"))
            try:
                outcome = self.stopping.do(partial(self.answer, given))
            except InvalidResume as error:
                self.tell(error)
                continue
            except Exception as error:
                self.failed = True
                self.tell(error)
                return
            if isinstance(outcome, Stopped):
                if self.as_json:
                    print_json({"thread": self.thread, "stopped": True}, line=True)
                self.say("\nStopped: /continue goes on with it.")
                return
            questions = outcome
            if not questions:
                return

    def answer(self, given: Any) -> list[Any]:
        """Run the agent; gives the questions it paused on."""
        if not self.as_json:
            return show(self.agent, given, self.config).interrupts
        result = self.agent.invoke(given, self.config)
        questions: list[Any] = list(result.get("__interrupt__") or [])
        messages = result["messages"]
        new = next((place for place in range(len(messages), 0, -1) if messages[place - 1].type == "human"), 0)
        self.put(messages[-1].text if messages and not questions else None, messages[new:], questions)
        return questions

    def put(self, text: str | None, messages: list[Any], questions: list[Any]) -> None:
        """What a script is told of an answer: one JSON value in a line."""
        found = {"thread": self.thread, "text": text, "messages": messages, "interrupts": questions}
        print_json(found, line=True)

    def tell(self, error: Exception) -> None:
        if self.as_json:
            print_json({"thread": self.thread, "error": error_facts(error)}, line=True)
        if not isinstance(error, RunwellError):
            traceback.print_exception(error)  # in a tool of the user's, as a rule
        else:
            print_error(error)


def _asker(person: bool) -> Callable[[str], str | None]:
    """What reads a line: with editing and a history on a terminal."""
    if not person:

        def plain(prompt: str) -> str | None:
            return sys.stdin.readline() or None

        return plain

    questions: Any = None
    others: Any = None
    if os.isatty(1):
        try:
            from prompt_toolkit import PromptSession
            from prompt_toolkit.history import FileHistory
        except ModuleNotFoundError:
            pass
        else:
            questions = PromptSession(history=FileHistory(str(_folder() / "chat_history")))
            others = PromptSession()  # not every y and n belongs into the history

    def edited(prompt: str) -> str | None:
        session = questions if prompt == QUESTION else others
        try:
            return input(prompt) if session is None else str(session.prompt(prompt))
        except EOFError:
            return None

    return edited
