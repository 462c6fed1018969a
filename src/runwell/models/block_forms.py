"""What a content block must hold to be sent by any adapter."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

from runwell.errors import InvalidInput

__all__ = ["check_form", "not_json"]

_JSON: Final = (str, int, float, type(None))
_TEXT_OF: Final = {"text": "text", "reasoning": "reasoning", "refusal": "refusal"}
_NEEDED: Final = {
    "server_tool_call": ("id", "name"),
    "server_tool_result": ("tool_call_id",),
    "tool_call": ("id", "name"),
    "non_standard": ("value",),
    "refusal": ("refusal",),
}


def check_form(block: Mapping[str, Any], where: str) -> None:
    """Raises InvalidInput, naming the field, for a block that lacks what its type needs, or holds what it cannot: texts
    that are none, `extras` and `annotations` of another shape, what JSON cannot say."""
    kind = block.get("type")
    if kind is not None and not isinstance(kind, str):
        raise InvalidInput(f"{where}, has the type {kind!r:.100}.", hint='A type is a text: {"type": "text", ...}.')
    lacking = [name for name in _NEEDED.get(kind or "", ()) if name not in block]
    if lacking:
        raise InvalidInput(f"{where}, of type {kind!r}, lacks {', '.join(map(repr, lacking))}: {dict(block)!r:.200}.")
    field = _TEXT_OF.get(kind or "")
    if field and block.get(field) is not None and not isinstance(block[field], str):
        raise InvalidInput(f"{where}, of type {kind!r}, has a {field} that is no text: {block[field]!r:.100}.")
    extras = block.get("extras")
    if extras is not None and not isinstance(extras, Mapping):
        raise InvalidInput(f"{where}, has extras that are no dict: {extras!r:.100}.")
    notes = block.get("annotations")
    if notes is not None and not (isinstance(notes, list | tuple) and all(isinstance(n, Mapping) for n in notes)):
        raise InvalidInput(f"{where}, has annotations that are no list of dicts: {notes!r:.100}.")
    for name in ("output", "args", "value", "content", "extras", "annotations"):
        found = not_json(block.get(name))
        if found is not None:
            raise InvalidInput(
                f"{where}, holds {found[0]!r:.100} in its {name}, which JSON cannot say.",
                hint="Texts, numbers, booleans, None, lists and dicts can be sent; write others as a text.",
            )


def not_json(value: Any) -> tuple[Any] | None:
    """(What JSON cannot say in a value,), or None where it can say all of it."""
    if isinstance(value, Mapping):
        return next((found for pair in value.items() for each in pair if (found := not_json(each))), None)
    if isinstance(value, list | tuple):
        return next((found for each in value if (found := not_json(each))), None)
    fine = isinstance(value, _JSON) and not (type(value) is float and not isfinite(value))
    return None if fine else (value,)
