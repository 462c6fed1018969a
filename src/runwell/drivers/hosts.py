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

from runwell.drivers.colour import told_apart
from runwell.drivers.driven import Driven, HandedOver, cancelled, passed
from runwell.effects import Flow, Outcome

__all__ = ["Host", "Hosted", "run_lone"]

T = TypeVar("T")

NAME = "runwell"
"""Of the tasks that go on with nodes, tools and models: one for all, since each name of its own takes memory."""


class Hosted:
    """A driver that keeps hosts standing by: several, since code in place may itself run code in place."""

    __slots__ = ("idle",)

    def __init__(self) -> None:
        self.idle: list[Host] | None = None

    def close(self) -> None:
        """End those that stand by."""
        while self.idle:
            self.idle.pop().wake()


class Host:
    """A task that stands by. `context` is that of its task, and of the first code that runs in its name."""

    __slots__ = ("context", "gate", "over", "task", "work")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.context: Context | None = copy_context()
        self.gate: asyncio.Future[None] | None = None
        self.over = False
        self.work: Driven[Any] | None = None
        standing_by = _stand_by(self)
        # Taken to where a cancellation reaches it: a task that is cancelled before its first step never takes one.
        # So it may be no coroutine that a task factory would await; it is a task of ours and not of the user's.
        standing_by.send(None)
        self.task: asyncio.Task[Outcome[Any]] = asyncio.Task(standing_by, loop=loop, name=NAME, context=self.context)

    @property
    def clean(self) -> bool:
        """Whether other code may run as this task: nobody has cancelled it."""
        return not (self.over or self.task.done() or self.task.cancelling())

    def wake(self) -> None:
        """Go on with the work; with none, end."""
        self.over = True
        if self.gate is not None and not self.gate.done():
            with suppress(RuntimeError):  # the loop is closed: nothing runs there
                self.gate.set_result(None)


async def _stand_by(host: Host) -> Outcome[Any]:
    was_cancelled = False
    try:
        await _once()
        if not host.over:
            host.gate = asyncio.get_running_loop().create_future()
            await host.gate
    except asyncio.CancelledError:
        if host.work is None:
            raise
        was_cancelled = True
    work = host.work
    del host  # it is not needed while the work waits
    if work is None:
        return Outcome()
    if was_cancelled:
        work.cancel()
    try:
        return Outcome(await work)
    except BaseException as error:
        return Outcome(error=told_apart(error))


@coroutine_function
def _once() -> Generator[None, None, None]:
    """Give way once."""
    yield


def run_lone(driver: Hosted, flow: Flow[T]) -> list[Outcome[T]] | HandedOver | Coroutine[Any, Any, Any]:
    """Run engine code as a task of its own, under a copy of the context: gives its outcome, alone in a list, or if it
    waits what to await for that."""
    here = asyncio.current_task()
    assert here is not None
    loop, cancels = here.get_loop(), here.cancelling()
    host = driver.idle.pop() if driver.idle else Host(loop)
    fresh, host.context = host.context, None
    work = Driven(driver, flow, fresh if fresh is not None else copy_context())
    outcome: Outcome[T] | None = None
    _leave_task(loop, here)
    _enter_task(loop, host.task)
    try:
        work.begun(work.send(None))
    except StopIteration as stop:
        outcome = Outcome(stop.value)
    except BaseException as error:
        outcome = Outcome(error=told_apart(error))
    finally:
        _leave_task(loop, host.task)
        _enter_task(loop, here)
    if outcome is None:
        if fresh is not None:
            work.context = None  # it is that of the task
        host.work = work
        host.wake()
        return HandedOver(host.task, here, cancels)
    if host.clean:
        if driver.idle is None:
            driver.idle = []
        driver.idle.append(host)
    else:  # it cancelled its own task and did not wait: that takes effect as it ends
        host.wake()
        outcome = Outcome(error=asyncio.CancelledError())
    return [passed(outcome)] if here.cancelling() <= cancels else cancelled()
