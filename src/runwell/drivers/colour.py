"""Telling plain from `async` callables, once."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import perf_counter
from types import CoroutineType
from typing import TYPE_CHECKING, Any, TypeVar

from runwell.effects import Callee
from runwell.errors import GraphInterrupt, NodeError, NodeTimeoutError, Signal

if TYPE_CHECKING:
    from runwell.drivers.deadline import Deadline

__all__ = [
    "RETOLD",
    "callee",
    "cheap",
    "in_place",
    "in_turn",
    "is_async",
    "is_coroutine",
    "stopped",
    "timed_out",
    "told_apart",
]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

SLOW_S = 0.05
"""Plain code that runs in place on an event loop is warned about past this long."""


def is_async(function: Any) -> bool:
    """Whether calling it gives a coroutine: an `async def`, a partial of one, or an object whose `__call__` is one."""
    while isinstance(function, partial):
        function = function.func
    if inspect.iscoroutinefunction(function):
        return True
    if inspect.isroutine(function) or inspect.isclass(function):
        return False
    return inspect.iscoroutinefunction(getattr(type(function), "__call__", None))  # noqa: B004


def cheap(function: F) -> F:
    """Mark a plain function as one that never blocks: an event loop runs it in place, with no worker thread."""
    function.__runwell_cheap__ = True  # type: ignore[attr-defined]
    return function


def callee(function: Any, *, cheap: bool = False) -> Callee[Any]:
    """The callable in the form engine code calls.

    `function` may be plain or `async`, a method, a partial, an object with `__call__`, or a runnable (`invoke` and
    `ainvoke`). `cheap` says that a plain one never blocks.
    """
    if type(function) is Callee:
        return function
    invoke, ainvoke = getattr(function, "invoke", None), getattr(function, "ainvoke", None)
    if invoke is not None and ainvoke is not None:
        return Callee(invoke, ainvoke)
    if is_async(function):
        return Callee(None, function)
    inner = function.func if isinstance(function, partial) else function
    return Callee(function, None, cheap=cheap or getattr(inner, "__runwell_cheap__", False))


def is_coroutine(value: Any) -> bool:
    """Whether a plain function gave back a coroutine to await (`lambda state: node(state)`)."""
    return type(value) is CoroutineType


def stopped(error: BaseException) -> NodeError:
    """What stands for a StopIteration out of user code: no coroutine, generator or future can carry the original."""
    return NodeError(
        f"User code raised {error!r}, which Python would take for the end of an iteration.",
        hint="Catch it where it is raised, or give `next()` a default.",
    )


RETOLD = (StopIteration, StopAsyncIteration, BaseExceptionGroup)
"""What plain user code may raise that may not go on as it is; see `told_apart`."""


def told_apart(error: BaseException) -> BaseException:
    """What an exception out of user code goes on as, from the first frame of ours around it.

    The end of an iteration becomes a `NodeError`. From a group that holds signals (a task group whose children were
    interrupted, or failed) the errors go on if there are any; else the interrupt. Anything else is given back as it is.
    """
    if isinstance(error, (StopIteration, StopAsyncIteration)):
        told: BaseException = stopped(error)
    elif isinstance(error, BaseExceptionGroup):
        signals, errors = error.split(Signal)
        if signals is None:
            return error
        told = errors if errors is not None else _one_of(list(_leaves(signals)))
    elif type(error) is RuntimeError and isinstance(error.__cause__, StopIteration):
        if not str(error).startswith("coroutine raised"):
            return error
        told = stopped(error.__cause__)  # what Python makes of one that a coroutine raised
    else:
        return error
    told.__cause__ = error
    return told


def in_place(function: Callable[..., T], *args: Any) -> T:
    """Call plain user code that never waits, whatever drives us. In a thread that runs an event loop, code that takes
    long all the same is warned about."""
    start = perf_counter()
    try:
        return function(*args)
    except RETOLD as error:
        if (told := told_apart(error)) is error:
            raise
        raise told from error
    finally:
        taken = perf_counter() - start
        if taken > SLOW_S:
            _slow(function, taken)


def in_turn(functions: Sequence[Callable[..., T] | None], at: int, one: Any, other: Any) -> tuple[int, T | None]:
    """`in_place`, with two arguments, for those from `at` on, up to the first None among them, or the first that gives
    something: how far it came, and what that gave."""
    start = perf_counter()
    try:
        for place in range(at, len(functions)):
            function = functions[place]
            if function is None:
                return place, None
            given = function(one, other)
            if (now := perf_counter()) - start > SLOW_S:
                _slow(function, now - start)
            start = now
            if given is not None:
                return place + 1, given
        return len(functions), None
    except RETOLD as error:
        if (told := told_apart(error)) is error:
            raise
        raise told from error


def _slow(function: Any, taken: float) -> None:
    aio = sys.modules.get("asyncio")
    if aio is not None and aio._get_running_loop() is not None:
        import logging

        logging.getLogger("runwell.drivers").warning(
            "%r held the event loop for %.0f ms; make it `async` or move the work", function, taken * 1e3
        )


def _leaves(group: BaseExceptionGroup[Any]) -> Iterator[BaseException]:
    for one in group.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from _leaves(one)
        else:
            yield one


def _one_of(signals: list[BaseException]) -> BaseException:
    """Several questions are one interrupt; any other signal goes before them."""
    for signal in signals:
        if not isinstance(signal, GraphInterrupt):
            return signal
    questions = [question for signal in signals if isinstance(signal, GraphInterrupt) for question in signal.interrupts]
    return signals[0] if len(signals) == 1 else GraphInterrupt(questions)


def timed_out(callee: Callee[Any], deadline: Deadline) -> NodeTimeoutError:
    """For user code that took longer than it may. Plain code cannot be stopped: its error says that it goes on."""
    kind, seconds = deadline.passed()
    what = f"took longer than its timeout of {seconds:g} s"
    if kind == "idle":
        what = f"gave no sign of life for its idle timeout of {seconds:g} s"
    abandoned = callee.aio is None
    if abandoned:
        import logging

        logging.getLogger("runwell.drivers").warning("%s goes on in an abandoned thread after its timeout", callee)
    error = NodeTimeoutError(
        f"{callee} {what}{', and goes on in an abandoned thread' if abandoned else ''}.",
        kind=kind,
        value=seconds,
        limit=seconds,
        hint="Raise the timeout, or make the work shorter."
        if kind == "timeout"
        else "Call runtime.heartbeat() while the work goes on, or raise the timeout.",
    )
    error.abandoned = abandoned
    return error
