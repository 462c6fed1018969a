"""Tools in the dialects of providers: OpenAI, Anthropic, Gemini, Mistral, Cohere, Bedrock, plain JSON schema.

Whatever `describe` reads is taken, and what a provider runs itself passes as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from runwell.errors import UnsupportedByProvider
from runwell.schemas.claude import claude_schema
from runwell.schemas.cohere import cohere_schema
from runwell.schemas.description import ToolDescription, describe, is_provider_tool, tells_itself
from runwell.schemas.gemini import gemini_schema
from runwell.schemas.mistral import mistral_schema
from runwell.schemas.strict import strict_schema

__all__ = [
    "MARKS",
    "convert_to_anthropic_tool",
    "convert_to_bedrock_tool",
    "convert_to_cohere_tool",
    "convert_to_gemini_tool",
    "convert_to_json_schema",
    "convert_to_mistral_tool",
    "convert_to_openai_function",
    "convert_to_openai_tool",
    "function_definition",
]

MARKS = ("cache_control", "defer_loading")
"""What a definition may say to the provider beside the function."""
_NAMES = {
    "OpenAI": (re.compile(r"[a-zA-Z0-9_-]{1,64}"), "letters, digits, '_' and '-', at most 64 of them"),
    "Mistral": (re.compile(r"[a-zA-Z0-9_-]{1,64}"), "letters, digits, '_' and '-', at most 64 of them"),
    "Bedrock": (re.compile(r"[a-zA-Z0-9_-]{1,64}"), "letters, digits, '_' and '-', at most 64 of them"),
    "Cohere": (re.compile(r"[a-zA-Z0-9_-]{1,128}"), "letters, digits, '_' and '-', at most 128 of them"),
    "Anthropic": (re.compile(r"[a-zA-Z0-9_-]{1,128}"), "letters, digits, '_' and '-', at most 128 of them"),
    "Gemini": (
        re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"),
        "a letter or '_' and then letters, digits, '_', '-', '.' and ':', at most 64 in all",
    ),
}
_ALTERNATIVES = frozenset(("oneOf", "anyOf", "allOf", "enum", "not"))
_BEDROCK = frozenset(("toolSpec", "systemTool", "cachePoint"))
_ANTHROPIC_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


Rewrite = Callable[[dict[str, Any], str], dict[str, Any]]
"""From a schema, and whose it is, to the part of it that a provider follows to the letter."""


def function_definition(tool: Any, *, strict: bool | None = None, rewrite: Rewrite = strict_schema) -> dict[str, Any]:
    """`{"type": "function", "function": {"name", "description", "parameters"}}`, the form in which chat models pass
    tools on, whoever their provider is.

    A dict in this form is taken as it is. `strict` as for `convert_to_openai_function`; `rewrite` is another provider's
    strict subset.
    """
    if is_provider_tool(tool):
        return _as_it_is(tool)
    marks: dict[str, Any] = {}
    if isinstance(tool, Mapping):
        function = tool.get("function")
        if strict is None and isinstance(function, Mapping) and "parameters" in function and function.get("name"):
            return dict(tool)
        marks = _marks(tool)
    return {"type": "function", "function": _function(describe(tool), tool, strict, rewrite), **marks}


def convert_to_openai_function(tool: Any, *, strict: bool | None = None) -> dict[str, Any]:
    """`{"name", "description", "parameters"}`, as OpenAI and most others take it.

    `strict=True` rewrites the schema to the subset that OpenAI guarantees to follow: every argument required (optional
    ones may be null, which the tool takes for "not given"), no further keys. Raises UnsupportedByProvider, naming the
    argument, for what that subset cannot say.
    """
    said = describe(tool)
    _check_name("OpenAI", said)
    _check_top("OpenAI", said)
    return _function(said, tool, strict)


def convert_to_openai_tool(tool: Any, *, strict: bool | None = None) -> dict[str, Any]:
    """`{"type": "function", "function": {...}}`; a tool that the provider runs stays as it is."""
    if is_provider_tool(tool):
        return _as_it_is(tool)
    return {"type": "function", "function": convert_to_openai_function(tool, strict=strict)}


def convert_to_anthropic_tool(tool: Any, *, strict: bool | None = None) -> dict[str, Any]:
    """`{"name", "description", "input_schema"}`; a tool that the provider runs stays as it is.

    `strict=True` rewrites the schema to the subset that Claude follows to the letter: every object closed, no bounds.
    Raises UnsupportedByProvider, naming the argument, for what Anthropic does not take.

    Marks for the provider (`MARKS`), beside the function in a definition or in a tool's `extras`, are kept.
    """
    if is_provider_tool(tool):
        return _as_it_is(tool)
    said = describe(tool)
    _check_name("Anthropic", said)
    _check_top("Anthropic", said)
    for name in said.parameters["properties"]:
        if not _ANTHROPIC_KEY.fullmatch(name):
            raise UnsupportedByProvider(
                f"Tool {said.name!r}: Anthropic takes no argument called {name!r}: ASCII letters, digits, '_', '.' and "
                "'-', at most 64 of them.",
                hint="Give the argument another name.",
            )
    strict = _asked_strict(tool) if strict is None else strict
    made: dict[str, Any] = {"name": said.name, "description": said.description, "input_schema": said.parameters}
    if strict:
        made["input_schema"] = claude_schema(said.parameters, _whose(said), "Anthropic's strict mode")
    if strict is not None:
        made["strict"] = strict
    return {**made, **_marks(tool)}


def convert_to_bedrock_tool(tool: Any, *, strict: bool | None = None) -> dict[str, Any]:
    """`{"toolSpec": {"name", "description", "inputSchema": {"json"}}}`, one of the `tools` of Bedrock's Converse; what
    Bedrock runs or reads itself (a `systemTool`, a `cachePoint`) stays as it is.

    `strict=True` as for Anthropic. Raises UnsupportedByProvider, naming the argument, for what Bedrock does not take.
    """
    if is_provider_tool(tool) or (isinstance(tool, Mapping) and not _BEDROCK.isdisjoint(tool)):
        return _as_it_is(tool)
    said = describe(tool)
    _check_name("Bedrock", said)
    _check_top("Bedrock", said)
    strict = _asked_strict(tool) if strict is None else strict
    parameters = said.parameters
    if strict:
        parameters = claude_schema(parameters, _whose(said), "Bedrock's strict mode")
    made: dict[str, Any] = {"name": said.name, "inputSchema": {"json": parameters}}
    if said.description:  # it may be missing, but not empty
        made["description"] = said.description
    if strict is not None:
        made["strict"] = strict
    return {"toolSpec": made}


def convert_to_cohere_tool(tool: Any, *, strict: bool | None = None) -> dict[str, Any]:
    """`{"type": "function", "function": {"name", "description", "parameters"}}`, as Cohere's chat (v2) takes it.

    `strict=True` rewrites the schema to what Cohere enforces when the request says `strict_tools`. Raises
    UnsupportedByProvider, naming the argument, for what that cannot say.
    """
    if is_provider_tool(tool):
        return _as_it_is(tool)
    said = describe(tool)
    _check_name("Cohere", said)
    strict = _asked_strict(tool) if strict is None else strict
    parameters = cohere_schema(said.parameters, _whose(said)) if strict else said.parameters
    function = {"name": said.name, "description": said.description, "parameters": parameters}
    return {"type": "function", "function": function}


def convert_to_gemini_tool(tool: Any) -> dict[str, Any]:
    """`{"name", "description", "parameters_json_schema"}`, one of the `function_declarations` that google-genai takes;
    a tool that the provider runs stays as it is.

    The schema holds the keywords that Gemini reads; others that narrow a value (a pattern, a length) are
    left out, and the tool still checks them. Raises UnsupportedByProvider, naming the argument, for what it cannot say.
    """
    if is_provider_tool(tool):
        return _as_it_is(tool)
    said = describe(tool)
    _check_name("Gemini", said)
    declared: dict[str, Any] = {"name": said.name, "description": said.description}
    if said.parameters["properties"] or "additionalProperties" in said.parameters:
        declared["parameters_json_schema"] = gemini_schema(said.parameters, _whose(said))
    return declared


def convert_to_mistral_tool(tool: Any, *, strict: bool | None = None) -> dict[str, Any]:
    """`{"type": "function", "function": {"name", "description", "parameters"}}`; what the provider runs stays as it is.

    `strict=True` closes every object, and raises UnsupportedByProvider, naming the argument, for one with free keys.
    """
    if is_provider_tool(tool):
        return _as_it_is(tool)
    said = describe(tool)
    _check_name("Mistral", said)
    strict = _asked_strict(tool) if strict is None else strict
    function: dict[str, Any] = {"name": said.name, "description": said.description, "parameters": said.parameters}
    if strict:
        function["parameters"] = mistral_schema(said.parameters, _whose(said))
    if strict is not None:
        function["strict"] = strict
    return {"type": "function", "function": function}


def convert_to_json_schema(tool: Any, *, strict: bool | None = None) -> dict[str, Any]:
    """One JSON schema that carries the name as title and the description: `{"title", "description", "type", ...}`."""
    said = describe(tool)
    parameters = strict_schema(said.parameters, _whose(said)) if strict else said.parameters
    return {"title": said.name, "description": said.description, **parameters}


def _check_name(provider: str, said: ToolDescription) -> None:
    pattern, rule = _NAMES[provider]
    if not pattern.fullmatch(said.name):
        raise UnsupportedByProvider(
            f"{provider} takes no tool called {said.name!r}: {rule}.", hint='Name it otherwise: @tool("name").'
        )


def _check_top(provider: str, said: ToolDescription) -> None:
    if not _ALTERNATIVES.isdisjoint(said.parameters):
        found = next(key for key in said.parameters if key in _ALTERNATIVES)
        raise UnsupportedByProvider(
            f"Tool {said.name!r}: {provider} takes no {found!r} beside the arguments, at the top of the schema.",
            hint="Put the alternatives under an argument of their own.",
        )


def _function(
    said: ToolDescription, tool: Any, strict: bool | None, rewrite: Rewrite = strict_schema
) -> dict[str, Any]:
    strict = _asked_strict(tool) if strict is None else strict
    function: dict[str, Any] = {
        "name": said.name,
        "description": said.description,
        "parameters": rewrite(said.parameters, _whose(said)) if strict else said.parameters,
    }
    if strict is not None:
        function["strict"] = strict
    return function


def _asked_strict(tool: Any) -> bool | None:
    """What a definition says itself."""
    if tells_itself(tool) or not isinstance(tool, Mapping):
        return None
    inner = tool.get("function")
    return (inner if isinstance(inner, Mapping) else tool).get("strict")


def _whose(said: ToolDescription) -> str:
    return f"Tool {said.name!r}"


def _marks(tool: Any) -> dict[str, Any]:
    given = tool if isinstance(tool, Mapping) else getattr(tool, "extras", None)
    return {name: given[name] for name in MARKS if name in given} if isinstance(given, Mapping) else {}


def _as_it_is(tool: Any) -> dict[str, Any]:
    return dict(tool) if isinstance(tool, Mapping) else dict(tool.to_dict())
