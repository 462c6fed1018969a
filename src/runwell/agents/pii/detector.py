"""Detectors: what finds one type of personal data, and how much of a stream they need to see at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from runwell.agents.pii.match import PIIMatch
from runwell.agents.pii.numbers import cards, ibans
from runwell.agents.pii.places import emails, ips, macs, phones, ssns, urls
from runwell.agents.pii.secrets import PEM, PEM_LONGEST, secrets
from runwell.errors import InvalidInput, nearest
from runwell.runnables.hold import Hold, hold_of

__all__ = ["BUILTIN", "Detector", "detector_for"]

PATIENCE_S = 2.0
"""How long a pattern of the user's own may look at one text."""


class Detector:
    """Finds data of `type` in a text.

    `find` gives matches. `begins(text)` gives the first place behind which more text could still make, or lengthen, a
    match; it never looks back further than `reach` characters, so that a stream keeps back no more than that.
    `goes_on` says of a character that it may be part of a match that had no end within `reach`.
    """

    __slots__ = ("begins", "find", "goes_on", "reach", "type")

    def __init__(
        self,
        type: str,
        find: Callable[[str], Iterable[PIIMatch]],
        begins: Callable[[str], int],
        reach: int,
        goes_on: Callable[[str], bool] | None = None,
    ) -> None:
        self.type = type
        self.find = find
        self.begins = begins
        self.reach = reach
        self.goes_on = goes_on

    def __repr__(self) -> str:
        return f"Detector({self.type!r})"


def _spans(type: str, spans: Callable[[str], Iterator[tuple[int, int]]]) -> Callable[[str], list[PIIMatch]]:
    def find(text: str) -> list[PIIMatch]:
        return [{"type": type, "value": text[start:end], "start": start, "end": end} for start, end in spans(text)]

    return find


def _made_of(extra: str, reach: int, *, letters: bool = True, first: str | None = None) -> Callable[[str], int]:
    """Where the run of characters begins that the text ends in and that a match may be made of.

    That is letters (where `letters`), digits and those in `extra`. A match begins with a letter or digit, or with
    one of `first`: others are not kept back. An escape of JSON is a letter more.
    """
    allowed, opens = frozenset(extra), frozenset(extra if first is None else first)

    def begins(text: str) -> int:
        size = len(text)
        stop = max(0, size - reach)
        place = size
        while place > stop:
            char = text[place - 1]
            if not (char in allowed or (char.isalnum() if letters else char.isdigit())):
                break
            place -= 1
        while place < size and not (text[place] in opens or text[place].isalnum()):
            place += 1
        return place

    return begins


_word = _made_of("_-./+=:", 4096)
_PEM_HEAD_LONGEST = 45
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,60}-----")


def _secret_begins(text: str) -> int:
    """As for a word, but a private key block that is open, or might be opening, is kept back from its first hyphen."""
    place = _word(text)
    opened = text.rfind(PEM, max(0, len(text) - PEM_LONGEST))
    if opened < 0:  # perhaps its first characters, which are not of a word, are just coming
        return min(place, len(text) - next((n for n in range(len(PEM), 0, -1) if text.endswith(PEM[:n])), 0))
    head = text[opened + len(PEM) : opened + 80]
    if "PRIVATE KEY" not in head and len(head) > _PEM_HEAD_LONGEST:  # another kind of block
        return place
    return place if _PEM_END.search(text, opened) else min(place, opened)


_IBAN_SO_FAR = re.compile(
    r"(?:(?<!\w)|(?<=\\[nrt]))[A-Za-z]"
    r"(?:\Z|[A-Za-z](?:\Z|\d(?:\Z|\d(?:[ \u00a0-]?[A-Za-z0-9]){0,30}[ \u00a0-]?\Z)))"
)


def _iban_begins(text: str) -> int:
    """Where two letters and digits begin that the text ends in: letters and spaces alone would keep back all prose."""
    hit = _IBAN_SO_FAR.search(text, max(0, len(text) - 72))
    return hit.start() if hit is not None else len(text)


_FORMS: dict[str, tuple[Callable[[str], Iterator[tuple[int, int]]], Callable[[str], int], int, Any]] = {
    "email": (emails, _made_of("_.+%-@'", 320, first="_.+%-@"), 320, None),
    "credit_card": (cards, _made_of(" \u00a0.-", 40, letters=False, first=""), 40, None),
    "ip": (ips, _made_of(":.", 48, first=":"), 48, None),
    "mac_address": (macs, _made_of(":-.", 24, first=""), 24, None),
    "url": (
        urls,
        lambda text: _url(text),
        4096,
        lambda char: not (char.isspace() or char in "<>\"'`{}|^\\"),
    ),
    "phone": (phones, _made_of(" \u00a0./-()+", 40, letters=False, first="(+"), 40, None),
    "iban": (ibans, _iban_begins, 72, None),
    "us_ssn": (ssns, _made_of(" -", 16, letters=False, first=""), 16, None),
    "api_key": (secrets, _secret_begins, PEM_LONGEST, lambda char: char.isalnum() or char in "_-./+="),
}

BUILTIN = tuple(_FORMS)
"""The types that have a detector of their own."""


def _url(text: str) -> int:
    """Where the run without white space and quotes begins that the text ends in."""
    place, stop = len(text), max(0, len(text) - 4096)
    while place > stop and not (text[place - 1].isspace() or text[place - 1] in "<>\"'`{}|^\\"):
        place -= 1
    return place


def detector_for(type: str, detector: Any = None, hold: Any = None) -> Detector:
    """The detector of a type: the built-in one, or made of a regular expression (text or compiled) or a function.

    `hold` is how many characters a match of it has at most; for a function of a text that is how much of a stream
    is kept back.
    """
    if hold is not None and (not isinstance(hold, int) or isinstance(hold, bool) or hold < 1):
        raise InvalidInput(f"hold={hold!r} for {type!r}.", hint="The most characters a match can have, from 1 up.")
    if detector is None:
        if type not in _FORMS:
            raise InvalidInput(
                f"There is no detector for {type!r}{nearest(type, BUILTIN)}.",
                hint=f"Built in are {', '.join(BUILTIN)}; for another type pass detector= (a pattern or a function).",
            )
        spans, begins, reach, goes_on = _FORMS[type]
        return Detector(type, _spans(type, spans), begins, reach, goes_on)
    if isinstance(detector, (str, re.Pattern)):
        return _of_pattern(type, detector, hold)
    if callable(detector):
        reach = hold or 256
        return Detector(type, _checked(type, detector), lambda text: max(0, len(text) - reach + 1), reach)
    raise InvalidInput(
        f"detector={detector!r:.100} for {type!r}.",
        hint="Pass a regular expression, or a function that takes a text and gives matches with start and end.",
    )


def _of_pattern(type: str, given: Any, hold: Any) -> Detector:
    import regex  # can be given a time limit, which patterns from outside need

    flags = given.flags & ~re.UNICODE if isinstance(given, re.Pattern) else 0
    text = given.pattern if isinstance(given, re.Pattern) else given
    if not isinstance(text, str):
        raise InvalidInput(f"detector={given!r:.100} for {type!r} is for bytes.", hint="Use a pattern for text.")
    try:
        pattern = regex.compile(text, flags)
    except regex.error as wrong:
        raise InvalidInput(f"detector={text!r} is no regular expression: {wrong}.") from None
    if pattern.search("") is not None:
        raise InvalidInput(f"detector={text!r} matches nothing at all.", hint="Let it match at least one character.")

    def find(text: str) -> list[PIIMatch]:
        try:
            hits = [hit.span() for hit in pattern.finditer(text, timeout=PATIENCE_S)]
        except TimeoutError as slow:
            raise InvalidInput(
                f"The detector for {type!r} looked at a text of {len(text):,} characters for {PATIENCE_S:g} s.",
                hint="Its pattern backtracks: let no repetition contain another that matches the same text.",
            ) from slow
        return [{"type": type, "value": text[a:b], "start": a, "end": b} for a, b in hits if b > a]

    if hold is None and "(?<" not in text.replace("(?<=", "(?<").replace("(?P<", ""):
        kept: Hold = hold_of(re.compile(text, flags) if isinstance(given, str) else given)
        return Detector(type, find, lambda text: max(kept.cut(text, str), len(text) - 1024), 1024)
    reach = hold or 256  # what looks back cannot tell where it may begin
    return Detector(type, find, lambda text: max(0, len(text) - reach + 1), reach)


def _checked(type: str, function: Callable[[str], Any]) -> Callable[[str], list[PIIMatch]]:
    """What a function of the user's gives, as matches."""

    def find(text: str) -> list[PIIMatch]:
        found: list[PIIMatch] = []
        given = function(text) or ()
        if isinstance(given, (str, Mapping)) or not isinstance(given, Iterable):
            raise InvalidInput(
                f"The detector for {type!r} gave {given!r:.200}.",
                hint="It gives a list of matches: [(start, end), ...].",
            )
        for each in given:
            try:
                start, end = (each["start"], each["end"]) if isinstance(each, Mapping) else (each[0], each[1])
                fits = 0 <= start < end <= len(text)
            except (TypeError, KeyError, IndexError):
                fits = False
            if not fits:
                raise InvalidInput(
                    f"The detector for {type!r} gave {each!r:.200} for a text of {len(text)} characters.",
                    hint="A match is a dict with start and end (or a pair), counted in characters of the text.",
                )
            found.append({"type": type, "value": text[start:end], "start": start, "end": end})
        return found

    return find
