"""What a detector found, and how findings that overlap are told apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypedDict

from runwell.errors import PIIDetectionError

__all__ = ["PIIDetectionError", "PIIMatch", "settled"]


class PIIMatch(TypedDict):
    """A finding: of which `type`, which text, and where it begins and ends."""

    type: str
    value: str
    start: int
    end: int


def settled(text: str, found: Iterable[PIIMatch], order: Sequence[str]) -> list[PIIMatch]:
    """The findings from left to right, none touching another's characters.

    Where some overlap the one that begins first wins, of those the longest, then the first in `order`. The winner
    takes over what the others cover beyond it, so that no part of a finding is left standing.
    """
    rank = {name: place for place, name in enumerate(order)}
    kept: list[PIIMatch] = []
    for each in sorted(found, key=lambda m: (m["start"], -m["end"], rank.get(m["type"], len(rank)))):
        last = kept[-1] if kept else None
        if last is None or each["start"] >= last["end"]:
            kept.append(each)
        elif each["end"] > last["end"]:
            start, end = last["start"], each["end"]
            kept[-1] = {"type": last["type"], "value": text[start:end], "start": start, "end": end}
    return kept
