"""Who runs a thread: a name for this process, and whether a named one is known to have ended."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from pathlib import Path

__all__ = ["gone", "new_holder"]


def new_holder() -> str:
    """A name for one run of this process: unlike any other, and telling which process on which machine it is of."""
    return f"{_process(os.getpid())} {os.urandom(8).hex()}"


@lru_cache(maxsize=1)
def _process(pid: int) -> str:
    """This process, as holders name it. Read once: a forked child has another number."""
    return f"{_machine()} {pid} {_started(pid)}"


def gone(holder: str) -> bool:
    """Whether the process of the holder has certainly ended. Nothing is known of one on another machine: False."""
    parts = holder.split(" ")
    if len(parts) != 4 or parts[0] != _machine() or sys.platform == "win32" or not parts[1].isdigit():
        return False
    pid, started = int(parts[1]), parts[2]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # it is there, and another user's
    return bool(started) and _started(pid) not in ("", started)  # the number belongs to another process by now


@lru_cache(maxsize=1)
def _machine() -> str:
    """Processes that can see each other share it: the host's name, its boot, and the namespace of its process ids."""
    import socket

    boot = namespace = ""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = Path("/proc/self/ns/pid").readlink().name
    except OSError:
        pass  # not Linux: the name of the host has to do
    return "/".join((socket.gethostname(), boot, namespace)).replace(" ", "_")


def _started(pid: int) -> str:
    """When the process began, in the system's own words; empty where it does not say."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]
