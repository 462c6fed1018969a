"""Working on JSON schemas as plain data: copying, inlining references, dropping what costs tokens and says nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from runwell.errors import ToolDefinitionError

__all__ = [
    "at_root",
    "copy_json",
    "dereference_refs",
    "drop_titles",
    "map_schema",
    "model_facing",
    "never_fetch",
    "reachable",
    "resolve_pointer",
    "subschemas",
]

MAX_INLINED_NODES = 5_000
"""Past this many nodes a schema keeps its references: definitions that share definitions double at every level."""

_MAPS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_DEFINITIONS = ("$defs", "definitions")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLES = (
    "items",
    "additionalProperties",
    "not",
    "contains",
    "propertyNames",
    "if",
    "then",
    "else",
    "unevaluatedProperties",
    "unevaluatedItems",
)


_NESTED = frozenset((dict, list))


def copy_json(value: Any) -> Any:
    """A copy of nested dicts and lists; anything else is shared."""
    kind = type(value)
    if kind is dict:  # most values inside are plain, so copy the whole and replace the few that are not
        copy = value.copy()
        if _NESTED.isdisjoint(map(type, value.values())):
            return copy
        for key, item in value.items():
            inner = type(item)
            if inner is dict or inner is list:
                copy[key] = copy_json(item)
        return copy
    if kind is list:
        return [copy_json(item) for item in value]
    return value


def map_schema(schema: Any, change: Callable[[dict[str, Any]], Any]) -> Any:
    """A new schema, `change` applied to a copy of every subschema, inner ones first. Data (enum, default) is shared."""
    if not isinstance(schema, dict):
        return schema
    new: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _MAPS and isinstance(value, dict):
            new[key] = {name: map_schema(item, change) for name, item in value.items()}
        elif (key in _LISTS or key == "items") and isinstance(value, list):
            new[key] = [map_schema(item, change) for item in value]
        elif key in _SINGLES:
            new[key] = map_schema(value, change)
        else:
            new[key] = value
    return change(new)


def subschemas(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every subschema with a readable path (`filters.city`, `tags[]`), the outermost first."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for key, value in schema.items():
        if key == "properties" and isinstance(value, dict):
            for name, item in value.items():
                yield from subschemas(item, f"{path}.{name}" if path else name)
        elif key in _MAPS and isinstance(value, dict):
            for name, item in value.items():
                yield from subschemas(item, name if key in _DEFINITIONS else path)
        elif (key in _LISTS or key == "items") and isinstance(value, list):
            for item in value:
                yield from subschemas(item, path)
        elif key in _SINGLES:
            yield from subschemas(value, f"{path}[]" if key == "items" else path)


def reachable(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """As `subschemas`, with each definition where it is first referred to, under that path; unused ones not at all."""
    seen: set[str] = set()
    todo: list[tuple[str, Any]] = [("", {key: each for key, each in schema.items() if key not in _DEFINITIONS})]
    while todo:
        start, part = todo.pop()
        for path, inner in subschemas(part, start):
            yield path, inner
            ref = inner.get("$ref")
            if isinstance(ref, str) and ref != "#" and ref not in seen:
                seen.add(ref)
                todo.append((path, resolve_pointer(schema, ref)))


def drop_titles(schema: Any) -> Any:
    """Without `title` (it repeats the name) and `discriminator` (OpenAPI's; it names definitions that are inlined now).

    Properties with these names stay.
    """

    def change(part: dict[str, Any]) -> dict[str, Any]:
        if isinstance(part.get("title"), str):
            del part["title"]
        if isinstance(part.get("discriminator"), dict):
            del part["discriminator"]
        return part

    return map_schema(schema, change)


def model_facing(schema: dict[str, Any], injected: frozenset[str], where: str) -> dict[str, Any]:
    """As a model should read it: an object at the top, references inlined, no titles, injected properties gone."""
    schema = at_root(schema)
    hidden = injected & schema.get("properties", {}).keys()
    if hidden:
        schema = {**schema, "properties": {k: v for k, v in schema["properties"].items() if k not in hidden}}
        if "required" in schema:
            schema["required"] = [name for name in schema["required"] if name not in hidden]
    schema = {"type": "object", "properties": {}, **drop_titles(dereference_refs(schema, where=where))}
    schema.pop("description", None)
    if not schema.get("required", True):
        del schema["required"]
    if schema.get("additionalProperties") is False:
        del schema["additionalProperties"]  # we refuse unknown names anyway; not worth the tokens in every request
    return schema


def never_fetch(uri: str) -> Any:
    """What answers a reference out of a schema: `validator_for(schema, retriever=never_fetch)`.

    Without it the validator reads files and asks servers, as whoever wrote the schema likes.
    """
    raise ValueError(f"{uri} is outside the schema, and nothing is fetched")


def at_root(schema: dict[str, Any]) -> dict[str, Any]:
    """With the object itself at the top, where a model that refers to itself has only a `$ref`."""
    for _ in range(8):
        ref = schema.get("$ref")
        if not isinstance(ref, str) or ref == "#":
            break
        try:
            target = resolve_pointer(schema, ref)
        except KeyError:
            break  # told, with its place, by dereference_refs
        if not isinstance(target, dict):
            break
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**target, **beside}
    return schema


def resolve_pointer(root: Any, ref: str) -> Any:
    """What a local `$ref` points to. Raises KeyError for what is not there or not local."""
    if ref == "#":
        return root
    if not ref.startswith("#/"):
        raise KeyError(ref)
    found = root
    for step in ref[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        try:
            found = found[int(name)] if isinstance(found, list) else found[name]
        except (KeyError, IndexError, ValueError, TypeError):
            raise KeyError(ref) from None
    return found


def dereference_refs(schema: dict[str, Any], *, where: str = "schema") -> dict[str, Any]:
    """The same schema with references replaced by what they point to.

    A reference that leads back to itself stays a `$ref`, with its definition kept; so do all when the result would be
    huge. Raises ToolDefinitionError for a reference that points nowhere or outside the schema: nothing is fetched.
    """
    refs = _references(schema)
    if not refs:
        return schema
    for ref in refs:
        try:
            resolve_pointer(schema, ref)
        except KeyError:
            raise ToolDefinitionError(
                f"{where}: the reference {ref!r} points to nothing in the schema.",
                hint="References must be local, such as '#/$defs/Name'; others are never fetched.",
            ) from None
    recursive = {ref for ref in refs if _reaches_itself(schema, ref)}
    budget = [MAX_INLINED_NODES]
    inlined: dict[str, Any] = _inline(schema, schema, recursive, budget)
    return schema if budget[0] < 0 else _keep_definitions(inlined, schema, recursive, budget)


def _references(part: Any) -> set[str]:
    return {inner["$ref"] for _, inner in subschemas(part) if isinstance(inner.get("$ref"), str)}


def _reaches_itself(root: Any, ref: str) -> bool:
    """Whether following references from what `ref` points to comes back to it (or to something around it)."""
    seen: set[str] = set()
    todo = [ref]
    while todo:
        for found in _references(resolve_pointer(root, todo.pop())):
            if found == ref or ref.startswith(found + "/"):
                return True
            if found not in seen:
                seen.add(found)
                todo.append(found)
    return False


def _inline(part: Any, root: Any, recursive: set[str], budget: list[int]) -> Any:
    if budget[0] < 0:
        return part

    def change(inner: dict[str, Any]) -> dict[str, Any]:
        budget[0] -= 1
        ref = inner.get("$ref")
        if not isinstance(ref, str) or ref in recursive or budget[0] < 0:
            return inner
        target = _inline(resolve_pointer(root, ref), root, recursive, budget)
        if not isinstance(target, dict):
            return inner
        beside = {key: value for key, value in inner.items() if key != "$ref"}
        return {**target, **beside}

    top = {key: value for key, value in part.items() if key not in _DEFINITIONS} if part is root else part
    return map_schema(top, change)


def _keep_definitions(
    inlined: dict[str, Any], root: dict[str, Any], recursive: set[str], budget: list[int]
) -> dict[str, Any]:
    """Put back the definitions that the remaining references need."""
    kept: dict[str, Any] = {}
    todo = list(_references(inlined))
    while todo:
        ref = todo.pop()
        steps = ref[2:].split("/")
        if ref in kept or len(steps) < 2 or steps[0] not in _DEFINITIONS:
            continue  # "#" and "#/properties/…" are still where they were
        top = f"#/{steps[0]}/{steps[1]}"
        if top in kept:
            continue
        definition = _inline(resolve_pointer(root, top), root, recursive, budget)
        kept[top] = definition
        inlined.setdefault(steps[0], {})[steps[1].replace("~1", "/").replace("~0", "~")] = definition
        todo.extend(_references(definition))
    return root if budget[0] < 0 else inlined
