"""Where fetched models are kept, which of them are whole, and who may write right now."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["digest", "home", "is_verified", "locked", "models_dir", "offline", "stamp"]

_BLOCK = 1 << 20


def home() -> Path:
    """runwell's own cache directory: `RUNWELL_HOME`, else `$XDG_CACHE_HOME/runwell`, else `~/.cache/runwell`."""
    if own := os.environ.get("RUNWELL_HOME"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "runwell"


def models_dir() -> Path:
    return home() / "models"


def offline() -> bool:
    """Whether `RUNWELL_OFFLINE` forbids the network."""
    return os.environ.get("RUNWELL_OFFLINE", "").lower() not in ("", "0", "false", "no")


def digest(path: Path, advance: Callable[[int], None] | None = None) -> str:
    """The sha256 of a file, in hex. `advance` is told the bytes read after each block."""
    total = 0
    state = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            state.update(block)
            total += len(block)
            if advance is not None:
                advance(total)
    return state.hexdigest()


def _stamp_path(path: Path) -> Path:
    return path.with_name(path.name + ".verified")


def stamp(path: Path, sha256: str) -> None:
    """Note that the file, as it is now, has this hash, so that it need not be read again to know."""
    stat = path.stat()
    note = _stamp_path(path)
    temporary = note.with_name(f"{note.name}.{os.getpid()}")
    temporary.write_text(json.dumps({"sha256": sha256, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}))
    temporary.replace(note)


def is_verified(path: Path, sha256: str, size: int) -> bool:
    """Whether the file is whole: by its stamp if the file has not changed since, else by reading it."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return False
    if stat.st_size != size:
        return False
    try:
        note = json.loads(_stamp_path(path).read_text())
    except (FileNotFoundError, ValueError):
        note = {}
    if note == {"sha256": sha256, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}:
        return True
    if digest(path) != sha256:
        return False
    with contextlib.suppress(OSError):  # a read-only shared cache: good all the same, only checked again next time
        stamp(path, sha256)
    return True


def drop(path: Path) -> bool:
    """Delete a file and its stamp; whether the file was there."""
    _stamp_path(path).unlink(missing_ok=True)
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


@contextlib.contextmanager
def locked(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock file `path` against other processes and threads; released by the system if we die.

    `waiting` is called once if somebody else holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        _acquire(file.fileno(), waiting)
        try:
            yield
        finally:
            _release(file.fileno())


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        os.lseek(descriptor, 0, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _release(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _release(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _acquire(descriptor: int, waiting: Callable[[], None] | None) -> None:
    if _try_lock(descriptor):
        return
    if waiting is not None:
        waiting()
    while not _try_lock(descriptor):
        time.sleep(0.1)
