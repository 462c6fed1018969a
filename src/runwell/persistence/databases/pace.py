"""Which writes to a file an event loop does itself, and which it leaves to a thread."""

from __future__ import annotations

__all__ = ["QUICK_S", "Pace"]

QUICK_S = 0.002
"""What writes in place may take on the average, in seconds. If they take longer the next ones go to a thread. Chosen:
on a machine with four times the work that it can do one write in a hundred takes 5 to 10 ms, which is no slow disk."""
WEIGHT = 1 / 8
"""Of the last one in that average: one that took 16 ms is too slow by itself, two in a row of 8 ms are."""
IN_PLACE, IN_THREAD = 62, 2
"""Of so many writes in place and then in a thread. In a thread the first lets SQLite bring its log into the file, when
the log has grown long enough; the second begins the log anew. Both wait for the disk."""
AFTER_SLOW, AT_MOST = 16, 4096
"""How many go to a thread after slow ones: twice as many as the last time, if they are still slow then."""


class Pace:
    """Tells where the next write is done. Not safe for several threads at once."""

    __slots__ = ("_after_slow", "_average", "_in_place", "_in_thread")

    def __init__(self) -> None:
        self._in_place = 0
        self._in_thread = IN_THREAD  # the log of a new file has not begun
        self._average = 0.0
        self._after_slow = AFTER_SLOW

    def in_place(self) -> bool:
        """Whether the next write is done in place."""
        if self._in_thread:
            self._in_thread -= 1
            return False
        self._in_place += 1
        if self._in_place == IN_PLACE:
            self._in_place, self._in_thread = 0, IN_THREAD
        return True

    def took(self, seconds: float) -> None:
        """How long the last one in place took."""
        self._average += WEIGHT * (seconds - self._average)
        if seconds <= QUICK_S:
            if self._average <= QUICK_S / 2:
                self._after_slow = AFTER_SLOW
        elif self._average > QUICK_S:
            self._in_thread = self._after_slow
            self._average = QUICK_S  # the next one in place tells
            self._after_slow = min(2 * self._after_slow, AT_MOST)
