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
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from types import CodeType, CoroutineType, FrameType
from typing import Any

from runwell.drivers.colour import told_apart
from runwell.drivers.driven import Driven, HandedOver, cancelled, passed
from runwell.effects import Outcome, RunTask

__all__ = ["Host", "Hosted", "run_lone"]

NAME = "runwell"
"""Of the tasks that go on with nodes, tools and models: one for all, since each name of its own takes memory."""


class Hosted:
    """A driver that keeps hosts standing by: several, since code in place may itself run code in place."""

    __slots__ = ("idle", "loop")

    def __init__(self) -> None:
        self.idle: list[Host] | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        """Where they stand by. asyncio asks the system for the process's number each time that it is asked for it."""

    def close(self) -> None:
        """End those that stand by."""
        while self.idle:
            self.idle.pop().wake()


class Host(Driven[Any]):
    """A task that stands by, and then the code that it goes on with: what asyncio takes for the task's coroutine.

    `context` is that of its task, and of the first code that runs in its name.
    """

    __slots__ = ("gate", "over", "task")
    cr_running = False
    cr_suspended = True
    """As anyio asks, before it cancels a task: one that had not begun would never take it."""

    def __init__(self, driver: Hosted, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(driver, None, copy_context())
        self.gate: asyncio.Future[None] | None = None
        self.over = False
        # not by `loop.create_task`: it is a task of ours and not of the user's, whose factory may await its coroutine
        self.task: Any = asyncio.Task(self, loop=loop, name=NAME, context=self.context)

    def wake(self) -> None:
        """Go on with what has begun; with nothing, end."""
        self.over = True
        if self.gate is not None and not self.gate.done():
            with suppress(RuntimeError):  # the loop is closed: nothing runs there
                self.gate.set_result(None)

    # -- as the task's coroutine

    def send(self, value: Any) -> Any:
        if not self.over:
            self.gate = asyncio.get_running_loop().create_future()
            return next(self.gate.__await__())
        if self.flow is None:
            raise StopIteration(Outcome())
        return self._go_on(super().send, value)

    def throw(self, error: Any, value: Any = None, trace: Any = None) -> Any:
        if not self.over or self.flow is None:
            raise error
        if self.waits_already:
            self.cancel()
            return self.send(None)
        return self._go_on(super().throw, error)

    # -- as asyncio looks at it, to print the task and its stack: it is the code that waits in it

    @property
    def _waiting(self) -> Any:
        return self.waits if type(self.waits) is CoroutineType else self.flow

    @property
    def __name__(self) -> str:
        return "standing by" if self.flow is None else str(self._waiting.__qualname__)

    @property
    def cr_code(self) -> CodeType | None:
        return getattr(self._waiting, "cr_code", None)

    @property
    def cr_frame(self) -> FrameType | None:
        return getattr(self._waiting, "cr_frame", None)

    @property
    def cr_await(self) -> Any:
        return getattr(self._waiting, "cr_await", None)

    def _go_on(self, step: Callable[[Any], Any], value: Any) -> Any:
        try:
            return step(value)
        except StopIteration as stop:
            outcome: Outcome[Any] = Outcome(stop.value)
        except BaseException as error:
            outcome = Outcome(error=told_apart(error))
        raise StopIteration(outcome)


def run_lone(driver: Hosted, effect: RunTask[Any], *, listed: bool = False) -> Any:
    """Run engine code as a task of its own, under a copy of the context: gives what it gives and raises what it raises,
    or if `listed` gives its outcome, alone in a list; if it waits, what to await for that."""
    loop = driver.loop
    if loop is None:
        loop = driver.loop = asyncio.get_running_loop()
    here: Any = asyncio.current_task(loop)
    cancels = here.cancelling()
    fresh = not driver.idle
    if fresh:
        host = Host(driver, loop)
    else:
        host = driver.idle.pop()  # type: ignore[union-attr]
    task = host.task
    context: Any = host.context if fresh else copy_context()
    host.flow = flow = effect.begin(effect.arg)
    failed: BaseException | None = None
    _leave_task(loop, here)
    _enter_task(loop, task)
    try:
        waits_for = context.run(host.go, flow.send, None)
    except StopIteration as stop:
        value = stop.value
    except BaseException as error:
        failed = told_apart(error)
    else:
        host.context = None if fresh else context  # None: that of the task
        host.begun(waits_for)
        host.wake()
        host.task = None  # which is not to be kept alive by itself
        return HandedOver(task, cancels, listed)
    finally:
        _leave_task(loop, task)
        _enter_task(loop, here)
    host.flow = None
    if host.over or task.cancelling():
        host.wake()  # it cancelled its own task and did not wait: that takes effect as it ends
        failed = asyncio.CancelledError()
    elif driver.idle is None:
        driver.idle = [host]
    else:
        driver.idle.append(host)
    if here.cancelling() > cancels:
        return cancelled()
    if failed is None:
        return [Outcome(value)] if listed else value
    outcome: Outcome[Any] = passed(Outcome(error=failed))
    return [outcome] if listed else outcome.unwrap()
