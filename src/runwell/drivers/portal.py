"""An event loop in a thread of ours, for `async` user code met by plain callers.

Every call carries its outcome back, so one caller's failure leaves the loop running. A caller that is interrupted
(Ctrl-C) cancels its task and waits for it to clean up. A plain call made from a portal's own thread gets the next
portal: it blocks its own loop, as any plain call in async code does, but cannot wait for itself.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any

from runwell.drivers.colour import stopped
from runwell.drivers.threads import CANCEL
from runwell.effects import Outcome
from runwell.errors import RunCancelled

__all__ = ["LoopBridge", "Portal", "attempt", "here", "portal"]

_depth = threading.local()
_portals: list[Portal] = []
_lock = threading.Lock()


async def attempt(function: Callable[..., Awaitable[Any]], *args: Any) -> Outcome[Any]:
    """Await user code; whatever comes of it, signals and cancellation included, as an outcome."""
    try:
        return Outcome(await function(*args))
    except BaseException as error:
        if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration):
            return Outcome(error=stopped(error.__cause__))
        return Outcome(error=error)


class LoopBridge:
    """Lets plain code in other threads run `async` functions on a loop and wait for them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.tasks: set[asyncio.Task[Any]] = set()
        self.closed = False

    def call(self, function: Callable[..., Awaitable[Any]], *args: Any, timeout: float | None = None) -> Any:
        """Run `function(*args)` on the loop under a copy of the caller's context; its result, or its exception.

        Past `timeout` seconds it is cancelled and TimeoutError raised once it has cleaned up.
        """
        if timeout is not None:
            return self.call(_limited, timeout, function, args)
        return self.serve(lambda box: attempt(function, *args), None)

    def call_hook(self, hook: Callable[..., Awaitable[Any]], request: Any, inner: Callable[[Any], Any]) -> Any:
        """Run an `async` hook on the loop; its `handler(request)` runs `inner(request)` in the calling thread."""
        loop = self.loop

        def work(box: SimpleQueue[Any]) -> Awaitable[Outcome[Any]]:
            async def handler(request: Any) -> Any:
                served: asyncio.Future[Outcome[Any]] = loop.create_future()
                box.put((request, served))
                return (await served).unwrap()

            return attempt(hook, request, handler)

        return self.serve(work, inner)

    def serve(
        self, work: Callable[[SimpleQueue[Any]], Awaitable[Outcome[Any]]], inner: Callable[[Any], Any] | None
    ) -> Any:
        context = copy_context()
        box: SimpleQueue[Any] = SimpleQueue()
        state = _Pending(self, box)
        self.loop.call_soon_threadsafe(state.start, work, context)
        group = CANCEL.get()
        token = group.add(state.cancel) if group is not None else 0
        try:
            while True:
                try:
                    item = box.get()
                except BaseException:  # Ctrl-C while waiting: cancel, and let the task clean up before going on
                    state.cancel()
                    while type(box.get()) is not Outcome:
                        pass
                    raise
                if type(item) is Outcome:
                    return item.unwrap()
                assert inner is not None
                request, served = item
                try:
                    outcome = Outcome(inner(request))
                except (KeyboardInterrupt, SystemExit):
                    state.cancel()
                    while type(box.get()) is not Outcome:
                        pass
                    raise
                except BaseException as error:
                    outcome = Outcome(error=error)
                self.loop.call_soon_threadsafe(_settle, served, outcome)
        finally:
            if group is not None:
                group.discard(token)

    def cancel_all(self) -> None:
        """Cancel what runs, and refuse what comes. Called on the loop."""
        self.closed = True
        for task in list(self.tasks):
            task.cancel()


def _settle(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


async def _limited(seconds: float, function: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> Any:
    async with asyncio.timeout(seconds):
        return await function(*args)


class _Pending:
    """One call's task on the loop."""

    __slots__ = ("box", "bridge", "cancelled", "task")

    def __init__(self, bridge: LoopBridge, box: SimpleQueue[Any]) -> None:
        self.bridge = bridge
        self.box = box
        self.task: asyncio.Task[Outcome[Any]] | None = None
        self.cancelled = False

    def start(self, work: Callable[[SimpleQueue[Any]], Any], context: Context) -> None:
        if self.cancelled or self.bridge.closed:
            self.box.put(Outcome(error=RunCancelled()))
            return
        self.task = task = self.bridge.loop.create_task(work(self.box), context=context)
        self.bridge.tasks.add(task)
        task.add_done_callback(self.ended)

    def ended(self, task: asyncio.Task[Outcome[Any]]) -> None:
        self.bridge.tasks.discard(task)
        if task.cancelled():  # before its first step: `attempt` never ran
            self.box.put(Outcome(error=RunCancelled()))
        else:
            self.box.put(task.result())

    def cancel(self) -> None:
        """From any thread."""
        self.cancelled = True
        self.bridge.loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


class Portal(LoopBridge):
    """A loop in a daemon thread of its own, started when first needed and kept."""

    def __init__(self, depth: int) -> None:
        super().__init__(asyncio.new_event_loop())
        self.thread = threading.Thread(target=self._run, args=(depth,), name=f"runwell-portal-{depth}", daemon=True)
        self.thread.start()

    def _run(self, depth: int) -> None:
        _depth.value = depth
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()


def portal() -> Portal:
    """The portal a plain caller in this thread may wait on."""
    depth = getattr(_depth, "value", -1) + 1
    if depth < len(_portals):
        return _portals[depth]
    with _lock:
        while depth >= len(_portals):
            _portals.append(Portal(len(_portals)))
        return _portals[depth]


def here() -> bool:
    """Whether this thread is a portal's: it must not block for long."""
    return hasattr(_depth, "value")


os.register_at_fork(after_in_child=_portals.clear)  # a forked child has none of the parent's threads
