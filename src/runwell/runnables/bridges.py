"""Streams whose two ends have different colours."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from runwell.drivers.closing import aclose
from runwell.drivers.other_colour import asks_itself

if TYPE_CHECKING:
    from runwell.drivers.other_colour import Asked, Makers

__all__ = [
    "STREAMS",
    "TRANSFORMS",
    "aclosing_each",
    "alone",
    "closing_each",
    "in_place",
    "in_thread",
    "through_loop",
    "through_thread",
]

T = TypeVar("T")

_log = logging.getLogger("runwell.runnables")


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

    from runwell.drivers.outlast import outlast
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
        try:
            await outlast([feeding])
        finally:
            await stream.aclose()


class _Lent(Iterator[T]):
    """A plain iterator while another thread reads it. When it has been closed, nobody is inside it any more."""

    __slots__ = ("_closed", "_inside", "_source")

    def __init__(self, source: Iterator[T]) -> None:
        self._source = source
        self._closed = False
        self._inside = threading.Lock()

    def __next__(self) -> T:
        with self._inside:
            if self._closed:
                raise StopIteration
            return next(self._source)

    def close(self) -> None:
        """Give it back; waits, for a while, until a read under way has ended. Whoever lent it closes it."""
        from runwell.drivers.cancel import GRACE_S

        self._closed = True
        if self._inside.acquire(timeout=GRACE_S):
            self._inside.release()


def through_loop(
    transform: Callable[[AsyncIterator[Any]], AsyncIterator[T]], source: Iterator[Any]
) -> Generator[T, None, None]:
    """An `async` transform of a plain stream: it runs on a loop of ours, its input is read in one worker thread."""
    from runwell.drivers.streams import iterate_async, iterate_sync

    lent = _Lent(iter(source))
    try:
        with iterate_sync(transform(iterate_async(lent))) as chunks:
            yield from chunks
    finally:
        lent.close()


def closing_each(iterators: list[Iterator[Any]]) -> None:
    """Close the iterators of a pipeline, the last first."""
    for iterator in reversed(iterators):
        close = getattr(iterator, "close", None)
        if close is None:
            continue
        try:
            close()
        except ValueError:
            if not getattr(iterator, "gi_running", False):
                raise
            _log.warning(
                "%r is busy in another thread, in a call that cannot be cancelled; it was left behind", iterator
            )


async def aclosing_each(iterators: list[AsyncIterator[Any]]) -> None:
    """Close the async iterators of a pipeline, the last first."""
    for iterator in reversed(iterators):
        await aclose(iterator)


def _astream_by(written: str, asked: Asked, original: Callable[..., Any]) -> Callable[..., AsyncIterator[Any]]:
    def astream(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        if asks_itself(self, written):
            return original(self, *args, **kwargs)  # type: ignore[no-any-return]

        def start() -> Iterator[Any]:
            return asked(self)(*args, **kwargs)  # type: ignore[no-any-return]

        return in_place(start) if getattr(self, "never_blocks", False) else in_thread(start)

    return astream


def _stream_by(written: str, asked: Asked, original: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    def stream(self: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        if asks_itself(self, written):
            return original(self, *args, **kwargs)  # type: ignore[no-any-return]
        from runwell.drivers.streams import iterate_sync

        return iterate_sync(asked(self)(*args, **kwargs))

    return stream


def _atransform_by(written: str, asked: Asked, original: Callable[..., Any]) -> Callable[..., AsyncIterator[Any]]:
    def atransform(self: Any, input: AsyncIterator[Any], *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        if asks_itself(self, written):
            return original(self, input, *args, **kwargs)  # type: ignore[no-any-return]
        return through_thread(lambda source: asked(self)(source, *args, **kwargs), input)

    return atransform


def _transform_by(written: str, asked: Asked, original: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    def transform(self: Any, input: Iterator[Any], *args: Any, **kwargs: Any) -> Iterator[Any]:
        if asks_itself(self, written):
            return original(self, input, *args, **kwargs)  # type: ignore[no-any-return]
        return through_loop(lambda source: asked(self)(source, *args, **kwargs), input)

    return transform


STREAMS: Makers = (_astream_by, _stream_by)
TRANSFORMS: Makers = (_atransform_by, _transform_by)
"""How one colour of a method that gives a stream is made of the other one."""
