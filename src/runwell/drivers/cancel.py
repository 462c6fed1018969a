"""What is to be cancelled when a reader goes away, or a person presses Ctrl-C: work started from plain threads.

Nothing can stop a plain function in a thread. What can be stopped is the async work it waits for, a pause of the
engine, and the engine's next call; a `CancelGroup` in the context reaches all three, nested groups included.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from queue import Empty, SimpleQueue
from typing import Protocol

from runwell.errors import RunCancelled

__all__ = [
    "CANCEL",
    "CLEAN_UP_S",
    "FLOOR",
    "GRACE_S",
    "CancelGroup",
    "Cancellable",
    "Kept",
    "nap",
    "portal_depth",
    "run_context",
]

GRACE_S = 1.0
"""How long closing a stream waits for its producer."""
CLEAN_UP_S = 5.0
"""How long Ctrl-C waits for the async work it cancelled. Chosen: enough to give back a connection or a lock."""


class Cancellable(Protocol):
    """A member of a group."""

    def cancel(self) -> None:
        """Ask it to end, from any thread; never waits."""

    def tell(self, report: Callable[[], None]) -> int:
        """Have `report` called as its work ends; how many such calls to expect."""


class CancelGroup:
    """Cancels its members, now and later. Member of the group that is current where it is made."""

    __slots__ = ("_abandoned", "_members", "_parent", "cancelled")

    def __init__(self) -> None:
        self.cancelled = False
        self._abandoned = False
        self._members: set[Cancellable] = set()
        self._parent = CANCEL.get()
        if self._parent is not None:
            self._parent.add(self)

    def add(self, member: Cancellable) -> None:
        """A group already cancelled cancels it at once."""
        self._members.add(member)
        if self.cancelled:
            member.cancel()

    def discard(self, member: Cancellable) -> None:
        self._members.discard(member)

    def detach(self) -> None:
        """Its work has ended: the group above need not know it any more."""
        if self._parent is not None:
            self._parent.discard(self)

    def abandon(self) -> None:
        """Cancel; nobody waits for what its threads still do. They begin nothing more, not even what is shielded."""
        self._abandoned = True
        self.cancel()

    @property
    def abandoned(self) -> bool:
        """Whether this group, or one around it, was given up."""
        return self._abandoned or (self._parent is not None and self._parent.abandoned)

    def cancel(self) -> None:
        self.cancelled = True
        for member in list(self._members):
            member.cancel()

    def tell(self, report: Callable[[], None]) -> int:
        return sum(member.tell(report) for member in list(self._members))

    def settle(self, grace_s: float = CLEAN_UP_S) -> None:
        """Wait until the async work of its members has ended, at most `grace_s`."""
        ended: SimpleQueue[None] = SimpleQueue()
        deadline = time.monotonic() + grace_s
        for _ in range(self.tell(lambda: ended.put(None))):
            try:
                ended.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                return


CANCEL: ContextVar[CancelGroup | None] = ContextVar("runwell_cancel", default=None)

FLOOR: ContextVar[int] = ContextVar("runwell_portal_floor", default=-1)
"""Portals up to this one are blocked by whoever waits for what runs here."""

portal_depth = threading.local()
"""`.value` is set in portal threads."""


class Kept:
    """A member that is not cancelled, only waited for: a save under way."""

    __slots__ = ("_ended", "_reports")

    def __init__(self) -> None:
        self._ended = False
        self._reports: deque[Callable[[], None]] = deque()

    def cancel(self) -> None:
        return

    def tell(self, report: Callable[[], None]) -> int:
        self._reports.append(report)
        if self._ended:
            self.end()
        return 1

    def end(self) -> None:
        self._ended = True
        while self._reports:
            try:
                self._reports.popleft()()
            except IndexError:  # another thread was quicker
                return


def run_context(group: CancelGroup | None) -> Context:
    """A copy of the context for plain work that the calling thread will wait for in other threads."""
    context = copy_context()
    if group is not None:
        context.run(CANCEL.set, group)
    depth = getattr(portal_depth, "value", None)
    if depth is not None:
        context.run(FLOOR.set, depth)
    return context


class _Nap:
    __slots__ = ("gate",)

    def __init__(self) -> None:
        self.gate = threading.Event()

    def cancel(self) -> None:
        self.gate.set()

    def tell(self, report: Callable[[], None]) -> int:
        return 0


def nap(seconds: float) -> None:
    """Sleep; raises `RunCancelled` as soon as the group that is current here is cancelled."""
    group = CANCEL.get()
    if group is None:
        time.sleep(seconds)
        return
    member = _Nap()
    group.add(member)
    try:
        if member.gate.wait(seconds):
            raise RunCancelled()
    finally:
        group.discard(member)
