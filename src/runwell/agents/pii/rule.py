"""One rule: which data is looked for, and what stands in its place."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

from runwell.agents.pii.detector import Detector
from runwell.agents.pii.match import PIIMatch, settled
from runwell.agents.pii.strategy import TOKEN, TOKEN_LONGEST, Replace
from runwell.errors import PIIDetectionError

__all__ = ["Rule"]

REMEMBERED = 4_000_000
"""Characters of texts whose findings are remembered, so that a history is not searched anew at each call."""


class Rule:
    """Finds with its detectors and replaces; `replace` None raises `PIIDetectionError` instead.

    May be shared between threads. `values` maps the token of each value found to the value, where tokens are used.
    """

    def __init__(self, detectors: Sequence[Detector], replace: Replace | None, *, tokens: bool = False) -> None:
        self.detectors = tuple(detectors)
        self.replace = replace
        self.tokens = tokens
        self._order = [each.type for each in self.detectors]
        self._known: OrderedDict[str, list[PIIMatch]] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    # -- finding

    def find(self, text: str) -> list[PIIMatch]:
        """The findings in a text, from left to right, none overlapping. A text is searched once."""
        known = self._known.get(text)
        if known is not None:
            return known
        found = self.look(text)
        self._remember(text, found)
        return found

    def passed(self, text: str) -> str:
        """Note that a text is clean: what stands in a finding's place is never taken for one."""
        self._remember(text, [])
        return text

    def _remember(self, text: str, found: list[PIIMatch]) -> None:
        with self._lock:
            if text not in self._known:
                self._size += len(text) + 100
            self._known[text] = found
            while self._size > REMEMBERED and len(self._known) > 1:
                self._size -= len(self._known.popitem(last=False)[0]) + 100

    def look(self, text: str) -> list[PIIMatch]:
        """As `find`, for a text that is not worth remembering."""
        found = [match for each in self.detectors for match in each.find(text)]
        return settled(text, found, self._order) if len(found) > 1 else found

    # -- replacing

    def clean(self, text: str, found: list[PIIMatch], heard: Callable[[PIIMatch], None] | None = None) -> str:
        """The text with its findings replaced."""
        if not found:
            return text
        if self.replace is None:
            raise blocked(found)
        parts: list[str] = []
        place = 0
        for match in found:
            if heard is not None:
                heard(match)
            parts += (text[place : match["start"]], self.replace(match))
            place = match["end"]
        parts.append(text[place:])
        return "".join(parts)

    # -- streams

    def begins(self, text: str) -> int:
        """The first place behind which more text could change what is found."""
        return min(each.begins(text) for each in self.detectors)

    @property
    def reach(self) -> int:
        """The most characters that a stream keeps back."""
        return max(each.reach for each in self.detectors)


def blocked(found: Sequence[PIIMatch]) -> PIIDetectionError:
    """For data that may not go on. It names types, never values."""
    types = list(dict.fromkeys(match["type"] for match in found))
    return PIIDetectionError(
        f"Found {len(found)} of {', '.join(types)} where strategy='block' lets none pass.",
        pii_type=types[0],
        count=len(found),
        hint="Remove it from the conversation, or use another strategy.",
    )


class Restorer:
    """Puts values back where their tokens stand."""

    __slots__ = ("values",)

    def __init__(self, values: dict[str, str]) -> None:
        self.values = values

    def whole(self, text: str) -> str:
        """The text with the tokens that are known replaced by what they stand for."""
        if "<" not in text:
            return text
        return TOKEN.sub(lambda hit: self.values.get(hit.group(), hit.group()), text)

    def begins(self, text: str) -> int:
        """Where a token may have begun whose end is still to come."""
        place = text.rfind("<", max(0, len(text) - TOKEN_LONGEST))
        return len(text) if place < 0 or ">" in text[place:] else place


Heard = Callable[[PIIMatch], Any]
