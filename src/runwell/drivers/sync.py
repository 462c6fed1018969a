"""The sync driver: carries out effects directly, in the calling thread, with no event loop."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from runwell.drivers.colour import is_coroutine, stopped
from runwell.drivers.threads import fan_out, spawn
from runwell.effects import Call, Callee, CallHook, Effect, Emit, Flow, Now, Outcome, RunTasks, Sleep
from runwell.errors import EngineBug, NodeTimeoutError, StreamClosed

if TYPE_CHECKING:
    from runwell.drivers.portal import LoopBridge

__all__ = ["InlineStream", "SyncDriver", "call_sync", "foreign", "run_sync", "timed_out"]

T = TypeVar("T")


def foreign(thing: Any) -> EngineBug:
    """For engine code that awaited something else than an effect."""
    return EngineBug(
        f"Engine code awaited {thing!r}, which is not an effect.",
        hint="If your own node or hook is marked with @flow, remove the mark; otherwise please report this.",
    )


def timed_out(callee: Callee[Any], seconds: float) -> NodeTimeoutError:
    return NodeTimeoutError(
        f"{callee!r} took longer than its timeout of {seconds:g} s.",
        kind="timeout",
        value=seconds,
        limit=seconds,
        hint="Raise the timeout, or make the work shorter.",
    )


def call_sync(callee: Callee[T], *args: Any, **kwargs: Any) -> T:
    """Call user code of either colour from plain code. `async` functions run on a loop of ours."""
    function = callee.sync
    if function is None:
        from runwell.drivers.portal import portal

        aio: Any = callee.aio
        if kwargs:
            return portal().call(lambda: aio(*args, **kwargs))  # type: ignore[no-any-return]
        return portal().call(aio, *args)  # type: ignore[no-any-return]
    result = function(*args, **kwargs)
    if is_coroutine(result):
        from runwell.drivers.portal import portal

        return portal().call(lambda: result)  # type: ignore[no-any-return, return-value]
    return result


class SyncDriver:
    """Drives engine code in the calling thread. One is made per run; `emit` receives what the run emits."""

    __slots__ = ("_bridge", "_table", "emit")

    def __init__(self, emit: Callable[[Any], None] | None = None, bridge: LoopBridge | None = None) -> None:
        self.emit = emit
        self._bridge = bridge
        self._table: dict[type, Callable[[Any], Any]] = {
            Call: self._call,
            CallHook: self._hook,
            Emit: self._emit,
            Now: _now,
            RunTasks: self._run_tasks,
            Sleep: _sleep,
        }

    def drive(self, coroutine: Flow[T]) -> T:
        """Run engine code to its end."""
        table, step, value = self._table, coroutine.send, None
        try:
            while True:
                effect = step(value)
                try:
                    value = table[type(effect)](effect)
                    step = coroutine.send
                except BaseException as error:
                    value = foreign(effect) if not isinstance(effect, Effect) else error
                    step = coroutine.throw
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    def bridge(self) -> LoopBridge:
        """Where `async` user code runs."""
        if self._bridge is None:
            from runwell.drivers.portal import portal

            return portal()
        return self._bridge

    def _call(self, effect: Call[Any]) -> Any:
        callee = effect.callee
        if effect.timeout is not None:
            return self._call_limited(callee, effect.args, effect.timeout)
        function = callee.sync
        if function is None:
            return self.bridge().call(callee.aio, *effect.args)  # type: ignore[arg-type]
        try:
            result = function(*effect.args)
        except StopIteration as error:
            raise stopped(error) from error
        return self.bridge().call(lambda: result) if is_coroutine(result) else result

    def _call_limited(self, callee: Callee[Any], args: tuple[Any, ...], seconds: float) -> Any:
        if callee.sync is None:
            try:
                return self.bridge().call(callee.aio, *args, timeout=seconds)  # type: ignore[arg-type]
            except TimeoutError as error:
                if isinstance(error, NodeTimeoutError):
                    raise
                raise timed_out(callee, seconds) from error
        box: SimpleQueue[Outcome[Any]] = SimpleQueue()
        context = copy_context()

        def job() -> None:
            try:
                box.put(Outcome(context.run(self._call, Call(callee, *args))))
            except BaseException as error:
                box.put(Outcome(error=error))

        spawn(job)
        try:
            return box.get(timeout=seconds).unwrap()
        except Empty:
            import logging

            logging.getLogger("runwell.drivers").warning("%r goes on in an abandoned thread after its timeout", callee)
            raise timed_out(callee, seconds) from None

    def _hook(self, effect: CallHook[Any]) -> Any:
        inner = effect.inner

        def handler(request: Any) -> Any:
            return self.drive(inner(request))

        hook = effect.hook
        if hook.sync is None:
            return self.bridge().call_hook(hook.aio, effect.request, handler)  # type: ignore[arg-type]
        try:
            result = hook.sync(effect.request, handler)
        except StopIteration as error:
            raise stopped(error) from error
        return self.bridge().call(lambda: result) if is_coroutine(result) else result

    def _emit(self, effect: Emit) -> None:
        if self.emit is not None:
            self.emit(effect.item)

    def _run_tasks(self, effect: RunTasks[Any]) -> list[Outcome[Any]]:
        tasks = effect.tasks
        if len(tasks) == 1:
            return [copy_context().run(self._one, tasks[0])]
        drive = self.drive
        return fan_out(
            [lambda task=task: drive(task()) for task in tasks],  # type: ignore[misc]
            effect.limit,
            stop_on_error=effect.stop_on_error,
        )

    def _one(self, task: Callable[[], Flow[Any]]) -> Outcome[Any]:
        try:
            return Outcome(self.drive(task()))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return Outcome(error=error)


def _now(effect: Now) -> float:
    return time.time()


def _sleep(effect: Sleep) -> None:
    time.sleep(effect.seconds)


def run_sync(coroutine: Flow[T], emit: Callable[[Any], None] | None = None) -> T:
    """Run engine code to its end in this thread, under a context of its own."""
    return copy_context().run(SyncDriver(emit).drive, coroutine)


class InlineStream(Iterator[T]):
    """A run that goes on only while its reader asks for the next item, in the reader's own thread.

    For runs that emit between steps. What tasks emit while they run is given out when their step has ended.
    Closing it raises `StreamClosed` in the run at the place where it stands.
    """

    def __init__(self, start: Callable[[SyncDriver], Flow[Any]], context: Context | None = None) -> None:
        self._buffer: deque[Any] = deque()
        self._driver = SyncDriver(self._buffer.append)
        self._context = context or copy_context()
        self._lock = threading.Lock()
        self._coroutine: Flow[Any] | None = self._context.run(start, self._driver)
        self._step: tuple[bool, Any] = (True, None)

    def __next__(self) -> T:
        while not self._buffer:
            if self._coroutine is None:
                raise StopIteration
            with self._lock:
                self._context.run(self._advance)
        return self._buffer.popleft()  # type: ignore[no-any-return]

    def _advance(self) -> None:
        """One effect further."""
        coroutine = self._coroutine
        assert coroutine is not None
        table = self._driver._table
        send, value = self._step
        try:
            effect = coroutine.send(value) if send else coroutine.throw(value)
        except StopIteration:
            self._coroutine = None
            return
        except BaseException:
            self._coroutine = None
            raise
        try:
            self._step = (True, table[type(effect)](effect))
        except BaseException as error:
            self._step = (False, foreign(effect) if not isinstance(effect, Effect) else error)

    def close(self) -> None:
        """End the run where it stands."""
        coroutine, self._coroutine = self._coroutine, None
        self._buffer.clear()
        if coroutine is not None:
            self._context.run(_end, coroutine)

    def __enter__(self) -> InlineStream[T]:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_coroutine", None) is not None:
            self.close()


def _end(coroutine: Flow[Any]) -> None:
    """Unwind engine code that will not be driven on: its clean-up may ask for effects, which still happen."""
    driver = SyncDriver()

    try:
        effect = coroutine.throw(StreamClosed())
        while True:
            effect = coroutine.send(driver._table[type(effect)](effect))
    except (StopIteration, StreamClosed):
        return
