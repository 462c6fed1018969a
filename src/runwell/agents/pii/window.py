"""Cleaning a text that comes in pieces: what may still be part of a finding is kept back, and no more."""

from __future__ import annotations

from runwell.agents.pii.match import PIIMatch
from runwell.agents.pii.rule import Heard, Restorer, Rule

__all__ = ["CleanWindow", "RestoreWindow"]

BEFORE = 64
"""Characters already handed on that are still looked at, since what stands before a text decides what it is."""


class CleanWindow:
    """The text of one part of an answer on its way out, by one rule. What it keeps back is bounded by `rule.reach`."""

    __slots__ = ("_before", "_heard", "_held", "_rule", "_swallows")

    def __init__(self, rule: Rule, heard: Heard | None = None) -> None:
        self._rule = rule
        self._heard = heard
        self._before = ""
        self._held = ""
        self._swallows: str | None = None
        """The type of a match that was longer than may be kept back: what goes on with it is dropped."""

    def feed(self, text: str) -> str:
        """What can be handed on now that `text` has come."""
        return self._advance(text, last=False)

    def finish(self) -> str:
        """What was kept back."""
        return self._advance("", last=True)

    def _advance(self, text: str, *, last: bool) -> str:
        if self._swallows is not None:
            text = self._swallowed(text)
        if not text and not (last and self._held):
            return ""
        before, whole = len(self._before), self._before + self._held + text
        found = self._rule.look(whole)
        cut = len(whole) if last else max(before, self._rule.begins(whole))
        forced = len(whole) - self._rule.reach
        out: list[PIIMatch] = []
        for match in found:
            start, end = max(match["start"], before), match["end"]
            if end <= before or start >= cut:
                continue
            if end > cut:  # it may grow: all of it waits
                cut = start
                break
            out.append(match)
        if cut < forced:  # unless it is longer than anything may be
            cut = forced
            out = []
            for match in found:
                if match["end"] > before and match["start"] < cut:
                    out.append(match)
                    cut = max(cut, match["end"])
            if out and out[-1]["end"] == len(whole):
                self._swallows = out[-1]["type"]
        made = self._rule.clean(whole[before:cut], [_moved(match, whole, before) for match in out], self._heard)
        self._before = whole[max(0, cut - BEFORE) : cut]
        self._held = whole[cut:]
        return made

    def _swallowed(self, text: str) -> str:
        goes_on = next((each.goes_on for each in self._rule.detectors if each.type == self._swallows), None)
        place = 0
        while goes_on is not None and place < len(text) and goes_on(text[place]):
            place += 1
        if goes_on is None or place < len(text):
            self._swallows = None
        return text[place:]


def _moved(match: PIIMatch, text: str, by: int) -> PIIMatch:
    """The part of a match that is not handed on yet, counted from there."""
    start, end = max(match["start"], by), match["end"]
    return {"type": match["type"], "value": text[start:end], "start": start - by, "end": end - by}


class RestoreWindow:
    """Puts values back where tokens stand, in a text that comes in pieces."""

    __slots__ = ("_held", "_restorer")

    def __init__(self, restorer: Restorer) -> None:
        self._restorer = restorer
        self._held = ""

    def feed(self, text: str) -> str:
        whole = self._held + text
        cut = self._restorer.begins(whole)
        self._held = whole[cut:]
        return self._restorer.whole(whole[:cut])

    def finish(self) -> str:
        rest, self._held = self._held, ""
        return self._restorer.whole(rest)
