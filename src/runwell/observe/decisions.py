"""The decisions that were taken in runs, as a list."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import ClassVar

from runwell.observe.events import Decision, Event

__all__ = ["DecisionLog"]


class DecisionLog:
    """A handler that keeps every decision, in the order taken: `.decisions`.

    Attach it with `config={"callbacks": [log]}` or `observing(log)`. A decision has `seat`, `outcome`, `reason`,
    `holder`, `run` and `time`. One log may watch several runs at once; `of(seat)` picks. It grows until
    `clear()`.
    """

    raise_error: ClassVar[bool] = False
    wants_tokens: ClassVar[bool] = False
    wants_chunks: ClassVar[bool] = False
    wants_runs: ClassVar[bool] = False
    only_keeps: ClassVar[bool] = True

    def __init__(self) -> None:
        self._taken: list[Decision] = []
        self._lock = threading.Lock()

    def handle(self, event: Event) -> None:
        """Keep the event if it is a decision."""
        if type(event) is Decision:
            with self._lock:
                self._taken.append(event)

    @property
    def decisions(self) -> list[Decision]:
        """All so far; a list of the caller's own."""
        with self._lock:
            return list(self._taken)

    def of(self, seat: str) -> list[Decision]:
        """Those taken at one seat, by its id."""
        return [each for each in self.decisions if each.seat == seat]

    def clear(self) -> None:
        """Forget what was kept."""
        with self._lock:
            self._taken.clear()

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.decisions)

    def __len__(self) -> int:
        return len(self.decisions)
