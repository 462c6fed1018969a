"""What a server answers, as message content."""

from __future__ import annotations

import base64
from typing import Any

from runwell.errors import MCPToolError
from runwell.mcp.text import MCPLimits, bounded, clean
from runwell.schemas.json_schema import never_fetch
from runwell.tools.result import to_text

__all__ = ["as_block", "as_blocks", "as_content", "check_output", "output_validator"]


def as_content(blocks: list[Any], limits: MCPLimits) -> str | list[dict[str, Any]]:
    """Content blocks of the protocol as ours: a string if all is text, else a list of blocks.

    Text beyond the limit is cut, and says so.
    """
    made = as_blocks(blocks, limits)
    if all(one["type"] == "text" for one in made):
        return "\n".join(one["text"] for one in made)
    return made


def as_blocks(blocks: list[Any], limits: MCPLimits) -> list[dict[str, Any]]:
    """Content blocks of the protocol as a list of ours, of which all text together is bounded."""
    left = limits.result
    made: list[dict[str, Any]] = []
    for block in blocks[:_BLOCKS]:
        one = as_block(block, limits)
        text = one.get("text")
        if isinstance(text, str) and block.type in ("text", "resource"):
            if len(text) > left:
                one["text"] = f"{text[:left]}\n[... {len(text) - left} characters left out ...]"
            left = max(0, left - len(text))
        made.append(one)
    if len(blocks) > _BLOCKS:
        made.append({"type": "text", "text": f"[... {len(blocks) - _BLOCKS} more parts left out ...]"})
    return made


def as_block(block: Any, limits: MCPLimits) -> dict[str, Any]:
    """One content block of the protocol as ours."""
    if block.type == "text":
        return {"type": "text", "text": clean(block.text)}
    if block.type in ("image", "audio"):
        return _media(block.type, block.data, block.mime_type, limits)
    if block.type == "resource_link":
        uri = clean(str(block.uri))
        if len(uri) > limits.message:
            return {"type": "text", "text": f"[link of {len(uri)} characters left out: {limits.message} are taken]"}
        made: dict[str, Any] = {"type": "file", "url": uri, "mime_type": _mime(block.mime_type) or _UNKNOWN}
        told = {"name": block.name, "title": block.title, "description": block.description, "size": block.size}
        made["extras"] = {
            "mcp": "resource_link",
            **{
                key: bounded(value, limits.message) if isinstance(value, str) else value
                for key, value in told.items()
                if value is not None
            },
        }
        return made
    return _resource(block.resource, limits)


_UNKNOWN = "application/octet-stream"
_BLOCKS = 1_000
"""How many parts of one answer are taken."""


def _mime(given: str | None) -> str | None:
    return None if given is None else clean(given)[:128]


def _resource(resource: Any, limits: MCPLimits) -> dict[str, Any]:
    mime = _mime(resource.mime_type)
    about = {"uri": bounded(str(resource.uri), limits.message)}
    if hasattr(resource, "text"):
        return {
            "type": "text-plain",
            "text": clean(resource.text),
            "mime_type": mime or "text/plain",
            "extras": about,
        }
    kind = (mime or "").partition("/")[0]
    made = _media(kind if kind in ("image", "audio", "video") else "file", resource.blob, mime or _UNKNOWN, limits)
    if made["type"] != "text":
        made["extras"] = about
    return made


def _media(kind: str, data: str, mime: str, limits: MCPLimits) -> dict[str, Any]:
    size = len(data) * 3 // 4
    if size > limits.media:
        return {"type": "text", "text": f"[{kind} of {size} bytes left out: at most {limits.media} are taken]"}
    data = "".join(data.split())  # some break it into lines
    try:
        base64.b64decode(data, validate=True)
    except ValueError:  # a model's provider would refuse the whole conversation for it
        return {"type": "text", "text": f"[{kind} left out: it is not base64]"}
    return {"type": kind, "base64": data, "mime_type": _mime(mime)}


def output_validator(schema: dict[str, Any] | None) -> Any:
    """What checks structured content, or None. Raises what jsonschema_rs raises for a schema that is none."""
    if schema is None:
        return None
    import jsonschema_rs

    return jsonschema_rs.validator_for(schema, retriever=never_fetch)


def check_output(server: str, tool: str, validator: Any, structured: Any, sent: bool) -> None:
    """Raise MCPToolError if an answer does not fit what the tool declared."""
    if not sent:
        raise MCPToolError(
            f"Tool {tool!r} of MCP server {server!r} declares structured content and sent none: its answer is not used."
        )
    problems = [
        f"{'.'.join(map(str, each.instance_path)) or '(whole)'}: {each.message}"
        for each in validator.iter_errors(structured)
    ]
    if problems:
        raise MCPToolError(
            f"The answer of tool {tool!r} of MCP server {server!r} does not fit what it declares: "
            f"{'; '.join(problems)[:1_000]}. Its answer is not used.",
            payload=structured,
        )


def text_of(content: str | list[dict[str, Any]], structured: Any, limits: MCPLimits) -> str:
    """Content as one text, for an error message; the structured content, bounded, where there is no text."""
    if isinstance(content, str):
        said = content
    else:
        said = "\n".join(str(one["text"]) for one in content if "text" in one)
    return said or ("" if structured is None else bounded(to_text(structured), limits.result))
