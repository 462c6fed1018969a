"""No sandbox: commands run as the program's own user."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from runwell.errors import InvalidInput
from runwell.tools.sandbox.policy import Launch, SandboxPolicy, limits

__all__ = ["HostPolicy"]

MARK = "RUNWELL_SHELL"


@dataclass(frozen=True, kw_only=True)
class HostPolicy(SandboxPolicy):
    """Commands reach every file, process and network that the program's user reaches. Say that you accept it.

    `memory_bytes` and `cpu_time_seconds` bound each process; None is no bound. The environment is minimal all the same,
    and holds `RUNWELL_SHELL`, by which processes that detach themselves are found (on Linux) and ended with the shell.
    """

    i_accept_host_access: bool = False
    memory_bytes: int | None = None
    cpu_time_seconds: int | None = None

    name: ClassVar[str] = "host"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.i_accept_host_access is not True:
            raise InvalidInput(
                "HostPolicy gives a model's commands everything that this user can reach, without a sandbox.",
                hint="Choose BubblewrapPolicy() or DockerPolicy(), or say HostPolicy(i_accept_host_access=True).",
            )

    def launch(self, shell: Sequence[str], workspace: Path, env: Mapping[str, str]) -> Launch:
        token = secrets.token_hex(16)
        return Launch(
            argv=tuple(shell),
            env={**self.environment(workspace, env), MARK: token},
            cwd=str(workspace),
            prologue=limits(self.memory_bytes, self.cpu_time_seconds),
            mark=f"{MARK}={token}",
        )

    def describe(self) -> str:
        return "Everything that the program's user reaches: there is no sandbox."
