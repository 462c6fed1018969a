"""Tools that are generators: what they yield is progress for whoever watches, what they return is the result."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any

from runwell.effects import Callee
from runwell.ports.runtime import CURRENT_TASK
from runwell.schemas.signature import innermost

__all__ = ["as_callable"]


def as_callable(plain: Callable[..., Any] | None, aio: Callable[..., Any] | None, cheap: bool = False) -> Callee[Any]:
    """The functions in the form engine code calls; generators become functions that run to the end."""
    if plain is not None and inspect.isasyncgenfunction(innermost(plain)):
        plain, aio = None, aio or plain
    if plain is not None and inspect.isgeneratorfunction(innermost(plain)):
        plain = _exhausting(plain)
    if aio is not None and inspect.isasyncgenfunction(innermost(aio)):
        aio = _aexhausting(aio)
    return Callee(plain, aio, cheap=cheap)


def _exhausting(function: Callable[..., Generator[Any, None, Any]]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        steps, items = function(*args, **kwargs), []
        try:
            while True:
                items.append(next(steps))
                _report(items[-1])
        except StopIteration as end:
            return _result(items) if end.value is None else end.value
        finally:
            steps.close()

    return run


def _aexhausting(function: Callable[..., AsyncIterator[Any]]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        items = []
        async for item in function(*args, **kwargs):
            items.append(item)
            _report(item)
        return _result(items)

    return run


def _report(item: Any) -> None:
    scope = CURRENT_TASK.get()
    if scope is not None:
        scope.runtime.stream_writer(item)


def _result(items: list[Any]) -> Any:
    """Of a generator that returns nothing: the text it yielded, or else all it yielded."""
    return "".join(items) if items and all(isinstance(item, str) for item in items) else items
