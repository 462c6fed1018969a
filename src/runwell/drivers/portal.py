"""An event loop in a thread of ours, for `async` user code met by plain callers.

Every call carries its outcome back, so one caller's failure leaves the loop running. A caller that is interrupted
(Ctrl-C) cancels its task and waits for it to clean up. A plain call made from a portal's own thread gets the next
portal: it blocks its own loop, as any plain call in async code does, but cannot wait for itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, copy_context
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from runwell.drivers.cancel import CANCEL, CLEAN_UP_S, FLOOR, portal_depth
from runwell.drivers.carried import carry_back
from runwell.drivers.colour import timed_out, told_apart
from runwell.effects import Callee, Outcome
from runwell.errors import RunCancelled, RunningLoop

if TYPE_CHECKING:
    from runwell.drivers.deadline import Deadline

__all__ = ["LoopBridge", "Portal", "attempt", "limited", "portal", "settle"]

_log = logging.getLogger("runwell.drivers")
_portals: list[Portal] = []
_lock = threading.Lock()

Work = Callable[[SimpleQueue[Any]], Coroutine[Any, Any, Outcome[Any]]]


async def attempt(function: Callable[..., Awaitable[Any]], *args: Any) -> Outcome[Any]:
    """Await user code; whatever comes of it, signals and cancellation included, as an outcome."""
    try:
        return Outcome(await function(*args))
    except BaseException as error:
        return Outcome(error=told_apart(error))


async def limited(deadline: Deadline, callee: Callee[Any], function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
    """Await user code until the deadline; past that it is cancelled and NodeTimeoutError raised.

    A TimeoutError of its own, raised in time, passes as it is.
    """
    deadline.start()
    loop = asyncio.get_running_loop()
    watch: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal watch
        left = deadline.left()
        if left > 0:  # there was a sign of life meanwhile
            watch = loop.call_later(left, look)
        else:
            limit.reschedule(loop.time())

    try:
        async with asyncio.timeout(deadline.run if deadline.idle is None else None) as limit:
            if deadline.idle is not None:
                look()
            try:
                return await function(*args)
            finally:
                if watch is not None:
                    watch.cancel()
    except TimeoutError as error:
        if limit.expired():
            raise timed_out(callee, deadline) from error
        raise


class LoopBridge:
    """Lets plain code in other threads run `async` functions on a loop and wait for them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.tasks: set[asyncio.Task[Any]] = set()
        self.closed = False

    def call(self, function: Callable[..., Awaitable[Any]], *args: Any, shield: bool = False) -> Any:
        """Run `function(*args)` on the loop under a copy of the caller's context; its result, or its exception.

        What it sets in that context is set for the caller then.
        With `shield` nothing cancels it.
        """
        return self._serve(lambda box: attempt(function, *args), None, shield)

    def call_hook(self, hook: Callable[..., Awaitable[Any]], request: Any, inner: Callable[[Any], Any]) -> Any:
        """Run an `async` hook on the loop; its `handler(request)` runs `inner(request)` in the calling thread."""
        loop = self.loop

        def work(box: SimpleQueue[Any]) -> Coroutine[Any, Any, Outcome[Any]]:
            async def handler(request: Any) -> Any:
                served: asyncio.Future[Outcome[Any]] = loop.create_future()
                context = copy_context()
                box.put((request, served, context))
                outcome = await served
                carry_back(context)
                return outcome.unwrap()

            return attempt(hook, request, handler)

        return self._serve(work, inner, False)

    def _serve(self, work: Work, inner: Callable[[Any], Any] | None, shield: bool) -> Any:
        if asyncio._get_running_loop() is self.loop:
            raise RunningLoop(
                "A plain call would wait for async work on the event loop that it holds up.",
                hint="Call it from the thread it was given to, or make the code around it `async`.",
            )
        context = copy_context()
        depth = getattr(portal_depth, "value", None)
        if depth is not None:  # nor may threads that serve what runs there wait for this one's loop
            context.run(FLOOR.set, depth)
        group = CANCEL.get()
        if shield and group is not None:
            context.run(CANCEL.set, None)
        state = _Pending(self, shield)
        box = state.box
        try:
            self.loop.call_soon_threadsafe(state.start, work, context)
            if group is not None:
                group.add(state)
            while True:
                item = box.get()
                if item is None:
                    break
                assert inner is not None
                request, served, its_context = item
                outcome = its_context.run(_plainly, inner, request)
                self.loop.call_soon_threadsafe(settle, served, outcome)
                if isinstance(outcome.error, KeyboardInterrupt):
                    outcome.unwrap()
        except BaseException:  # Ctrl-C: cancel, and let the task clean up before going on
            state.cancel()
            self._clean_up(state)
            raise
        finally:
            if group is not None:
                group.discard(state)
        assert state.outcome is not None
        carry_back(context)
        error = state.outcome.error
        if error is None:
            return state.outcome.value
        if state.cancelled and isinstance(error, asyncio.CancelledError):
            raise RunCancelled() from error
        raise error

    def _clean_up(self, state: _Pending) -> None:
        """Wait for a cancelled task to end, but not for ever."""
        deadline = time.monotonic() + CLEAN_UP_S
        while state.outcome is None and not self.loop.is_closed():
            try:
                item = state.box.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                _log.warning("%r does not end although it is cancelled; it was left behind", state.task)
                return
            if item is not None:  # its clean-up asks for the inner part once more
                self.loop.call_soon_threadsafe(settle, item[1], Outcome(error=RunCancelled()))

    def cancel_all(self) -> None:
        """Cancel what runs, and refuse what comes. Called on the loop."""
        self.closed = True
        for task in list(self.tasks):
            task.cancel()


def _plainly(inner: Callable[[Any], Any], request: Any) -> Outcome[Any]:
    try:
        return Outcome(inner(request))
    except BaseException as error:
        return Outcome(error=error)


def settle(future: asyncio.Future[Any], value: Any) -> None:
    """Give a future its value, unless it was cancelled meanwhile."""
    if not future.done():
        future.set_result(value)


class _Pending:
    """One call's task on the loop. A shielded one runs to its end whatever happens."""

    __slots__ = ("box", "bridge", "cancelled", "outcome", "shield", "task")

    def __init__(self, bridge: LoopBridge, shield: bool) -> None:
        self.bridge = bridge
        self.box: SimpleQueue[Any] = SimpleQueue()
        """What a hook asks its handler, and None once `outcome` is there."""
        self.task: asyncio.Task[Outcome[Any]] | None = None
        self.outcome: Outcome[Any] | None = None
        self.cancelled = False
        self.shield = shield

    def start(self, work: Work, context: Context) -> None:
        if self.outcome is not None:
            return
        if not self.shield and (self.cancelled or self.bridge.closed):
            self._end(Outcome(error=RunCancelled()))
            return
        self.task = task = self.bridge.loop.create_task(work(self.box), context=context)
        if not self.shield:
            self.bridge.tasks.add(task)
        task.add_done_callback(self.ended)

    def ended(self, task: asyncio.Task[Outcome[Any]]) -> None:
        self.bridge.tasks.discard(task)
        # cancelled: before its first step, so that `attempt` never ran
        self._end(Outcome(error=RunCancelled()) if task.cancelled() else task.result())

    def _end(self, outcome: Outcome[Any]) -> None:
        self.outcome = outcome
        self.box.put(None)

    def cancel(self) -> None:
        self.cancelled = not self.shield
        try:
            self.bridge.loop.call_soon_threadsafe(self._cancel)
        except RuntimeError:  # the loop is closed: nothing runs there
            return

    def _cancel(self) -> None:
        if self.task is None:
            if self.outcome is None:  # Ctrl-C came before it was started
                self._end(Outcome(error=RunCancelled()))
        elif not self.shield:
            self.task.cancel()

    def tell(self, report: Callable[[], None]) -> int:
        try:
            self.bridge.loop.call_soon_threadsafe(self._tell, report)
        except RuntimeError:
            return 0
        return 1

    def _tell(self, report: Callable[[], None]) -> None:
        if self.task is None or self.task.done():
            report()
        else:
            self.task.add_done_callback(lambda task: report())


class Portal(LoopBridge):
    """A loop in a daemon thread of its own, started when first needed and kept."""

    def __init__(self, depth: int) -> None:
        super().__init__(asyncio.new_event_loop())
        self.thread = threading.Thread(target=self._run, args=(depth,), name=f"runwell-portal-{depth}", daemon=True)
        self.thread.start()

    def _run(self, depth: int) -> None:
        portal_depth.value = depth
        asyncio.set_event_loop(self.loop)
        while True:
            try:
                self.loop.run_forever()
            except BaseException:  # a user's own task raised SystemExit: others still need the loop
                _log.exception("a task tried to end the event loop it shares")


def portal() -> Portal:
    """The portal a plain caller in this thread may wait on."""
    depth = max(getattr(portal_depth, "value", -1), FLOOR.get()) + 1
    if depth < len(_portals):
        return _portals[depth]
    with _lock:
        while depth >= len(_portals):
            _portals.append(Portal(len(_portals)))
        return _portals[depth]


def _forked() -> None:
    """A forked child has none of the parent's threads, and maybe a lock that one of them held."""
    global _lock
    _portals.clear()
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
