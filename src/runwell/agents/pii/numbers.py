"""Numbers that carry a check of their own: payment cards, bank accounts."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["cards", "ibans", "is_card", "is_iban"]

Span = tuple[int, int]

# Each place where one may begin is looked at once, for a bounded number of characters: linear whatever the text is.
_CARD = re.compile(r"(?<![\w.])(?=(\d{4}(?:[ \u00a0.-]?\d){9,15}))", re.ASCII)
_DIGITS = re.compile(r"\d\d", re.ASCII)
_WORD = re.compile(r"\w", re.ASCII)
_GAPS = re.compile(r"[ \u00a0.-]")
_IBAN = re.compile(r"(?:(?<!\w)|(?<=\\[nrt]))(?=([A-Za-z]{2}\d{2}(?:[ \u00a0-]?[A-Za-z0-9]){11,30}))", re.ASCII)

IBAN_LENGTHS = {
    country: int(length)
    for country, length in re.findall(
        r"([A-Z]{2})(\d\d)",
        "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 "
        "EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 "
        "IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 "
        "NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 "
        "SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20",
    )
}
"""How long an account number is, by country."""


def is_card(digits: str) -> bool:
    """Whether 13 to 19 digits are a card's: a first digit that issuers use, and the check digit (Luhn)."""
    if not 13 <= len(digits) <= 19 or digits[0] not in "23456" or len(set(digits)) == 1:
        return False
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit)
        if place % 2:
            value = value * 2 - 9 * (value > 4)
        total += value
    return total % 10 == 0


def is_iban(text: str) -> bool:
    """Whether letters and digits without separators are an account number: its country's length, its check digits."""
    text = text.upper()
    if IBAN_LENGTHS.get(text[:2]) != len(text) or not text.isascii():
        return False
    return int("".join(str(int(char, 36)) for char in text[4:] + text[:4])) % 97 == 1


def cards(text: str) -> Iterator[Span]:
    """Where card numbers stand, in one piece or in groups; of several readings of one place the longest."""
    if _DIGITS.search(text) is None:  # most text has none
        return
    after = 0
    for hit in _CARD.finditer(text):
        start, end = hit.span(1)
        if start < after:
            continue
        while end > start:
            digits = _plain(text[start:end])
            if len(digits) < 13:
                break
            if _WORD.match(text, end) is None and is_card(digits) and _grouped(text[start:end]):
                yield start, end
                after = end
                break
            end -= 1
            while end > start and not text[end - 1].isdigit():
                end -= 1


def ibans(text: str) -> Iterator[Span]:
    """Where account numbers stand, in one piece or in groups."""
    if _DIGITS.search(text) is None:
        return
    after = 0
    for hit in _IBAN.finditer(text):
        start, end = hit.span(1)
        if start < after:
            continue
        wanted = IBAN_LENGTHS.get(text[start : start + 2].upper())
        if wanted is None:
            continue
        left, place = wanted, start
        while place < end and left:
            left -= text[place].isalnum()
            place += 1
        if not left and _WORD.match(text, place) is None and is_iban(_plain(text[start:place])):
            yield start, place
            after = place


def _grouped(text: str) -> bool:
    """Whether digits stand in groups as on a card, not as a list of small numbers."""
    return min(map(len, _GAPS.split(text))) >= 3


def _plain(text: str) -> str:
    return "".join(char for char in text if char.isalnum())
