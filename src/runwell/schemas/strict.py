"""OpenAI's strict subset of JSON schema: what constrained decoding there can follow to the letter.

Every object is closed and every key of it required; a key that may be missing may be null instead. Whoever reads the
answer takes such a null for "not given" (`runwell.schemas.nulls`).
"""

from __future__ import annotations

from typing import Any

from runwell.errors import UnsupportedByProvider
from runwell.schemas.json_schema import at_root, copy_json, dereference_refs, map_schema, reachable

__all__ = ["refuse_loose", "strict_schema", "typed"]

_IMPOSSIBLE = {
    "not": "a negation",
    "if": "a condition",
    "dependentSchemas": "a dependency",
    "dependentRequired": "a dependency",
    "patternProperties": "free keys",
    "prefixItems": "a fixed sequence of different items (a tuple)",
}
_KEPT = frozenset(  # whoever reads the answer checks the others
    (
        "$ref",
        "$defs",
        "definitions",
        "type",
        "description",
        "enum",
        "const",
        "anyOf",
        "items",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "pattern",
        "format",
        "properties",
        "required",
        "additionalProperties",
    )
)
_FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"))


def strict_schema(schema: dict[str, Any], whose: str) -> dict[str, Any]:
    """A copy in the strict subset, definitions, unions and items included.

    Raises UnsupportedByProvider, naming `whose` schema it is and the place in it, for what the subset cannot say.
    """
    schema = dereference_refs(at_root(copy_json(schema)), where=whose)
    for path, part in reachable(schema):
        refuse_loose(part, path, whose, "OpenAI's strict mode")
    if any(key in schema for key in ("anyOf", "oneOf")):
        raise UnsupportedByProvider(
            f"{whose}: OpenAI's strict mode takes no alternatives at the top.",
            hint="Put the alternatives under a key of their own, or leave out strict=True.",
        )
    return map_schema(schema, _tighten)  # type: ignore[no-any-return]


def refuse_loose(part: dict[str, Any], path: str, whose: str, who: str) -> None:
    """UnsupportedByProvider for a part that constrained decoding cannot follow: free keys, any type, a condition."""
    problem = next((text for key, text in _IMPOSSIBLE.items() if key in part), None)
    if part.get("additionalProperties", False) is not False:
        problem = "an object with free keys"
    if problem is None and "properties" not in part and _is_object(part):
        problem = "an object with free keys"
    if problem is None and not part.keys() - {"description", "title", "default"}:
        problem = "a value of any type"
    if problem is None and part.get("type") == "array" and not part.get("items"):
        problem = "an array of anything"
    if problem is None and len(part.get("allOf", ())) > 1:
        problem = "a combination (allOf)"
    if problem is not None:
        raise UnsupportedByProvider(
            f"{whose}: {who} cannot express {path or 'the whole'}: {problem}.",
            hint="Give it a definite type (a Pydantic model, a list of {key, value}), or leave out strict=True.",
        )


def _is_object(part: dict[str, Any]) -> bool:
    kind = part.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _tighten(part: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in part:
        return {key: part[key] for key in ("$ref", "$defs") if key in part}  # a reference may have nothing beside it
    if isinstance(part.get("format"), str) and part["format"] not in _FORMATS:
        del part["format"]
    if isinstance(part.get("pattern"), str) and "(?" in part["pattern"]:
        del part["pattern"]  # looking around is not understood
    if "oneOf" in part:
        part["anyOf"] = part.pop("oneOf")
    if len(part.get("allOf", ())) == 1:
        part = {**part.pop("allOf")[0], **part}
    part = typed({key: value for key, value in part.items() if key in _KEPT})
    properties = part.get("properties")
    if isinstance(properties, dict):
        needed = set(part.get("required", ()))
        part["properties"] = {name: each if name in needed else _nullable(each) for name, each in properties.items()}
        part["required"] = list(properties)
        part["additionalProperties"] = False
    return part


def typed(part: dict[str, Any]) -> dict[str, Any]:
    """With the types that its `enum` or `const` shows, if it names none."""
    values = part.get("enum", [part["const"]] if "const" in part else [])
    if not values or "type" in part:
        return part
    kinds = list(dict.fromkeys(_kind(each) for each in values))
    return {"type": kinds[0] if len(kinds) == 1 else kinds, **part}


def _kind(value: Any) -> str:
    kinds = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    return kinds.get(type(value), "null")


def _nullable(part: Any) -> Any:
    """The same, or null."""
    kind = part.get("type")
    if "anyOf" in part:
        if any(each.get("type") == "null" for each in part["anyOf"]):
            return part
        return {**part, "anyOf": [*part["anyOf"], {"type": "null"}]}
    kinds = kind if isinstance(kind, list) else [kind]
    if "null" in kinds:
        return part
    if kind is not None and "enum" not in part and "const" not in part:
        return {**part, "type": [*kinds, "null"]}
    beside = {"description": part["description"]} if "description" in part else {}
    return {"anyOf": [{key: value for key, value in part.items() if key not in beside}, {"type": "null"}], **beside}
