"""What a shell command may reach: the policy that a shell is started under."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from runwell.errors import InvalidInput
from runwell.schemas.arguments import check_fields

__all__ = ["Launch", "SandboxPolicy", "minimal_environment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a shell is started: the whole command line, the environment of its first process, its folder.

    `prologue` are shell lines that run before anything else. `stop` is a command line that ends what killing the
    process group would leave (a container). `mark` is a variable of the environment by which processes that left the
    group are found again.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)  # a traceback that shows locals is not to show secrets
    cwd: str
    prologue: tuple[str, ...] = ()
    stop: tuple[str, ...] | None = None
    mark: str | None = None


@dataclass(frozen=True, kw_only=True)
class SandboxPolicy:
    """Where and within which limits commands run. Choose a subclass; derive from it for a sandbox of your own.

    `command_timeout`, `startup_timeout` (until the shell is ready, and for each startup command) and
    `termination_timeout` (for each shutdown command, and for processes to be gone) are in seconds.
    `max_output_lines` and `max_output_bytes` cap what one command may show: its beginning and its end are kept.
    """

    command_timeout: float = 30.0
    startup_timeout: float = 30.0
    termination_timeout: float = 10.0
    max_output_lines: int = 400
    max_output_bytes: int = 32_768

    name: ClassVar[str] = "sandbox"

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("command_timeout", "startup_timeout", "termination_timeout"):
            if not getattr(self, name) > 0:
                raise InvalidInput(f"{type(self).__name__}: {name}={getattr(self, name)!r}", hint="Seconds, above 0.")
        for name in ("max_output_lines", "max_output_bytes"):
            if not getattr(self, name) >= 2:
                raise InvalidInput(
                    f"{type(self).__name__}: {name}={getattr(self, name)!r}", hint="At least 2: a head and a tail."
                )

    def check(self) -> None:
        """Raises SandboxUnavailable if shells cannot be started under this policy on this machine."""

    def workdir(self, workspace: Path) -> str:
        """The workspace as the shell sees it."""
        return str(workspace)

    def environment(self, workspace: Path, env: Mapping[str, str]) -> dict[str, str]:
        """All that the shell has in its environment."""
        return {**minimal_environment(self.workdir(workspace)), **env}

    def launch(self, shell: Sequence[str], workspace: Path, env: Mapping[str, str]) -> Launch:
        """How to start `shell` in `workspace`, with `env` beside the minimal environment."""
        raise NotImplementedError

    def describe(self) -> str:
        """A sentence for people: what a command reaches."""
        raise NotImplementedError


def minimal_environment(home: str) -> dict[str, str]:
    """PATH, HOME and LANG; nothing of the program's own environment."""
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": home, "LANG": "C.UTF-8"}


def limits(memory_bytes: int | None, cpu_time_seconds: int | None, processes: int | None = None) -> tuple[str, ...]:
    """Shell lines that set limits, for the shell and all it starts. Memory and processor time are of each process."""
    wanted = {
        "v": None if memory_bytes is None else memory_bytes // 1024,
        "t": cpu_time_seconds,
        "u": processes,
    }
    return ("ulimit -c 0", *(f"ulimit -{flag} {value}" for flag, value in wanted.items() if value is not None))
