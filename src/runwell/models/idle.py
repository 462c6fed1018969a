"""Noticing that a provider's stream has gone silent.

HTTP clients have one limit for each read, and two are needed: long to the first output (a model may think for minutes),
short between chunks. Past the short one a watching thread breaks the connection, which ends the read in either colour.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Self

__all__ = ["IdleWatch"]


class IdleWatch:
    """Calls `sever` once `limit_s` pass between `beat()` and the next `beat()` or `rest()`, from a thread that all
    watches share. None: never.

    Use it with `with`: when it severed, `silent()` is raised in place of what the read then ends with. `sever` must
    only make the read under way fail.
    """

    __slots__ = ("_deadline", "_limit_s", "_sever", "_silent", "expired")

    def __init__(self, limit_s: float | None, sever: Callable[[], Any], silent: Callable[[], Exception]) -> None:
        self._limit_s = limit_s if limit_s is not None else float("inf")
        self._sever = sever
        self._silent = silent
        self._deadline = float("inf")
        self.expired = False

    def beat(self) -> None:
        """The wait for the next chunk begins."""
        self._deadline = time.monotonic() + self._limit_s

    def rest(self) -> None:
        """Nobody waits: a reader takes as long as it likes."""
        self._deadline = float("inf")

    def __enter__(self) -> Self:
        if self._limit_s != float("inf"):
            with _wake:
                _watches.append(self)
                _start()
                _wake.notify()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._limit_s != float("inf"):
            with _wake:
                _watches.remove(self)
        if self.expired and (error is None or isinstance(error, Exception)):  # a signal goes before
            raise self._silent() from None


_watches: list[IdleWatch] = []
_wake = threading.Condition()
_thread: threading.Thread | None = None


def _start() -> None:
    global _thread
    if _thread is None or not _thread.is_alive():
        _thread = threading.Thread(target=_watch, name="runwell-idle-watch", daemon=True)
        _thread.start()


def _watch() -> None:
    """Sleeps until the earliest deadline. A beat moves a deadline away, never nearer, so it need not wake anybody."""
    while True:
        with _wake:
            now = time.monotonic()
            due = [watch for watch in _watches if watch._deadline <= now and not watch.expired]
            for watch in due:
                watch.expired = True
        for watch in due:
            watch._sever()
        with _wake:
            alive = [watch for watch in _watches if not watch.expired]
            if not alive:
                _wake.wait()
                continue
            # one that rests now may be waited for again soon, and then has its whole limit before it
            wait = min(min(watch._deadline - time.monotonic(), watch._limit_s) for watch in alive)
            _wake.wait(max(wait, 0.0))
