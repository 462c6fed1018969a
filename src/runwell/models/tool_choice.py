"""Which of its tools a model may or must call, as a request says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runwell.errors import InvalidInput, nearest

__all__ = ["tool_choice_for", "tool_name"]


def tool_name(tool: Mapping[str, Any]) -> str:
    """The name in a definition; its `type` for something the provider itself runs."""
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
