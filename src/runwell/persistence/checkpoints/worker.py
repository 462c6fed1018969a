"""One thread of our own for a saver's blocking calls from an event loop.

A single thread that stays beats a pool: a save takes tens of microseconds, a hop through a pool more than that.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

__all__ = ["Worker"]

T = TypeVar("T")

_log = logging.getLogger("runwell.persistence")


class Worker:
    """Runs jobs one after another, in the order given, in a daemon thread that starts with the first."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        weakref.finalize(self, self._jobs.put, None).atexit = False  # a saver that is dropped takes its thread along

    async def run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """The function's result, or its exception. A caller that is cancelled stops waiting; the job is still done."""
        import asyncio

        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def job() -> None:
            result, error = None, None
            try:
                result = function(*args, **kwargs)
            except BaseException as raised:
                error = raised
            try:
                loop.call_soon_threadsafe(_settle, future, result, error)
            except RuntimeError:  # the loop has closed: nobody waits any more
                _log.debug("%r ended after its loop had closed", function, exc_info=error)

        self._start()
        self._jobs.put(job)
        return await future

    def stop(self) -> None:
        """End the thread once what was given is done."""
        self._jobs.put(None)

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            with self._starting:
                if self._thread is None or not self._thread.is_alive():
                    self._thread = threading.Thread(target=_work, args=(self._jobs,), name="runwell-saver", daemon=True)
                    self._thread.start()


def _work(jobs: SimpleQueue[Callable[[], None] | None]) -> None:
    while (job := jobs.get()) is not None:
        job()
        del job  # while waiting, keep nothing of the last one alive


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
