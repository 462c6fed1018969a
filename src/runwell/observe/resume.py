"""Resuming coroutines and generators under a context of their own.

A generator that set the current run itself would leak it into whoever consumes it, between two chunks. So nothing is
set across a `yield`: the generator lives in a context of its own, entered for each resume.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Generator, Iterator
from contextvars import Context, copy_context
from typing import Any, Generic, TypeVar

__all__ = ["InContext", "KeptAsyncIterator", "KeptIterator"]

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


class KeptIterator(Iterator[T]):
    """An iterator that goes on in the context it was made in, whoever asks for its next item.

    A step of a pipeline is pulled from inside the run of the step behind it, and is no part of that run.
    """

    __slots__ = ("_enter", "_source")

    def __init__(self, source: Iterator[T]) -> None:
        self._source = source
        self._enter = copy_context().run

    def __next__(self) -> T:
        return self._enter(next, self._source)

    def close(self) -> None:
        close = getattr(self._source, "close", None)
        if close is not None:
            self._enter(close)


class KeptAsyncIterator(AsyncIterator[T]):
    """The same for an async iterator."""

    __slots__ = ("_context", "_source")

    def __init__(self, source: AsyncIterator[T]) -> None:
        self._source = source
        self._context = copy_context()

    async def __anext__(self) -> T:
        return await InContext(self._context, self._source.__anext__())

    async def aclose(self) -> None:
        close = getattr(self._source, "aclose", None)
        if close is not None:
            await InContext(self._context, close())
