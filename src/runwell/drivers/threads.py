"""Worker threads of our own, and running plain functions side by side on them.

The threads are daemons: one that is stuck in a user's blocking call never keeps the program from exiting. Their number
is not bounded here, since callers bound what they start, and a bound below that can deadlock nested calls.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar, copy_context
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from runwell.effects import Outcome
from runwell.errors import RunCancelled

__all__ = ["CANCEL", "CancelGroup", "completed", "fan_out", "spawn"]

T = TypeVar("T")

IDLE_S = 10.0
"""An unused worker thread ends after this long. Chosen, not measured."""

_idle: deque[_Worker] = deque()


class _Worker(threading.Thread):
    def __init__(self) -> None:
        super().__init__(name="runwell-worker", daemon=True)
        self.inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def run(self) -> None:
        while True:
            try:
                job = self.inbox.get(timeout=IDLE_S)
            except Empty:
                try:
                    _idle.remove(self)
                except ValueError:
                    continue  # taken by `spawn` this instant: its job is on the way
                return
            job()
            del job  # an idle thread must not keep the last job's objects alive
            _idle.append(self)


def spawn(job: Callable[[], None]) -> None:
    """Run `job`, which must not raise, in a worker thread."""
    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
        worker.start()
    worker.inbox.put(job)


os.register_at_fork(after_in_child=_idle.clear)  # a forked child has none of the parent's threads


class CancelGroup:
    """What to cancel when the reader of a stream, or of a batch, goes away: async work started from plain threads."""

    __slots__ = ("_cancels", "cancelled")

    def __init__(self) -> None:
        self.cancelled = False
        self._cancels: dict[int, Callable[[], None]] = {}
        parent = CANCEL.get()
        if parent is not None:
            parent.add(self.cancel)

    def add(self, cancel: Callable[[], None]) -> int:
        """Register; gives a token for `discard`. A group already cancelled calls it at once."""
        token = id(cancel)
        self._cancels[token] = cancel
        if self.cancelled:
            cancel()
        return token

    def discard(self, token: int) -> None:
        self._cancels.pop(token, None)

    def cancel(self) -> None:
        self.cancelled = True
        for cancel in list(self._cancels.values()):
            cancel()


CANCEL: ContextVar[CancelGroup | None] = ContextVar("runwell_cancel", default=None)


class _FanOut:
    """Threads pull tasks from one iterator; nobody waits for a place in a pool, so nesting cannot deadlock."""

    def __init__(self, thunks: Sequence[Callable[[], Any]], stop_on_error: bool) -> None:
        self.outcomes: list[Outcome[Any] | None] = [None] * len(thunks)
        self.pull = iter(enumerate(thunks)).__next__
        self.stop_on_error = stop_on_error
        self.stopped = False
        self.context = copy_context()

    def work(self, report: Callable[[int, Outcome[Any]], None] | None = None) -> None:
        context = self.context
        while not self.stopped:
            try:
                index, thunk = self.pull()
            except StopIteration:
                return
            outcome = context.copy().run(_attempt, thunk)
            self.outcomes[index] = outcome
            if report is not None:
                report(index, outcome)
            if self.stop_on_error and isinstance(outcome.error, Exception):
                self.stopped = True


def _attempt(thunk: Callable[[], T]) -> Outcome[T]:
    try:
        return Outcome(thunk())
    except KeyboardInterrupt:
        raise  # a person's Ctrl-C is about the program, not about this task
    except BaseException as error:
        return Outcome(error=error)


def fan_out(
    thunks: Sequence[Callable[[], T]], limit: int | None = None, *, stop_on_error: bool = False
) -> list[Outcome[T]]:
    """Run plain functions side by side, at most `limit` at once; their outcomes in the order given.

    The calling thread works too. Each runs under its own copy of the caller's context. With `stop_on_error` what has
    not started when one fails with an Exception is not started and has the outcome `RunCancelled`.
    """
    job = _FanOut(thunks, stop_on_error)
    ended: SimpleQueue[BaseException | None] = SimpleQueue()

    def helper() -> None:
        try:
            job.work()
        except BaseException as error:
            ended.put(error)
        else:
            ended.put(None)

    helpers = min(limit or len(thunks), len(thunks)) - 1
    for _ in range(helpers):
        spawn(helper)
    try:
        job.work()
        for _ in range(helpers):
            error = ended.get()
            if error is not None:
                raise error
    except BaseException:
        job.stopped = True
        raise
    return [outcome if outcome is not None else Outcome(error=RunCancelled()) for outcome in job.outcomes]


class completed(Iterator[tuple[int, Outcome[T]]]):  # noqa: N801 - reads as the function it is used as
    """Iterate over (index, outcome) of plain functions run side by side, as each ends.

    Closing it, or dropping it, starts nothing more and cancels async work under way.
    """

    def __init__(self, thunks: Sequence[Callable[[], T]], limit: int | None = None) -> None:
        self._left = len(thunks)
        self._done: SimpleQueue[tuple[int, Outcome[T]]] = SimpleQueue()
        self._group = CancelGroup()
        context = copy_context()
        context.run(CANCEL.set, self._group)
        self._job = job = context.run(_FanOut, thunks, False)
        report = self._done.put

        def helper() -> None:
            try:
                job.work(lambda index, outcome: report((index, outcome)))
            except KeyboardInterrupt as error:  # raised by user code itself: threads get no Ctrl-C
                report((-1, Outcome(error=error)))

        for _ in range(min(limit or len(thunks), len(thunks))):
            spawn(helper)

    def __next__(self) -> tuple[int, Outcome[T]]:
        if not self._left:
            raise StopIteration
        try:
            item = self._done.get()
        except BaseException:
            self.close()
            raise
        self._left -= 1
        return item

    def close(self) -> None:
        """Start nothing more; cancel async work under way. Plain work under way is left to end unseen."""
        self._left = 0
        self._job.stopped = True
        self._group.cancel()

    def __del__(self) -> None:
        if self._left:
            self.close()
