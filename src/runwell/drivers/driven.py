"""Engine code on its way under a running loop, and what it waits for, in as few objects as that takes.

A run waits most of its time, so what it holds meanwhile is what a server's memory is full of. A coroutine that only
awaits another one keeps a frame for that, 250 to 400 bytes; the objects here keep the few values that are needed, and
stand for a coroutine where one is awaited: `send` goes on with it, `throw` raises in it where it waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from types import CoroutineType
from typing import Any, TypeVar

from runwell.drivers.colour import told_apart
from runwell.drivers.sync import failure, rethrown
from runwell.effects import Flow, Outcome

__all__ = ["Driven", "HandedOver", "passed"]

T = TypeVar("T")

_NOTHING: Any = object()
_CANCELLED: Any = object()


class Driven(Generator[Any, Any, T]):
    """Engine code, driven by `driver` where it is awaited; gives what that code gives.

    Each of its steps runs under `context` (None: under the one that is current then), and nothing stays set in between.
    """

    __slots__ = ("context", "driver", "first", "flow", "waits")

    def __init__(self, driver: Any, flow: Flow[T] | None, context: Context | None = None) -> None:
        self.driver = driver
        self.flow: Any = flow
        self.context = context
        self.waits: Any = None
        """What it waits for: a coroutine, or a `HandedOver`. The effect that asked for it is not kept meanwhile."""
        self.first: Any = _NOTHING

    def __await__(self) -> Generator[Any, Any, T]:
        return self

    def send(self, value: Any) -> Any:
        first = self.first
        if first is not _NOTHING:
            self.first = _NOTHING
            return first if first is not _CANCELLED else Driven.throw(self, asyncio.CancelledError())
        waits = self.waits
        step = self.flow.send if waits is None else waits.send
        return self.go(step, value) if self.context is None else self.context.run(self.go, step, value)

    def throw(self, error: Any, value: Any = None, trace: Any = None) -> Any:
        if value is not None:  # as Python may still throw: type, value, traceback
            error = value
        self.first = _NOTHING
        step = self.flow.throw if self.waits is None else self.waits.throw
        return self.go(step, error) if self.context is None else self.context.run(self.go, step, error)

    def go(self, step: Callable[[Any], Any], value: Any) -> Any:
        """Go on by `step(value)`, to what it waits for next: gives that. Raises when it has come to its end."""
        driver, flow = self.driver, self.flow
        table, send = driver.table, flow.send
        while True:
            if self.waits is not None:
                try:
                    return step(value)
                except StopIteration as stop:
                    step, value = send, stop.value
                except BaseException as error:
                    step, value = flow.throw, rethrown(told_apart(error))
                self.waits = None
            effect = step(value)
            while True:
                try:
                    value = table[type(effect)](driver, effect)
                except BaseException as error:
                    value = failure(told_apart(error), effect, flow, table)
                else:
                    if type(value) is CoroutineType or type(value) is HandedOver:
                        break
                    effect = send(value)
                    continue
                effect = flow.throw(value)
            self.waits, step, value = value, value.send, None

    # -- going on in another task

    def begun(self, waits_for: Any) -> None:
        """Who awaits it from now on is given first what it waits for already."""
        self.first = waits_for

    @property
    def waits_already(self) -> bool:
        """Whether it has begun, and who awaits it has not been given yet what it waits for."""
        return self.first is not _NOTHING

    def cancel(self) -> None:
        """After `begun`: who awaits it was cancelled before. What it waits for is, as asyncio would."""
        if self.first is None or not self.first.cancel():
            self.first = _CANCELLED


class HandedOver:
    """The end of a lone task that waits, as who began it awaits it: gives what it gives or raises what it raised; if
    `listed` gives its outcome, alone in a list.

    Cancelling who awaits it cancels it, and waits for its clean-up.
    """

    __slots__ = ("cancels", "ended", "listed")

    def __init__(self, task: asyncio.Task[Outcome[Any]], cancels: int, listed: bool) -> None:
        self.ended: Any = task.__await__()
        self.listed = listed
        self.cancels = cancels
        """How often who awaits it had been cancelled before."""

    def send(self, value: Any) -> Any:
        return self._go(self.ended.send, value)

    def throw(self, error: BaseException) -> Any:
        return self._go(self.ended.throw, error)

    def _go(self, step: Callable[[Any], Any], value: Any) -> Any:
        try:
            return step(value)
        except StopIteration as stop:
            outcome = stop.value
        here = asyncio.current_task()
        assert here is not None
        if here.cancelling() <= self.cancels:
            outcome = passed(outcome)
            raise StopIteration([outcome] if self.listed else outcome.unwrap())
        self.ended = cancelled()
        return self.ended.send(None)


def passed(outcome: Outcome[T]) -> Outcome[T]:
    """The outcome, but for what is about the program and not about the task."""
    if isinstance(outcome.error, KeyboardInterrupt):
        raise outcome.error
    return outcome


async def cancelled() -> Any:
    """For a task that was cancelled while code in it made something else of that."""
    await asyncio.sleep(0)  # where it is delivered, if it came while the task did not wait
    raise asyncio.CancelledError
