"""JSON that is not whole yet, for showing: never for acting upon."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["is_json", "partial_json"]

_HALF_NUMBER = re.compile(r"(?<=[\[:,\s])-?\d[\d.eE+-]*\Z")
_BEFORE = re.compile(r"[{\[]")


def partial_json(text: str) -> Any:
    """What the beginning of a JSON text holds so far: open strings, lists and objects count as they are, numbers, true,
    false and null once they are whole. None while there is nothing, or where it is no JSON.

    What stands before the first brace or bracket (a code fence) is passed over.
    """
    from pydantic_core import from_json

    start = _BEFORE.search(text)
    if start is None:
        return None
    text = _HALF_NUMBER.sub("", text[start.start() :])
    try:
        return from_json(text, allow_partial="trailing-strings")
    except (ValueError, TypeError):
        return None


def is_json(text: str) -> bool:
    """Whether a text is JSON, whole."""
    from pydantic_core import from_json

    try:
        from_json(text)
    except (ValueError, TypeError):
        return False
    return True
