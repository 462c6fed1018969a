"""Streams as objects: a producer in a thread or a task, a reader of either colour, a bounded pipe between them.

A stream is closed by `close()`/`aclose()`, or by dropping it (which never waits). Closing makes the producer's next put
raise `StreamClosed`, cancels async work it waits for, waits `grace_s` for it to end, then leaves it behind with a line
in the log. Nothing is set, and no scope is open, across a hand-over to the reader.
"""

from __future__ import annotations

import logging
import sys
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextvars import Context, ContextVar, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from runwell.drivers.cancel import CANCEL, GRACE_S, CancelGroup, run_context
from runwell.drivers.colour import stopped
from runwell.drivers.threads import spawn
from runwell.errors import RunCancelled, StreamClosed

if TYPE_CHECKING:
    import asyncio

__all__ = ["AsyncStream", "Pipe", "SyncStream", "drained", "iterate_async", "iterate_sync"]

T = TypeVar("T")

LIMIT = 256
"""Items a producer may be ahead of its reader."""

_log = logging.getLogger("runwell.drivers")
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

    __slots__ = ("__weakref__", "closed", "items", "limit", "readers", "writers")

    def __init__(self, limit: int = LIMIT) -> None:
        self.items: deque[Any] = deque()
        self.limit = limit
        self.closed = False
        self.readers: deque[Callable[[], None]] = deque()
        self.writers: deque[Callable[[], None]] = deque()

    # -- producers

    def push(self, item: Any) -> None:
        """Add without waiting."""
        if self.closed:
            raise StreamClosed()
        self.items.append(item)
        if self.readers:
            self._wake_reader()

    def _wake_reader(self) -> None:
        try:
            wake = self.readers.popleft()
        except IndexError:  # another producer was quicker
            return
        try:
            wake()
        except RuntimeError:  # the reader's loop has closed
            self.close()
            raise StreamClosed() from None

    def put(self, item: Any) -> None:
        """Add; in a thread that may block, wait while the reader is too far behind."""
        items = self.items
        if self.closed:  # as `push`, written out: it runs for each token
            raise StreamClosed()
        items.append(item)
        if self.readers:
            self._wake_reader()
        if len(items) >= self.limit and _running_loop() is None:
            self.room()

    def room(self) -> None:
        """Wait in this thread, which may block, while the reader is too far behind."""
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
            self.writers.append(partial(_wake, loop, free))
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
            self.wake_writers()
        return item

    def wake_writers(self) -> None:
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
            self._await_item(gate.release)
            if not self.items:
                gate.acquire()
        return self.take()

    def _await_item(self, wake: Callable[[], None]) -> None:
        self.readers.clear()  # left by a reader that found an item after all; it would take the place of this one
        self.readers.append(wake)

    async def aget(self) -> Any:
        """The next item, waited for on the running loop."""
        while not self.items:
            import asyncio

            loop = asyncio.get_running_loop()
            ready: asyncio.Future[None] = loop.create_future()
            self._await_item(partial(_wake, loop, ready))
            if not self.items:
                await ready
        return self.take()

    def close(self) -> None:
        """The reader is gone: wake everybody who waits. Never blocks."""
        self.closed = True
        self.items.clear()
        self.wake_writers()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _wake(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    """Resolve a future of `loop` from any thread; RuntimeError if the loop is closed."""
    if _running_loop() is loop:
        _resolve(future)
    else:
        loop.call_soon_threadsafe(_resolve, future)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop this thread runs right now, which a blocking wait would stop."""
    aio = sys.modules.get("asyncio")
    return None if aio is None else aio._get_running_loop()


class _Ended:
    """An event that plain and async code can wait for."""

    __slots__ = ("_calls", "done")

    def __init__(self) -> None:
        self.done = False
        self._calls: deque[Callable[[], Any]] = deque()

    def set(self) -> None:
        self.done = True
        self._run()

    def call(self, function: Callable[[], Any]) -> None:
        """Call it, once, when set; now, if it is."""
        self._calls.append(function)
        if self.done:
            self._run()

    def _run(self) -> None:
        while self._calls:
            try:
                self._calls.popleft()()
            except IndexError:  # another thread was quicker
                return
            except RuntimeError:  # the loop of who waited has closed
                continue

    def wait(self, seconds: float) -> bool:
        """Whether it is set before `seconds` are over."""
        if not self.done:
            gate = threading.Event()
            self.call(gate.set)
            gate.wait(seconds)
        return self.done

    async def await_(self, seconds: float) -> bool:
        """`wait`, without blocking the loop; who is cancelled meanwhile learns of it then."""
        if not self.done:
            import asyncio

            from runwell.drivers.outlast import outlast

            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()
            self.call(partial(_wake, loop, future))
            late = loop.call_later(seconds, _resolve, future)
            try:
                await outlast([future])
            finally:
                late.cancel()
        return self.done


class _Producer:
    """Writes to the pipe in a thread or a task of its own, until it ends or is stopped."""

    __slots__ = ("ended", "pipe")

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe
        self.ended = _Ended()

    def cancel(self) -> None:
        """Cancel what can be; the reader is told how it ended."""
        raise NotImplementedError

    def stop(self) -> None:
        """The reader is gone. Never waits."""
        self.pipe.close()
        self.cancel()

    def finish(self, error: BaseException | None) -> None:
        if self.pipe.closed and isinstance(error, Exception):
            _log.warning("a producer failed after its stream had been closed", exc_info=error)
        self.pipe.end(error)
        self.ended.set()


class _ThreadProducer(_Producer):
    """Runs `produce(pipe)` in a worker thread."""

    __slots__ = ("_group",)

    def __init__(self, pipe: Pipe) -> None:
        self._group = CancelGroup()
        super().__init__(pipe)

    def start(self, produce: Callable[[Pipe], Any]) -> None:
        pipe = self.pipe
        context = run_context(self._group)
        context.run(PIPE.set, pipe)

        def job() -> None:
            failure = None
            try:
                context.run(produce, pipe)
            except BaseException as error:
                failure = error
            self._group.detach()
            self.finish(failure)

        spawn(job)

    def cancel(self) -> None:
        self._group.cancel()


class _TaskProducer(_Producer):
    """Runs `produce(pipe)` in a task on `loop`."""

    __slots__ = ("_above", "_loop", "_task")

    def __init__(self, pipe: Pipe, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._task: asyncio.Task[BaseException | None] | None = None
        super().__init__(pipe)
        self._above = CANCEL.get()  # a plain reader may be blocked in a run that is cancelled
        if self._above is not None:
            self._above.add(self)

    def start(self, produce: Callable[[Pipe], Awaitable[Any]]) -> None:
        context = copy_context()
        context.run(PIPE.set, self.pipe)
        if _running_loop() is self._loop:
            self._start(produce, context)
        else:
            self._loop.call_soon_threadsafe(self._start, produce, context)

    def _start(self, produce: Callable[[Pipe], Awaitable[Any]], context: Context) -> None:
        if self.pipe.closed:
            self._finish(None)
            return
        self._task = self._loop.create_task(_outcome(produce, self.pipe), context=context)
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[BaseException | None]) -> None:
        # cancelled: before its first step
        self._finish(RunCancelled() if task.cancelled() else task.result())

    def _finish(self, error: BaseException | None) -> None:
        if self._above is not None:
            self._above.discard(self)
        self.finish(error)

    def tell(self, report: Callable[[], None]) -> int:
        self.ended.call(report)
        return 1

    def cancel(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._cancel)
        except RuntimeError:  # its loop has closed, and cancelled it
            return

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


async def _outcome(produce: Callable[[Pipe], Awaitable[Any]], pipe: Pipe) -> BaseException | None:
    try:
        await produce(pipe)
    except BaseException as error:
        return error
    return None


class _Stream:
    """What both kinds of reader share."""

    _producer: Any = None

    def __init__(self, grace_s: float, limit: int, given_up: Callable[[], None] | None = None) -> None:
        self._pipe = Pipe(limit)
        self._grace_s = grace_s
        self._given_up = given_up
        self._over = False

    def _begin(self, producer: Any, produce: Callable[[Pipe], Any]) -> None:
        self._producer = producer
        self._finalizer = weakref.finalize(self, _dropped, producer, self._grace_s, self._given_up)
        self._finalizer.atexit = False
        producer.start(produce)

    def _last(self, end: _End, stop: type[Exception]) -> BaseException:
        """What the reader's last call raises."""
        self._over = True
        self._finalizer.detach()
        error = end.error
        if error is None or isinstance(error, StreamClosed):
            return stop()
        if isinstance(error, (StopIteration, StopAsyncIteration)):
            return stopped(error)
        if type(error).__name__ == "CancelledError" and not isinstance(error, Exception):
            cancelled = RunCancelled()  # the producer is cancelled; the reader is not
            cancelled.__cause__ = error
            return cancelled
        return error

    def _stop(self) -> None:
        """End the producer; whoever calls waits for it."""
        self._finalizer.detach()
        self._producer.stop()

    def _left_behind(self) -> None:
        _left_behind(self._grace_s, self._given_up)


def _dropped(producer: _Producer, grace_s: float, given_up: Callable[[], None] | None) -> None:
    """Nobody reads any more and nobody waits: a finalizer may run anywhere, under any lock."""
    producer.stop()
    if given_up is None or producer.ended.done:
        return

    def wait() -> None:
        if not producer.ended.wait(grace_s):
            _left_behind(grace_s, given_up)

    try:
        spawn(wait)
    except RuntimeError:  # the interpreter ends
        return


def _left_behind(grace_s: float, given_up: Callable[[], None] | None) -> None:
    _log.warning(
        "a stream was closed while its producer was busy in a call that cannot be cancelled; it was left behind"
        " after %g s",
        grace_s,
    )
    if given_up is not None:
        try:
            given_up()
        except Exception:
            _log.warning("what a stream left behind could not be given up", exc_info=True)


class SyncStream(_Stream, Iterator[T]):
    """A plain iterator over what `produce(pipe)` puts, run in a worker thread under a copy of the context.

    With `on` (an event loop) `produce` is a coroutine function and runs there in one task instead. `given_up` is called
    when the stream is closed, or dropped, and its producer does not end within `grace_s`.
    """

    def __init__(
        self,
        produce: Callable[[Pipe], Any],
        *,
        on: asyncio.AbstractEventLoop | None = None,
        grace_s: float = GRACE_S,
        limit: int = LIMIT,
        given_up: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(grace_s, limit, given_up)
        pipe = self._pipe
        try:
            self._begin(_ThreadProducer(pipe) if on is None else _TaskProducer(pipe, on), produce)
        except BaseException:  # Ctrl-C
            if self._producer is not None:
                self.close()
            raise

    def __next__(self) -> T:
        if self._over:
            raise StopIteration
        try:
            item = self._pipe.get()
        except BaseException:  # Ctrl-C while waiting
            self.close()
            raise
        if type(item) is _End:
            raise self._last(item, StopIteration)
        return item  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the producer; returns when it has ended, or after `grace_s`."""
        if self._over:
            return
        self._over = True
        self._stop()
        if not self._producer.ended.wait(self._grace_s):
            self._left_behind()

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
            self._begin(_ThreadProducer(self._pipe), produce)
        else:
            self._begin(_TaskProducer(self._pipe, asyncio.get_running_loop()), produce)

    async def __anext__(self) -> T:
        pipe = self._pipe
        if pipe.items and not self._over:  # first, and as `take`, written out: it runs for each token
            item = pipe.items.popleft()
            if pipe.writers and len(pipe.items) <= pipe.limit // 2:
                pipe.wake_writers()
        else:
            if self._over:
                raise StopAsyncIteration
            if self._produce is not None:
                self._start(self._produce)
            try:
                item = await pipe.aget()
            except BaseException:  # the reader is cancelled: so is the run, whose clean-up it waits for
                if self._thread:  # which may be in the middle of a call that nothing can stop
                    self._over = True
                    self._finalizer()
                else:
                    await self.aclose()
                raise
        if type(item) is _End:
            raise self._last(item, StopAsyncIteration)
        return item  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        """End the producer; returns when it has ended, or after `grace_s`."""
        if self._over:
            return
        self._over = True
        if self._producer is None:
            return
        self._stop()
        try:
            await self._producer.ended.await_(self._grace_s)
        finally:
            if not self._producer.ended.done:
                self._left_behind()

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
