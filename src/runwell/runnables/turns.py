"""Turns of a conversation, one after the other, whoever waits: threads, tasks of any loop, or both."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import Any

from runwell.errors import RunningLoop, UsageError

__all__ = ["atake", "aturn", "inside", "leave", "take", "turn"]

_QUEUES: dict[Hashable, _Queue] = {}
"""The conversations that somebody is in or waits for; empty when nobody is."""
_LOCK = threading.Lock()
_IN: ContextVar[frozenset[Hashable]] = ContextVar("runwell_turns", default=frozenset())
"""The conversations that the running code has a turn in."""


class _Queue:
    """Who has the turn and who waits for it, the longest first: `who` is all of them, `waiting` how to wake the latter.

    Somebody is a loop and the task on it, or, for plain code, the loop that it holds up, if any, and the thread.
    """

    __slots__ = ("waiting", "who")

    def __init__(self) -> None:
        self.who: deque[tuple[Any, Any]] = deque()
        self.waiting: deque[Callable[[], None]] = deque()


def _running_loop() -> Any:
    aio = sys.modules.get("asyncio")
    return aio._get_running_loop() if aio is not None else None


def _enter(key: Hashable, wake: Callable[[], None], me: tuple[Any, Any], blocks: Any) -> bool:
    """Take the turn (True), or a place in the queue (False). `blocks`: the loop that waiting would hold up."""
    if key in _IN.get():
        raise _never(key)
    with _LOCK:
        queue = _QUEUES.get(key)
        if queue is None:
            queue = _QUEUES[key] = _Queue()
            queue.who.append(me)
            return True
        if any(doer == me[1] for _, doer in queue.who):  # a stream that it has begun and not read to its end
            raise _never(key)
        if blocks is not None and any(loop is blocks for loop, _ in queue.who):
            raise RunningLoop(
                f"Another turn of the conversation {key!r} is under way on this event loop, which waiting would stop.",
                hint="Use `await chain.ainvoke(...)` or `async for ... in chain.astream(...)` here.",
            )
        queue.who.append(me)
        queue.waiting.append(wake)
        return False


def _never(key: Hashable) -> UsageError:
    return UsageError(
        f"A turn of the conversation {key!r} is begun inside another turn of it, and would wait for ever.",
        hint="Inside a chain with history call the chain without it, or use another session_id; close a stream, or "
        "read it to its end, before the next turn.",
    )


def _leave(key: Hashable) -> None:
    """Hand the turn on."""
    while True:
        with _LOCK:
            queue = _QUEUES[key]
            queue.who.popleft()
            if not queue.waiting:
                del _QUEUES[key]
                return
            wake = queue.waiting.popleft()
        try:
            wake()
        except RuntimeError:  # the loop it waited on is closed: the next one's turn
            continue
        return


def _withdraw(key: Hashable, wake: Callable[[], None], *, on_its_way: bool = False) -> None:
    """Stop waiting. A turn that has come meanwhile is handed on, unless it is on its way to who does that."""
    with _LOCK:
        queue = _QUEUES.get(key)
        if queue is not None and wake in queue.waiting:
            place = queue.waiting.index(wake)
            queue.waiting.remove(wake)
            del queue.who[place + 1]  # the first has the turn
            return
    if not on_its_way:
        _leave(key)


def take(key: Hashable) -> None:
    """Wait in this thread for a turn; `leave` it."""
    gate = threading.Lock()
    gate.acquire()
    wake = gate.release
    loop = _running_loop()
    if not _enter(key, wake, (loop, threading.get_ident()), loop):
        try:
            gate.acquire()
        except BaseException:  # Ctrl-C while waiting
            _withdraw(key, wake)
            raise


async def atake(key: Hashable) -> None:
    """Wait on the running loop for a turn."""
    import asyncio

    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def resolve() -> None:
        if ready.done():
            if ready.cancelled():
                _leave(key)  # who waited is gone
        else:
            ready.set_result(None)

    def wake() -> None:
        loop.call_soon_threadsafe(resolve)

    if not _enter(key, wake, (loop, asyncio.current_task()), None):
        try:
            await ready
        except BaseException:
            if ready.done() and not ready.cancelled():
                _leave(key)  # it came, and we were cancelled before we could take it
            else:
                _withdraw(key, wake, on_its_way=True)
            raise


def leave(key: Hashable) -> None:
    """End the turn that `take` or `atake` gave."""
    _leave(key)


def inside(key: Hashable) -> Context:
    """A copy of this context for what runs within a turn, where none may be set across a yield."""
    context = copy_context()
    context.run(_IN.set, _IN.get() | {key})
    return context


@contextmanager
def turn(key: Hashable) -> Iterator[None]:
    """The only one in the conversation `key` while inside."""
    take(key)
    token = _IN.set(_IN.get() | {key})
    try:
        yield
    finally:
        _IN.reset(token)
        _leave(key)


@asynccontextmanager
async def aturn(key: Hashable) -> AsyncIterator[None]:
    """`turn` without blocking the loop."""
    await atake(key)
    token = _IN.set(_IN.get() | {key})
    try:
        yield
    finally:
        _IN.reset(token)
        _leave(key)
