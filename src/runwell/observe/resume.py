"""Resuming coroutines and generators under a context of their own.

A generator that set the current run itself would leak it into whoever consumes it, between two chunks. So nothing is
set across a `yield`: the generator lives in a context of its own, entered for each resume.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from contextvars import Context
from typing import Any, Generic, TypeVar

__all__ = ["InContext"]

T = TypeVar("T")


class InContext(Generic[T]):
    """An awaitable whose every step runs under `context`."""

    __slots__ = ("awaitable", "context")

    def __init__(self, context: Context, awaitable: Awaitable[T]) -> None:
        self.context = context
        self.awaitable = awaitable

    def __await__(self) -> Generator[Any, Any, T]:
        enter = self.context.run
        inner = enter(self.awaitable.__await__)
        send = inner.send if hasattr(inner, "send") else lambda _: next(inner)
        step, value = send, None
        while True:
            try:
                wanted = enter(step, value)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            try:
                value = yield wanted
                step = send
            except GeneratorExit:
                close = getattr(inner, "close", None)
                if close is not None:
                    enter(close)
                raise
            except BaseException as error:
                if not hasattr(inner, "throw"):
                    raise
                step, value = inner.throw, error
