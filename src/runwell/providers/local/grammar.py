"""JSON schemas in the form that llama.cpp can hold a generation to.

It compiles a schema to a grammar and refuses words it does not know, so what is only said *about* a value is left
out here, and references are put in place. A tool checks its arguments against the whole schema afterwards anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["constrainable"]

_KEPT = frozenset(("type", "enum", "const", "required", "minItems", "maxItems", "minLength", "maxLength"))
_KEPT |= {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
_FORMATS = frozenset(("date", "time", "date-time", "uuid"))
_DEPTH = 12
"""How deep a recursive schema is unrolled; below it any value is allowed."""


def constrainable(schema: Mapping[str, Any] | bool) -> dict[str, Any]:
    """`schema` without references and without words that llama.cpp does not compile."""
    if isinstance(schema, bool):
        return {}
    return _clean(schema, schema, _DEPTH)


def _clean(schema: Any, root: Mapping[str, Any], depth: int) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or depth == 0:
        return {}
    if "$ref" in schema:
        return _clean(
            {**_follow(str(schema["$ref"]), root), **{k: v for k, v in schema.items() if k != "$ref"}}, root, depth - 1
        )
    clean: dict[str, Any] = {key: value for key, value in schema.items() if key in _KEPT}
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and pattern.startswith("^") and pattern.endswith("$"):
        clean["pattern"] = pattern
    if schema.get("format") in _FORMATS:
        clean["format"] = schema["format"]
    for key in ("anyOf", "oneOf", "allOf"):
        if options := schema.get(key):
            clean[key] = [_clean(option, root, depth - 1) for option in options]
    if isinstance(schema.get("items"), Mapping):
        clean["items"] = _clean(schema["items"], root, depth - 1)
    if schema.get("prefixItems"):
        clean["prefixItems"] = [_clean(item, root, depth - 1) for item in schema["prefixItems"]]
    properties = schema.get("properties")
    more = schema.get("additionalProperties")
    if isinstance(properties, Mapping):
        clean["properties"] = {name: _clean(value, root, depth - 1) for name, value in properties.items()}
    if isinstance(more, Mapping):
        clean["additionalProperties"] = _clean(more, root, depth - 1)
    elif "properties" in schema:
        # A small model fills any opening with inventions: what the schema does not name is not offered.
        clean["additionalProperties"] = False
    return clean


def _follow(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    place: Any = root
    for step in reference.removeprefix("#/").split("/"):
        place = place.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(place, Mapping) else None
    return place if isinstance(place, Mapping) else {}
