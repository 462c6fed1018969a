"""Mistral's dialect of JSON schema: it takes JSON schemas as they are, and in strict mode every object closed."""

from __future__ import annotations

from typing import Any

from runwell.errors import UnsupportedByProvider
from runwell.schemas.json_schema import at_root, copy_json, dereference_refs, map_schema, reachable

__all__ = ["mistral_schema"]


def mistral_schema(schema: dict[str, Any], whose: str) -> dict[str, Any]:
    """A copy for Mistral's strict mode: no object takes keys that it does not name.

    Raises UnsupportedByProvider, naming `whose` schema it is and the place in it, for objects with free keys.
    """
    schema = dereference_refs(at_root(copy_json(schema)), where=whose)
    for path, part in reachable(schema):
        free = part.get("additionalProperties", False) is not False or "patternProperties" in part
        if free or (part.get("type") == "object" and "properties" not in part):
            raise UnsupportedByProvider(
                f"{whose}: Mistral's strict mode cannot express {path or 'the whole'}: an object with free keys.",
                hint="Name its keys (a Pydantic model, a list of {key, value}), or leave out strict=True.",
            )
    return map_schema(schema, _closed)  # type: ignore[no-any-return]


def _closed(part: dict[str, Any]) -> dict[str, Any]:
    if "properties" in part:
        part["additionalProperties"] = False
    return part
