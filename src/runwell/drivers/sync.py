"""The sync driver: carries out effects directly, in the calling thread, with no event loop."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from contextvars import Context, copy_context
from queue import Empty, SimpleQueue
from types import CoroutineType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from runwell.drivers.cancel import CANCEL, CancelGroup, Kept, nap, portal_depth, run_context
from runwell.drivers.carried import carry_back
from runwell.drivers.colour import RETOLD, is_coroutine, timed_out, told_apart
from runwell.drivers.threads import fan_out, spawn
from runwell.effects import Call, Callee, CallHook, Emit, Flow, Now, Outcome, RunTask, RunTasks, Sleep, Then
from runwell.errors import EngineBug, RunCancelled, StreamClosed

if TYPE_CHECKING:
    from runwell.drivers.deadline import Deadline
    from runwell.drivers.portal import LoopBridge

__all__ = ["InlineStream", "SyncDriver", "call_sync", "failure", "rethrown", "run_sync"]

T = TypeVar("T")


def foreign(thing: Any, coroutine: Any) -> EngineBug:
    """For engine code that awaited something else than an effect. It stands at that `await` right now."""
    names = []
    while coroutine is not None:
        if hasattr(coroutine, "__qualname__"):
            names.append(coroutine.__qualname__)
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
    return EngineBug(
        f"Engine code awaited {thing!r}, which is not an effect, in {' > '.join(names)}.",
        hint="If your own node or hook is marked with @flow, remove the mark; otherwise please report this.",
    )


def failure(error: BaseException, effect: Any, coroutine: Any, known: Container[type]) -> BaseException:
    """What engine code is told of an effect that failed."""
    if type(effect) not in known:
        return foreign(effect, coroutine)
    return rethrown(error)


def rethrown(error: BaseException) -> BaseException:
    """An error out of an effect, to be raised where engine code awaits that."""
    trace = error.__traceback__
    return error.with_traceback(trace and trace.tb_next)  # the driver's own frame will be in it once more


def call_sync(callee: Callee[T], *args: Any, **kwargs: Any) -> T:
    """Call user code of either colour from plain code. `async` functions run on a loop of ours."""
    function: Any = callee.sync
    if function is None:
        return _on_portal(callee.aio, args, kwargs)  # type: ignore[no-any-return]
    try:
        result = function(*args, **kwargs)
    except RETOLD as error:
        if (told := told_apart(error)) is error:
            raise
        raise told from error
    return _on_portal(given, (result,), {}) if is_coroutine(result) else result  # type: ignore[no-any-return]


def _on_portal(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from functools import partial

    from runwell.drivers.portal import portal

    return portal().call(partial(function, **kwargs) if kwargs else function, *args)


async def given(coroutine: Any) -> Any:
    """What a coroutine gives, as a coroutine function to be called with it."""
    return await coroutine


class SyncDriver:
    """Drives engine code in the calling thread. One is made per run; `emit` receives what the run emits.

    Once the group it runs under is cancelled, its next call raises `RunCancelled`, unless that call is shielded.
    """

    __slots__ = ("_bridge", "emit")

    _table: ClassVar[dict[type, Callable[[Any, Any], Any]]]
    """Which method carries out which effect."""

    def __init__(self, emit: Callable[[Any], None] | None = None, bridge: LoopBridge | None = None) -> None:
        self.emit = emit
        self._bridge = bridge

    def drive(self, flow: Flow[T] | Then[T], thrown: BaseException | None = None) -> T:
        """Run engine code to its end; with `thrown`, by raising that where it stands."""
        table: Any = self._table
        if isinstance(flow, Then):
            return flow.then(table[type(flow.effect)](self, flow.effect))
        coroutine: Any = flow
        send = coroutine.send
        try:
            effect = send(None) if thrown is None else coroutine.throw(thrown)
            while True:
                try:
                    value = table[type(effect)](self, effect)
                except BaseException as error:
                    value = failure(error, effect, coroutine, table)
                else:
                    effect = send(value)
                    continue
                effect = coroutine.throw(value)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    def bridge(self) -> LoopBridge:
        """Where `async` user code runs."""
        if self._bridge is None:
            from runwell.drivers.portal import portal

            return portal()
        return self._bridge

    def _call(self, effect: Call[Any]) -> Any:
        group = CANCEL.get()
        if group is not None:
            if group.cancelled and (not effect.shield or group.abandoned):
                raise RunCancelled()  # of one that was given up nothing more is saved, behind who went on without it
            if effect.shield:
                return self._shielded(effect, group)
        callee = effect.callee
        if effect.timeout is not None:
            return self._call_limited(effect, callee, effect.timeout)
        function = callee.sync
        if function is None:
            return self.bridge().call(callee.aio, *effect.args, shield=effect.shield)  # type: ignore[arg-type]
        try:
            result = function(*effect.args)
        except RETOLD as error:
            if (told := told_apart(error)) is error:
                raise
            raise told from error
        if type(result) is not CoroutineType:
            return result
        return self.bridge().call(given, result, shield=effect.shield)

    def _shielded(self, effect: Call[Any], group: CancelGroup) -> Any:
        """Nothing cancels it, and who cancels the group waits for it."""
        context = copy_context()
        context.run(CANCEL.set, None)
        kept = Kept()
        group.add(kept)
        try:
            if group.abandoned:  # by now: who went on without us looked before we were there to be waited for
                raise RunCancelled()
            return context.run(self._call, effect)
        finally:
            group.discard(kept)
            kept.end()

    def _call_limited(self, effect: Call[Any], callee: Callee[Any], timeout: float | Deadline) -> Any:
        from runwell.drivers.deadline import Deadline

        deadline = Deadline(timeout) if isinstance(timeout, (int, float)) else timeout
        if callee.sync is None:
            from runwell.drivers.portal import limited

            return self.bridge().call(limited, deadline, callee, callee.aio, *effect.args, shield=effect.shield)
        box: SimpleQueue[Outcome[Any]] = SimpleQueue()
        group = CancelGroup()
        context = run_context(group)

        def job() -> None:
            try:
                box.put(Outcome(context.run(self._call, Call(callee, *effect.args))))
            except BaseException as error:
                box.put(Outcome(error=error))
            finally:
                group.detach()

        deadline.start()
        spawn(job)
        outcome: Outcome[Any] | None = None
        try:
            while outcome is None and (left := deadline.left()) > 0:  # a sign of life meanwhile makes it go round
                with suppress(Empty):
                    outcome = box.get(timeout=left)
        except BaseException:
            group.cancel()
            group.settle()
            raise
        if outcome is None:
            group.abandon()
            group.settle()  # async work inside ends before who called goes on
            raise timed_out(callee, deadline)
        carry_back(context)
        return outcome.unwrap()

    def _hook(self, effect: CallHook[Any]) -> Any:
        hook, inner = effect.hook, effect.inner
        on_loop: Callable[[Any], Any] | None = None

        def handler(request: Any) -> Any:
            return self.drive(inner(request)) if on_loop is None else on_loop(request)

        if hook.sync is None:
            return self.bridge().call_hook(hook.aio, effect.request, handler)  # type: ignore[arg-type]
        try:
            result = hook.sync(effect.request, handler)
        except RETOLD as error:
            if (told := told_apart(error)) is error:
                raise
            raise told from error
        if type(result) is not CoroutineType:
            return result

        def given(request: Any, handler: Callable[[Any], Any]) -> Any:
            nonlocal on_loop
            on_loop = handler
            return result

        return self.bridge().call_hook(given, effect.request, lambda request: self.drive(inner(request)))

    def _emit(self, effect: Emit) -> None:
        if self.emit is not None:
            self.emit(effect.item)

    def _run_tasks(self, effect: RunTasks[Any]) -> list[Outcome[Any]]:
        tasks = effect.tasks
        if len(tasks) == 1:
            return [copy_context().run(self._one, tasks[0])]
        drive = self.drive
        return fan_out(tasks, effect.limit, stop_on_error=effect.stop_on_error, call=lambda task: drive(task()))

    def _run_task(self, effect: RunTask[T]) -> T:
        return copy_context().run(self.drive, effect.begin(effect.arg))

    def _one(self, task: Callable[[], Flow[Any]]) -> Outcome[Any]:
        try:
            return Outcome(self.drive(task()))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return Outcome(error=error)

    def _now(self, effect: Now) -> float:
        return time.time()

    def _sleep(self, effect: Sleep) -> None:
        nap(effect.seconds)


SyncDriver._table = {
    Call: SyncDriver._call,
    CallHook: SyncDriver._hook,
    Emit: SyncDriver._emit,
    Now: SyncDriver._now,
    RunTask: SyncDriver._run_task,
    RunTasks: SyncDriver._run_tasks,
    Sleep: SyncDriver._sleep,
}


def run_sync(coroutine: Flow[T], emit: Callable[[Any], None] | None = None) -> T:
    """Run engine code to its end in this thread, under a context of its own.

    In a thread that runs an event loop this holds the loop up until the run has ended; a RuntimeWarning says so, once
    for each place, except in a notebook (whose loop has nothing else to do).
    """
    aio = sys.modules.get("asyncio")
    if aio is not None and aio._get_running_loop() is not None:
        _blocks_loop()
    return copy_context().run(SyncDriver(emit).drive, coroutine)


def _blocks_loop() -> None:
    if "ipykernel" in sys.modules or hasattr(portal_depth, "value"):  # a portal's loop is ours: calls move to the next
        return
    import warnings

    frame, level, name = sys._getframe(1), 2, "run_sync"
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("runwell."):
        name, frame, level = frame.f_code.co_name, frame.f_back, level + 1
    instead = "run_async" if name == "run_sync" else f"a{name}"
    warnings.warn(
        f"`{name}` is called where an event loop is running and holds that loop up until it has ended;"
        f" `await ...{instead}(...)` lets it go on.",
        RuntimeWarning,
        stacklevel=level,
    )


class InlineStream(Iterator[T]):
    """A run that goes on only while its reader asks for the next item, in the reader's own thread.

    For runs that emit between steps. What tasks emit while they run is given out when their step has ended.
    Closing it raises `StreamClosed` in the run at the place where it stands; dropping it does so in another thread.
    """

    def __init__(self, start: Callable[[SyncDriver], Flow[Any]], context: Context | None = None) -> None:
        self._buffer: deque[Any] = deque()
        self._driver = SyncDriver(self._buffer.append)
        self._context = context or copy_context()
        self._lock = threading.Lock()
        self._step: tuple[bool, Any] = (True, None)
        self._coroutine: Flow[Any] | None = self._context.run(start, self._driver)

    def __next__(self) -> T:
        buffer = self._buffer
        while True:
            if buffer:
                try:
                    return buffer.popleft()  # type: ignore[no-any-return]
                except IndexError:  # another reader was quicker
                    continue
            with self._lock:
                if self._coroutine is None:
                    if buffer:
                        continue
                    raise StopIteration
                if not buffer:
                    self._context.run(self._advance, self._coroutine)

    def _advance(self, coroutine: Flow[Any]) -> None:
        """One effect further."""
        driver = self._driver
        table = driver._table
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
            self._step = (True, table[type(effect)](driver, effect))
        except BaseException as error:
            self._step = (False, failure(error, effect, coroutine, table))

    def close(self) -> None:
        """End the run where it stands: its clean-up happens here and now. Errors of the clean-up are raised."""
        with self._lock:
            coroutine, self._coroutine = self._coroutine, None
            self._buffer.clear()
            if coroutine is not None:
                self._context.run(_end, coroutine)

    def __enter__(self) -> InlineStream[T]:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        coroutine = getattr(self, "_coroutine", None)
        if coroutine is None:
            return
        if self._step == (True, None) and coroutine.cr_frame.f_lasti < 0:
            coroutine.close()  # never begun
            return
        context = self._context

        def job() -> None:
            try:
                context.run(_end, coroutine)
            except BaseException:
                import logging

                logging.getLogger("runwell.drivers").exception("a run failed while it ended: its stream was dropped")

        try:
            spawn(job)  # a finalizer may run anywhere, under any lock: it must not wait
        except RuntimeError:  # the interpreter ends
            return


def _end(coroutine: Flow[Any]) -> None:
    """Unwind engine code that will not be driven on. Its clean-up may ask for effects, which still happen."""
    try:
        SyncDriver().drive(coroutine, StreamClosed())
    except StreamClosed:
        return
