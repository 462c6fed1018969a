"""Cohere's dialect of JSON schema: schemas as they are, and under `strict_tools` the part of them that it enforces.

What only narrows a value (a bound, a length) is left out there, since whoever reads the answer checks it.
"""

from __future__ import annotations

from typing import Any

from runwell.errors import UnsupportedByProvider
from runwell.schemas.json_schema import at_root, copy_json, dereference_refs, map_schema, reachable

__all__ = ["cohere_schema"]

_IMPOSSIBLE = {
    "not": "a negation",
    "if": "a condition",
    "dependentSchemas": "a dependency",
    "dependentRequired": "a dependency",
    "patternProperties": "keys by pattern",
    "prefixItems": "a fixed sequence of different items (a tuple)",
}
_DROPPED = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
)
_FORMATS = frozenset(("date-time", "date", "time", "uuid"))


def cohere_schema(schema: dict[str, Any], whose: str) -> dict[str, Any]:
    """A copy for `strict_tools`, where every object needs at least one required key.

    Raises UnsupportedByProvider, naming `whose` schema it is and the place in it, for what that cannot say.
    """
    schema = dereference_refs(at_root(copy_json(schema)), where=whose)
    for path, part in reachable(schema):
        _refuse(part, path, whose)
    return map_schema(schema, _said)  # type: ignore[no-any-return]


def _refuse(part: dict[str, Any], path: str, whose: str) -> None:
    problem = next((text for key, text in _IMPOSSIBLE.items() if key in part), None)
    hint = "Give it a definite type (a Pydantic model, a list), or leave out strict=True."
    if problem is None and len(part.get("allOf", ())) > 1:
        problem = "a combination (allOf)"
    if problem is None and (part.get("type") == "object" or "properties" in part) and not part.get("required"):
        problem = "an object of which nothing is required"
        hint = "Make one of its keys required (no default), or leave out strict=True."
    if problem is not None:
        raise UnsupportedByProvider(
            f"{whose}: Cohere's strict_tools cannot express {path or 'the whole'}: {problem}.", hint=hint
        )


def _said(part: dict[str, Any]) -> dict[str, Any]:
    for key in _DROPPED:
        part.pop(key, None)
    if isinstance(part.get("format"), str) and part["format"] not in _FORMATS:
        del part["format"]
    if "oneOf" in part:
        part["anyOf"] = part.pop("oneOf")
    if len(part.get("allOf", ())) == 1:
        part = {**part.pop("allOf")[0], **part}
    return part
