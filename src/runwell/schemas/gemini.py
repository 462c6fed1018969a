"""Gemini's dialect of JSON schema: the keywords that its API says it reads (`parameters_json_schema`).

References that lead back to themselves stay, all others are inlined. What only narrows a value (a pattern, a length) is
left out, since whoever reads the answer checks it; what would change its shape is refused.
"""

from __future__ import annotations

from typing import Any

from runwell.errors import UnsupportedByProvider
from runwell.schemas.json_schema import at_root, copy_json, dereference_refs, map_schema, reachable, resolve_pointer

__all__ = ["gemini_schema"]

_KEPT = frozenset(
    (
        "$ref",
        "$defs",
        "type",
        "format",
        "description",
        "default",
        "enum",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "anyOf",
        "properties",
        "additionalProperties",
        "required",
    )
)
_IMPOSSIBLE = {
    "not": "a negation",
    "if": "a condition",
    "dependentSchemas": "a dependency",
    "dependentRequired": "a dependency",
    "patternProperties": "keys by pattern",
}


def gemini_schema(schema: dict[str, Any], whose: str) -> dict[str, Any]:
    """A copy in the dialect, definitions, unions and items included.

    Raises UnsupportedByProvider, naming `whose` schema it is and the place in it, for what the dialect cannot say.
    """
    schema = dereference_refs(at_root(copy_json(schema)), where=whose)
    for path, part in reachable(schema):
        _refuse(schema, part, path, whose)
    return map_schema(schema, _said)  # type: ignore[no-any-return]


def _refuse(root: dict[str, Any], part: dict[str, Any], path: str, whose: str) -> None:
    problem = next((text for key, text in _IMPOSSIBLE.items() if key in part), None)
    if problem is None and len(part.get("allOf", ())) > 1:
        problem = "a combination (allOf)"
    ref = part.get("$ref")
    if problem is None and isinstance(ref, str) and _needs_itself(root, ref):
        problem = "a type that holds itself in a required field"
    if problem is not None:
        raise UnsupportedByProvider(
            f"{whose}: Gemini cannot express {path or 'the whole'}: {problem}.",
            hint="A field that leads back to its own type must be optional; for the rest give a definite type.",
        )


def _needs_itself(root: dict[str, Any], ref: str) -> bool:
    """Whether what is referred to leads back to itself through required fields alone: Gemini unrolls only others."""
    seen: set[str] = set()
    todo: list[Any] = [resolve_pointer(root, ref)]
    while todo:
        part = todo.pop()
        if not isinstance(part, dict):
            continue
        found = part.get("$ref")
        if found == ref:
            return True
        if isinstance(found, str) and found not in seen:
            seen.add(found)
            todo.append(resolve_pointer(root, found))
        needed = part.get("required", ())
        todo += [each for name, each in part.get("properties", {}).items() if name in needed]
        for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            todo += part.get(key, ())
        todo += [part[key] for key in ("items", "additionalProperties") if key in part]
    return False


def _said(part: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in part:
        return {key: part[key] for key in ("$ref", "$defs") if key in part}  # nothing else may stand beside it
    if len(part.get("allOf", ())) == 1:
        part = {**part.pop("allOf")[0], **part}
    if "oneOf" in part:
        part["anyOf"] = part.pop("oneOf")
    if "const" in part:
        part["enum"] = [part.pop("const")]
    _inclusive(part, "exclusiveMinimum", "minimum", 1)
    _inclusive(part, "exclusiveMaximum", "maximum", -1)
    if "enum" in part:
        part = _choices(part)
    return {key: value for key, value in part.items() if key in _KEPT}


def _inclusive(part: dict[str, Any], exclusive: str, inclusive: str, step: int) -> None:
    """An open bound: of whole numbers the next one, of others the bound itself."""
    bound = part.pop(exclusive, None)
    if isinstance(bound, (int, float)) and not isinstance(bound, bool) and inclusive not in part:
        whole = part.get("type") == "integer" and bound == int(bound)
        part[inclusive] = int(bound) + step if whole else bound


def _choices(part: dict[str, Any]) -> dict[str, Any]:
    """Only texts and numbers can be enumerated: null becomes an alternative, truth values are left to the type."""
    values = part.pop("enum")
    named = [each for each in values if isinstance(each, (str, int, float)) and not isinstance(each, bool)]
    kinds = [kind for kind, types in _KINDS.items() if any(type(each) in types for each in values)]
    declared = part.pop("type", None)
    ways: list[dict[str, Any]] = []
    for kind in kinds:
        among = [each for each in named if type(each) in _KINDS[kind]]
        ways.append({"type": kind, "enum": among} if among else {"type": kind})
    if len(ways) == 1:
        if isinstance(declared, str) and declared != ways[0]["type"]:
            ways[0]["type"] = declared  # whole numbers where any number is meant
        return {**ways[0], **part}
    return {"anyOf": ways, **part}


_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (float,),
    "boolean": (bool,),
    "null": (type(None),),
}
