"""Running one task in place, as a task of its own, which takes it over only if it waits.

User code must run as an asyncio task of its own: task groups, timeouts and cancel scopes hold on to the task they are
entered in, and one that fails leaves its mark there. But a task costs two rounds of the event loop, and most code
never waits. So a *host*, a task that stands by, lends its name to code that is run in place; if the code comes to its
end, the host stands by for the next, and if it waits, the host goes on with it from there. (Python 3.12 calls that an
eager task.)
"""

from __future__ import annotations

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import Context, copy_context
from types import coroutine as coroutine_function
from typing import Any, TypeVar

from runwell.drivers.colour import told_apart
from runwell.effects import Outcome

__all__ = ["Hosts", "within"]

T = TypeVar("T")

Work = Coroutine[Any, Any, T]


@coroutine_function
def within(context: Context, work: Work[T], at_end: Callable[[], None]) -> Generator[Any, Any, T]:
    """Await a coroutine in this task under another context: each of its steps runs there, and nothing stays set in
    between. `at_end` is called once it has ended."""
    run, step, value = context.run, work.send, None
    try:
        while True:
            try:
                waits_for = run(step, value)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            try:
                value = yield waits_for
                step = work.send
            except BaseException as error:
                value, step = error, work.throw
    finally:
        at_end()


class _Host:
    """A task that stands by, and the work that it is to go on with: its context, itself, and what it waits for."""

    __slots__ = ("begun", "gate", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.gate: asyncio.Future[None] = loop.create_future()
        self.begun: tuple[Context, Work[Any], Any] | None = None
        self.task: asyncio.Task[Outcome[Any]] = loop.create_task(_stand_by(self))

    @property
    def clean(self) -> bool:
        """Whether other code may run as this task: nobody has cancelled it."""
        return not (self.gate.done() or self.task.done() or self.task.cancelling())

    def wake(self) -> None:
        """Go on with what has begun; with nothing, end."""
        if not self.gate.done():
            with suppress(RuntimeError):  # the loop is closed: nothing runs there
                self.gate.set_result(None)


async def _stand_by(host: _Host) -> Outcome[Any]:
    cancelled = False
    try:
        await host.gate
    except asyncio.CancelledError:
        if host.begun is None:
            raise
        cancelled = True
    if host.begun is None:
        return Outcome()
    begun, host.begun = host.begun, None
    return await _go_on(*begun, cancelled)


@coroutine_function
def _go_on(context: Context, work: Work[T], waits_for: Any, cancelled: bool) -> Generator[Any, Any, Outcome[T]]:
    """Await work that was begun elsewhere. If it has been `cancelled` since, what it waits for is, as asyncio would."""
    step: Any
    value: Any
    if cancelled and (waits_for is None or not waits_for.cancel()):
        step, value = work.throw, asyncio.CancelledError()
    else:
        step, value = None, waits_for
    while True:
        if step is not None:
            try:
                value = context.run(step, value)
            except StopIteration as stop:
                return Outcome(stop.value)
            except BaseException as error:
                return Outcome(error=told_apart(error))
        try:
            value = yield value
            step = work.send
        except BaseException as error:
            step, value = work.throw, error


class Hosts:
    """The hosts of one run. Code in place may itself run code in place, so there may be several."""

    __slots__ = ("_deepest", "_depth", "_idle")

    def __init__(self) -> None:
        self._idle: list[_Host] = []
        self._depth = self._deepest = 0

    def run(self, work: Work[T]) -> list[Outcome[T]] | Work[list[Outcome[T]]]:
        """Run it under a copy of the context: gives its outcome, alone in a list, or if it waits what to await for
        that. Cancelling who awaits it cancels it, and waits for its clean-up."""
        depth = self._depth
        if depth > self._deepest:
            self._deepest = depth
        if len(self._idle) <= (0 if depth else self._deepest):
            return self._run_later(work)
        host, here = self._idle.pop(), _this_task()
        cancels = here.cancelling()
        outcome = self._begin(host, work, here)
        if outcome is None:
            return _handed_over(host.task, here, cancels)
        return [_passed(outcome)] if here.cancelling() <= cancels else _cancelled()

    async def _run_later(self, work: Work[T]) -> list[Outcome[T]]:
        """Before a new host stands by, the loop has to go round, which makes code that runs in place wait. So the
        outermost code makes those for all that may run in place inside it, as many as there ever were."""
        here = _this_task()
        cancels = here.cancelling()
        hosts = [_Host(here.get_loop()) for _ in range(1 if self._depth else self._deepest + 1 - len(self._idle))]
        try:
            await asyncio.sleep(0)
        except BaseException:
            work.close()
            for host in hosts:
                host.wake()
            raise
        host = hosts.pop()
        self._idle += hosts
        outcome = self._begin(host, work, here)
        if outcome is None:
            outcome = await host.task
        return [_passed(outcome)] if here.cancelling() <= cancels else await _cancelled()

    def _begin(self, host: _Host, work: Work[T], here: asyncio.Task[Any]) -> Outcome[T] | None:
        """Run it as `host`; None once it waits and `host` goes on with it."""
        loop, context = here.get_loop(), copy_context()
        self._depth += 1
        _leave_task(loop, here)
        _enter_task(loop, host.task)
        outcome: Outcome[T] | None = None
        try:
            host.begun = (context, work, context.run(work.send, None))
        except StopIteration as stop:
            outcome = Outcome(stop.value)
        except BaseException as error:
            outcome = Outcome(error=told_apart(error))
        finally:
            _leave_task(loop, host.task)
            _enter_task(loop, here)
            self._depth -= 1
        if outcome is not None and host.clean:
            self._idle.append(host)
            return outcome
        host.wake()
        if outcome is not None:  # it cancelled its own task and did not wait: that takes effect as it ends
            return Outcome(error=asyncio.CancelledError())
        return None

    def close(self) -> None:
        """End those that stand by."""
        while self._idle:
            self._idle.pop().wake()


def _this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


async def _handed_over(task: asyncio.Task[Outcome[T]], here: asyncio.Task[Any], cancels: int) -> list[Outcome[T]]:
    outcome = await task
    return [_passed(outcome)] if here.cancelling() <= cancels else await _cancelled()


def _passed(outcome: Outcome[T]) -> Outcome[T]:
    if isinstance(outcome.error, KeyboardInterrupt):
        raise outcome.error
    return outcome


async def _cancelled() -> Any:
    """For a task that was cancelled while code in it made something else of that."""
    await asyncio.sleep(0)  # where it is delivered, if it came while the task did not wait
    raise asyncio.CancelledError
