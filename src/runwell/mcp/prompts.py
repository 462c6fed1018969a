"""A server's prompts as messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runwell.mcp.content import as_content
from runwell.mcp.text import MCPLimits
from runwell.messages.message import AIMessage, BaseMessage, HumanMessage

__all__ = ["as_messages"]


def as_messages(given: Sequence[Any], limits: MCPLimits) -> list[BaseMessage]:
    """Messages of the protocol as ours: the user's as `HumanMessage`, the assistant's as `AIMessage`."""
    made: list[BaseMessage] = []
    for each in given:
        content: Any = as_content([each.content], limits)
        made.append(AIMessage(content) if each.role == "assistant" else HumanMessage(content))
    return made
