"""One running shell: takes a command at a time, says when it has ended, and dies with all it started."""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from contextlib import suppress
from typing import Any

from runwell.drivers.threads import spawn
from runwell.errors import SandboxError
from runwell.tools.sandbox.output import HeadTail
from runwell.tools.sandbox.policy import Launch

__all__ = ["Ended", "ShellProcess"]

LOOK_S = 0.2
"""How often a waiting command looks whether the shell is still there: its end may show nowhere else, when something
that it started holds its output open. Chosen, not measured."""


class Ended:
    """How a command ended: `status`, None if the shell itself ended or was killed; what was printed."""

    __slots__ = ("output", "status", "timed_out")

    def __init__(self, status: int | None, output: HeadTail, timed_out: bool = False) -> None:
        self.status = status
        self.output = output
        self.timed_out = timed_out


class ShellProcess:
    """A shell under a launch. Not to be used by two threads at once, but for `kill`, which any thread may call.

    Its own thread starts it and reads what it prints, from its first to its last byte: output that nobody waits for
    never blocks a program, and the kernel ends a sandbox whose starting thread is gone.
    """

    def __init__(self, launch: Launch, max_bytes: int) -> None:
        self._launch = launch
        self._max_bytes = max_bytes
        self._news = threading.Condition()
        self._output = HeadTail(max_bytes)
        self._carry = b""
        self._mark = b""
        self._status: int | None = None
        self._process: Any = None
        self._failed: OSError | None = None
        self._silent = False
        self.killed = False
        spawn(self._live)
        error = self._started()
        if error is not None:
            raise SandboxError(
                f"The shell could not be started: {error}.",
                hint=f"The command line begins with {launch.argv[0]!r}, in {launch.cwd!r}.",
            ) from error

    def _started(self) -> OSError | None:
        """Waits until it has, or has not: why not."""
        with self._news:
            self._news.wait_for(lambda: self._process is not None or self._failed is not None)
        return self._failed

    def _pending(self) -> bool:
        """Whether the command that was sent may still end in order."""
        return self._status is None and not self._silent and not self.killed

    # -- its own thread

    def _live(self) -> None:
        import subprocess

        try:
            process = subprocess.Popen(
                self._launch.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                cwd=self._launch.cwd,
                env=dict(self._launch.env),
                start_new_session=True,
            )
        except OSError as error:
            with self._news:
                self._failed = error
                self._news.notify_all()
            return
        assert process.stdin is not None
        assert process.stdout is not None
        os.set_blocking(process.stdin.fileno(), False)
        with self._news:
            self._process = process
            self._news.notify_all()
        with process.stdout as pipe:
            while data := os.read(pipe.fileno(), 65_536):
                with self._news:
                    self._take(data)
        with self._news:
            self._output.feed(self._carry)
            self._silent = True
            self._news.notify_all()

    def _take(self, data: bytes) -> None:
        """Sort what came into output and the end of the command that runs."""
        data = self._carry + data
        self._carry = b""
        at = data.find(self._mark) if self._mark else -1
        if at >= 0:
            end = data.find(b"\n", at)
            if end < 0:
                self._output.feed(data[:at])
                self._carry = data[at:]
                return
            self._output.feed(data[:at])
            self._status = int(data[at + len(self._mark) : end])
            self._mark = b""
            self._news.notify_all()
            data = data[end + 1 :]
        elif self._mark:
            held = next((n for n in range(len(self._mark) - 1, 0, -1) if data.endswith(self._mark[:n])), 0)
            if held:
                data, self._carry = data[:-held], data[-held:]
        self._output.feed(data)

    # -- a command

    def begin(self, lines: str, seconds: float) -> None:
        """What the shell does before its first command; the command after it tells whether that went well."""
        try:
            self._send(lines.encode() + b"\n", time.monotonic() + seconds)
        except BrokenPipeError:
            return  # the shell is gone, which the next command finds

    def run(self, command: str, seconds: float) -> Ended:
        """Run it in the shell and wait, at most so long. Past that, or if the shell ends, the shell is to be killed."""
        import shlex

        nonce = secrets.token_hex(16)
        deadline = time.monotonic() + seconds
        with self._news:
            self._status = None
            self._mark = b"\x1e" + nonce.encode() + b" "
        # The command gets no input (it would read the shell's), and its output goes where the shell's first went,
        # whatever an earlier one did with `exec`. What it does to folder and variables stays.
        line = (
            f"eval {shlex.quote(command)} </dev/null >&9 2>&1 9>&-\n"
            f"{{ printf '\\036%s %d\\n' {nonce} $? >&9; }} 2>/dev/null\n"
        )
        try:
            sent = self._send(line.encode(), deadline)
        except BrokenPipeError:
            sent = True  # the shell is gone, which is found below
        with self._news:
            timed_out = not sent
            while sent and self._pending():
                left = deadline - time.monotonic()
                if left <= 0:
                    timed_out = True
                    break
                self._news.wait(min(left, LOOK_S))
                if self._pending() and self._over():
                    self._news.wait(LOOK_S)  # what it said last may still be on its way
                    break
            ended = Ended(self._status, self._output, timed_out)
            self._output = HeadTail(self._max_bytes)
        return ended

    def _send(self, data: bytes, deadline: float) -> bool:
        """Write it to the shell; False if the shell does not read."""
        import select

        pipe = self._process.stdin.fileno()
        view = memoryview(data)
        while view:
            left = deadline - time.monotonic()
            if left <= 0 or self.killed:
                return False
            if not select.select([], [pipe], [], min(left, LOOK_S))[1]:
                continue
            try:
                view = view[os.write(pipe, view) :]
            except BlockingIOError:
                continue
        return True

    # -- its end

    @property
    def returncode(self) -> int | None:
        """The shell's exit status, once it has been closed."""
        return self._process.returncode  # type: ignore[no-any-return]

    def _over(self) -> bool:
        """Whether the shell has ended. It is left to be waited for: until then nobody else can get its group's id."""
        if self._process.returncode is not None:
            return True
        if not hasattr(os, "waitid"):
            return self._process.poll() is not None
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def kill(self) -> None:
        """End the whole process group at once; never waits. `close` does the rest."""
        self.killed = True
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):  # ended meanwhile
                os.killpg(self._process.pid, signal.SIGKILL)
        with self._news:
            self._news.notify_all()

    def close(self, seconds: float) -> None:
        """Let an idle shell end by itself; kill what is left, and wait until nothing is, at most so long."""
        import subprocess

        deadline = time.monotonic() + seconds
        if not self.killed:
            self._process.stdin.close()  # what a shell takes for the end
            with self._news:
                self._news.wait_for(lambda: self._silent, min(seconds, LOOK_S))
        self.kill()
        if self._launch.stop is not None:
            _quietly(self._launch.stop, seconds)
        try:
            self._process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            _log().warning("the shell %d did not end within %s s after it was killed", self._process.pid, seconds)
        self._process.stdin.close()
        if self._launch.mark is not None:
            _end_marked(self._launch.mark)
        with self._news:
            while not self._silent and (left := deadline - time.monotonic()) > 0:
                self._news.wait(left)
            if not self._silent:
                _log().warning("something that the shell %d started is still there", self._process.pid)


def _end_marked(mark: str) -> None:
    """Kill the processes that have the mark in their environment: those that left the group."""
    if not os.path.isdir("/proc"):
        return
    wanted = mark.encode()
    for _ in range(5):  # one may have started another while we looked
        found = False
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    marked = wanted in file.read().split(b"\0")
                if marked:
                    os.kill(int(name), signal.SIGKILL)
                    found = True
            except OSError:  # gone, or somebody else's
                continue
        if not found:
            return
        time.sleep(0.01)


def _quietly(line: tuple[str, ...], seconds: float) -> None:
    import subprocess

    try:
        subprocess.run(line, capture_output=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        _log().warning("%s failed: %s", " ".join(line), error)


def _log() -> Any:
    import logging

    return logging.getLogger("runwell.tools.sandbox")
