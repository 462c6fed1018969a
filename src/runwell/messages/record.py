"""Messages as compact plain data, for storage. Quick to write and read, and exact.

A record is `[type, id, content]`, with a fourth item, a dict, for whatever is not at its default. This shape is
stored: add to it, never change what is there. What a program put into a message (blocks, keyword fields, an artifact)
stands in the record as it is and is never looked into, so data that imitates a record stays data. An artifact may be
any object; whoever stores the record decides whether it may be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runwell.errors import CheckpointCorrupt, UnserializableType
from runwell.messages.convert import KNOWN, MESSAGE_TYPES
from runwell.messages.message import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage

__all__ = ["from_record", "to_record"]

_REST = {
    kind: frozenset(cls._fields) - {"id", "content"} for kind, cls in MESSAGE_TYPES.items() if cls is not RemoveMessage
}


def to_record(message: BaseMessage) -> list[Any]:
    """The message as a list of plain values. Containers are shared with the message, not copied.

    Raises `UnserializableType` for a class that is not one of runwell's.
    """
    cls = type(message)
    if cls not in KNOWN:
        raise UnserializableType(
            f"{cls.__module__}.{cls.__qualname__} cannot be stored: it is a user's subclass of a message.",
            hint="Use the message class itself and keep what you add in additional_kwargs.",
        )
    rest: dict[str, Any] = {}
    if message.name is not None:
        rest["name"] = message.name
    if message._kwargs:
        rest["additional_kwargs"] = message._kwargs
    if message._facts:
        rest["response_metadata"] = message._facts
    if cls is AIMessage:
        assert isinstance(message, AIMessage)
        if message.tool_calls:
            rest["tool_calls"] = message.tool_calls
        if message.invalid_tool_calls:
            rest["invalid_tool_calls"] = message.invalid_tool_calls
        if message.usage_metadata is not None:
            rest["usage_metadata"] = message.usage_metadata
    elif cls is ToolMessage:
        assert isinstance(message, ToolMessage)
        rest["tool_call_id"] = message.tool_call_id
        if message.artifact is not None:
            rest["artifact"] = message.artifact
        if message.status != "success":
            rest["status"] = message.status
    elif cls is not HumanMessage:
        for name in cls._fields[5:]:
            value = getattr(message, name)
            if value is not None and not (name == "tool_call_chunks" and not value):
                rest[name] = value
    return [message.type, message.id, message.content, rest] if rest else [message.type, message.id, message.content]


def from_record(record: Any) -> BaseMessage:
    """The message that `to_record` was given. Raises `CheckpointCorrupt` for anything else."""
    try:
        if len(record) == 3:  # what most of a history is
            kind, message_id, content = record
            plain = _PLAIN.get(kind)
            if plain is not None and type(content) is str:
                return plain(content, message_id)
        kind, message_id, content, *more = record
        cls = MESSAGE_TYPES[kind]
        if cls is RemoveMessage:
            return RemoveMessage(message_id)
        if not more and type(content) is str:
            return cls(content, id=message_id)
        rest = more[0] if more else {}
        if rest.keys() <= _REST[kind]:
            if isinstance(content, list) and issubclass(cls, AIMessage):
                # said, so that calls are not looked for in the blocks
                rest = {**_NO_CALLS[cls.type], **rest}
            return cls(content, id=message_id, **rest)
        problem = f"unknown fields {sorted(rest.keys() - _REST[kind])}"
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
    raise CheckpointCorrupt(
        f"A stored message cannot be read ({problem}): {str(record)[:200]}",
        hint="It was written by a newer runwell, or the data is damaged.",
    )


_PLAIN: dict[str, Callable[[str, str | None], BaseMessage]] = {
    cls.type: cls._plain for cls in (HumanMessage, AIMessage, SystemMessage)
}
_NO_CALLS: dict[str, dict[str, Any]] = {
    "ai": {"tool_calls": (), "invalid_tool_calls": ()},
    "AIMessageChunk": {"tool_call_chunks": (), "tool_calls": ()},
}
