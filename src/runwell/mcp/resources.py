"""A server's resources, as documents or as context for a model."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from runwell.documents.document import Blob, Document
from runwell.errors import MCPToolError
from runwell.mcp.text import MCPLimits, bounded, clean

__all__ = ["MCPResource", "as_documents"]


@dataclass(frozen=True, slots=True)
class MCPResource:
    """Something a server offers to read: `MCPClient.read(resource.uri)`."""

    uri: str
    name: str
    title: str | None = None
    description: str = ""
    mime_type: str | None = None
    size: int | None = None

    @classmethod
    def of(cls, found: Any, limits: MCPLimits) -> Self:
        """The protocol's form as ours."""
        return cls(
            uri=str(found.uri),
            name=bounded(found.name, limits.description),
            title=None if found.title is None else bounded(found.title, limits.description),
            description=bounded(found.description or "", limits.description),
            mime_type=found.mime_type,
            size=found.size,
        )


def _bytes(contents: Any, server: str, limits: MCPLimits) -> bytes:
    size = len(contents.blob) * 3 // 4
    if size > limits.media:
        raise MCPToolError(
            f"Resource {str(contents.uri)!r:.200} of MCP server {server!r} has {size} bytes; {limits.media} are taken.",
            hint="Raise limits=MCPLimits(media=...) if that is meant.",
        )
    try:
        return base64.b64decode("".join(contents.blob.split()), validate=True)
    except ValueError as error:
        raise MCPToolError(f"Resource {str(contents.uri)!r:.200} of MCP server {server!r} is not base64.") from error


def as_documents(contents: Sequence[Any], server: str, limits: MCPLimits) -> list[Document | Blob]:
    """Contents of resources: texts as documents, bytes as blobs. A text is bounded as a tool's result is.

    Raises MCPToolError for bytes beyond the limit, or that are not base64.
    """
    made: list[Document | Blob] = []
    for each in contents:
        about = {"source": str(each.uri), "server": server}
        if each.mime_type is not None:
            about["mime_type"] = each.mime_type
        if hasattr(each, "text"):
            made.append(Document(bounded(each.text, limits.result), about, id=str(each.uri)))
        else:
            made.append(
                Blob(
                    data=_bytes(each, server, limits),
                    mimetype=each.mime_type,
                    path=clean(str(each.uri)),
                    metadata=about,
                    id=str(each.uri),
                )
            )
    return made
