"""Programs that are killed with `kill -9` where a test wants it, and started again: imported once, then forked."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NoReturn, Self

from runwell.errors import InvalidInput

__all__ = ["Child", "Program", "mark", "places"]

_ANSWERS_WITHIN_S = 60.0


def mark(text: str) -> None:
    """In a program: say where it is, and go on when the test lets it. There the test may kill it."""
    os.write(1, (text + "\n").encode())
    if not os.read(0, 1):  # the test is gone
        os._exit(1)


def places(marks: Sequence[str], each: int = 3) -> list[int]:
    """At which of a run's marks to kill the next ones: `each` of every kind, the first and the last if there is room.

    The others are different ones each time. With RUNWELL_TEST_KILLS=all in the environment it is every mark.
    """
    if os.environ.get("RUNWELL_TEST_KILLS") == "all":
        return list(range(len(marks)))
    chosen: set[int] = set()
    for kind in set(marks):
        at = [number for number, mark in enumerate(marks) if mark == kind]
        if each >= 3:
            chosen |= {at[0], at[-1]}
        chosen |= set(random.sample(at, min(len(at), each if each < 3 else each - 2)))
    return sorted(chosen)


class Program:
    """A program for the length of a `with` block, which can be started any number of times, also beside itself.

    `source` is a module with a function `main(*arguments)` of strings. It is imported once, in a process of its own;
    every start is a fork of that one, so it costs milliseconds, and is killed like any other process. What `main` gives
    (as JSON) is the run's result. It stops at each `mark("...")`, which it imports from here, until it is let go on.

    Needs `os.fork`. Modules that start threads when they are imported do not go with it.
    """

    def __init__(self, source: str) -> None:
        self._source = textwrap.dedent(source)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def __enter__(self) -> Self:
        if not hasattr(os, "fork"):
            raise InvalidInput("Program needs os.fork, which this system does not have.", hint="Use Linux or macOS.")
        self._folder = tempfile.TemporaryDirectory(prefix="runwell-kill-")
        path = Path(self._folder.name) / "killed_program.py"
        path.write_text(self._source, encoding="utf-8")
        self._control, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-c", _SERVE, str(theirs.fileno()), str(path)]
            self._server = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._control is not None:
            self._control.close()
        if self._server is not None:
            self._server.wait()
        if self._folder is not None:
            self._folder.cleanup()

    def start(self, *arguments: str) -> Child:
        """Call `main(*arguments)` in a process of its own."""
        assert self._control is not None, "use it in a with block"
        return Child(self._control, arguments)

    def run(self, *arguments: str, kill_at: int | None = None) -> tuple[list[str], Any]:
        """Let it pass `kill_at` marks and kill it at the next (None: not at all).

        Gives the marks it came to and its result, None if it was killed. A program that ends with an error raises
        AssertionError with what it said.
        """
        marks: list[str] = []
        with self.start(*arguments) as child:
            while (line := child.next_mark()) is not None:
                marks.append(line)
                if len(marks) - 1 == kill_at:
                    child.kill()
                    break
                child.go_on()
            return marks, child.result()


class Child:
    """One start of a program. In a `with` block, after which it is gone in any case."""

    def __init__(self, control: socket.socket, arguments: Sequence[str]) -> None:
        self._talk, talk = socket.socketpair()
        self._talk.settimeout(_ANSWERS_WITHIN_S)
        self._said = self._talk.makefile("rb")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 as long as the child
        self._result: Any = None
        status, theirs = os.pipe()
        self._status = os.fdopen(status, "rb")
        self._ended: int | None = None
        with talk:
            socket.send_fds(control, [json.dumps(arguments).encode()], [talk.fileno(), self._errors.fileno(), theirs])
            os.close(theirs)
        first = self._status.readline()
        assert first, "the program could not be imported; what it said stands in the captured stderr"
        self.pid = int(first)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()
        for end in (self._said, self._talk, self._errors, self._status):
            end.close()

    def next_mark(self) -> str | None:
        """Wait for the next mark; None when it has come to its end, or is dead."""
        try:
            line = self._said.readline().decode().rstrip("\n")
        except ConnectionResetError:  # it was killed before it had heard that it may go on
            return None
        if line.startswith("="):
            self._result = json.loads(line[1:])
            return None
        return line or None

    def go_on(self) -> None:
        """Let it go on from the mark it stands at."""
        self._talk.sendall(b"\n")

    def kill(self) -> None:
        """kill -9, if it still runs; returns once it is gone."""
        if self._ended is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.wait()

    def wait(self) -> int:
        """Wait for its end, and give its exit status: -9 when it was killed."""
        if self._ended is None:
            self._ended = int(self._status.readline())
        return self._ended

    def result(self) -> Any:
        """Let it run to its end past all marks and give what `main` gave; None if it was killed."""
        while self._result is None and self.next_mark() is not None:
            self.go_on()
        if self.wait() not in (0, -signal.SIGKILL):
            self._errors.seek(0)
            raise AssertionError(f"the program ended with {self.wait()}:\n{self._errors.read().decode()}")
        return self._result


# -- in the process that is forked

_SERVE = "from runwell.testing.killing import _serve; _serve()"


def _serve() -> None:
    """Import the program, then fork for each start that is asked for."""
    control = socket.socket(fileno=int(sys.argv[1]))
    spec = spec_from_file_location("killed_program", sys.argv[2])
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers vanish by themselves
    while True:
        message, handles, _, _ = socket.recv_fds(control, 1 << 16, 3)
        if not message:
            return
        if os.fork() == 0:
            control.close()
            _keep(module.main, json.loads(message), *handles)
        for handle in handles:
            os.close(handle)


def _keep(main: Callable[..., Any], arguments: list[str], talk: int, errors: int, status: int) -> NoReturn:
    """Start the program in one more fork, tell its number, and when it has ended how."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.close(status)
        for handle, number in ((talk, 0), (talk, 1), (errors, 2)):
            os.dup2(handle, number)
        os.close(talk)
        _become(main, arguments)
    os.close(talk)
    os.write(status, f"{pid}\n".encode())
    _, ended = os.waitpid(pid, 0)
    os.write(status, f"{os.waitstatus_to_exitcode(ended)}\n".encode())
    os._exit(0)


def _become(main: Callable[..., Any], arguments: list[str]) -> NoReturn:
    code = 1
    try:
        os.write(1, f"={json.dumps(main(*arguments))}\n".encode())
        code = 0
    except BaseException:
        import traceback

        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)
