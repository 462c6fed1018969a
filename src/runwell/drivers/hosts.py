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
from collections.abc import Coroutine, Generator
from contextlib import suppress
from contextvars import Context, copy_context
from types import coroutine as coroutine_function
from typing import Any, TypeVar

from runwell.effects import Outcome

__all__ = ["Hosts", "within"]

T = TypeVar("T")

Work = Coroutine[Any, Any, T]


@coroutine_function
def within(context: Context, work: Work[T], *, waits_for: Any = ..., cancelled: bool = False) -> Generator[Any, Any, T]:
    """Await a coroutine in this task under another context: each of its steps runs there, and nothing stays set in
    between.

    `waits_for` is what it gave when it was begun elsewhere; `cancelled` says that it has been cancelled since.
    """
    run = context.run
    step: Any = work.send
    value: Any = None
    if cancelled and (waits_for is None or not waits_for.cancel()):
        value, step, waits_for = asyncio.CancelledError(), work.throw, ...
    while True:
        if waits_for is ...:
            try:
                waits_for = run(step, value)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
        try:
            value = yield waits_for
            step = work.send
        except BaseException as error:
            value, step = error, work.throw
        waits_for = ...


class _Host:
    """A task that stands by, and what it is to go on with."""

    __slots__ = ("begun", "gate", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.gate: asyncio.Future[None] = loop.create_future()
        self.begun: tuple[Context, Work[Any], Any] | None = None
        self.task: asyncio.Task[Any] = loop.create_task(self._stand_by())

    async def _stand_by(self) -> Any:
        cancelled = False
        try:
            await self.gate
        except asyncio.CancelledError:
            if self.begun is None:
                raise
            cancelled = True
        if self.begun is None:
            return None
        context, work, waits_for = self.begun
        self.begun = None
        return await within(context, work, waits_for=waits_for, cancelled=cancelled)

    @property
    def clean(self) -> bool:
        """Whether other code may run as this task: nobody has cancelled it."""
        return not (self.gate.done() or self.task.done() or self.task.cancelling())

    def wake(self) -> None:
        """Go on with what has begun; with nothing, end."""
        if not self.gate.done():
            with suppress(RuntimeError):  # the loop is closed: nothing runs there
                self.gate.set_result(None)


class Hosts:
    """The hosts of one run. Code in place may itself run code in place, so there may be several."""

    __slots__ = ("_deepest", "_depth", "_idle")

    def __init__(self) -> None:
        self._idle: list[_Host] = []
        self._depth = self._deepest = 0

    async def run(self, work: Work[Outcome[T]]) -> Outcome[T]:
        """Run it under a copy of the context. It makes an outcome of whatever happens; cancelling us cancels it, and
        we wait for its clean-up."""
        here = asyncio.current_task()
        assert here is not None
        loop, cancels = here.get_loop(), here.cancelling()
        try:
            host = await self._take(loop)
        except BaseException:
            work.close()
            raise
        context = copy_context()
        waits_for: Any = ...
        outcome: Outcome[T] = Outcome()
        self._depth += 1
        _leave_task(loop, here)
        _enter_task(loop, host.task)
        try:
            waits_for = context.run(work.send, None)
        except StopIteration as stop:
            outcome = stop.value
        finally:
            _leave_task(loop, host.task)
            _enter_task(loop, here)
            self._depth -= 1
        if waits_for is not ...:
            host.begun = (context, work, waits_for)
            host.wake()
            outcome = await host.task
        elif host.clean:
            self._idle.append(host)
        else:  # it cancelled its own task, which takes effect as it ends
            host.wake()
            outcome = Outcome(error=asyncio.CancelledError())
        if here.cancelling() > cancels:  # a cancellation that is ours
            await asyncio.sleep(0)  # where it is delivered, if it came while nothing waited
            raise asyncio.CancelledError
        if isinstance(outcome.error, KeyboardInterrupt):
            raise outcome.error
        return outcome

    async def _take(self, loop: asyncio.AbstractEventLoop) -> _Host:
        """A host that stands by.

        Before a new one does, the loop has to go round, which makes code that runs in place wait. So the outermost code
        makes those for all that may run in place inside it, as many as there ever were.
        """
        idle, depth = self._idle, self._depth
        if depth > self._deepest:
            self._deepest = depth
        wanted = 1 if depth else self._deepest + 1
        if len(idle) >= wanted:
            return idle.pop()
        hosts = [_Host(loop) for _ in range(wanted - len(idle))]
        try:
            await asyncio.sleep(0)
        except BaseException:
            for host in hosts:
                host.wake()
            raise
        idle += hosts
        return idle.pop()

    def close(self) -> None:
        """End those that stand by."""
        while self._idle:
            self._idle.pop().wake()
