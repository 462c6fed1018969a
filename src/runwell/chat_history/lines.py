"""Messages as JSON, the form that histories keep them in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from runwell.errors import StorageError
from runwell.messages.convert import convert_to_message
from runwell.messages.message import BaseMessage

__all__ = ["from_json", "to_json"]


def to_json(message: BaseMessage) -> str:
    """One message as one line of JSON. Raises `UnserializableType` for what has no form in JSON."""
    return message.model_dump_json(exclude_none=True)


def from_json(text: str | bytes, where: str) -> BaseMessage:
    """The message that `to_json` wrote; `where` names its place in the error."""
    try:
        return convert_to_message(json.loads(text))
    except ValueError as error:  # bad JSON, or JSON that is no message
        raise damaged(where, error) from error


def many_from_json(text: str | bytes, where: str) -> list[BaseMessage]:
    """The messages of one JSON list."""
    try:
        return [convert_to_message(each) for each in json.loads(text)]
    except (ValueError, TypeError) as error:
        raise damaged(where, error) from error


def many_to_json(messages: Sequence[BaseMessage]) -> str:
    """Messages as one line of JSON."""
    return f"[{','.join(map(to_json, messages))}]"


def damaged(where: str, error: Any) -> StorageError:
    """For what cannot be read back."""
    return StorageError(
        f"{where} holds no messages that can be read: {error}.",
        hint="Restore it from a copy, or move it away; nothing was changed.",
    )
