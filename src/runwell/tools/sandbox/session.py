"""A shell that stays: folder, variables and functions of one command are there for the next."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from runwell.drivers.cancel import CANCEL
from runwell.errors import InvalidInput, RunCancelled, SandboxError
from runwell.tools.sandbox.policy import SandboxPolicy
from runwell.tools.sandbox.process import Ended, ShellProcess
from runwell.tools.sandbox.redact import Redactor

__all__ = ["SHELL", "CommandResult", "ShellSession"]

SHELL = ("/bin/bash", "--noprofile", "--norc")


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command did. `output` is what may be shown: redacted, then capped.

    `exit_code` is None if it was killed at its time limit or if it ended the shell itself (`shell_ended`). After either
    the next command begins in a new shell. `new_shell` says that this one did.
    """

    output: str
    exit_code: int | None
    timed_out: bool
    shell_ended: bool
    new_shell: bool
    dropped_lines: int
    dropped_bytes: int
    seconds: float


class ShellSession:
    """A shell in `workspace` under `policy`, started with its first command. A context manager: leaving it ends it.

    `env` is added to a minimal environment (PATH, HOME, LANG): nothing of the program's own gets in. `startup_commands`
    run in every new shell, and raise SandboxError if one fails; `shutdown_commands` run when it is closed, and a
    failure is logged. `redact` is applied to everything that is shown.

    It may be used from several threads: commands wait for each other. A cancelled run kills the command under way.
    """

    def __init__(
        self,
        policy: SandboxPolicy,
        workspace: str | Path,
        *,
        env: Mapping[str, str] | None = None,
        startup_commands: Sequence[str] = (),
        shutdown_commands: Sequence[str] = (),
        redact: Callable[[str], str] | None = None,
        shell_command: Sequence[str] = SHELL,
    ) -> None:
        self.policy = policy
        self.workspace = Path(workspace).resolve()
        self.env = dict(env or {})
        self.startup_commands = tuple(startup_commands)
        self.shutdown_commands = tuple(shutdown_commands)
        self.shell_command = tuple(shell_command)
        self._redact = redact or Redactor(env=self.env)
        self._lock = threading.Lock()
        self._process: ShellProcess | None = None
        self._closed = False

    @property
    def running(self) -> bool:
        """Whether there is a shell now."""
        return self._process is not None

    def execute(self, command: str, timeout: float | None = None) -> CommandResult:
        """Run a command and wait for it, at most `timeout` seconds (None: the policy's `command_timeout`).

        A command gets no input. One that outlives its time is killed with everything in its process group, and so is
        the shell. Raises SandboxError if no shell can be started.
        """
        if not command.strip():
            raise InvalidInput("The command is empty.")
        if "\0" in command:
            raise InvalidInput("There is a NUL character in the command.", hint="No shell can take one.")
        limit = self.policy.command_timeout if timeout is None else timeout
        if not limit > 0:
            raise InvalidInput(f"timeout={timeout!r}", hint="Seconds, more than 0.")
        with self._lock:
            process, new = self._shell()
            began = time.monotonic()
            ended = self._run(process, command, limit)
            taken = time.monotonic() - began
            shell_ended = ended.status is None and not ended.timed_out
            if ended.status is None:
                process.kill()
                self._drop(process)
            shown = ended.output.shown(self._redact, self.policy.max_output_lines, self.policy.max_output_bytes)
            return CommandResult(
                shown.text,
                process.returncode if shell_ended else ended.status,
                ended.timed_out,
                shell_ended,
                new,
                shown.dropped_lines,
                shown.dropped_bytes,
                taken,
            )

    def restart(self) -> None:
        """End the shell, if there is one, and start another."""
        with self._lock:
            self._end()
            self._shell()

    def close(self) -> None:
        """Run the shutdown commands and end the shell with everything it started. It takes no more commands."""
        with self._lock:
            self._closed = True
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _shell(self) -> tuple[ShellProcess, bool]:
        """The shell, and whether it is a new one."""
        if self._closed:
            raise SandboxError("The shell session is closed.", hint="Make another ShellSession.")
        if (group := CANCEL.get()) is not None and group.cancelled:
            raise RunCancelled()
        if self._process is not None:
            return self._process, False
        if not self.workspace.is_dir():
            raise SandboxError(
                f"The workspace {str(self.workspace)!r} is no folder.", hint="Make it, or name another workspace_root."
            )
        launch = self.policy.launch(self.shell_command, self.workspace, self.env)
        process = ShellProcess(launch, self.policy.max_output_bytes)
        opening = "\n".join(["exec 9>&1", *launch.prologue])
        seconds = self.policy.startup_timeout
        try:
            process.begin(opening, seconds)
            for command in (":", *self.startup_commands):
                ended = self._run(process, command, seconds)
                if ended.status != 0:
                    raise self._not_started(process, command, ended, seconds)
        except BaseException:
            process.close(self.policy.termination_timeout)
            raise
        self._process = process
        return process, True

    def _not_started(self, process: ShellProcess, command: str, ended: Ended, seconds: float) -> SandboxError:
        said = ended.output.shown(self._redact, 20, 2000).text.strip()
        how = f"took more than {seconds} s" if ended.timed_out else f"ended with {ended.status or process.returncode}"
        what = "The shell" if command == ":" else f"The startup command {self._redact(command)!r}"
        return SandboxError(f"{what} {how}: {said or '(no output)'}", hint=f"Policy: {self.policy.describe()}")

    def _run(self, process: ShellProcess, command: str, seconds: float) -> Ended:
        """Run it, killed when the run that it belongs to is cancelled."""
        group = CANCEL.get()
        member = _Killer(process)
        if group is not None:
            group.add(member)
        try:
            ended = process.run(command, seconds)
        except BaseException:
            process.kill()
            self._drop(process)
            raise
        finally:
            if group is not None:
                group.discard(member)
        if member.asked:
            self._drop(process)
            raise RunCancelled()
        return ended

    def _drop(self, process: ShellProcess) -> None:
        process.close(self.policy.termination_timeout)
        if self._process is process:
            self._process = None

    def _end(self) -> None:
        process = self._process
        if process is None:
            return
        try:
            for command in self.shutdown_commands:
                ended = process.run(command, self.policy.termination_timeout)
                if ended.status != 0:
                    said = ended.output.shown(self._redact, 20, 2000).text.strip()
                    why = "took too long" if ended.timed_out else f"ended with {ended.status}"
                    _log().warning("the shutdown command %r %s: %s", self._redact(command), why, said)
                if ended.status is None:
                    process.kill()
                    break
        finally:
            self._drop(process)


class _Killer:
    """A member of the run's cancel group."""

    __slots__ = ("_process", "asked")

    def __init__(self, process: ShellProcess) -> None:
        self._process = process
        self.asked = False

    def cancel(self) -> None:
        self.asked = True
        self._process.kill()

    def tell(self, report: Callable[[], None]) -> int:
        return 0


def _log() -> Any:
    import logging

    return logging.getLogger("runwell.tools.sandbox")
