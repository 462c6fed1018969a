"""Which of the things we can supply a user's function asks for, by the names of its parameters."""

from __future__ import annotations

import inspect
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from runwell.ports.runtime import CURRENT_TASK, Runtime
from runwell.runnables.config import ensure_config

__all__ = ["SUPPLIED", "asked_for", "generates", "supplies", "takes_nothing"]

SUPPLIED = ("config", "runtime")
"""A parameter of one of these names, other than the first, is filled in."""


def asked_for(function: Any) -> tuple[str, ...]:
    """The names among `SUPPLIED` that it declares after its first parameter. Read once, when a step is made."""
    target, bound = function, 0
    if type(target) is MethodType:
        target, bound = target.__func__, 1
    if type(target) is FunctionType:  # ten times faster than a signature, and a chain is mostly these
        code = target.__code__
        names = code.co_varnames[bound + 1 : code.co_argcount + code.co_kwonlyargcount]
        return tuple(name for name in SUPPLIED if name in names)
    if not isinstance(target, partial) and type(getattr(type(target), "__call__", None)) is not FunctionType:  # noqa: B004
        return ()
    try:
        parameters = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # a builtin without a signature
        return ()
    return tuple(name for name in SUPPLIED if name in parameters[1:])


def generates(function: Any) -> tuple[bool, bool]:
    """Whether it is a generator function, and whether an `async` one: also as an object's `__call__`, or a partial."""
    while isinstance(function, partial):
        function = function.func
    if type(function) is not FunctionType and not inspect.isroutine(function) and not inspect.isclass(function):
        function = getattr(type(function), "__call__", None)  # noqa: B004
    return inspect.isgeneratorfunction(function), inspect.isasyncgenfunction(function)


def takes_nothing(function: Any) -> bool:
    """Whether it is a function that declares no parameter a value could be given for."""
    target, bound = function, 0
    if type(target) is MethodType:
        target, bound = target.__func__, 1
    if type(target) is not FunctionType:
        return False
    code = target.__code__
    return code.co_argcount <= bound and not code.co_flags & inspect.CO_VARARGS


def supplies(names: tuple[str, ...]) -> dict[str, Any]:
    """Values for them, from the run that is current."""
    values: dict[str, Any] = {}
    for name in names:
        if name == "config":
            values[name] = ensure_config()
        else:
            task = CURRENT_TASK.get()
            values[name] = task.runtime if task is not None else Runtime(config=dict(ensure_config()))
    return values
