"""What a model is told of a tool: name, description, JSON schema of the arguments, from whatever can say so.

A tool, a function, a Pydantic model, a TypedDict, a dataclass, or a dict in any of the usual forms. A function is told
exactly as the tool that `@tool` makes of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from runwell.errors import ToolDefinitionError
from runwell.schemas.docstring import check_docstring, class_docstring, read_docstring
from runwell.schemas.injection import NOTHING
from runwell.schemas.json_schema import at_root, copy_json, dereference_refs, drop_titles, model_facing
from runwell.schemas.signature import UnresolvedName, describe_place, doc_of, name_of, read_function
from runwell.schemas.type_schema import has_fields, type_schema

__all__ = [
    "ToolDescription",
    "check_name",
    "class_schema",
    "describe",
    "is_provider_tool",
    "needs_description",
    "read_mapping",
    "tells_itself",
    "unresolved",
    "with_descriptions",
]

_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


@dataclass(slots=True)
class ToolDescription:
    """What a model is told of a tool. `parameters` is the JSON schema of its arguments, an object."""

    name: str
    description: str
    parameters: dict[str, Any]


def describe(tool: Any) -> ToolDescription:
    """The description of anything that can be offered to a model as a tool. The result is your own to change.

    Raises ToolDefinitionError for what describes no arguments.
    """
    if tells_itself(tool):
        return ToolDescription(tool.name, tool.description or "", tool.json_schema())
    if isinstance(tool, Mapping):
        return _from_mapping(tool)
    if isinstance(tool, type):
        return _from_class(tool)
    if isinstance(getattr(tool, "name", None), str) and hasattr(tool, "description"):
        schema = _schema_of_tool(tool)
        if schema is not None:
            return ToolDescription(tool.name, tool.description or "", schema)
    if callable(tool):
        return _from_function(tool)
    raise ToolDefinitionError(
        f"{tool!r} cannot be described as a tool.",
        hint="Pass a tool, a function, a Pydantic model, a TypedDict, a dataclass or a dict with name and parameters.",
    )


def tells_itself(tool: Any) -> bool:
    """Whether it is a tool of ours: asked first, as it is the usual case."""
    return hasattr(type(tool), "json_schema") and hasattr(tool, "name")


def is_provider_tool(tool: Any) -> bool:
    """Whether it names something that the provider runs itself: a `ProviderTool`, or a dict with a type of its own."""
    if tells_itself(tool):
        return False
    if isinstance(tool, Mapping):
        kind = tool.get("type")
        told = kind in ("function", "object") or "properties" in tool or (kind == "custom" and "input_schema" in tool)
        return isinstance(kind, str) and not told
    return not isinstance(tool, type) and hasattr(tool, "to_dict") and isinstance(getattr(tool, "type", None), str)


def check_name(name: Any, where: str) -> str:
    """A name that providers accept, or ToolDefinitionError."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    better = re.sub(r"[^A-Za-z0-9_.:-]+", "_", name).strip("_") if isinstance(name, str) else ""
    raise ToolDefinitionError(
        f"{where}: {name!r} cannot be the name of a tool: letters, digits, '_', '-', '.' and ':', at most 128 of them.",
        hint=f"Call it {better[:128]!r}."
        if better and better != "lambda"
        else 'Give it one: tool("name", ...)(function).',
    )


def needs_description(where: str, name: str) -> ToolDefinitionError:
    return ToolDefinitionError(
        f"{where}: the tool {name!r} has neither a docstring nor a description; no model could know its use.",
        hint="Write a docstring, or pass description=...",
    )


def unresolved(where: str, name: str, error: UnresolvedName) -> ToolDefinitionError:
    return ToolDefinitionError(
        f"{where}: an annotation of the tool {name!r} cannot be read: {error}",
        hint="Import the type at run time, not only under TYPE_CHECKING.",
    )


# -- functions and tools


def _from_function(function: Callable[..., Any]) -> ToolDescription:
    from runwell.schemas.argument_model import model_from_shape, model_schema

    name = check_name(name_of(function), describe_place(function))
    try:
        shape = read_function(function)
    except UnresolvedName as error:
        raise unresolved(describe_place(function), name, error) from error
    doc = doc_of(function)
    read = read_docstring(doc or "")
    check_docstring(read, shape, function, strict=False, documented=bool(doc))
    if not read.description.strip():
        raise needs_description(shape.where, name)
    schema = model_schema(model_from_shape(name, shape, read.arguments), frozenset(shape.injected))
    return ToolDescription(name, read.description.strip(), schema)


def _schema_of_tool(tool: Any) -> dict[str, Any] | None:
    """Of a tool of another library, which has `args_schema`."""
    schema = getattr(tool, "args_schema", None)
    if isinstance(schema, Mapping):
        return model_facing(copy_json(dict(schema)), frozenset(), tool.name)
    return class_schema(schema, {}) if isinstance(schema, type) and has_fields(schema) else None


# -- classes and dicts


def _from_class(declared: type) -> ToolDescription:
    if not has_fields(declared):
        raise ToolDefinitionError(
            f"{describe_place(declared)} describes no arguments.",
            hint="Use a Pydantic model, a TypedDict or a dataclass, or pass an instance that can be called.",
        )
    read = class_docstring(declared)
    title = getattr(declared, "model_config", {}).get("title")
    return ToolDescription(title or declared.__name__, read.description, class_schema(declared, read.arguments))


def class_schema(declared: type, described: Mapping[str, str]) -> dict[str, Any]:
    """The JSON schema of a class with fields; `described` says of fields what they do not say themselves."""
    schema, _ = type_schema(
        declared,
        f"{describe_place(declared)}: no schema can be made for the arguments",
        "Use types that have a JSON form (str, int, list, dict, a Pydantic model, ...).",
        ToolDefinitionError,
    )
    return with_descriptions(model_facing(schema, frozenset(), declared.__name__), described)


def with_descriptions(schema: dict[str, Any], described: Mapping[str, str]) -> dict[str, Any]:
    """The schema, with descriptions for properties that have none."""
    for name, text in described.items():
        told = schema["properties"].get(name)
        if text and isinstance(told, dict):
            told.setdefault("description", text)
    return schema


def _from_mapping(given: Mapping[str, Any]) -> ToolDescription:
    name, description, parameters = read_mapping(given)
    if parameters is None or name is None:
        raise ToolDefinitionError(
            f"{dict(given)!r:.200} describes no tool.",
            hint='It needs a name and parameters: {"name": ..., "description": ..., "parameters": {JSON schema}}.',
        )
    return ToolDescription(check_name(name, "tool"), description, parameters)


def read_mapping(given: Mapping[str, Any]) -> tuple[str | None, str, dict[str, Any] | None]:
    """(name, description, schema) in a dict of OpenAI's (tool, function or response format), Anthropic's, Bedrock's or
    MCP's form, or in a JSON schema with a title. None for what it does not say. References are inlined, titles gone.
    """
    kind = given.get("type")
    inner = given.get(kind) if kind in ("function", "json_schema") else given.get("toolSpec")
    said: Mapping[str, Any] = inner if isinstance(inner, Mapping) else given
    parameters: Any = NOTHING
    for key in ("parameters", "input_schema", "inputSchema", "schema"):
        if key in said and not (key == "schema" and "properties" in said):
            parameters = said[key]
            if key == "inputSchema" and isinstance(parameters, Mapping) and parameters.keys() == {"json"}:
                parameters = parameters["json"]  # as Bedrock wraps it
            break
    else:
        if "properties" in said or "$ref" in said or said.get("type") == "object":
            parameters = {key: value for key, value in said.items() if key not in ("title", "name", "description")}
        elif "name" in said and said.get("type", "function") == "function":
            parameters = {}
    name = said.get("name") or said.get("title")
    name = name if isinstance(name, str) else None
    description = str(said.get("description") or "")
    if parameters is NOTHING:
        return name, description, None
    schema = dereference_refs(at_root(copy_json(dict(parameters or {}))), where=name or "schema")
    return name, description, {"type": "object", "properties": {}, **drop_titles(schema)}
