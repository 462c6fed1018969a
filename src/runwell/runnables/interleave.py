"""Several steps reading one stream at once, their chunks in the order they come."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from runwell.drivers.closing import aclose
from runwell.errors import StreamClosed
from runwell.runnables.notes import note_entry

if TYPE_CHECKING:
    from runwell.drivers.streams import Pipe
    from runwell.runnables.runnable import Runnable

__all__ = ["ainterleave", "interleave"]

Labelled = tuple[Any, Any]
"""Which step, and its chunk."""

_END = object()

AHEAD = 4096
"""Chunks of its input that the quickest step may be ahead of the slowest. Far more than an answer of a model has, so
that a late step does not hold up an early one; and an end to what a stream without one can take up."""


class _Shared:
    """One source read by several steps, each getting every item; who needs the next one first fetches it for all."""

    def __init__(self, readers: int) -> None:
        from runwell.drivers.streams import Pipe

        # one that has not begun (because of `max_concurrency`) may have to wait for the others to end
        self.queues = [Pipe(sys.maxsize) for _ in range(readers)]
        self.ended = False
        self.failed: Exception | None = None

    def begin(self, number: int) -> None:
        """This reader has begun: from now on it holds up those too far ahead of it."""
        self.queues[number].limit = AHEAD

    def hand_out(self, item: Any) -> list[Pipe]:
        """Give it to all who still read; those of them that are too far behind."""
        for queue in self.queues:
            with suppress(StreamClosed):
                queue.push(item)
        return [queue for queue in self.queues if len(queue.items) >= queue.limit]


class _SyncShared(_Shared):
    """A plain source read by several threads. In a `CancelGroup`, it lets go of those that wait when that ends."""

    def __init__(self, source: Iterator[Any], readers: int) -> None:
        super().__init__(readers)
        self.source = source
        self.changed = threading.Condition()
        self.fetching = False
        self.cancelled = False

    def reader(self, number: int) -> Iterator[Any]:
        queue = self.queues[number]
        try:
            while True:
                if not queue.items:
                    self._more(queue)
                    if not queue.items and not self.cancelled:
                        return
                try:
                    item = queue.take()
                except IndexError:  # emptied when it was cancelled: not the end of the source
                    raise StreamClosed() from None
                yield item
        finally:
            queue.close()

    def _more(self, mine: Pipe) -> None:
        """Wait until there is an item for this reader or an end, and fetch it where nobody else does.

        One that is waited for since it is too far behind never waits for those who wait: it has items.
        """
        with self.changed:
            while self.fetching and not (mine.items or self.cancelled):
                self.changed.wait()
            if mine.items or self.ended or self.cancelled:
                return
            self.fetching = True
        try:
            late = self._fetch()
            with self.changed:
                self.changed.notify_all()
            for other in late:
                with suppress(StreamClosed):  # that one reads no more
                    if other is not mine:
                        other.room()
        finally:
            with self.changed:
                self.fetching = False
                self.changed.notify_all()

    def _fetch(self) -> list[Pipe]:
        try:
            item = next(self.source)
        except StopIteration:
            self.ended = True
            return []
        except Exception as error:
            self.failed = error
            raise
        return self.hand_out(item)

    def cancel(self) -> None:
        self.cancelled = True
        for queue in self.queues:
            queue.close()
        with self.changed:
            self.changed.notify_all()

    def tell(self, report: Callable[[], None]) -> int:
        return 0


class _AsyncShared(_Shared):
    """An async source read by several tasks."""

    def __init__(self, source: AsyncIterator[Any], readers: int) -> None:
        import asyncio

        super().__init__(readers)
        self.source = source
        self.lock = asyncio.Lock()

    async def reader(self, number: int) -> AsyncIterator[Any]:
        queue = self.queues[number]
        try:
            while True:
                if not queue.items:
                    async with self.lock:
                        if not queue.items and not self.ended:
                            await self._fetch()
                    if not queue.items:
                        return
                yield queue.take()
        finally:
            queue.close()

    async def _fetch(self) -> None:
        try:
            item = await anext(self.source, _END)
        except Exception as error:
            self.failed = error
            raise
        if item is _END:
            self.ended = True
            return
        for late in self.hand_out(item):
            with suppress(StreamClosed):
                await late.aroom()


def interleave(
    steps: Mapping[Any, Runnable[Any, Any]],
    source: Iterator[Any],
    alone: bool,
    limit: int | None,
    whole: Any,
) -> Iterator[Labelled]:
    """(label, chunk) of every step; an error says in which, of the runnable `whole`.

    `alone` says that the source holds one item, all of it: then steps that never block go first, and at most one that
    may block needs no thread."""
    slow = [label for label, step in steps.items() if not step.never_blocks]
    if alone and len(slow) <= 1:
        item = next(iter(source))
        for label in (*(label for label in steps if label not in slow), *slow):
            stream = steps[label].transform(iter((item,)))
            try:
                while (chunk := next(stream, _END)) is not _END:
                    yield label, chunk
            except Exception as error:
                _note(error, whole, label, steps, item, False)
                raise
            finally:
                close = getattr(stream, "close", None)
                if close is not None:
                    close()
        return
    from runwell.drivers.cancel import CANCEL
    from runwell.drivers.streams import SyncStream
    from runwell.drivers.threads import fan_out

    shared = _SyncShared(iter(source), len(steps))

    def produce(pipe: Pipe) -> None:
        def pump(number: int, label: Any) -> None:
            group = CANCEL.get()  # it is cancelled when another step fails, or the reader goes
            if group is not None:
                group.add(shared)
            shared.begin(number)
            stream = steps[label].transform(shared.reader(number))
            try:
                for chunk in stream:
                    if shared.cancelled:
                        raise StreamClosed()
                    pipe.put((label, chunk))
            except Exception as error:
                shared.cancel()
                if error is not shared.failed:
                    _note(error, whole, label, steps, None, True)
                raise
            finally:
                close = getattr(stream, "close", None)
                if close is not None:
                    close()
                shared.queues[number].close()

        pumps = [lambda n=number, s=label: pump(n, s) for number, label in enumerate(steps)]
        _raise_first(fan_out(pumps, limit, stop_on_error=True))

    with SyncStream[Labelled](produce) as merged:
        yield from merged


async def ainterleave(
    steps: Mapping[Any, Runnable[Any, Any]], source: AsyncIterator[Any], limit: int | None, whole: Any
) -> AsyncIterator[Labelled]:
    """`interleave` on the running loop: one task for each step."""
    from runwell.drivers.aio import afan_out
    from runwell.drivers.streams import AsyncStream

    shared = _AsyncShared(source, len(steps))

    async def produce(pipe: Pipe) -> None:
        async def pump(number: int, label: Any) -> None:
            shared.begin(number)
            stream = steps[label].atransform(shared.reader(number))
            try:
                async for chunk in stream:
                    await pipe.aput((label, chunk))
            except Exception as error:
                if error is not shared.failed:
                    _note(error, whole, label, steps, None, True)
                raise
            finally:
                await aclose(stream)
                shared.queues[number].close()

        pumps = [lambda n=number, s=label: pump(n, s) for number, label in enumerate(steps)]
        _raise_first(await afan_out(pumps, limit, stop_on_error=True))

    merged = AsyncStream[Labelled](produce)
    try:
        async for item in merged:
            yield item
    finally:
        await merged.aclose()


def _note(error: Exception, whole: Any, label: Any, steps: Any, given: Any, fed: bool) -> None:
    """Not for the end of the stream, nor for the input's other keys that `assign` lets through."""
    if label is not None and not isinstance(error, StreamClosed):
        note_entry(error, whole, label, steps[label], given, fed)


def _raise_first(outcomes: list[Any]) -> None:
    failed = [outcome.error for outcome in outcomes if outcome.error is not None]
    for error in failed:
        if isinstance(error, Exception):
            raise error
    if failed:
        raise failed[0]
