"""Telling plain from `async` callables, once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from types import CoroutineType
from typing import Any, TypeVar

from runwell.effects import Callee
from runwell.errors import NodeError, NodeTimeoutError

__all__ = ["callee", "cheap", "is_async", "is_coroutine", "stopped", "timed_out"]

F = TypeVar("F", bound=Callable[..., Any])


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


def timed_out(callee: Callee[Any], seconds: float) -> NodeTimeoutError:
    """For user code that took longer than it may."""
    return NodeTimeoutError(
        f"{callee!r} took longer than its timeout of {seconds:g} s.",
        kind="timeout",
        value=seconds,
        limit=seconds,
        hint="Raise the timeout, or make the work shorter.",
    )
