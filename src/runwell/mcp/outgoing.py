"""What a tool of ours answers, in the protocol's form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runwell.mcp.text import sendable
from runwell.messages.message import ToolMessage
from runwell.tools.result import to_text

__all__ = ["as_error", "as_result"]


def as_result(message: ToolMessage) -> Any:
    """A tool message as the protocol's result: blocks, a dict artifact as structured content, errors as such."""
    from mcp_types import CallToolResult, TextContent

    content = sendable(message.content)
    blocks = (
        [TextContent(type="text", text=content)] if isinstance(content, str) else [_block(each) for each in content]
    )
    artifact = message.artifact
    structured = (
        sendable(_plain(artifact)) if isinstance(artifact, Mapping) or hasattr(artifact, "model_dump") else None
    )
    return CallToolResult(content=blocks, structured_content=structured, is_error=message.status == "error")


def as_error(text: str) -> Any:
    """A failed call."""
    from mcp_types import CallToolResult, TextContent

    return CallToolResult(content=[TextContent(type="text", text=sendable(text))], is_error=True)


def _plain(artifact: Any) -> Any:
    import pydantic_core

    made = pydantic_core.to_jsonable_python(artifact, fallback=str)
    return made if isinstance(made, dict) else None


def _block(block: Any) -> Any:
    from mcp_types import (
        AudioContent,
        BlobResourceContents,
        EmbeddedResource,
        ImageContent,
        ResourceLink,
        TextContent,
        TextResourceContents,
    )

    if isinstance(block, str):
        return TextContent(type="text", text=block)
    kind, mime = block.get("type"), block.get("mime_type") or "application/octet-stream"
    about = block.get("extras") or {}
    uri = str(about.get("uri") or "runwell://result")
    if kind == "text":
        return TextContent(type="text", text=block["text"])
    if kind == "text-plain" and "text" in block:
        return EmbeddedResource(
            type="resource",
            resource=TextResourceContents(uri=uri, text=block["text"], mime_type=block.get("mime_type")),
        )
    if kind == "image" and "base64" in block:
        return ImageContent(type="image", data=block["base64"], mime_type=mime)
    if kind == "audio" and "base64" in block:
        return AudioContent(type="audio", data=block["base64"], mime_type=mime)
    if "base64" in block:
        return EmbeddedResource(
            type="resource", resource=BlobResourceContents(uri=uri, blob=block["base64"], mime_type=mime)
        )
    if "url" in block:
        name = str(about.get("name") or block["url"])
        return ResourceLink(type="resource_link", uri=block["url"], name=name, mime_type=block.get("mime_type"))
    return TextContent(type="text", text=to_text(block))
