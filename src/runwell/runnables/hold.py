"""How much of a text may be handed on now, while what follows it is still to come."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

from runwell.errors import InvalidInput

__all__ = ["Hold", "hold_of"]

_BEGINS = re.compile(r"\A(?:\\[^A]|\[\^?\]?+(?:\\.|[^\]\\])*\]|[^\\\[^])*?(?:\^|\\A)", re.DOTALL)
"""An anchor at the beginning: not escaped, and in no set of characters."""

_NEVER = "\U0010fffe\U0010ffff"
"""Noncharacters: text from anywhere does not hold them, so a pattern that ends in them is never whole."""


class Hold(Protocol):
    """Says where a text may be cut."""

    def cut(self, text: str, function: Callable[[str], str]) -> int:
        """The first place behind which something may still belong to a match."""


class _Nothing:
    def cut(self, text: str, function: Callable[[str], str]) -> int:
        return len(text)


class _Length:
    """Matches are at most `length` characters long, whatever they are.

    A cut where the function gives the same for both halves as for the whole does not go through a match.
    """

    def __init__(self, length: int) -> None:
        self.length = length

    def cut(self, text: str, function: Callable[[str], str]) -> int:
        last = len(text) - self.length + 1
        if last <= 0:
            return 0
        whole = function(text)
        for place in range(last, max(last - self.length, 0), -1):
            if function(text[:place]) + function(text[place:]) == whole:
                return place
        return 0


class _Pattern:
    """Matches are of `pattern`: everything is held back from the first place on where one may have begun."""

    def __init__(self, pattern: str, flags: int) -> None:
        if "(?<=" in pattern or "(?<!" in pattern:
            raise InvalidInput(
                f"hold={pattern!r} looks back, at text that is gone by then.",
                hint="Let the expression begin with what it looks back at.",
            )
        if _BEGINS.search(pattern) and not flags & re.MULTILINE:
            raise InvalidInput(
                f"hold={pattern!r} looks for where the text begins, which a piece in its middle cannot tell.",
                hint="For lines compile it with re.MULTILINE; for the beginning write a generator of its chunks.",
            )
        self._words = "\\b" in pattern or "\\B" in pattern
        self._lines = bool(flags & re.MULTILINE)
        import regex  # its partial matching is what the standard library lacks

        try:
            self._pattern: Any = regex.compile(f"(?:{pattern}){_NEVER}", flags)
        except regex.error as wrong:
            raise InvalidInput(
                f"hold={pattern!r} is no regular expression: {wrong}.", hint="Escape what is meant literally."
            ) from None

    def cut(self, text: str, function: Callable[[str], str]) -> int:
        found = self._pattern.search(text, partial=True)
        place = found.start() if found is not None else len(text)
        while place and not self._may_cut(text, place):
            place -= 1
        return place

    def _may_cut(self, text: str, place: int) -> bool:
        """Whether each half looks, at the cut, as it does in the whole: with `\\b` no word is cut, nor ended before
        what follows is known; with MULTILINE no line is."""
        if self._lines and text[place - 1] != "\n":
            return False
        if not self._words:
            return True
        return place < len(text) and not (_is_word(text[place - 1]) and _is_word(text[place]))


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def hold_of(hold: Any) -> Hold:
    """What `@streamable(hold=...)` was given: None, a length, a regular expression as text or compiled."""
    if hold is None:
        return _Nothing()
    if isinstance(hold, int) and not isinstance(hold, bool):
        if hold < 1:
            raise InvalidInput(
                f"hold={hold} is no length: it is at least 1 character.", hint="Leave it out to hold nothing back."
            )
        return _Length(hold)
    if isinstance(hold, str):
        return _Pattern(hold, 0)
    if isinstance(hold, re.Pattern) and isinstance(hold.pattern, str):
        return _Pattern(hold.pattern, hold.flags & (re.IGNORECASE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.ASCII))
    raise InvalidInput(
        f"hold is a regular expression or a number of characters, not {hold!r:.200}.",
        hint='For instance hold=r"https?://\\S+", or hold=40.',
    )
