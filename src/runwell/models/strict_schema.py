"""JSON schemas in the strict dialect: every object closed, every key required, nothing a decoder refuses."""

from __future__ import annotations

from typing import Any

from runwell.errors import UnsupportedByProvider

__all__ = ["strict_schema"]


def strict_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """A strict copy of `schema`; definitions, unions and items are made strict too.

    A key with a default becomes required, since the model must always write every key. Raises UnsupportedByProvider,
    naming the place, for an object with free keys (`dict[str, int]`), which the dialect cannot say.
    """
    return _strict(schema, schema, "")  # type: ignore[no-any-return]


def _strict(node: Any, root: dict[str, Any], where: str) -> Any:
    if not isinstance(node, dict):
        return node
    if "$ref" in node and set(node) - {"$ref", "$defs"}:  # a reference may have no neighbours
        rest = {key: value for key, value in node.items() if key != "$ref"}
        node = {**_resolve(node["$ref"], root), **rest}
    branches = node.get("allOf")
    if isinstance(branches, list) and len(branches) == 1 and isinstance(branches[0], dict):
        node = {**branches[0], **{key: value for key, value in node.items() if key != "allOf"}}
        return _strict(node, root, where)
    result: dict[str, Any] = {}
    for key, value in node.items():
        if key in ("$defs", "definitions"):
            result[key] = {name: _strict(each, root, f"{where}{name}") for name, each in value.items()}
        elif key == "properties":
            result[key] = {name: _strict(each, root, f"{where}.{name}") for name, each in value.items()}
        elif key in ("anyOf", "oneOf", "allOf"):
            name = "anyOf" if key == "oneOf" else key
            result[name] = [_strict(each, root, where) for each in value]
        elif key == "items":
            result[key] = _strict(value, root, f"{where}[]")
        elif key == "prefixItems":
            result[key] = [_strict(each, root, f"{where}[]") for each in value]
        elif key not in ("default", "discriminator"):
            result[key] = value
    if _is_object(node):
        extra = node.get("additionalProperties")
        free = not node.get("properties") and extra is not False and (extra is not None or "properties" not in node)
        if isinstance(extra, dict) or extra is True or free:
            place = where.lstrip(".") or "the whole answer"
            raise UnsupportedByProvider(
                f"A strict schema cannot have an object with free keys, as {place} has.",
                hint="Use a list of {key, value} objects there, or strict=False.",
            )
        result["additionalProperties"] = False
        result["required"] = list(node.get("properties", {}))
    return result


def _is_object(node: dict[str, Any]) -> bool:
    kind = node.get("type")
    return kind == "object" or "properties" in node or (isinstance(kind, list) and "object" in kind)


def _resolve(reference: str, root: dict[str, Any]) -> dict[str, Any]:
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found[part.replace("~1", "/").replace("~0", "~")]
    return dict(found)
