"""Addresses: mail, web, network; telephone and social security numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["emails", "ips", "macs", "phones", "ssns", "urls"]

Span = tuple[int, int]

# A match begins only where what comes before cannot belong to it, and no repetition can be read in two ways: linear.
# An escape of JSON (the n of \n) is no part of what follows it.
_EMAIL = re.compile(
    r"(?<![\w.+%-])(?<!\w')(?:(?<=\\)[nrt])?([\w.+%-]++(?:(?<=\w)'\w[\w.+%-]*+)*+@(?:[\w-]+\.)+[^\W\d_]{2,63})(?![\w-])"
)
_URL = re.compile(
    r"(?:(?<!\w)|(?<=\\[nrt]))((?:https?|ftp|wss?)://|www\.)[^\s<>\"'`{}|^\\]++", re.IGNORECASE | re.ASCII
)
_BYTE = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_IPV4 = re.compile(rf"(?:(?<![\w.])|(?<=\\[nrt]))(?:{_BYTE}\.){{3}}{_BYTE}(?!\w|\.\d)", re.ASCII)
_IPV6 = re.compile(
    r"(?:(?<![\w.])(?<![0-9A-Fa-f:]:)|(?<=\\[nrt]))(?=[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]{0,4}:|::)[0-9A-Fa-f:.]{3,45}",
    re.ASCII,
)
_HEX = r"[0-9A-Fa-f]"
_MAC = re.compile(
    rf"(?:(?<![\w-])(?<!\b{_HEX}{{2}}:)|(?<=\\[nrt]))(?:{_HEX}{{2}}([:-]){_HEX}{{2}}(?:\1{_HEX}{{2}}){{4}}(?!\w|[:-]{_HEX}{{2}})"
    rf"|{_HEX}{{4}}\.{_HEX}{{4}}\.{_HEX}{{4}}(?!\w|\.{_HEX}))",
    re.ASCII,
)
_SSN = re.compile(
    r"(?:(?<![\w-])|(?<=\\[nrt]))(?!000|666|9\d\d)\d{3}([- ])(?!00)\d{2}\1(?!0000)\d{4}(?!\w|-\d)", re.ASCII
)
_GAP = r"[ \u00a0./-]?"
_PHONE = re.compile(
    r"(?:(?<![\w.+/-])|(?<=\\[nrt]))(?:"
    rf"(?:\+|00(?=[1-9]))\d{{1,3}}(?:{_GAP}\(\d{{1,4}}\))?(?:{_GAP}\d){{6,13}}"  # with a country
    r"|(?:1[ .-])?(?:\([2-9]\d{2}\)[ \u00a0]?|[2-9]\d{2}[ \u00a0.-])[2-9]\d{2}[ \u00a0.-]\d{4}"  # North America
    rf"|(?:\(0[1-9]\d{{0,4}}\)[ \u00a0]?|0[1-9]\d{{0,4}}[ \u00a0/-])\d(?:{_GAP}\d){{4,9}}"  # elsewhere
    r"|0[1-9]\d{8,10}"
    r")(?!\w|[.-]\d)",
    re.ASCII,
)
_WORD = re.compile(r"\w", re.ASCII)
_DIGIT = re.compile(r"\d", re.ASCII)
_DATE = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{2,4}\b|\d{1,2} \d{1,2} \d{4}\b")


def emails(text: str) -> Iterator[Span]:
    if "@" not in text:  # here and below: most text has nothing of the kind, and to see that costs nothing
        return
    for hit in _EMAIL.finditer(text):
        yield hit.span(1)


def urls(text: str) -> Iterator[Span]:
    """Up to what ends a sentence or closes a bracket that was opened before it."""
    if "://" not in text and "www." not in text.lower():
        return
    for hit in _URL.finditer(text):
        start, end = hit.span()
        opened = text.count("(", start, end) - text.count(")", start, end)
        while end > start and text[end - 1] in ".,;:!?)]*":
            if text[end - 1] == ")":
                if opened >= 0:
                    break
                opened += 1
            end -= 1
        if end > hit.end(1):
            yield start, end


def ips(text: str) -> Iterator[Span]:
    if text.count(".") > 2:
        for hit in _IPV4.finditer(text):
            yield hit.span()
    if text.count(":") < 2:
        return
    from ipaddress import AddressValueError, IPv6Address

    for hit in _IPV6.finditer(text):
        start, end = hit.span()
        while end > start and (text[end - 1] == "." or (text[end - 1] == ":" and text[end - 2] != ":")):
            end -= 1
        value = text[start:end]
        short = len(value) < 8 and not any("0" <= char <= "9" for char in value)  # a::b is a name in a program
        if short or _WORD.match(text, end) is not None or text.startswith(":", end):
            continue
        try:
            IPv6Address(value)
        except AddressValueError:
            continue
        yield start, end


def macs(text: str) -> Iterator[Span]:
    if max(text.count(":"), text.count("-"), text.count(".")) < 2:
        return
    for hit in _MAC.finditer(text):
        yield hit.span()


def ssns(text: str) -> Iterator[Span]:
    if _DIGIT.search(text) is None:
        return
    for hit in _SSN.finditer(text):
        yield hit.span()


def phones(text: str) -> Iterator[Span]:
    if _DIGIT.search(text) is None:
        return
    for hit in _PHONE.finditer(text):
        digits = sum(char.isdigit() for char in hit.group())
        if 8 <= digits <= 15 and _DATE.match(hit.group()) is None:
            yield hit.span()
