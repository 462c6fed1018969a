"""How often a growing value is shown: showing it copies what is open of it, so a long one is shown less often."""

from __future__ import annotations

__all__ = ["Pace"]

_PER_CHARACTER = 256
"""Entries that may be copied for each character read. With a few characters to a piece, lists of a thousand entries and
strings of 30,000 characters are still shown at every piece, and the work stays linear however long they grow."""
_TEXT_SHIFT = 5
"""32 characters of a string are copied in the time of an entry."""


class Pace:
    """Says when the text that came has paid for showing the value again."""

    __slots__ = ("_credit",)

    def __init__(self) -> None:
        self._credit = 0

    def read(self, characters: int) -> None:
        """So much text has come."""
        self._credit += characters * _PER_CHARACTER

    def due(self, entries: int, characters: int) -> bool:
        """Whether a value of which so many entries and characters are open may be shown; then it is paid for."""
        cost = entries + (characters >> _TEXT_SHIFT)
        if cost > self._credit:
            return False
        self._credit -= cost
        return True
