"""Several steps reading one stream at once, their chunks in the order they come."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from runwell.drivers.closing import aclose
from runwell.errors import StreamClosed

if TYPE_CHECKING:
    from runwell.drivers.streams import Pipe
    from runwell.runnables.runnable import Runnable

__all__ = ["ainterleave", "interleave"]

Labelled = tuple[Any, Any]
"""Which step, and its chunk."""

_END = object()


class _Shared:
    """One source read by several threads, each getting every item."""

    def __init__(self, source: Iterator[Any], readers: int) -> None:
        self.source = source
        self.queues: list[deque[Any]] = [deque() for _ in range(readers)]
        self.lock = threading.Lock()
        self.ended = False

    def reader(self, number: int) -> Iterator[Any]:
        queue = self.queues[number]
        while True:
            if not queue:
                with self.lock:
                    if not queue and not self.ended:
                        try:
                            self._hand_out(next(self.source))
                        except StopIteration:
                            self.ended = True
                if not queue:
                    return
            yield queue.popleft()

    def _hand_out(self, item: Any) -> None:
        for queue in self.queues:
            queue.append(item)


class _AsyncShared:
    """One async source read by several tasks."""

    def __init__(self, source: AsyncIterator[Any], readers: int) -> None:
        import asyncio

        self.source = source
        self.queues: list[deque[Any]] = [deque() for _ in range(readers)]
        self.lock = asyncio.Lock()
        self.ended = False

    async def reader(self, number: int) -> AsyncIterator[Any]:
        queue = self.queues[number]
        while True:
            if not queue:
                async with self.lock:
                    if not queue and not self.ended:
                        item = await anext(self.source, _END)
                        if item is _END:
                            self.ended = True
                        else:
                            for each in self.queues:
                                each.append(item)
                if not queue:
                    return
            yield queue.popleft()


def interleave(
    steps: Mapping[Any, Runnable[Any, Any]], source: Iterator[Any], alone: bool, limit: int | None
) -> Iterator[Labelled]:
    """(label, chunk) of every step. `alone` says that the source holds one item, all of it: then steps that never block
    go first, and at most one that may block needs no thread."""
    slow = [label for label, step in steps.items() if not step.never_blocks]
    if alone and len(slow) <= 1:
        item = next(source)
        for label in (*(label for label in steps if label not in slow), *slow):
            for chunk in steps[label].transform(iter((item,))):
                yield label, chunk
        return
    from runwell.drivers.streams import SyncStream
    from runwell.drivers.threads import fan_out

    shared = _Shared(source, len(steps))

    def produce(pipe: Pipe) -> None:
        failed = False

        def pump(number: int, label: Any) -> None:
            nonlocal failed
            stream = steps[label].transform(shared.reader(number))
            try:
                for chunk in stream:
                    if failed:
                        raise StreamClosed()
                    pipe.put((label, chunk))
            except Exception:
                failed = True
                raise
            finally:
                close = getattr(stream, "close", None)
                if close is not None:
                    close()

        pumps = [lambda n=number, s=label: pump(n, s) for number, label in enumerate(steps)]
        _raise_first(fan_out(pumps, limit, stop_on_error=True))

    with SyncStream[Labelled](produce) as merged:
        yield from merged


async def ainterleave(
    steps: Mapping[Any, Runnable[Any, Any]], source: AsyncIterator[Any], limit: int | None
) -> AsyncIterator[Labelled]:
    """`interleave` on the running loop: one task for each step."""
    from runwell.drivers.aio import afan_out
    from runwell.drivers.streams import AsyncStream

    shared = _AsyncShared(source, len(steps))

    async def produce(pipe: Pipe) -> None:
        async def pump(number: int, label: Any) -> None:
            stream = steps[label].atransform(shared.reader(number))
            try:
                async for chunk in stream:
                    await pipe.aput((label, chunk))
            finally:
                await aclose(stream)

        pumps = [lambda n=number, s=label: pump(n, s) for number, label in enumerate(steps)]
        _raise_first(await afan_out(pumps, limit, stop_on_error=True))

    merged = AsyncStream[Labelled](produce)
    try:
        async for item in merged:
            yield item
    finally:
        await merged.aclose()


def _raise_first(outcomes: list[Any]) -> None:
    failed = [outcome.error for outcome in outcomes if outcome.error is not None]
    for error in failed:
        if isinstance(error, Exception):
            raise error
    if failed:
        raise failed[0]
