"""A sandbox of Linux namespaces, made by bubblewrap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from runwell.errors import InvalidInput, SandboxUnavailable
from runwell.tools.sandbox.policy import Launch, SandboxPolicy, limits

__all__ = ["BubblewrapPolicy"]

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store", "/gnu/store")
"""What programs need of a system. Everything else people and services may keep for themselves, so it is not there."""
PRIVATE = (
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/ssh",
    "/etc/ssl/private",
)
"""Of those, what is nobody's business, should the program be run by root."""
NAMESPACES = (
    "--unshare-ipc",
    "--unshare-pid",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--die-with-parent",
    "--new-session",
)


@dataclass(frozen=True, kw_only=True)
class BubblewrapPolicy(SandboxPolicy):
    """No network, a read-only root, one writable folder, processes and users of its own. Linux, with `bwrap` on PATH.

    The system's programs and settings can be read (`/usr`, `/etc`, `/opt`); home folders, `/var`, `/run` and whatever
    else the machine holds are not there, and `/tmp` is empty. `readable` and `writable` name further folders that are
    shown. `network_enabled=True` gives the host's network.
    `memory_bytes` (address space) and `cpu_time_seconds` bound each process, `max_processes` all of them (not if the
    program itself is root, whom Linux does not count); None is no bound.
    """

    network_enabled: bool = False
    readable: tuple[str | Path, ...] = ()
    writable: tuple[str | Path, ...] = ()
    memory_bytes: int | None = 4 * 1024**3
    cpu_time_seconds: int | None = 600
    max_processes: int | None = 512
    binary: str = "bwrap"

    name: ClassVar[str] = "bubblewrap"

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("readable", "writable"):
            folders = getattr(self, field)
            if isinstance(folders, (str, Path)):
                raise InvalidInput(f"{field}={folders!r} is not a list.", hint=f"{field}=({str(folders)!r},)")
            for folder in folders:
                if not Path(folder).is_absolute() or not Path(folder).exists():
                    raise InvalidInput(f"{field} names {str(folder)!r}.", hint="Name folders that are there, absolute.")

    def check(self) -> None:
        problem = _problem(self.binary)
        if problem is not None:
            raise SandboxUnavailable(
                f"BubblewrapPolicy cannot be used: {problem}.",
                hint="Debian and Ubuntu: sudo apt-get install bubblewrap. Or choose execution_policy=DockerPolicy(), "
                "or, if commands may reach all that this user reaches, HostPolicy(i_accept_host_access=True).",
            )

    def launch(self, shell: Sequence[str], workspace: Path, env: Mapping[str, str]) -> Launch:
        where = str(workspace)
        inside = [*NAMESPACES, *_as_user(self.binary), "--cap-drop", "ALL"]
        if not self.network_enabled:
            inside.append("--unshare-net")
        inside += ["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp", "--dir", "/run"]
        for name in SYSTEM:
            path = Path(name)
            if path.is_symlink():
                inside += ["--symlink", str(path.readlink()), name]
            elif path.is_dir():
                inside += ["--ro-bind", name, name]
        for name in PRIVATE:
            if Path(name).is_dir():
                inside += ["--tmpfs", name]
            elif Path(name).exists():
                inside += ["--ro-bind", "/dev/null", name]
        if self.network_enabled and Path("/run/systemd/resolve").is_dir():
            inside += ["--ro-bind", "/run/systemd/resolve", "/run/systemd/resolve"]  # resolv.conf may point there
        for folder in self.readable:
            inside += ["--ro-bind", str(folder), str(folder)]
        for folder in (*self.writable, where):
            inside += ["--bind", str(folder), str(folder)]
        inside += ["--remount-ro", "/", "--chdir", where]
        # the environment is handed on, not named here: a command line can be read by every user of the machine
        return Launch(
            argv=(self.binary, *inside, "--", *shell),
            env=self.environment(workspace, env),
            cwd=where,
            prologue=limits(self.memory_bytes, self.cpu_time_seconds, self.max_processes),
        )

    def describe(self) -> str:
        network = "the host's network" if self.network_enabled else "no network"
        more = [f"reads {each}" for each in self.readable] + [f"writes {each}" for each in self.writable]
        return f"A bubblewrap sandbox: {', '.join([network, 'a read-only root', 'one writable folder', *more])}."


@cache
def _problem(binary: str) -> str | None:
    """Why bubblewrap does not work here; None if it does."""
    problem = _tried(binary, ("--unshare-user",))
    return None if problem is None or _tried(binary, ()) is None else problem


def _as_user(binary: str) -> tuple[str, ...]:
    """A user namespace where the kernel allows one; where it does not, root can do without."""
    return ("--unshare-user",) if _tried(binary, ("--unshare-user",)) is None else ()


@cache
def _tried(binary: str, more: tuple[str, ...]) -> str | None:
    import shutil
    import subprocess
    import sys

    if not sys.platform.startswith("linux"):
        return f"it needs Linux, and this is {sys.platform}"
    if shutil.which(binary) is None:
        return f"there is no {binary!r} on PATH"
    line = [binary, *NAMESPACES, *more, "--unshare-net", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]
    try:
        done = subprocess.run([*line, "true"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{binary!r} did not run ({error})"
    if done.returncode == 0:
        return None
    return f"{binary!r} fails here ({done.stderr.strip()!r}): are user namespaces allowed?"
