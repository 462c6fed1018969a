"""Worker threads of our own, and running plain functions side by side on them.

The threads are daemons: one that is stuck in a user's blocking call never keeps the program from exiting. Their number
is not bounded here, since callers bound what they start, and a bound below that can deadlock nested calls.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from runwell.drivers.cancel import CancelGroup, run_context
from runwell.drivers.colour import told_apart
from runwell.effects import Outcome
from runwell.errors import RunCancelled

__all__ = ["completed", "fan_out", "spawn"]

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


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_idle.clear)  # a forked child has none of the parent's threads


class _FanOut:
    """Threads pull tasks from one iterator; nobody waits for a place in a pool, so nesting cannot deadlock."""

    def __init__(
        self,
        thunks: Sequence[Callable[[], Any]],
        stop_on_error: bool,
        call: Callable[[Callable[[], Any]], Any] | None = None,
    ) -> None:
        self.outcomes: list[Outcome[Any] | None] = [None] * len(thunks)
        self.call = call
        self.pull = iter(enumerate(thunks)).__next__
        self.stop_on_error = stop_on_error
        self.stopped = False
        self.lock = threading.Lock()
        self.wanted = self.hired = 0
        self.group = CancelGroup()
        self.context = run_context(self.group)

    def work(self, report: Callable[[int, Outcome[Any]], None] | None = None) -> None:
        pull, copy, call, outcomes = self.pull, self.context.copy, self.call, self.outcomes
        while not self.stopped:
            try:
                index, thunk = pull()
            except StopIteration:
                self.stopped = True
                return
            outcomes[index] = outcome = copy().run(_attempt, thunk, call)
            if report is not None:
                report(index, outcome)
            if outcome.error is not None and self.stop_on_error and isinstance(outcome.error, Exception):
                self.stop()

    def hire(self, helper: Callable[[], None], most: int) -> None:
        """Start up to `most` of the helper threads that are still wanted; fewer when nothing is left to take.

        Each helper hires two more before it begins. So short work is over before many are there, and long work has all
        of them soon.
        """
        for _ in range(most):
            with self.lock:
                if self.stopped or self.hired >= self.wanted:
                    return
                self.hired += 1
            try:
                spawn(helper)
            except RuntimeError:  # no more threads to be had: those there are do the work
                with self.lock:
                    self.hired -= 1
                    self.wanted = 0
                return

    def stop(self) -> None:
        self.stopped = True
        self.group.cancel()


def _attempt(thunk: Callable[[], T], call: Callable[[Callable[[], T]], T] | None) -> Outcome[T]:
    try:
        return Outcome(thunk() if call is None else call(thunk))
    except KeyboardInterrupt:
        raise  # a person's Ctrl-C is about the program, not about this task
    except BaseException as error:
        return Outcome(error=told_apart(error))


def fan_out(
    thunks: Sequence[Callable[[], Any]],
    limit: int | None = None,
    *,
    stop_on_error: bool = False,
    call: Callable[[Callable[[], Any]], T] | None = None,
) -> list[Outcome[T]]:
    """Run plain functions side by side, at most `limit` at once; their outcomes in the order given. With `call` each
    one's result is what `call(function)` gives.

    The calling thread works too. Each runs under its own copy of the caller's context. With `stop_on_error` what has
    not started when one fails with an Exception is not started, async work under way is cancelled, and both have the
    outcome `RunCancelled`. Ctrl-C cancels async work under way, lets it clean up, and goes on to the caller.
    """
    job = _FanOut(thunks, stop_on_error, call)
    ended: SimpleQueue[BaseException | None] = SimpleQueue()

    def helper() -> None:
        try:
            job.hire(helper, 2)
            job.work()
        except BaseException as error:
            ended.put(error)
        else:
            ended.put(None)

    job.wanted = min(limit or len(thunks), len(thunks)) - 1
    try:
        job.hire(helper, 2)
        job.work()
        seen = 0
        while seen < job.hired:  # who is not seen yet may still hire
            error = ended.get()
            seen += 1
            if error is not None:
                raise error
    except BaseException:
        job.stop()
        job.group.settle()
        raise
    finally:
        job.group.detach()
    return [outcome if outcome is not None else Outcome(error=RunCancelled()) for outcome in job.outcomes]


class completed(Iterator[tuple[int, Outcome[T]]]):  # noqa: N801 - reads as the function it is used as
    """Iterate over (index, outcome) of plain functions run side by side, as each ends.

    Closing it, or dropping it, starts nothing more and cancels async work under way.
    """

    def __init__(self, thunks: Sequence[Callable[[], T]], limit: int | None = None) -> None:
        self._left = len(thunks)
        self._done: SimpleQueue[tuple[int, Outcome[T]]] = SimpleQueue()
        self._job = job = _FanOut(thunks, False)
        report = self._done.put

        def helper() -> None:
            try:
                job.work(lambda index, outcome: report((index, outcome)))
            except KeyboardInterrupt as error:  # raised by user code itself: threads get no Ctrl-C
                report((-1, Outcome(error=error)))

        job.wanted = most = min(limit or len(thunks), len(thunks))
        job.hire(helper, most)
        if not job.hired and thunks:
            spawn(helper)  # not one thread to be had: say so

    def __next__(self) -> tuple[int, Outcome[T]]:
        if not self._left:
            raise StopIteration
        try:
            index, outcome = self._done.get()
            if index < 0:
                outcome.unwrap()
        except BaseException:
            self.close()
            self._job.group.settle()
            raise
        self._left -= 1
        if not self._left:
            self._job.group.detach()
        return index, outcome

    def close(self) -> None:
        """Start nothing more; cancel async work under way. Plain work under way is left to end unseen."""
        self._left = 0
        self._job.stop()
        self._job.group.detach()

    def __del__(self) -> None:
        if getattr(self, "_left", 0) and hasattr(self, "_job"):
            self.close()
