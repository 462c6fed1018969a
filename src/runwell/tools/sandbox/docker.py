"""A container as the sandbox."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from runwell.errors import InvalidInput, SandboxUnavailable
from runwell.tools.sandbox.policy import Launch, SandboxPolicy, limits

__all__ = ["DockerPolicy"]

INSIDE = "/workspace"
_CLIENTS = ("PATH", "HOME", "USER", "LANG", "TMPDIR", "DOCKER_", "CONTAINER", "XDG_", "HTTP", "NO_PROXY", "SSH_")
"""How variables begin that the client itself reads. Others reach the container by way of its environment."""


@dataclass(frozen=True, kw_only=True)
class DockerPolicy(SandboxPolicy):
    """A container for each session: no network, a read-only root, no capabilities; the workspace is `/workspace`.

    The image must hold the shell (bash). `memory_bytes`, `cpus` and `max_processes` bound the container,
    `cpu_time_seconds` each process. `user` is as in `docker run --user`. Values of `env` reach the container through
    the client's environment, not its command line. `extra_run_args` are put before the image, unchecked.
    """

    image: str = "python:3.12-slim"
    network_enabled: bool = False
    read_only_rootfs: bool = True
    memory_bytes: int | None = 2 * 1024**3
    cpus: str | None = None
    cpu_time_seconds: int | None = 600
    max_processes: int | None = 512
    user: str | None = None
    remove_container_on_exit: bool = True
    extra_run_args: tuple[str, ...] = ()
    binary: str = "docker"

    name: ClassVar[str] = "docker"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.image or self.image.startswith("-"):
            raise InvalidInput(f"image={self.image!r} is no image.", hint='Name one, as in "python:3.12-slim".')
        extra: Any = self.extra_run_args
        if isinstance(extra, str):
            raise InvalidInput(f"extra_run_args={extra!r} is not a list.", hint=f"extra_run_args=({extra!r},)")

    def check(self) -> None:
        import shutil

        if shutil.which(self.binary) is None:
            raise SandboxUnavailable(
                f"DockerPolicy cannot be used: there is no {self.binary!r} on PATH.",
                hint='Install Docker, or name another client: DockerPolicy(binary="podman").',
            )

    def workdir(self, workspace: Path) -> str:
        return INSIDE

    def environment(self, workspace: Path, env: Mapping[str, str]) -> dict[str, str]:
        return {"HOME": INSIDE, "LANG": "C.UTF-8", **env}  # PATH is the image's

    def launch(self, shell: Sequence[str], workspace: Path, env: Mapping[str, str]) -> Launch:
        import os

        if "," in str(workspace):
            raise InvalidInput(f"Docker cannot mount {str(workspace)!r}: there is a comma in it.")
        name = f"runwell-{secrets.token_hex(8)}"
        line = [self.binary, "run", "--interactive", "--init", "--name", name]
        if self.remove_container_on_exit:
            line.append("--rm")
        if not self.network_enabled:
            line += ["--network", "none"]
        line += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        if self.read_only_rootfs:
            line += ["--read-only", "--tmpfs", "/tmp"]
        if self.memory_bytes is not None:
            line += ["--memory", str(self.memory_bytes), "--memory-swap", str(self.memory_bytes)]
        if self.cpus is not None:
            line += ["--cpus", self.cpus]
        if self.max_processes is not None:
            line += ["--pids-limit", str(self.max_processes)]
        if self.user is not None:
            line += ["--user", self.user]
        line += ["--mount", f"type=bind,source={workspace},target={INSIDE}", "--workdir", INSIDE]
        host = dict(os.environ)
        for key, value in self.environment(workspace, env).items():
            if key not in env or key.upper().startswith(_CLIENTS):
                line += ["--env", f"{key}={value}"]  # the client needs its own value under that name
            else:
                host[key] = value
                line += ["--env", key]
        return Launch(
            argv=(*line, *self.extra_run_args, self.image, *shell),
            env=host,
            cwd=str(workspace),
            prologue=limits(None, self.cpu_time_seconds),
            stop=(self.binary, "kill", name),
        )

    def describe(self) -> str:
        network = "the container network" if self.network_enabled else "no network"
        root = "a read-only root" if self.read_only_rootfs else "a root of its own"
        return f"A container of {self.image}: {network}, {root}, one writable folder."
