"""Holds on threads that are short and renewed, so that the crash of another machine is seen soon."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable
from typing import Final

from runwell.errors import StorageError

__all__ = ["Lease"]

_log = logging.getLogger("runwell.persistence")

Renew = Callable[[list[tuple[str, int]]], None]

_BEATS: Final = 3
"""Renewals in the time that a hold lasts: two may fail."""


class Lease:
    """Renews the holds of a saver's runs while they last, from one daemon thread that is there while there are any.

    A run that is stuck is alive, and keeps its thread; a process that ended, or a machine that did, renews nothing.
    """

    def __init__(self, seconds: float, renew: Renew) -> None:
        self.seconds = seconds
        self._renew = weakref.WeakMethod(renew)  # a saver that nobody has is no reason to go on
        self._held: dict[str, int] = {}
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._beating = 0  # the process whose thread it is: a forked child has none

    def held(self, thread: str, attempt: int) -> None:
        """A run has taken a thread."""
        with self._lock:
            self._held[thread] = attempt
            if self._beating != os.getpid():
                self._beating = os.getpid()
                threading.Thread(target=self._beat, name="runwell-lease", daemon=True).start()

    def released(self, thread: str, attempt: int) -> None:
        """It has ended."""
        with self._lock:
            if self._held.get(thread) == attempt:
                del self._held[thread]
                if not self._held:
                    self._wake.notify()

    def close(self) -> None:
        """Renew nothing any more."""
        with self._lock:
            self._held.clear()
            self._wake.notify()

    def _beat(self) -> None:
        while True:
            with self._lock:
                self._wake.wait(self.seconds / _BEATS)
                renew = self._renew()
                if not self._held or renew is None:
                    self._beating = 0
                    return
                held = list(self._held.items())
            try:
                renew(held)
            except StorageError as error:  # the next one may pass; without any the fence keeps order
                _log.warning("Holds on %d threads could not be renewed: %s", len(held), error)
            del renew
