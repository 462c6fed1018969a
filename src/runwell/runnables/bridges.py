"""Streams whose two ends have different colours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

from runwell.drivers.closing import aclose

__all__ = ["aclosing_each", "alone", "in_place", "in_thread", "through_thread"]

T = TypeVar("T")


async def alone(item: T) -> AsyncIterator[T]:
    """An async iterator over one item."""
    yield item


async def in_place(start: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
    """A plain iterator that never blocks, read on the loop."""
    stream = start()
    try:
        for chunk in stream:
            yield chunk
    finally:
        close = getattr(stream, "close", None)
        if close is not None:
            close()


def in_thread(start: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
    """A plain iterator, made and read in one worker thread."""
    from runwell.drivers.streams import iterate_async

    return iterate_async(_lazily(start))


def _lazily(start: Callable[[], Iterator[T]]) -> Iterator[T]:
    yield from start()


class _Done:
    """Stands behind the last item of a fed stream."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


async def through_thread(
    transform: Callable[[Iterator[Any]], Iterator[T]], source: AsyncIterator[Any]
) -> AsyncIterator[T]:
    """A plain transform of an async stream: it runs in one worker thread, its input is read on this loop."""
    import asyncio

    from runwell.drivers.streams import Pipe, iterate_async

    pipe = Pipe()

    async def feed() -> None:
        try:
            async for item in source:
                await pipe.aput(item)
        except BaseException as error:  # told to the transform, which stands in between
            pipe.push(_Done(error))
        else:
            pipe.push(_Done(None))

    def fed() -> Iterator[Any]:
        while True:
            item = pipe.get()
            if type(item) is not _Done:
                yield item
            elif item.error is None:
                return
            else:
                raise item.error

    def work() -> Iterator[T]:
        yield from transform(fed())

    feeding = asyncio.get_running_loop().create_task(feed())
    stream = iterate_async(work())
    try:
        async for chunk in stream:
            yield chunk
    finally:
        feeding.cancel()  # also ends the input of a transform that waits for more
        await asyncio.wait([feeding])
        await stream.aclose()


async def aclosing_each(iterators: list[AsyncIterator[Any]]) -> None:
    """Close the async iterators of a pipeline, the last first."""
    for iterator in reversed(iterators):
        await aclose(iterator)
