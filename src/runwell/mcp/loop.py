"""The event loop that MCP connections live on: one thread of ours, whichever thread or loop a caller comes from.

A session belongs to the loop it was opened on. With a loop of their own, one session serves plain callers, `async`
callers of several loops, and the runs of an agent after each other.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, TypeVar

from runwell.drivers.portal import Portal
from runwell.observe.context import CURRENT
from runwell.ports.runtime import CURRENT_TASK

__all__ = ["at_exit", "bridge", "from_async", "from_plain"]

T = TypeVar("T")

CLOSING_S = 10.0
"""How long the end of the program waits for connections to close."""

_lock = threading.Lock()
_bridge: Portal | None = None
_closers: dict[int, Callable[[], Awaitable[None]]] = {}


def bridge() -> Portal:
    """The loop's thread, started when first needed."""
    global _bridge
    made = _bridge
    if made is None:
        with _lock:
            if _bridge is None:
                _bridge = Portal(0)
                _bridge.thread.name = "runwell-mcp"
                atexit.register(_close_all)
            made = _bridge
    return made


async def from_async(function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
    """Run `function(*args)` on the MCP loop and await it; cancelling the caller cancels it."""
    home = bridge()
    if asyncio.get_running_loop() is home.loop:
        return await function(*args)
    context = _outside_the_run()
    made = context.run(asyncio.run_coroutine_threadsafe, function(*args), home.loop)
    return await asyncio.wrap_future(made)


def from_plain(function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
    """Run `function(*args)` on the MCP loop and wait for it."""
    return _outside_the_run().run(bridge().call, function, *args)  # type: ignore[no-any-return]


def at_exit(owner: object, close: Callable[[], Awaitable[None]] | None) -> None:
    """Have `close` called at the end of the program, so that no server's process outlives it; None: no longer."""
    if close is None:
        _closers.pop(id(owner), None)
    else:
        _closers[id(owner)] = close


def _outside_the_run() -> Context:
    """The caller's context without its graph: a server in this process is no part of the run that calls it."""
    context = copy_context()
    context.run(CURRENT_TASK.set, None)
    context.run(CURRENT.set, None)
    return context


def _close_all() -> None:
    waiting = list(_closers.values())
    if not waiting or _bridge is None:
        return

    async def close() -> None:
        await asyncio.gather(*(each() for each in waiting), return_exceptions=True)

    with contextlib.suppress(TimeoutError):  # a server that does not go even when it is killed
        asyncio.run_coroutine_threadsafe(close(), _bridge.loop).result(CLOSING_S)


def _forked() -> None:
    """A forked child has neither the thread nor the connections."""
    global _bridge, _lock
    _bridge = None
    _lock = threading.Lock()
    _closers.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
