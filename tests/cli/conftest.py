"""The real command in processes of its own: with pipes, or on a terminal. Its models are scripted, by a provider that
is installed the way a third party's would be."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

COMMAND = [sys.executable, "-c", "from runwell.cli.main import main; main()"]
ON_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
PATIENCE_S = 30

PROVIDER = """
from runwell.errors import ModelOverloaded
from runwell.messages import AIMessage
from runwell.testing import FakeChatModel


def call(name, **args):
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"call-{name}", "type": "tool_call"}])


def answer(messages):
    last = messages[-1]
    if last.type == "tool":
        return f"The tool said: {last.text}"
    asked = last.text
    if asked.startswith("delete "):
        return call("delete_file", path=asked.removeprefix("delete "))
    if asked.startswith("both "):
        one, two = asked.split()[1:]
        return AIMessage("", tool_calls=[
            {"name": "delete_file", "args": {"path": path}, "id": path, "type": "tool_call"} for path in (one, two)])
    if asked.startswith("color"):
        return call("choose_color")
    if asked.startswith("wait"):
        return call("wait_for_ever")
    if asked == "forever":
        return "on " * 100_000
    if asked == "overload":
        raise ModelOverloaded("Too many people talk to me.", hint="Try again.")
    if asked == "break":
        raise ZeroDivisionError("a bug of the model's")
    if asked == "tricks":
        return "[bold]plain[/bold] \\x1b[2Jscreen"
    said = [message.text for message in messages if message.type == "human"]
    system = [message.text for message in messages if message.type == "system"]
    return f"{system}{len(said)} said: " + " + ".join(said)


def Scripted(model, **settings):
    return FakeChatModel([answer], cycle=True, model=model, latency=0.05 if model == "slow" else 0.0)
"""

TOOLS = '''
import threading
from pathlib import Path

from runwell import interrupt, tool


@tool(destructive=True)
def delete_file(path: str) -> str:
    """Delete a file."""
    with Path("deleted.txt").open("a") as file:
        file.write(path + "\\n")
    return f"{path} is gone"


@tool
def choose_color() -> str:
    """Ask for a color."""
    return f"they chose {interrupt('Which color?')}"


@tool
def wait_for_ever() -> str:
    """Wait."""
    threading.Event().wait()
    return "never"


@tool("delete_file")
def another(path: str) -> str:
    """Delete a file in another way."""
    return path


ALL = [delete_file, choose_color, wait_for_ever]
TWICE = [delete_file, another]
NUMBER = 3
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder to work in, in which the provider `scripted` is installed."""
    (tmp_path / "scripted.py").write_text(PROVIDER)
    (tmp_path / "tools.py").write_text(TOOLS)
    info = tmp_path / "scripted-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: scripted\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[runwell.providers]\nscripted = scripted:Scripted\n")
    return tmp_path


@pytest.fixture
def environment(folder: Path) -> dict[str, str]:
    """Nothing of the machine's own keys, proxies, models or conversations."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "VIRTUAL_ENV") if name in os.environ}
    source = str(Path(__file__).resolve().parents[2] / "src")
    return {
        **kept,
        "HOME": str(folder / "home"),
        "RUNWELL_HOME": str(folder / "home" / "runwell"),
        "RUNWELL_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join([source, str(folder)]),
        "PYTHONUTF8": "1",
        "PROMPT_TOOLKIT_NO_CPR": "1",
        "TERM": "xterm",
        "COLUMNS": "200",
        "USER": "ada",
    }


class Done:
    """How a command ended."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.status = done.returncode
        self.out = done.stdout
        self.err = done.stderr

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """One JSON value for each line."""
        return [json.loads(line) for line in self.out.splitlines()]


Runwell = Callable[..., Done]


@pytest.fixture
def runwell(folder: Path, environment: dict[str, str]) -> Runwell:
    """Runs the command to its end: `runwell("chat", "--json", input="…", OPENAI_API_KEY="…")`."""

    def run(*arguments: str, input: str = "", **variables: str) -> Done:
        return Done(
            subprocess.run(
                [*COMMAND, *arguments],
                cwd=folder,
                env={**environment, **variables},
                input=input,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
        )

    return run


class Terminal:
    """The command on a terminal of its own, whose Ctrl-C is a real one."""

    def __init__(self, arguments: tuple[str, ...], folder: Path, environment: dict[str, str]) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", ON_TERMINAL, *COMMAND, *arguments],
            cwd=folder,
            env=environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.seen = ""
        self._place = 0

    def expect(self, text: str) -> str:
        """Wait until the text comes; gives what came before it."""
        end = time.monotonic() + PATIENCE_S
        while (found := self.seen.find(text, self._place)) < 0:
            ready, _, _ = select.select([self._master], [], [], max(0.0, end - time.monotonic()))
            piece = self._read() if ready else b""
            if not piece:
                raise AssertionError(f"{text!r} did not come. Seen so far:\n{self.seen}")
            self.seen += _plain(piece.decode(errors="replace"))
        before = self.seen[self._place : found]
        self._place = found + len(text)
        return before

    def _read(self) -> bytes:
        try:
            return os.read(self._master, 65536)
        except OSError:  # how Linux says that the other side is closed
            return b""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def say(self, line: str) -> None:
        self.type(line + "\r")

    def ctrl_c(self) -> None:
        self.type("\x03")

    def ctrl_d(self) -> None:
        self.type("\x04")

    def interrupt(self) -> None:
        """SIGINT as `kill -INT` sends it."""
        self.process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Read what is left; gives the exit status."""
        while select.select([self._master], [], [], PATIENCE_S)[0] and (piece := self._read()):
            self.seen += _plain(piece.decode(errors="replace"))
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r", "", text)


@pytest.fixture
def terminal(folder: Path, environment: dict[str, str]) -> Iterator[Callable[..., Terminal]]:
    """Starts the command on a terminal: `terminal("chat", TERM="dumb")`."""
    opened: list[Terminal] = []

    def start(*arguments: str, **variables: str) -> Terminal:
        opened.append(Terminal(arguments, folder, {**environment, **variables}))
        return opened[-1]

    yield start
    for each in opened:
        each.close()
