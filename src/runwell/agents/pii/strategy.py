"""What stands in the place of a finding."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from typing import Any, Literal, get_args

from runwell.agents.pii.match import PIIMatch
from runwell.errors import InvalidInput, nearest

__all__ = ["STRATEGIES", "TOKEN", "Replace", "Strategy", "replacement"]

Strategy = Literal["redact", "mask", "hash", "tokenize", "block"]
STRATEGIES: tuple[str, ...] = get_args(Strategy)
Replace = Callable[[PIIMatch], str]

TOKEN = re.compile(r"<\w{1,40}:[a-p]{12}>")
"""What stands for a value that can be brought back."""
TOKEN_LONGEST = 60

_LETTERS = str.maketrans("0123456789", "ghijklmnop")  # digits would look like numbers to the next detector


def replacement(strategy: str, key: Any) -> Replace | None:
    """What makes a text of a match; None for "block". Without a key one is drawn, which dies with the process."""
    if strategy not in STRATEGIES:
        raise InvalidInput(
            f"strategy={strategy!r}{nearest(str(strategy), STRATEGIES)}.", hint=f"One of {', '.join(STRATEGIES)}."
        )
    keyed = strategy in ("hash", "tokenize")
    if key is not None and not keyed:
        raise InvalidInput(f"key= is for strategy='hash' or 'tokenize', not {strategy!r}.", hint="Leave it out.")
    if key is not None and (not isinstance(key, (str, bytes)) or len(key) < 8):
        raise InvalidInput("key= is a secret of at least 8 characters.", hint="For instance secrets.token_hex(32).")
    if strategy == "redact":
        return lambda match: f"[REDACTED_{match['type'].upper()}]"
    if strategy == "mask":
        return masked
    if strategy == "block":
        return None
    secret = secrets.token_bytes(32) if key is None else key.encode() if isinstance(key, str) else key
    shape, size = ("<{}_hash:{}>", 16) if strategy == "hash" else ("<{}:{}>", 12)
    return lambda match: shape.format(match["type"], _digest(secret, match, size))


def _digest(secret: bytes, match: PIIMatch, size: int) -> str:
    """The same for one value however it is written: case, spaces and hyphens do not count."""
    value = "".join(char for char in match["value"].casefold() if not char.isspace() and char != "-")
    made = hmac.new(secret, f"{match['type']}\0{value}".encode(), hashlib.sha256).hexdigest()
    return made[:size].translate(_LETTERS)


def masked(match: PIIMatch) -> str:
    """Enough to recognise the value by for one who knows it: its end, a mail address's host, a key's prefix."""
    value, kind = match["value"], match["type"]
    if kind == "email":
        return f"****@{value.rpartition('@')[2]}"
    if kind == "url":
        scheme, found, _ = value.partition("://")
        return f"{scheme}://****" if found else "****"
    if kind == "ip":
        mark = "." if "." in value else ":"
        return f"****{mark}{value.rpartition(mark)[2]}"
    if kind == "api_key":
        return f"{value[:3]}****"
    shown = 4 if sum(char.isalnum() for char in value) >= 9 else 2 if len(value) >= 6 else 0
    made = []
    for char in reversed(value):
        if char.isalnum():
            made.append(char if shown > 0 else "*")
            shown -= 1
        else:
            made.append(char)
    return "".join(reversed(made))
