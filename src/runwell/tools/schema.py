"""Tools in the dialects of providers: OpenAI (plain and strict), Anthropic, and plain JSON schema.

Whatever can describe arguments is taken: a tool, a function, a Pydantic model, a TypedDict, a dataclass, a
`ProviderTool`, or a dict in any of the dialects.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from runwell.errors import ToolDefinitionError, UnsupportedByProvider
from runwell.schemas.argument_model import model_from_class, model_schema
from runwell.schemas.docstring import read_docstring
from runwell.schemas.injection import NOTHING
from runwell.schemas.json_schema import at_root, copy_json, dereference_refs, drop_titles
from runwell.schemas.signature import describe_place, read_fields
from runwell.schemas.strict import strict_schema
from runwell.tools.base_tool import BaseTool
from runwell.tools.definition import check_name
from runwell.tools.model_arguments import arguments_from_shape
from runwell.tools.provider_tool import ProviderTool
from runwell.tools.structured import StructuredTool

__all__ = [
    "ToolDescription",
    "convert_to_anthropic_tool",
    "convert_to_json_schema",
    "convert_to_openai_function",
    "convert_to_openai_tool",
    "describe",
]

_OPENAI_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ANTHROPIC_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


@dataclasses.dataclass(slots=True)
class ToolDescription:
    """What a model is told of a tool. `parameters` is the JSON schema of its arguments, an object."""

    name: str
    description: str
    parameters: dict[str, Any]


def describe(tool: Any) -> ToolDescription:
    """The description of anything that can be offered to a model as a tool. The result is your own to change."""
    if isinstance(tool, BaseTool):
        return ToolDescription(tool.name, tool.description, copy_json(tool.definition.arguments.json_schema()))
    if isinstance(tool, Mapping):
        return _from_dict(tool)
    if isinstance(tool, type):
        return _from_class(tool)
    if callable(tool):
        return describe(StructuredTool.from_function(tool))
    raise ToolDefinitionError(
        f"{tool!r} cannot be described as a tool.",
        hint="Pass a tool, a function, a Pydantic model, a TypedDict, a dataclass or a dict with name and parameters.",
    )


def convert_to_openai_function(tool: Any, *, strict: bool | None = None) -> dict[str, Any]:
    """`{"name", "description", "parameters"}`, as OpenAI and most others take it.

    `strict=True` rewrites the schema to the subset that OpenAI guarantees to follow: every argument required (optional
    ones may be null, which the tool takes for "not given"), no further keys. Raises UnsupportedByProvider, naming the
    argument, for what that subset cannot say.
    """
    said = describe(tool)
    if not _OPENAI_NAME.fullmatch(said.name):
        raise UnsupportedByProvider(
            f"OpenAI takes no tool called {said.name!r}: letters, digits, '_' and '-', at most 64 of them.",
            hint='Name it otherwise: @tool("name").',
        )
    function: dict[str, Any] = {"name": said.name, "description": said.description, "parameters": said.parameters}
    if strict:
        function["parameters"] = strict_schema(said.parameters, said.name)
    if strict is not None:
        function["strict"] = strict
    return function


def convert_to_openai_tool(tool: Any, *, strict: bool | None = None) -> dict[str, Any]:
    """`{"type": "function", "function": {...}}`; a tool that the provider runs stays as it is."""
    if not isinstance(tool, BaseTool):
        if isinstance(tool, ProviderTool):
            return tool.to_dict()
        if (
            isinstance(tool, Mapping)
            and isinstance(tool.get("type"), str)
            and tool["type"] not in ("function", "object")
        ):
            return dict(tool)
    return {"type": "function", "function": convert_to_openai_function(tool, strict=strict)}


def convert_to_anthropic_tool(tool: Any) -> dict[str, Any]:
    """`{"name", "description", "input_schema"}`; a tool that the provider runs stays as it is."""
    if isinstance(tool, ProviderTool):
        return tool.to_dict()
    if (
        isinstance(tool, Mapping)
        and isinstance(tool.get("type"), str)
        and tool["type"] not in ("function", "object", "custom")
    ):
        return dict(tool)
    said = describe(tool)
    if not _ANTHROPIC_NAME.fullmatch(said.name):
        raise UnsupportedByProvider(
            f"Anthropic takes no tool called {said.name!r}: letters, digits, '_' and '-', at most 128 of them.",
            hint='Name it otherwise: @tool("name").',
        )
    return {"name": said.name, "description": said.description, "input_schema": said.parameters}


def convert_to_json_schema(tool: Any, *, strict: bool | None = None) -> dict[str, Any]:
    """One JSON schema that carries the name as title and the description: `{"title", "description", "type", ...}`."""
    said = describe(tool)
    parameters = strict_schema(said.parameters, said.name) if strict else said.parameters
    return {"title": said.name, "description": said.description, **parameters}


def _from_class(declared: type) -> ToolDescription:
    import typing_extensions

    doc = read_docstring(declared.__doc__ or "")
    described = doc.description
    if issubclass(declared, BaseModel):
        if declared.__doc__ == BaseModel.__doc__:
            described = ""
        schema = model_schema(model_from_class(declared, frozenset()))
    elif typing_extensions.is_typeddict(declared) or dataclasses.is_dataclass(declared):
        if (declared.__doc__ or "").startswith(f"{declared.__name__}("):
            described = ""  # written by the dataclass decorator
        schema = arguments_from_shape(declared.__name__, read_fields(declared), doc.arguments).json_schema()
    else:
        raise ToolDefinitionError(
            f"{describe_place(declared)} describes no arguments.",
            hint="Use a Pydantic model, a TypedDict or a dataclass, or pass an instance that can be called.",
        )
    title = getattr(declared, "model_config", {}).get("title")
    return ToolDescription(title or declared.__name__, described, copy_json(schema))


def _from_dict(given: Mapping[str, Any]) -> ToolDescription:
    """OpenAI (tool or function), Anthropic, MCP, or a JSON schema with a title."""
    inner = given.get("function") if given.get("type") == "function" else None
    said: Mapping[str, Any] = inner if isinstance(inner, Mapping) else given
    parameters: Any = NOTHING
    for key in ("parameters", "input_schema", "inputSchema"):
        if key in said:
            parameters = said[key]
            break
    else:
        if "properties" in said or said.get("type") == "object":
            parameters = {key: value for key, value in said.items() if key not in ("title", "name", "description")}
        elif "name" in said and said.get("type", "function") == "function":
            parameters = {}
    name = said.get("name") or said.get("title")
    if parameters is NOTHING or not isinstance(name, str):
        raise ToolDefinitionError(
            f"{dict(given)!r:.200} describes no tool.",
            hint='It needs a name and parameters: {"name": ..., "description": ..., "parameters": {JSON schema}}.',
        )
    check_name(name, "tool")
    schema = dereference_refs(at_root(copy_json(dict(parameters or {}))), where=name)
    return ToolDescription(
        name, str(said.get("description", "")), {"type": "object", "properties": {}, **drop_titles(schema)}
    )
