"""Noticing that a provider's stream has gone silent.

HTTP clients have one limit for each read, and two are needed: long to the first output (a model may think for minutes),
short between chunks. Async streams wait with a timeout of their own; for plain ones a watching thread breaks the
connection.
"""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Self, TypeVar

__all__ = ["IdleWatch", "next_within"]

T = TypeVar("T")


async def next_within(source: AsyncIterator[T], seconds: float | None) -> T:
    """The next item; TimeoutError after `seconds`. Nothing stays open between items."""
    if seconds is None:
        return await anext(source)
    import asyncio

    async with asyncio.timeout(seconds):
        return await anext(source)


class IdleWatch:
    """Calls `sever` once `limit_s` pass without `beat()`, from a thread that all watches share. `expired` says it did.

    Use it with `with`. `sever` must only make the waiting read fail; it runs while that read is under way.
    """

    __slots__ = ("_deadline", "_limit_s", "_sever", "expired")

    def __init__(self, limit_s: float, sever: Callable[[], Any]) -> None:
        self._limit_s = limit_s
        self._sever = sever
        self._deadline = 0.0
        self.expired = False

    def beat(self) -> None:
        """Something came."""
        self._deadline = time.monotonic() + self._limit_s

    def rest(self) -> None:
        """Nobody waits: a consumer takes as long as it likes."""
        self._deadline = float("inf")

    def __enter__(self) -> Self:
        self.beat()
        with _wake:
            _watches.append(self)
            _start()
            _wake.notify()
        return self

    def __exit__(self, *exc: object) -> None:
        with _wake:
            _watches.remove(self)


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
            pause = min((w._limit_s for w in _watches if not w.expired), default=None)
            nearest = min((w._deadline for w in _watches if not w.expired), default=float("inf"))
            wait = nearest - time.monotonic()
            if pause is not None:
                wait = min(wait, pause)  # one that rests now may be waited for again soon
            _wake.wait(None if pause is None else max(wait, 0.0))
