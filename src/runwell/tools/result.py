"""From what a tool returns to what the model reads."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import Any

__all__ = ["TOOL_MESSAGE_BLOCK_TYPES", "is_content_block", "sendable", "to_content", "to_text"]

_SOURCES = ("url", "base64", "data", "file_id", "id", "source")
_BLOCKS: dict[str, tuple[str, ...]] = {
    "text": ("text",),
    "text-plain": ("text", *_SOURCES),
    "image": _SOURCES,
    "image_url": ("image_url",),
    "audio": _SOURCES,
    "input_audio": ("input_audio",),
    "video": _SOURCES,
    "file": (*_SOURCES, "file"),
    "document": ("source",),
    "search_result": ("source", "content"),
    "json": ("json",),
    "custom_tool_call_output": ("output",),
    "non_standard": ("value",),
}
TOOL_MESSAGE_BLOCK_TYPES = tuple(_BLOCKS)
"""The `type` of every content block a tool may return for the model to read as it is."""


def is_content_block(value: Any) -> bool:
    """Whether it is a typed content block: a known `type` with what that type carries, not any dict with a `type`."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    return isinstance(kind, str) and any(key in value for key in _BLOCKS.get(kind, ()))


def to_content(value: Any) -> str | list[str | dict[str, Any]]:
    """A tool's return value as message content.

    A string stays. A list of typed content blocks stays; strings in it, or a list of strings, become text blocks.
    Anything else is written as JSON, and what has no JSON form as `str()` writes it.
    """
    if type(value) is str:
        return sendable(value)
    if type(value) is int:
        return to_text(value)
    if isinstance(value, list) and value and all(isinstance(each, str) or is_content_block(each) for each in value):
        return [_block(each) for each in value]
    return sendable(to_text(value))


def _block(each: Any) -> Any:
    if isinstance(each, str):
        return {"type": "text", "text": sendable(to_text(each))}
    text = each.get("text")
    if isinstance(text, str) and text is not (sent := sendable(text)):
        return {**each, "text": sent}
    return each


def sendable(text: str) -> str:
    """The same text, half characters in it (lone surrogates, as in odd names of files) spelled out: `\\ud800`.

    No provider can be sent a text with one, and a history that holds it could never be sent again.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


_MOST = 10**18
"""Whole numbers below are written as Python writes them, which spares a call of the JSON writer."""


def to_text(value: Any) -> str:
    """Any value as text: strings as they are, the rest as compact JSON with no escapes for non-ASCII letters."""
    if type(value) is int and -_MOST < value < _MOST:
        return str(value)
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str):
        return str.__str__(value)
    import pydantic_core

    try:
        return pydantic_core.to_json(value, inf_nan_mode="constants", bytes_mode="base64").decode()
    except (pydantic_core.PydanticSerializationError, ValueError, RecursionError):
        pass
    if (
        isinstance(value, (dict, list, tuple, set, frozenset))
        or dataclasses.is_dataclass(value)
        or hasattr(value, "tolist")
    ):
        try:
            return pydantic_core.to_json(
                value, inf_nan_mode="constants", bytes_mode="base64", fallback=_fallback
            ).decode()
        except (pydantic_core.PydanticSerializationError, ValueError, RecursionError):
            pass
    return str(value)


def _fallback(value: Any) -> Any:
    """For what JSON does not know inside what it knows: numpy values as numbers, others as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
