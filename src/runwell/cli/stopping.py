"""Ctrl-C that stops what is going on, not the program."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self, TypeVar

__all__ = ["Stopped", "Stopping"]

T = TypeVar("T")


class Stopped:
    """What a piece of work gives that was stopped."""


class Stopping:
    """While entered, Ctrl-C ends the current `do(...)`, once, and does nothing between two of them.

    Without this a second Ctrl-C, pressed while the first is being handled, would end the program.
    """

    def __init__(self) -> None:
        self._listening = False
        self._before: Any = None

    def do(self, work: Callable[[], T]) -> T | Stopped:
        """What `work` gives, or `Stopped()`."""
        try:
            self._listening = True
            try:
                return work()
            finally:
                self._listening = False
        except KeyboardInterrupt:
            self._listening = False  # it may have come between the two lines above
            return Stopped()

    def _pressed(self, number: int, frame: FrameType | None) -> None:
        if self._listening:
            self._listening = False
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._pressed)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)
