"""How long a call may take: in all, and without a sign of life."""

from __future__ import annotations

import time
from typing import Literal

__all__ = ["Deadline"]


class Deadline:
    """At most `run` seconds in all, at most `idle` seconds since the last `beat()`; None is no bound.

    The driver starts it with the call. `beat` may be called from any thread.
    """

    __slots__ = ("beaten", "began", "idle", "run")

    def __init__(self, run: float | None = None, idle: float | None = None) -> None:
        self.run = run
        self.idle = idle
        self.start()

    def start(self) -> None:
        """The time runs from now."""
        self.began = self.beaten = time.monotonic()

    def beat(self) -> None:
        """A sign of life: the idle time starts over."""
        self.beaten = time.monotonic()

    def left(self) -> float:
        """Seconds until it is over as things stand; 0 or less when it is."""
        now = time.monotonic()
        ends = []
        if self.run is not None:
            ends.append(self.began + self.run - now)
        if self.idle is not None:
            ends.append(self.beaten + self.idle - now)
        return min(ends)

    def passed(self) -> tuple[Literal["timeout", "idle"], float]:
        """Which bound is over, or nearest to it, and what it is in seconds."""
        if self.idle is None or (self.run is not None and self.began + self.run <= self.beaten + self.idle):
            assert self.run is not None
            return "timeout", self.run
        return "idle", self.idle
