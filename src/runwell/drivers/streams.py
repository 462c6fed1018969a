"""Streams as objects: a producer in a thread or a task, a reader of either colour, a bounded pipe between them.

A stream is closed by `close()`/`aclose()`, or by dropping it (which never waits). Closing makes the producer's next put
raise `StreamClosed`, cancels async work it waits for, waits `grace_s` for it to end, then leaves it behind with a line in
the log. Nothing is set, and no scope is open, across a hand-over to the reader.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from runwell.drivers.threads import CANCEL, CancelGroup, spawn
from runwell.errors import StreamClosed

if TYPE_CHECKING:
    import asyncio

__all__ = ["AsyncStream", "Pipe", "SyncStream", "drained", "iterate_async", "iterate_sync"]

T = TypeVar("T")

LIMIT = 256
"""Items a producer may be ahead of its reader."""
GRACE_S = 1.0
"""How long closing waits for the producer."""

PIPE: ContextVar[Pipe | None] = ContextVar("runwell_pipe", default=None)
"""The pipe that what runs here writes to, if it is streamed."""


async def drained() -> None:
    """From async code that puts without awaiting: wait until the reader of this run has caught up enough."""
    pipe = PIPE.get()
    if pipe is not None and len(pipe.items) >= pipe.limit:
        await pipe.aroom()


class _End:
    """The last item: how the producer ended."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class Pipe:
    """A bounded queue between any two of thread and event loop.

    Who waits leaves a wake-up and then looks once more, so that no wake-up is lost; a reader is woken once per batch.
    The bound is soft by one item per concurrent producer.
    """

    __slots__ = ("__weakref__", "closed", "items", "limit", "reader", "writers")

    def __init__(self, limit: int = LIMIT) -> None:
        self.items: deque[Any] = deque()
        self.limit = limit
        self.closed = False
        self.reader: Callable[[], None] | None = None
        self.writers: deque[Callable[[], None]] = deque()

    # -- producers

    def push(self, item: Any) -> None:
        """Add without waiting."""
        if self.closed:
            raise StreamClosed()
        self.items.append(item)
        wake = self.reader
        if wake is not None:
            self.reader = None
            wake()

    def put(self, item: Any) -> None:
        """Add; in a thread that may block, wait while the reader is too far behind."""
        self.push(item)
        if len(self.items) >= self.limit and not _on_a_loop():
            self._room()

    def _room(self) -> None:
        while len(self.items) >= self.limit and not self.closed:
            gate = threading.Lock()
            gate.acquire()
            self.writers.append(gate.release)
            if len(self.items) >= self.limit and not self.closed:
                gate.acquire()
        if self.closed:
            raise StreamClosed()

    async def aput(self, item: Any) -> None:
        """Add; wait, without blocking the loop, while the reader is too far behind."""
        self.push(item)
        if len(self.items) >= self.limit:
            await self.aroom()

    async def aroom(self) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        while len(self.items) >= self.limit and not self.closed:
            free: asyncio.Future[None] = loop.create_future()
            self.writers.append(lambda free=free: loop.call_soon_threadsafe(_resolve, free))  # type: ignore[misc]
            if len(self.items) >= self.limit and not self.closed:
                await free
        if self.closed:
            raise StreamClosed()

    def end(self, error: BaseException | None = None) -> None:
        """No more items."""
        try:
            self.push(_End(error))
        except StreamClosed:
            return

    # -- the reader

    def take(self) -> Any:
        """The next item; there must be one."""
        item = self.items.popleft()
        if self.writers and len(self.items) <= self.limit // 2:
            self._wake_writers()
        return item

    def _wake_writers(self) -> None:
        while self.writers:
            try:
                self.writers.popleft()()
            except IndexError:
                return
            except RuntimeError:  # that producer's loop has closed
                continue

    def get(self) -> Any:
        """The next item, waited for in this thread."""
        while not self.items:
            gate = threading.Lock()
            gate.acquire()
            self.reader = gate.release
            if not self.items:
                gate.acquire()
        return self.take()

    async def aget(self) -> Any:
        """The next item, waited for on the running loop."""
        while not self.items:
            import asyncio

            loop = asyncio.get_running_loop()
            ready: asyncio.Future[None] = loop.create_future()

            def wake(ready: asyncio.Future[None] = ready) -> None:
                if _same_loop(loop):
                    _resolve(ready)
                else:
                    loop.call_soon_threadsafe(_resolve, ready)

            self.reader = wake
            if not self.items:
                await ready
        return self.take()

    def close(self) -> None:
        """The reader is gone: wake everybody who waits. Never blocks."""
        self.closed = True
        self.items.clear()
        self._wake_writers()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _on_a_loop() -> bool:
    """Whether this thread runs an event loop right now (which a blocking wait would stop)."""
    import sys

    aio = sys.modules.get("asyncio")
    return aio is not None and aio._get_running_loop() is not None


def _same_loop(loop: asyncio.AbstractEventLoop) -> bool:
    import asyncio

    return asyncio._get_running_loop() is loop


class _ThreadProducer:
    """Runs `produce(pipe)` in a worker thread."""

    __slots__ = ("ended", "group", "pipe")

    def __init__(self, produce: Callable[[Pipe], Any], pipe: Pipe) -> None:
        self.pipe = pipe
        context = copy_context()
        self.group = context.run(CancelGroup)
        context.run(CANCEL.set, self.group)
        context.run(PIPE.set, pipe)
        ended = self.ended = threading.Event()

        def job() -> None:
            try:
                context.run(produce, pipe)
            except BaseException as error:
                pipe.end(error)
            else:
                pipe.end()
            finally:
                ended.set()

        spawn(job)

    def stop(self) -> None:
        self.pipe.close()
        self.group.cancel()


class _TaskProducer:
    """Runs `produce(pipe)` in a task on `loop`."""

    __slots__ = ("ended", "loop", "pipe", "task")

    def __init__(
        self, produce: Callable[[Pipe], Awaitable[Any]], pipe: Pipe, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.pipe = pipe
        self.loop = loop
        self.ended = threading.Event()
        self.task: asyncio.Task[None] | None = None
        context = copy_context()
        context.run(PIPE.set, pipe)

        async def work() -> None:
            try:
                await produce(pipe)
            except BaseException as error:
                pipe.end(error)
            else:
                pipe.end()
            finally:
                self.ended.set()

        def start() -> None:
            if not pipe.closed:
                self.task = loop.create_task(work(), context=context)
            else:
                self.ended.set()

        if _same_loop(loop):
            start()
        else:
            loop.call_soon_threadsafe(start)

    def stop(self) -> None:
        self.pipe.close()
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


def _left_behind() -> None:
    import logging

    logging.getLogger("runwell.drivers").warning(
        "a stream was closed while its producer was busy in a call that cannot be cancelled; it was left behind"
    )


class _Stream:
    """What both kinds of reader share."""

    _producer: Any = None

    def __init__(self, grace_s: float, limit: int) -> None:
        self._pipe = Pipe(limit)
        self._grace_s = grace_s
        self._over = False

    def _begun(self, producer: Any) -> None:
        self._producer = producer
        self._finalizer = weakref.finalize(self, producer.stop)
        self._finalizer.atexit = False

    def _next(self, item: Any, stop: type[Exception]) -> Any:
        if type(item) is _End:
            self._over = True
            self._finalizer.detach()
            if item.error is None or isinstance(item.error, StreamClosed):
                raise stop
            raise item.error
        return item


class SyncStream(_Stream, Iterator[T]):
    """A plain iterator over what `produce(pipe)` puts, run in a worker thread under a copy of the context.

    With `on` (an event loop) `produce` is a coroutine function and runs there in one task instead.
    """

    def __init__(
        self,
        produce: Callable[[Pipe], Any],
        *,
        on: asyncio.AbstractEventLoop | None = None,
        grace_s: float = GRACE_S,
        limit: int = LIMIT,
    ) -> None:
        super().__init__(grace_s, limit)
        pipe = self._pipe
        self._begun(_ThreadProducer(produce, pipe) if on is None else _TaskProducer(produce, pipe, on))

    def __next__(self) -> T:
        if self._over:
            raise StopIteration
        try:
            item = self._pipe.get()
        except BaseException:  # Ctrl-C while waiting
            self._over = True
            self._finalizer()
            raise
        return self._next(item, StopIteration)  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the producer; returns when it has ended, or after `grace_s`."""
        if self._over:
            return
        self._over = True
        self._finalizer()
        if not self._producer.ended.wait(self._grace_s):
            _left_behind()

    def __enter__(self) -> SyncStream[T]:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class AsyncStream(_Stream, AsyncIterator[T]):
    """An async iterator over what `produce(pipe)` puts, run in one task; it starts with the first `anext`.

    With `thread=True` `produce` is a plain function and runs in one worker thread.
    """

    def __init__(
        self,
        produce: Callable[[Pipe], Any],
        *,
        thread: bool = False,
        grace_s: float = GRACE_S,
        limit: int = LIMIT,
    ) -> None:
        super().__init__(grace_s, limit)
        self._produce: Callable[[Pipe], Any] | None = produce
        self._thread = thread

    def _start(self, produce: Callable[[Pipe], Any]) -> None:
        import asyncio

        self._produce = None
        if self._thread:
            self._begun(_ThreadProducer(produce, self._pipe))
        else:
            self._begun(_TaskProducer(produce, self._pipe, asyncio.get_running_loop()))

    async def __anext__(self) -> T:
        if self._over:
            raise StopAsyncIteration
        if self._produce is not None:
            self._start(self._produce)
        pipe = self._pipe
        if pipe.items:
            item = pipe.take()
        else:
            try:
                item = await pipe.aget()
            except BaseException:  # the reader is cancelled: so is the run
                self._over = True
                self._finalizer()
                raise
        return self._next(item, StopAsyncIteration)  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        """End the producer; returns when it has ended, or after `grace_s`."""
        import asyncio

        self._over = True
        if self._producer is None:
            return
        self._finalizer()  # also after a cancelled read, which ended the producer without waiting for it
        ended = self._producer.ended
        deadline = asyncio.get_running_loop().time() + self._grace_s
        while not ended.is_set():
            if asyncio.get_running_loop().time() > deadline:
                _left_behind()
                return
            await asyncio.sleep(0.001)

    async def __aenter__(self) -> AsyncStream[T]:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


def iterate_sync(source: AsyncIterable[T], *, limit: int = LIMIT) -> SyncStream[T]:
    """Read an async iterable from plain code: one task of ours pumps it; closing the result closes the source."""
    from runwell.drivers.portal import portal

    async def pump(pipe: Pipe) -> None:
        iterator = source.__aiter__()
        try:
            async for item in iterator:
                await pipe.aput(item)
        finally:
            close = getattr(iterator, "aclose", None)
            if close is not None:
                await close()

    return SyncStream(pump, on=portal().loop, limit=limit)


def iterate_async(source: Iterable[T], *, limit: int = LIMIT) -> AsyncStream[T]:
    """Read a plain iterable, which may block, from async code: one thread pumps it; closing the result closes it."""

    def pump(pipe: Pipe) -> None:
        iterator = iter(source)
        try:
            for item in iterator:
                pipe.put(item)
        finally:
            close = getattr(iterator, "close", None)
            if close is not None:
                close()

    return AsyncStream(pump, thread=True, limit=limit)
