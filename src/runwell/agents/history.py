"""Reading an agent's history: which calls are open, what a new input must answer first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runwell.messages.calls import calls_as_written
from runwell.messages.message import AIMessage, BaseMessage, ToolMessage

__all__ = [
    "abandoned_answers",
    "last_answers",
    "last_reply",
    "lent_of",
    "open_calls",
    "stray_among",
    "unanswered",
    "was_lent",
]


def last_reply(messages: Sequence[BaseMessage]) -> tuple[AIMessage | None, set[str]]:
    """The newest AI message, and the ids of calls answered after it."""
    answered: set[str] = set()
    if messages and type(messages[-1]) is AIMessage:  # nothing is answered yet
        return messages[-1], answered
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            return message, answered
    return None, answered


def open_calls(messages: Sequence[BaseMessage]) -> list[Any]:
    """The newest AI message's tool calls that nothing has answered yet, in the order asked."""
    reply, answered = last_reply(messages)
    return [] if reply is None else [call for call in reply.tool_calls if call["id"] not in answered]


def unanswered(messages: Sequence[BaseMessage]) -> list[Any]:
    """As `open_calls`, with the malformed ones, which nothing can run and which need an answer all the same."""
    reply, answered = last_reply(messages)
    return [] if reply is None else [call for call in calls_as_written(reply) if call["id"] not in answered]


def last_answers(messages: Sequence[BaseMessage]) -> tuple[AIMessage | None, list[ToolMessage]]:
    """The newest AI message, and the answers after it, the newest first."""
    found: list[ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            found.append(message)
        elif isinstance(message, AIMessage):
            return message, found
    return None, found


def stray_among(reply: AIMessage | None, answers: list[ToolMessage]) -> list[ToolMessage]:
    """Of the newest answers those whose call is gone: a tool of the same turn has cleared the history."""
    if reply is None:
        return answers
    calls = calls_as_written(reply)
    if len(answers) == len(calls) == 1 and answers[0].tool_call_id == calls[0]["id"]:
        return []  # as mostly
    asked = {call["id"] for call in calls}
    for answer in answers:
        if answer.tool_call_id not in asked:
            return [answer for answer in answers if answer.tool_call_id not in asked]
    return []


def abandoned_answers(
    messages: Sequence[BaseMessage], kept: Mapping[str, ToolMessage] | None = None
) -> list[ToolMessage]:
    """An answer for each open call of a run that did not finish, so that a new input finds a valid history.

    `kept` are the answers, by call id, of calls that had finished beside those that did not; others get an error.
    """
    return [
        (kept or {}).get(call["id"])
        or ToolMessage(
            "This call was not finished: the run was interrupted before it had a result.",
            tool_call_id=call["id"],
            name=call.get("name"),
            status="error",
        )
        for call in unanswered(messages)
    ]


def was_lent(state: Any, name: str) -> dict[str, Any] | None:
    """What is known of a tool that the last turn was lent, by the agent's state."""
    lent = lent_of(state)
    return lent.get(name) if lent else None


def lent_of(state: Any) -> dict[str, Any] | None:
    """What is known of the tools that the last turn was lent, by name, if there were any."""
    if type(state) is not dict and not isinstance(state, Mapping):
        return None
    ledger = state.get("ledger")
    return ledger.get("lent") if ledger else None
