"""What a server wrote, before a model reads it: bounded, and without characters that hide what is said."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from typing import Any

from runwell.errors import InvalidConfig, ToolDefinitionError
from runwell.schemas.json_schema import never_fetch

__all__ = ["MCPLimits", "bounded", "clean", "clean_schema", "sendable", "tool_name"]

# Controls (except tab and newlines), bidirectional marks and overrides, zero-width and invisible "tag" characters, and
# halves of characters, which nothing can store.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ud800-\udfff\ufeff\U000e0000-\U000e007f]"
)
_NAME = re.compile(r"[^A-Za-z0-9_.:-]+")


@dataclass(frozen=True, slots=True)
class MCPLimits:
    """How much of a server's text is taken, in characters; `media` in bytes.

    A name or schema that is longer is refused; a description, a result, a log line and a question are cut, and say so.
    `rounds` is how often one call may come back with questions.
    """

    name: int = 64
    description: int = 4_096
    schema: int = 32_768
    result: int = 200_000
    message: int = 4_096
    media: int = 20_000_000
    tools: int = 1_000
    rounds: int = 10

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not isinstance(value, int) or value < 1:
                raise InvalidConfig(f"MCPLimits({each.name}={value!r:.100}).", hint="A whole number, 1 or more.")


def clean(text: str) -> str:
    """The text without control, bidirectional and invisible characters."""
    return _HIDDEN.sub("", text)


def sendable(value: Any) -> Any:
    """The value with `?` for halves of characters, which no message can carry, in all of its texts."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {sendable(key): sendable(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [sendable(each) for each in value]
    return value


def bounded(text: str, limit: int) -> str:
    """The text, clean, and cut with a note where it is longer than `limit` characters."""
    text = clean(text)
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[... {len(text) - limit} characters left out ...]"


def tool_name(server: str, name: str, prefix: str, limits: MCPLimits) -> str:
    """The name a model gets for a server's tool. Characters that providers do not take become `_`."""
    made = prefix + _NAME.sub("_", name)
    if not name or len(made) > limits.name:
        raise ToolDefinitionError(
            f"MCP server {server!r} names a tool {made!r:.200}, {len(made)} characters long; {limits.name} are taken.",
            hint="Leave it out with exclude=[...], shorten prefix=, or raise limits=MCPLimits(name=...).",
        )
    return made


def clean_schema(server: str, tool: str, schema: dict[str, Any], limits: MCPLimits) -> dict[str, Any]:
    """The schema with clean descriptions. Raises ToolDefinitionError for one too long, one that is no schema or refers
    out of itself, or has hidden characters in names and values."""
    import jsonschema_rs

    size = len(json.dumps(schema, ensure_ascii=False, separators=(",", ":")))
    if size > limits.schema:
        raise ToolDefinitionError(
            f"The schema of tool {tool!r} of MCP server {server!r} has {size} characters; {limits.schema} are taken.",
            hint=f"Leave it out with exclude=[{tool!r}], or raise limits=MCPLimits(schema=...).",
        )
    made: dict[str, Any] = _walked(server, tool, schema)
    try:
        jsonschema_rs.validator_for(made, retriever=never_fetch)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise ToolDefinitionError(
            f"The schema of tool {tool!r} of MCP server {server!r} is no JSON schema: {str(error).splitlines()[0]}.",
            hint=f"Leave it out with exclude=[{tool!r}], and tell the server's makers.",
        ) from error
    return made


def _walked(server: str, tool: str, value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        for name in value:
            _whole(server, tool, name)
        return {name: _walked(server, tool, each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_walked(server, tool, each) for each in value]
    if isinstance(value, str):
        if key in ("description", "title", "$comment"):
            return clean(value)
        _whole(server, tool, value)
    return value


def _whole(server: str, tool: str, text: str) -> None:
    if _HIDDEN.search(text):
        raise ToolDefinitionError(
            f"The schema of tool {tool!r} of MCP server {server!r} has hidden characters in {text!a:.100}.",
            hint=f"Leave it out with exclude=[{tool!r}], and ask the server's makers why they are there.",
        )
