"""Threads of our own for blocking calls from an event loop.

For a file, a single thread that stays beats a pool: a save takes tens of microseconds, a hop through a pool more than
that. For a server there may be as many as it has connections.
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
    """Runs jobs in daemon threads, started when needed, up to `threads`. A single one runs them in the order given."""

    def __init__(self, threads: int = 1) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._starting = threading.Lock()
        self._limit = threads
        self._threads: list[threading.Thread] = []
        weakref.finalize(self, _dismiss, self._jobs, self._threads).atexit = False  # a dropped saver's threads go too

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

        self._jobs.put(job)
        self._start()
        return await future

    def stop(self) -> None:
        """End the threads once what was given is done."""
        with self._starting:
            _dismiss(self._jobs, self._threads)

    def _start(self) -> None:
        """Another thread when there is none, or when all there are have work and more may be started."""
        threads = self._threads
        if threads and threads[-1].is_alive() and (len(threads) >= self._limit or self._jobs.empty()):
            return
        with self._starting:
            threads[:] = [thread for thread in threads if thread.is_alive()]
            if not threads or (len(threads) < self._limit and not self._jobs.empty()):
                thread = threading.Thread(target=_work, args=(self._jobs,), name="runwell-saver", daemon=True)
                thread.start()
                threads.append(thread)


def _dismiss(jobs: SimpleQueue[Callable[[], None] | None], threads: list[threading.Thread]) -> None:
    """As many times None as there are threads: each takes one and ends."""
    for _ in range(len(threads)):
        jobs.put(None)
    threads.clear()


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
