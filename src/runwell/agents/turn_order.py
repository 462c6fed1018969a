"""The history of an agent: answers to tool calls stand in the order of the calls, whenever each was known."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from runwell.messages.calls import calls_as_written
from runwell.messages.history import MessageList, add_messages
from runwell.messages.message import AIMessage, BaseMessage, ToolMessage

__all__ = ["add_turn"]


def add_turn(left: Any, right: Any) -> list[BaseMessage]:
    """`add_messages`, with the answers that follow a turn of the model brought into the order of its calls.

    An answer given by a person or a rule (refused, malformed, over a limit) is known before the others ran.
    """
    messages = add_messages(left, right)
    if len(messages) < 3 or not isinstance(messages[-1], ToolMessage) or not isinstance(messages[-2], ToolMessage):
        return messages
    start = len(messages) - 2
    while start > 0 and isinstance(messages[start - 1], ToolMessage):
        start -= 1
    asked = messages[start - 1] if start > 0 else None
    if not isinstance(asked, AIMessage):
        return messages
    places = {call["id"]: place for place, call in enumerate(calls_as_written(asked))}
    answers: list[Any] = messages[start:]
    ranks = [places.get(answer.tool_call_id, len(places)) for answer in answers]
    if all(before <= after for before, after in pairwise(ranks)):
        return messages
    answers.sort(key=lambda answer: places.get(answer.tool_call_id, len(places)))
    return add_messages(MessageList(messages[:start]), answers)
