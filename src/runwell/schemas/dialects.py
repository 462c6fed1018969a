"""Tools in the dialects of providers: OpenAI (plain and strict), Anthropic, and plain JSON schema.

Whatever `describe` reads is taken, and what a provider runs itself passes as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from runwell.errors import UnsupportedByProvider
from runwell.schemas.description import ToolDescription, describe, is_provider_tool
from runwell.schemas.strict import strict_schema

__all__ = [
    "convert_to_anthropic_tool",
    "convert_to_json_schema",
    "convert_to_openai_function",
    "convert_to_openai_tool",
    "function_definition",
]

_OPENAI_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ANTHROPIC_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


def function_definition(tool: Any, *, strict: bool | None = None) -> dict[str, Any]:
    """`{"type": "function", "function": {"name", "description", "parameters"}}`, the form in which chat models pass
    tools on, whoever their provider is.

    A dict in this form is taken as it is. `strict` as for `convert_to_openai_function`.
    """
    if is_provider_tool(tool):
        return _as_it_is(tool)
    if isinstance(tool, Mapping) and strict is None:
        function = tool.get("function")
        if isinstance(function, Mapping) and "parameters" in function and function.get("name"):
            return dict(tool)
    return {"type": "function", "function": _function(describe(tool), tool, strict)}


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
    return _function(said, tool, strict)


def convert_to_openai_tool(tool: Any, *, strict: bool | None = None) -> dict[str, Any]:
    """`{"type": "function", "function": {...}}`; a tool that the provider runs stays as it is."""
    if is_provider_tool(tool):
        return _as_it_is(tool)
    return {"type": "function", "function": convert_to_openai_function(tool, strict=strict)}


def convert_to_anthropic_tool(tool: Any) -> dict[str, Any]:
    """`{"name", "description", "input_schema"}`; a tool that the provider runs stays as it is."""
    if is_provider_tool(tool):
        return _as_it_is(tool)
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
    parameters = _strict(said) if strict else said.parameters
    return {"title": said.name, "description": said.description, **parameters}


def _function(said: ToolDescription, tool: Any, strict: bool | None) -> dict[str, Any]:
    if strict is None and isinstance(tool, Mapping):  # a definition says it itself
        inner = tool.get("function")
        strict = (inner if isinstance(inner, Mapping) else tool).get("strict")
    function: dict[str, Any] = {
        "name": said.name,
        "description": said.description,
        "parameters": _strict(said) if strict else said.parameters,
    }
    if strict is not None:
        function["strict"] = strict
    return function


def _strict(said: ToolDescription) -> dict[str, Any]:
    return strict_schema(said.parameters, f"Tool {said.name!r}")


def _as_it_is(tool: Any) -> dict[str, Any]:
    return dict(tool) if isinstance(tool, Mapping) else dict(tool.to_dict())
