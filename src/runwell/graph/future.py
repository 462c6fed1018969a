"""What calling a task gives: its result to come, for plain and for `async` code alike."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextvars import Context
from typing import Any, Generic, TypeVar

from runwell.drivers.colour import told_apart
from runwell.drivers.sync import run_sync
from runwell.drivers.threads import spawn
from runwell.effects import Flow, Outcome
from runwell.errors import RunCancelled, RunningLoop

__all__ = ["TaskFuture", "running_loop"]

R = TypeVar("R")


def running_loop() -> Any:
    """The event loop that runs in this thread, or None; asyncio is not loaded for the question."""
    aio = sys.modules.get("asyncio")
    return aio._get_running_loop() if aio is not None else None


class TaskFuture(Future[R], Generic[R]):
    """A task that has been called. `.result()` waits for it in plain code, `await` in `async` code; either as often
    as you like, and from any thread.

    It is a `concurrent.futures.Future`, so `as_completed` and `wait` take it, and awaitable, so `asyncio.gather` does.
    Called from an event loop the task belongs to it: there `.result()` before the end raises `RunningLoop`, since it
    would wait for itself. `cancel()` stops an `async` task, and a plain one that has not begun.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.loop: Any = running_loop()
        self.seen = False
        """Somebody has asked for the result: how the task ended is theirs to handle."""
        self.on_end: Callable[[TaskFuture[R]], None] | None = None
        self._task: Any = None

    # -- asking

    def result(self, timeout: float | None = None) -> R:
        """What the task gave, waiting for it at most `timeout` seconds; raises what it raised."""
        self._may_wait()
        self.seen = True
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the task raised, waiting for its end; None when it gave a result."""
        self._may_wait()
        self.seen = True
        return super().exception(timeout)

    def __await__(self) -> Generator[Any, None, R]:
        from asyncio import wrap_future

        self.seen = True
        if self.done():
            return super().result()
        return (yield from wrap_future(self).__await__())

    def problem(self) -> BaseException | None:
        """What it raised, once it has ended; None too when it was cancelled. Does not count as asking."""
        return None if self.cancelled() else super().exception(0)

    def _may_wait(self) -> None:
        if self.loop is not None and not self.done() and running_loop() is self.loop:
            raise RunningLoop(
                f"The result of task {self.name!r} was asked for on the event loop that it runs on.",
                hint=f"In async code await it: `await {self.name}(...)`.",
            )

    def cancel(self) -> bool:
        """Stop it, if it is `async` or has not begun; whether it is stopped."""
        if self._task is not None:
            stopped = super().cancel()
            if stopped:
                self.loop.call_soon_threadsafe(self._task.cancel)
            return stopped
        stopped = super().cancel()
        if stopped:
            self._end(None)
        return stopped

    def __repr__(self) -> str:
        return f"<TaskFuture {self.name!r}: {self._state.lower()}>"

    # -- running

    def begin(self, flow: Callable[[], Flow[R]], context: Context) -> None:
        """Run it: on the loop it was called on, else in a thread. May be called from any thread."""
        loop = self.loop
        if loop is None:
            spawn(lambda: self._in_thread(flow, context))
        elif running_loop() is loop:
            self._on_loop(flow, context)
        else:
            loop.call_soon_threadsafe(self._on_loop, flow, context)

    def _in_thread(self, flow: Callable[[], Flow[R]], context: Context) -> None:
        if not self.set_running_or_notify_cancel():
            return
        try:
            outcome: Outcome[R] = Outcome(context.run(run_sync, flow()))
        except BaseException as error:
            outcome = Outcome(error=told_apart(error))
        self._end(outcome)

    def _on_loop(self, flow: Callable[[], Flow[R]], context: Context) -> None:
        from runwell.drivers.aio import run_async
        from runwell.drivers.portal import attempt

        if self.cancelled():
            return
        self._task = self.loop.create_task(attempt(lambda: run_async(flow())), context=context)
        self._task.add_done_callback(
            lambda task: self._end(Outcome(error=RunCancelled()) if task.cancelled() else task.result())
        )

    def _end(self, outcome: Outcome[R] | None) -> None:
        if outcome is not None and not self.cancelled():
            if outcome.error is None:
                self.set_result(outcome.value)
            else:
                self.set_exception(outcome.error)
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end(self)
