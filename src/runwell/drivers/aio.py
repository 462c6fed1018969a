"""The async driver: awaits what effects ask for on the running event loop.

Plain user code that may block runs in a worker thread, and a stretch of it stays in that one thread: only a change of
colour hops.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from types import CoroutineType
from typing import Any, ClassVar, TypeVar

from runwell.drivers.cancel import CANCEL, CLEAN_UP_S, CancelGroup
from runwell.drivers.carried import carry_back
from runwell.drivers.colour import RETOLD, in_place, is_coroutine, told_apart
from runwell.drivers.deadline import Deadline
from runwell.drivers.driven import Driven
from runwell.drivers.hosts import Hosted, run_lone
from runwell.drivers.outlast import outlast
from runwell.drivers.portal import LoopBridge, attempt, limited, settle
from runwell.drivers.sync import SyncDriver, given
from runwell.drivers.threads import spawn
from runwell.effects import Call, Callee, CallHook, Emit, Flow, Later, Now, Outcome, RunTask, RunTasks, Sleep, Then
from runwell.errors import RunCancelled

__all__ = ["AsyncDriver", "acompleted", "afan_out", "call_async", "in_worker", "run_async", "running"]

T = TypeVar("T")

_log = logging.getLogger("runwell.drivers")


async def in_worker(function: Callable[..., T], *args: Any, shield: bool = False) -> T:
    """Run a plain function in a worker thread, under a copy of the context, and take over what it sets there.

    Cancelling abandons the thread; async work that it waits for is cancelled too, and has time for its clean-up, as a
    save of a run inside has for its end. With `shield` it waits for the end of all instead, and is cancelled then.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Outcome[T]] = loop.create_future()
    # What ends with the work even if `ended` is cancelled. `asyncio.shield` takes a round of the loop more, every time.
    over: asyncio.Future[Outcome[T]] | None = loop.create_future() if shield else None
    group = CancelGroup()
    context = copy_context()
    context.run(CANCEL.set, group)

    def job() -> None:
        try:
            outcome = Outcome[T](context.run(function, *args))
        except BaseException as error:
            outcome = Outcome(error=told_apart(error))
        try:
            loop.call_soon_threadsafe(tell, outcome)
        except RuntimeError:  # the loop is closed: nobody waits any more
            _log.debug("result of %r came after its loop had closed", function)

    def tell(outcome: Outcome[T]) -> None:
        settle(ended, outcome)
        if over is not None:
            over.set_result(outcome)

    spawn(job)
    try:
        outcome = await ended
    except asyncio.CancelledError:
        if over is not None:
            await outlast([over])
        else:
            group.abandon()
            await _settled(group)
        raise
    finally:
        group.detach()
    carry_back(context)
    if outcome.error is None and is_coroutine(outcome.value):
        return await (_shielded(attempt(given, outcome.value)) if shield else given(outcome.value))
    return outcome.unwrap()


async def _settled(group: CancelGroup) -> None:
    """`CancelGroup.settle`, without blocking the loop."""
    loop = asyncio.get_running_loop()
    settled: asyncio.Future[None] = loop.create_future()
    left = 0

    def one_ended() -> None:
        nonlocal left
        left -= 1
        if not left:
            settle(settled, None)

    def report() -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(one_ended)

    left = group.tell(report)
    if left:
        late = loop.call_later(CLEAN_UP_S, settle, settled, None)
        try:
            await outlast([settled])
        finally:
            late.cancel()


async def call_async(callee: Callee[T], *args: Any, **kwargs: Any) -> T:
    """Call user code of either colour from async code. Plain functions run in a worker thread unless cheap."""
    try:
        if callee.aio is not None:
            return await callee.aio(*args, **kwargs)
        function: Any = callee.sync
        if kwargs:
            function = partial(function, **kwargs)
        if not callee.cheap:
            return await in_worker(function, *args)
        result = in_place(function, *args)
        return await result if is_coroutine(result) else result  # type: ignore[no-any-return]
    except (*RETOLD, RuntimeError) as error:
        if (told := told_apart(error)) is error:
            raise
        raise told from error


class AsyncDriver(Hosted):
    """Drives engine code on the running loop. One is made per run; `emit` is awaited with what the run emits."""

    __slots__ = ("emit",)

    table: ClassVar[dict[type, Callable[[Any, Any], Any]]]
    """Which method carries out which effect: at once, or by giving what to await."""

    def __init__(self, emit: Callable[[Any], Awaitable[None]] | None = None) -> None:
        super().__init__()
        self.emit = emit

    def drive(self, flow: Flow[T] | Then[T]) -> Driven[T]:
        """Engine code, to be awaited."""
        made: Any = flow.__await__() if isinstance(flow, Then) else flow
        return Driven(self, made)

    def _call(self, effect: Call[Any]) -> Any:
        callee = effect.callee
        if callee.now is not None and effect.timeout is None:
            found = callee.now(*effect.args)
            return in_worker(found.work, shield=effect.shield) if type(found) is Later else found
        if effect.timeout is not None or effect.shield:
            if callee.cheap and callee.aio is None and effect.timeout is None:  # nothing can cancel what never waits
                result = in_place(callee.sync, *effect.args)  # type: ignore[arg-type]
                return _shielded(attempt(given, result)) if is_coroutine(result) else result
            return self._call_guarded(effect)
        if callee.aio is not None:
            made = callee.aio(*effect.args)
            return made if type(made) is CoroutineType else given(made)
        assert callee.sync is not None
        return in_place(callee.sync, *effect.args) if callee.cheap else in_worker(callee.sync, *effect.args)

    async def _call_guarded(self, effect: Call[Any]) -> Any:
        callee, seconds = effect.callee, effect.timeout
        if seconds is None and callee.aio is None:
            assert callee.sync is not None
            return await in_worker(callee.sync, *effect.args, shield=True)
        work: Awaitable[Outcome[Any]]
        if seconds is None:
            work = attempt(call_async, callee, *effect.args)
        else:
            work = attempt(self._limited, seconds, callee, *effect.args)
        return await _shielded(work) if effect.shield else (await work).unwrap()

    @staticmethod
    async def _limited(timeout: float | Deadline, callee: Callee[Any], *args: Any) -> Any:
        deadline = timeout if isinstance(timeout, Deadline) else Deadline(timeout)
        if callee.aio is not None:
            return await limited(deadline, callee, callee.aio, *args)
        # in a thread even if cheap: nothing else can be given up
        return await limited(deadline, callee, in_worker, callee.sync, *args)

    def _hook(self, effect: CallHook[Any]) -> Any:
        hook, inner = effect.hook, effect.inner
        if hook.aio is None:
            return self._plain_hook(hook, effect.request, inner)

        made = hook.aio(effect.request, partial(self._inner, inner))
        return made if type(made) is CoroutineType else given(made)

    async def _plain_hook(self, hook: Callee[Any], request: Any, inner: Callable[[Any], Flow[Any] | Then[Any]]) -> Any:
        assert hook.sync is not None
        bridge = LoopBridge(asyncio.get_running_loop())
        driver = SyncDriver(self._emit_from_thread(bridge), bridge)

        def handler(request: Any) -> Any:
            if asyncio._get_running_loop() is bridge.loop:  # the hook gave back a coroutine, which awaits this
                return self._inner(inner, request)
            return driver.drive(inner(request))

        try:
            return await call_async(Callee(hook.sync, None), request, handler)
        except asyncio.CancelledError:
            bridge.cancel_all()
            raise

    async def _inner(self, inner: Callable[[Any], Flow[T] | Then[T]], request: Any) -> T:
        """`drive` for user code, which may expect a coroutine."""
        return await self.drive(inner(request))

    def _emit_from_thread(self, bridge: LoopBridge) -> Callable[[Any], None] | None:
        emit = self.emit
        return None if emit is None else lambda item: bridge.call(emit, item)

    def _emit(self, effect: Emit) -> Any:
        return None if self.emit is None else given(self.emit(effect.item))

    def _run_tasks(self, effect: RunTasks[Any]) -> Any:
        if len(effect.tasks) == 1:
            begin, effect.tasks = effect.tasks[0], ()  # the effect stays while it waits
            return run_lone(self, RunTask(lambda _: begin()), listed=True)
        drive = self.drive
        return afan_out(
            [lambda task=task: drive(task()) for task in effect.tasks],  # type: ignore[misc]
            effect.limit,
            stop_on_error=effect.stop_on_error,
        )

    def _now(self, effect: Now) -> float:
        return time.time()

    def _sleep(self, effect: Sleep) -> Any:
        return asyncio.sleep(effect.seconds)


AsyncDriver.table = {
    Call: AsyncDriver._call,
    CallHook: AsyncDriver._hook,
    Emit: AsyncDriver._emit,
    Now: AsyncDriver._now,
    RunTask: run_lone,
    RunTasks: AsyncDriver._run_tasks,
    Sleep: AsyncDriver._sleep,
}


async def _shielded(work: Awaitable[Outcome[T]]) -> T:
    """Let it end even if we are cancelled meanwhile; then the cancellation goes on."""
    task = asyncio.ensure_future(work)
    try:
        outcome = await asyncio.shield(task)
    except asyncio.CancelledError:
        await outlast([task])
        raise
    return outcome.unwrap()


class _Run(Driven[T]):
    """A whole run: hosts that stand by for it end with it."""

    __slots__ = ()

    def go(self, step: Callable[[Any], Any], value: Any) -> Any:
        try:
            return super().go(step, value)
        except BaseException:
            self.driver.close()
            raise


def running(
    flow: Flow[T], emit: Callable[[Any], Awaitable[None]] | None = None, context: Context | None = None
) -> Driven[T]:
    """`run_async`, to be awaited, without a coroutine of its own. `context` is to be the run's own."""
    return _Run(AsyncDriver(emit), flow, copy_context() if context is None else context)


async def run_async(coroutine: Flow[T], emit: Callable[[Any], Awaitable[None]] | None = None) -> T:
    """Run engine code to its end on the running loop, under a context of its own."""
    return await running(coroutine, emit)


async def afan_out(
    thunks: Sequence[Callable[[], Awaitable[T]]], limit: int | None = None, *, stop_on_error: bool = False
) -> list[Outcome[T]]:
    """Run coroutine functions side by side, at most `limit` at once; their outcomes in the order given.

    Each runs in a task under its own copy of the caller's context. With `stop_on_error` an Exception of one keeps the
    rest from starting and cancels those under way (their outcome is an error too). Cancelling the caller cancels all.
    """
    if len(thunks) == 1:
        return [await _lone(thunks[0])]
    pool = _Tasks(thunks, limit, stop_on_error)
    try:
        await pool.done  # not the tasks: a task that swallows a cancellation must not swallow ours
    except asyncio.CancelledError:
        await pool.cancel()
        raise
    return [outcome if outcome is not None else Outcome(error=RunCancelled()) for outcome in pool.outcomes]


async def _lone(thunk: Callable[..., Awaitable[T]], *args: Any) -> Outcome[T]:
    here = asyncio.current_task()
    assert here is not None
    cancels = here.cancelling()
    # A task of its own, since a failed task group of the user's leaves its mark on the task it ran in. Cancelling us
    # cancels it, and we wait for its clean-up.
    outcome = await asyncio.get_running_loop().create_task(attempt(thunk, *args), context=copy_context())
    if here.cancelling() > cancels:  # it made an outcome of a cancellation that is ours
        raise asyncio.CancelledError
    if isinstance(outcome.error, KeyboardInterrupt):
        raise outcome.error
    return outcome


class _Tasks:
    """At most `limit` tasks at once; each that ends starts the next. No task group is open across anything."""

    def __init__(self, thunks: Sequence[Callable[[], Awaitable[Any]]], limit: int | None, stop_on_error: bool) -> None:
        self.loop = asyncio.get_running_loop()
        self.context = copy_context()
        self.outcomes: list[Outcome[Any] | None] = [None] * len(thunks)
        self.todo: Iterator[tuple[int, Callable[[], Awaitable[Any]]]] = iter(enumerate(thunks))
        self.running: dict[asyncio.Task[Outcome[Any]], int] = {}
        self.stop_on_error = stop_on_error
        self.stopped = False
        self.interrupted: KeyboardInterrupt | None = None
        self.report: Callable[[int, Outcome[Any]], None] | None = None
        self.done: asyncio.Future[None] = self.loop.create_future()
        for _ in range(min(limit or len(thunks), len(thunks))):
            self.start()
        if not self.running:
            self.done.set_result(None)

    def start(self) -> None:
        for index, thunk in self.todo:
            task = self.loop.create_task(attempt(thunk), context=self.context.copy())
            self.running[task] = index
            task.add_done_callback(self.ended)
            return

    def ended(self, task: asyncio.Task[Outcome[Any]]) -> None:
        index = self.running.pop(task)
        outcome = Outcome[Any](error=asyncio.CancelledError()) if task.cancelled() else task.result()
        error = outcome.error
        if error is not None:
            if isinstance(error, KeyboardInterrupt):  # about the program, not about this task
                self.interrupted = error
                self.stop()
            elif self.stopped and isinstance(error, asyncio.CancelledError):
                outcome = Outcome(error=RunCancelled())
            elif self.stop_on_error and isinstance(error, Exception):
                self.stop()
        self.outcomes[index] = outcome
        if self.report is not None:
            self.report(index, outcome)
        self.start()
        if not self.running and not self.done.done():
            if self.interrupted is None or self.report is not None:
                self.done.set_result(None)
            else:
                self.done.set_exception(self.interrupted)

    def stop(self) -> None:
        self.stopped = True
        self.todo = iter(())
        for task in self.running:
            task.cancel()

    async def cancel(self) -> None:
        self.stop()
        if self.running:
            await outlast(list(self.running))


class acompleted(AsyncIterator[tuple[int, Outcome[T]]]):  # noqa: N801 - reads as the function it is used as
    """`completed` for coroutine functions. `aclose`, or dropping it, cancels what is under way."""

    def __init__(self, thunks: Sequence[Callable[[], Awaitable[T]]], limit: int | None = None) -> None:
        self._thunks = thunks
        self._limit = limit
        self._left = len(thunks)
        self._pool: _Tasks | None = None
        self._queue: asyncio.Queue[tuple[int, Outcome[T]]]

    async def __anext__(self) -> tuple[int, Outcome[T]]:
        if not self._left:
            raise StopAsyncIteration
        if self._pool is None:
            self._queue = asyncio.Queue()
            self._pool = _Tasks(self._thunks, self._limit, False)
            put = self._queue.put_nowait
            self._pool.report = lambda index, outcome: put((index, outcome))
        try:
            item = await self._queue.get()
            if self._pool.interrupted is not None:
                raise self._pool.interrupted
        except (asyncio.CancelledError, KeyboardInterrupt):
            await self.aclose()
            raise
        self._left -= 1
        return item

    async def aclose(self) -> None:
        """Cancel what is under way, and wait for its clean-up."""
        self._left = 0
        if self._pool is not None:
            await self._pool.cancel()

    def __del__(self) -> None:
        pool: _Tasks | None = getattr(self, "_pool", None)
        if pool is not None and self._left and not pool.loop.is_closed():
            pool.loop.call_soon_threadsafe(pool.stop)
