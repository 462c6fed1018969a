"""Which of its tools a model may or must call, as a request says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runwell.errors import DuplicateTool, InvalidInput, nearest

__all__ = ["as_definitions", "check_binding", "check_bound", "tool_choice_for", "tool_name"]


def tool_name(tool: Any) -> str:
    """The name in a definition; its `type` for something the provider itself runs; a bare name itself."""
    if not isinstance(tool, Mapping):
        return str(tool)
    function = tool.get("function")
    return str(function["name"] if isinstance(function, Mapping) else tool.get("name") or tool.get("type"))


def tool_choice_for(choice: Any, definitions: list[dict[str, Any]]) -> Any:
    """A choice as the request says it: "auto", "none", "required", or the definition's name in a dict.

    Raises InvalidInput for a name that is none of the tools'.
    """
    if choice is True or choice in ("any", "required"):
        return "required"
    if choice is False:
        return "none"
    if isinstance(choice, Mapping) or choice in ("auto", "none"):
        return choice
    names = [tool_name(definition) for definition in definitions]
    if isinstance(choice, str) and choice in names:
        place = names.index(choice)
        kind = definitions[place]["type"]
        if kind == "function":
            return {"type": "function", "function": {"name": choice}}
        naming = {"custom": "name", "mcp": "server_label"}.get(kind)  # where there may be several of a kind
        named = definitions[place].get(naming) if naming else None
        return {"type": kind, naming: named} if named else {"type": kind}
    raise InvalidInput(
        f"tool_choice={choice!r} is none of the tools{nearest(str(choice), names)}.",
        hint=f'Use "auto", "none", "any", or one of {names}.',
    )


def as_definitions(tools: Any) -> list[dict[str, Any]]:
    """Each tool's definition. Raises InvalidInput for what is no list, ToolDefinitionError for what is no tool."""
    from runwell.schemas.dialects import function_definition

    check_binding(tools, None, None)
    return [function_definition(tool) for tool in tools]


def check_binding(tools: Any, strict: Any, parallel_tool_calls: Any) -> None:
    """Raises InvalidInput for what `bind_tools` cannot mean."""
    if isinstance(tools, str | bytes | Mapping) or not hasattr(tools, "__iter__"):
        raise InvalidInput(
            f"bind_tools takes a list of tools; got {tools!r:.100}.", hint="bind_tools([...]), or [] for none."
        )
    for name, value in (("strict", strict), ("parallel_tool_calls", parallel_tool_calls)):
        if value is not None and not isinstance(value, bool):
            raise InvalidInput(f"{name} is True, False or None; got {value!r:.100}.")


def check_bound(definitions: Sequence[Mapping[str, Any]], choice: Any) -> None:
    """Raises DuplicateTool for two functions of one name, InvalidInput for a choice that none of the tools can be."""
    names = [tool_name(each) for each in definitions if each.get("type") == "function"]
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise DuplicateTool(
            f"Two of the tools are called {twice!r}: a call could mean either.", hint="Rename one of them."
        )
    if choice == "required" and not definitions:
        raise InvalidInput("The model must call a tool, and there is none.", hint="Leave tool_choice out.")
    if not isinstance(choice, Mapping):
        return
    kind = choice.get("type")
    function = choice.get("function")
    named = function.get("name") if isinstance(function, Mapping) else choice.get("name")
    if kind in ("function", "tool") and named not in names:
        raise InvalidInput(
            f"tool_choice names {named!r}, which is none of the tools{nearest(str(named), names)}.",
            hint=f"One of {names}.",
        )
