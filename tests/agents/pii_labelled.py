"""A labelled set: sentences with personal data in known places, and sentences that only look as if they had some.

Everything is drawn from a seeded generator, so that each run measures the same. `python tests/agents/pii_labelled.py`
prints the table of docs/pii.md.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from typing import NamedTuple

from runwell.agents.pii.detector import BUILTIN, detector_for
from runwell.agents.pii.numbers import IBAN_LENGTHS
from runwell.agents.pii.rule import Rule

SEED = 20_260
EACH = 400
"""Sentences of each type."""


BEGIN = "-" * 5 + "BEGIN "  # apart, so that nobody takes this file for a leak


class Sentence(NamedTuple):
    text: str
    spans: frozenset[tuple[int, int]]


FRAMES = (
    "Please use {} from now on.",
    "{} is what they gave me",
    "My details: {}.",
    'He wrote "{}" on the form, I think.',
    "Contact ({}) or wait?",
    "data={}; done",
    "a) {}, b) nothing",
    '{{"value": "{}", "n": 3}}',
    "Anna\t{}\tBerlin\nBob\tnone\tParis",
    "Siehe {} – danke!",
    "线索:{} 谢谢",
)
PLAIN = (
    "The meeting on 2024-05-17 at 10:30:45 took 95 minutes and 12 people came.",
    "Version 1.24.3 replaced 1.23.10; see ticket #48213 and commit 9f8e7d6c5b4a39281706.",
    "Order 100-2345678-9, weight 12.50 kg, 3 x 49.99 EUR, total 149.97 EUR.",
    "From 01.02.2023 to 28.02.2024 the index rose 4.5 % to 15,982.37 points.",
    "Room 12:34 is std::vector, not a::b; ratio 16:9, score 3:2 :: fine.",
    "Twitter handle @somebody, price @ 5 each, and user@localhost is no address.",
    "ISBN 978-3-16-148410-0, EAN 4006381333931, DOI 10.1000/182.",
    "The tracking number is 1Z999AA10123456784 and the flight is LH 454.",
    "He ran 5 km, 10 km, 15 km and 42.195 km in 2019, 2020, 2021 and 2022.",
    "UUID 123e4567-e89b-12d3-a456-426614174000 and hash d41d8cd98f00b204e9800998ecf8427e.",
    "The range 1000 - 2000 and the years 1914 1918 1939 1945 were listed.",
    "Use sk-learn, task-based work, risk-free rates, desk-top and pk_test as a name.",
    "int x = 0x7fff5694dc58; // 64 bits",
    "DE is Germany, GB29 is a model, FR14 a road, and NL91 nothing.",
    "Section 12.3.4.5.6 of the www page says http:// is a prefix.",
    "The primes are 2 3 5 7 11 13 17 19 23 29 31 37 41 43 47 53.",
    "Temperatures: 21.5, 22.0, 19.8, 20.1 degrees; pressure 1013.25 hPa.",
)


def _digits(draw: random.Random, count: int) -> str:
    return "".join(draw.choice(string.digits) for _ in range(count))


def _word(draw: random.Random, low: int = 3, high: int = 10, letters: str = string.ascii_lowercase) -> str:
    return "".join(draw.choice(letters) for _ in range(draw.randint(low, high)))


def _email(draw: random.Random) -> str:
    local = draw.choice(
        (_word(draw), f"{_word(draw)}.{_word(draw)}", f"{_word(draw)}+{_word(draw)}", f"{_word(draw)}_1")
    )
    host = draw.choice((_word(draw), f"mail.{_word(draw)}", f"{_word(draw)}-{_word(draw)}", "münchen"))
    return f"{local}@{host}.{draw.choice(('com', 'org', 'de', 'co.uk', 'museum', 'io'))}"


def _luhn(digits: str) -> str:
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if place % 2 == 0 else 1)
        total += value - 9 * (value > 9)
    return digits + str(-total % 10)


def _card(draw: random.Random) -> str:
    head, size = draw.choice((("4", 16), ("51", 16), ("55", 16), ("34", 15), ("37", 15), ("6011", 16), ("2221", 16)))
    number = _luhn(head + _digits(draw, size - len(head) - 1))
    gap = draw.choice(("", " ", "-"))
    if size == 15:
        return gap.join((number[:4], number[4:10], number[10:]))
    return gap.join(number[i : i + 4] for i in range(0, 16, 4))


def _ip(draw: random.Random) -> str:
    if draw.random() < 0.6:
        return ".".join(str(draw.randint(0, 255)) for _ in range(4))
    groups = [f"{draw.randint(0, 65535):x}" for _ in range(8)]
    if draw.random() < 0.5:
        cut = draw.randint(2, 5)
        return f"{':'.join(groups[:cut])}::{':'.join(groups[cut + 2 :])}"
    return ":".join(groups)


def _mac(draw: random.Random) -> str:
    digits = _word(draw, 12, 12, "0123456789abcdef")
    digits = draw.choice((digits, digits.upper()))
    style = draw.choice((":", "-", "."))
    size = 4 if style == "." else 2
    return style.join(digits[i : i + size] for i in range(0, 12, size))


def _url(draw: random.Random) -> str:
    head = draw.choice(("https://", "http://", "https://www.", "www.", "ftp://"))
    tail = draw.choice(
        ("", f"/{_word(draw)}", f"/{_word(draw)}?id={_digits(draw, 4)}&b=c", f"/a_({_word(draw)})", "/x#y")
    )
    return f"{head}{_word(draw)}.{draw.choice(('com', 'org', 'net'))}{tail}"


def _phone(draw: random.Random) -> str:
    area, line = f"{draw.randint(2, 9)}{_digits(draw, 2)}", f"{draw.randint(2, 9)}{_digits(draw, 2)}"
    last = _digits(draw, 4)
    return draw.choice(
        (
            f"+{draw.choice((1, 33, 44, 49, 351, 91))} {area} {line} {last}",
            f"+49{area}{line}{last}",
            f"+44 (0)20 {_digits(draw, 4)} {last}",
            f"({area}) {line}-{last}",
            f"{area}-{line}-{last}",
            f"1-{area}-{line}-{last}",
            f"0{draw.randint(30, 99)} {draw.randint(1000, 9999)}{_digits(draw, 4)}",
            f"0{draw.randint(150, 179)}/{_digits(draw, 7)}",
            f"0049 {area} {line}{last}",
        )
    )


def _iban(draw: random.Random) -> str:
    country = draw.choice(("DE", "FR", "GB", "NL", "ES", "CH", "NO", "MT"))
    rest = IBAN_LENGTHS[country] - 4
    body = (_word(draw, 4, 4, string.ascii_uppercase) if country in ("GB", "NL", "MT") else "") + _digits(draw, 40)
    body = body[:rest]
    number = int("".join(str(int(c, 36)) for c in f"{body}{country}00"))
    whole = f"{country}{98 - number % 97:02}{body}"
    return draw.choice((whole, " ".join(whole[i : i + 4] for i in range(0, len(whole), 4))))


def _ssn(draw: random.Random) -> str:
    return f"{draw.randint(1, 665):03}-{draw.randint(1, 99):02}-{draw.randint(1, 9999):04}"


def _key(draw: random.Random) -> str:
    free, both = string.ascii_letters + string.digits, string.ascii_uppercase + "234567"
    hexes = "0123456789abcdef"
    return draw.choice(
        (
            "sk-" + _word(draw, 48, 48, free),
            "sk-proj-" + _word(draw, 60, 80, free + "_"),
            "sk-ant-api03-" + _word(draw, 90, 95, free),
            "ghp_" + _word(draw, 36, 36, free),
            "github_pat_" + _word(draw, 82, 82, free),
            "glpat-" + _word(draw, 20, 20, free),
            "AKIA" + _word(draw, 16, 16, both),
            "AIza" + _word(draw, 35, 35, free),
            "xoxb-" + _digits(draw, 11) + "-" + _word(draw, 24, 24, free),
            "sk_live_" + _word(draw, 24, 24, free),
            "hf_" + _word(draw, 34, 34, free),
            "npm_" + _word(draw, 36, 36, free),
            "dapi" + _word(draw, 32, 32, hexes),
            "eyJ" + _word(draw, 30, 30, free) + ".eyJ" + _word(draw, 60, 60, free) + "." + _word(draw, 43, 43, free),
            f"{BEGIN}RSA PRIVATE KEY-----\n" + _word(draw, 200, 300, free) + "\n-----END RSA PRIVATE KEY-----",
        )
    )


MAKE: dict[str, Callable[[random.Random], str]] = {
    "email": _email,
    "credit_card": _card,
    "ip": _ip,
    "mac_address": _mac,
    "url": _url,
    "phone": _phone,
    "iban": _iban,
    "us_ssn": _ssn,
    "api_key": _key,
}
HARD: dict[str, Callable[[random.Random], str]] = {
    # forms that people use and that nothing but their meaning tells from other text
    "email": lambda draw: draw.choice(
        (f"o'{_word(draw)}@{_word(draw)}.com", f"{_word(draw)}@[192.168.2.{draw.randint(1, 9)}]")
    ),
    "credit_card": lambda draw: _card(draw).replace("-", ".").replace(" ", draw.choice((".", "  "))),
    "ip": lambda draw: draw.choice(
        (f"192.168.0{draw.randint(1, 9)}.00{draw.randint(1, 9)}", f"::ffff:10.0.0.{draw.randint(1, 250)}")
    ),
    "mac_address": lambda draw: _word(draw, 12, 12, "0123456789abcdef"),
    "url": lambda draw: f"{_word(draw)}.com/{_word(draw)}",
    "phone": lambda draw: draw.choice((f"555-{_digits(draw, 4)}", f"0{draw.randint(150, 179)}{_digits(draw, 7)}")),
    "iban": lambda draw: _iban(draw).lower(),
    "us_ssn": lambda draw: _ssn(draw).replace("-", draw.choice(("", " "))),
    "api_key": lambda draw: draw.choice((_word(draw, 40, 40, "0123456789abcdef"), "sk-" + _word(draw, 12, 12))),
}
# One type's data is another's look-alike: a card's number must not count as a telephone number.
UNLIKE = {"url": {"email"}, "email": {"url"}}


def _near(draw: random.Random, type: str) -> str:
    """What looks like the type and is not."""
    value = MAKE[type](draw)
    if type in ("credit_card", "iban"):  # a wrong check digit
        last = value.rstrip()[-1]
        return value[:-1] + (str((int(last) + 1) % 10) if last.isdigit() else "A")
    if type == "ip":
        return draw.choice((f"{draw.randint(256, 999)}.1.2.3", f"1.2.3.{draw.randint(256, 999)}", f"v{value}"))
    if type == "us_ssn":
        return draw.choice((f"000-{value[4:]}", f"{value[:4]}00-{value[-4:]}", f"9{value[1:]}"))
    if type == "mac_address":
        return value[:-1] + "g"
    if type == "email":
        return value.replace("@", " at ")
    if type == "api_key":
        return value[: draw.randint(4, 9)]
    return draw.choice(PLAIN[:6])


def labelled(type: str, seed: int = SEED) -> list[Sentence]:
    """Sentences with one of the type (one in twenty of a hard form), with two, with a look-alike, with data of another
    type, and plain ones."""
    draw = random.Random(f"{seed}/{type}")
    made: list[Sentence] = []
    for number in range(EACH):
        kind = number % 5
        if number % 20 == 0:
            made.append(_framed(draw, [HARD[type](draw)], mine=True))
        elif kind < 2:
            made.append(_framed(draw, [MAKE[type](draw)], mine=True))
        elif kind == 2:
            made.append(_framed(draw, [MAKE[type](draw), MAKE[type](draw)], mine=True))
        elif kind == 3:
            made.append(_framed(draw, [_near(draw, type)], mine=False))
        else:
            others = [name for name in MAKE if name != type and name not in UNLIKE.get(type, ())]
            other = MAKE[draw.choice(others)](draw) if draw.random() < 0.5 else draw.choice(PLAIN)
            made.append(_framed(draw, [other], mine=False))
    return made


def _framed(draw: random.Random, values: list[str], *, mine: bool) -> Sentence:
    text, spans = "", set()
    for value in values:
        before, after = draw.choice(FRAMES).replace("{{", "\x01").replace("}}", "\x02").split("{}")
        before, after = (part.replace("\x01", "{").replace("\x02", "}") for part in (before, after))
        start = len(text) + len(before)
        text += f"{before}{value}{after} "
        if mine:
            spans.add((start, start + len(value)))
    return Sentence(text, frozenset(spans))


class Measure(NamedTuple):
    labelled: int
    found: int
    right: int

    @property
    def precision(self) -> float:
        return self.right / self.found

    @property
    def recall(self) -> float:
        return self.right / self.labelled


def measure(type: str) -> Measure:
    """How the built-in detector does: only a finding with exactly the labelled place counts."""
    find = Rule([detector_for(type)], None).look
    total = found = right = 0
    for sentence in labelled(type):
        hits = {(match["start"], match["end"]) for match in find(sentence.text)}
        total, found, right = total + len(sentence.spans), found + len(hits), right + len(hits & sentence.spans)
    return Measure(total, found, right)


def table() -> str:
    rows = ["| type | labelled | precision | recall |", "|---|---|---|---|"]
    for name in BUILTIN:
        made = measure(name)
        rows.append(f"| `{name}` | {made.labelled} | {made.precision:.3f} | {made.recall:.3f} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())  # noqa: T201 - it is for the page
