"""Calls that a vendor describes and the program runs, of a computer or a shell, as ordinary calls for other vendors.

OpenAI's Responses API has kinds of calls of its own for them; the program's answers are tool messages under their ids.
Everybody else knows the same as calls of a tool, so that a conversation goes on wherever it goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from runwell.messages.calls import tool_call
from runwell.messages.message import AIMessage, BaseMessage, ToolMessage
from runwell.observe.run import record_decision, watched

__all__ = ["as_ordinary_calls"]

_DESCRIBED: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "computer_call": ("computer", ("action", "actions")),
    "local_shell_call": ("local_shell", ("action",)),
    "shell_call": ("shell", ("action",)),
    "apply_patch_call": ("apply_patch", ("operation",)),
}
"""By the type of item: what the tool is called, and the fields that say what is to be done."""


def as_ordinary_calls(messages: Sequence[BaseMessage], unless_by: str | None = None) -> list[BaseMessage] | None:
    """The messages with such calls as `tool_calls`, where a tool message answers them; None where there are none.

    Answers of the provider `unless_by`, and of nobody known, are left as they are. That it was done is recorded (B9).
    """
    answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    found: list[BaseMessage] | None = None
    for place, message in enumerate(messages):
        if not isinstance(message, AIMessage) or isinstance(message.content, str):
            continue
        if unless_by is not None and (message._facts or {}).get("model_provider") in (None, unless_by):
            continue
        known = {call["id"] for call in message.tool_calls}
        calls = [_call_in(block) for block in message.content]
        calls = [call if call and call["id"] in answered - known else None for call in calls]
        if not any(calls):
            continue
        found = found or list(messages)
        content = [call or block for call, block in zip(calls, message.content, strict=True)]
        made = [tool_call(name=call["name"], args=call["args"], id=call["id"]) for call in calls if call]
        update = {"content": content, "tool_calls": [*message.tool_calls, *made]}
        found[place] = message.model_copy(update=update)
        if watched():
            names = ", ".join(call["name"] for call in made)
            reason = f"message {place} holds calls ({names}) in a form of OpenAI's own"
            record_decision("B9", "said as calls of tools", reason, "code")
    return found


def _call_in(block: Any) -> dict[str, Any] | None:
    """The call that a block is, in the standard form or as OpenAI writes it."""
    if isinstance(block, str):
        return None
    if block.get("type") == "non_standard" and isinstance(block.get("value"), Mapping):
        block = block["value"]
    if block.get("type") == "server_tool_call" and (block.get("extras") or {}).get("block_type") in _DESCRIBED:
        return {
            "type": "tool_call",
            "name": block.get("name"),
            "args": dict(block.get("args") or {}),
            "id": block["id"],
        }
    if block.get("type") in _DESCRIBED and block.get("call_id"):
        name, fields = _DESCRIBED[block["type"]]
        said = {field: block[field] for field in fields if block.get(field) is not None}
        if len(fields) == 1 and isinstance(said.get(fields[0]), Mapping):
            said = dict(said[fields[0]])
        return {"type": "tool_call", "name": name, "args": said, "id": block["call_id"]}
    return None
