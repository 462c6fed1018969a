"""What the tool selectors share: what may be left out, and what the model was asked last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runwell.agents.middleware.requests import ModelRequest
from runwell.errors import InvalidInput
from runwell.messages.message import AIMessage, BaseMessage, HumanMessage
from runwell.tools.base_tool import BaseTool

__all__ = ["check_selection", "newest_question", "selectable", "with_only"]


def check_selection(owner: str, max_tools: int | None, always_include: Sequence[str] | None) -> frozenset[str]:
    """The settings that selectors have in common; gives the names that are always offered."""
    if max_tools is not None and max_tools < 1:
        raise InvalidInput(f"{owner}(max_tools={max_tools!r}) selects nothing.", hint="Use at least 1, or None.")
    if isinstance(always_include, str):
        raise InvalidInput(f"always_include={always_include!r}.", hint="Pass a list of names.")
    return frozenset(always_include or ())


def newest_question(messages: Sequence[BaseMessage]) -> HumanMessage | None:
    """The newest message of a person."""
    return next((message for message in reversed(messages) if isinstance(message, HumanMessage)), None)


def selectable(request: ModelRequest, always: frozenset[str]) -> list[BaseTool]:
    """The tools that may be left out: ours, but not those always offered or already called in this turn."""
    used: set[str] = set()
    for message in reversed(request.messages):
        if isinstance(message, HumanMessage):
            break
        if isinstance(message, AIMessage):
            used |= {call["name"] for call in message.tool_calls}
    return [tool for tool in request.tools if isinstance(tool, BaseTool) and tool.name not in always | used]


def with_only(request: ModelRequest, candidates: Sequence[Any], chosen: Sequence[str]) -> ModelRequest:
    """The request without the candidates that were not chosen; the order of the tools stays."""
    left_out = {tool.name for tool in candidates} - set(chosen)
    return request.override(tools=[tool for tool in request.tools if getattr(tool, "name", None) not in left_out])
