"""Cleaning messages: every text in them, however deep, and nothing that is no text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from runwell.messages.message import AIMessage, BaseMessage, ToolMessage

__all__ = ["clean_message", "clean_value"]

M = TypeVar("M", bound=BaseMessage)
Text = Callable[[str], str]

_NO_PROSE = frozenset(
    {
        *("type", "id", "index", "name", "role", "tool_call_id", "call_id", "status", "mime_type", "media_type"),
        *("source_type", "data", "base64", "file_id", "signature", "thought_signature", "encrypted_content"),
        *("cache_control", "model", "finish_reason", "language"),
    }
)
"""Keys of content blocks whose values are no prose: names, bytes, proofs that a change would break."""
_ARGUMENTS = frozenset({"args", "input", "arguments", "output", "result"})
"""Keys of content blocks under which a call's arguments or results stand: there any key may hold anything."""
_LONG_NUMBER = 10**8


def clean_value(value: Any, text: Text, *, blocks: bool = False) -> Any:
    """A JSON value with each text in it cleaned, keys too; the same object where nothing changed.

    A long number is looked at as the text it would be. With `blocks` the value is a content block, or holds some.
    """
    if isinstance(value, str):
        if blocks and value.startswith("data:"):
            return value
        return text(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _LONG_NUMBER:
        shown = str(value)
        cleaned = text(shown)
        return value if cleaned == shown else cleaned
    if isinstance(value, Mapping):
        made = {}
        for key, item in value.items():
            if blocks and key in _NO_PROSE:
                made[key] = item
                continue
            inside = blocks and key not in _ARGUMENTS
            made[key if blocks or not isinstance(key, str) else text(key)] = clean_value(item, text, blocks=inside)
        same = made.keys() == value.keys() and all(made[key] is value[key] for key in made)
        return value if same else made
    if isinstance(value, (list, tuple)):
        items = [clean_value(item, text, blocks=blocks) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return items if isinstance(value, list) else tuple(items)
    return value


def clean_message(message: M, text: Text) -> M:
    """The message with all it says cleaned: text, content blocks, calls' arguments, what providers add beside them.

    A list of blocks stays one. The same object where nothing changed.
    """
    update: dict[str, Any] = {}
    content = clean_value(message.content, text, blocks=True)
    if content is not message.content:
        update["content"] = content
    beside = clean_value(message.additional_kwargs, text, blocks=True)
    if beside is not message.additional_kwargs:
        update["additional_kwargs"] = beside
    if isinstance(message, AIMessage):
        calls = [_cleaned_call(call, text) for call in message.tool_calls]
        if any(new is not old for new, old in zip(calls, message.tool_calls, strict=True)):
            update["tool_calls"] = calls
        broken = [_cleaned_call(call, text) for call in message.invalid_tool_calls]
        if any(new is not old for new, old in zip(broken, message.invalid_tool_calls, strict=True)):
            update["invalid_tool_calls"] = broken
    if isinstance(message, ToolMessage):
        artifact = clean_value(message.artifact, text)
        if artifact is not message.artifact:
            update["artifact"] = artifact
    return message.model_copy(update=update) if update else message


def _cleaned_call(call: Any, text: Text) -> Any:
    """A call, or a broken one whose arguments are text and whose error may quote them."""
    changed = {}
    for key in ("args", "error"):
        value = call.get(key)
        cleaned = clean_value(value, text)
        if cleaned is not value:
            changed[key] = cleaned
    return {**call, **changed} if changed else call
