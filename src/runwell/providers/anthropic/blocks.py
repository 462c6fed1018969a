"""Content blocks as Anthropic's Messages API writes them, from the standard ones and from those of other vendors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from runwell.messages.normal import standard_block

__all__ = ["block_to_wire", "is_own", "block_to_wire_of_answer"]

# The format's own, which go as they are. `text`, `image` and `document` among them only where they are in its form.
_OWN = frozenset(
    {
        "thinking",
        "redacted_thinking",
        "tool_use",
        "tool_result",
        "server_tool_use",
        "mcp_tool_use",
        "search_result",
        "container_upload",
        "tool_reference",
        "compaction",
    }
)
_NO_STANDARD = _OWN - {"thinking", "tool_use", "server_tool_use"}
_NOT_SENT = frozenset({"google"})
"""Extras that are for another vendor alone."""
_DOCUMENT_TITLES = frozenset({"char_location", "page_location", "content_block_location"})


def is_own(block: Mapping[str, Any]) -> bool:
    """Whether a block is in the API's own form, and of a kind that has no standard one."""
    kind = block.get("type")
    return (
        kind in _NO_STANDARD
        or isinstance(block.get("source"), Mapping)
        or (isinstance(kind, str) and _is_own_result(block))
    )


def block_to_wire(block: str | Mapping[str, Any]) -> dict[str, Any]:
    """A block of a user's or the system's message, or of a tool's result. One of a kind that Anthropic has no form for
    goes as it is, for the server to judge."""
    if isinstance(block, str):
        return {"type": "text", "text": block}
    kind = block.get("type")
    if kind in _OWN or isinstance(block.get("source"), Mapping) or (isinstance(kind, str) and _is_own_result(block)):
        return {key: value for key, value in block.items() if key != "index"}
    if kind == "text":
        return _text(block)
    standard: Mapping[str, Any] = standard_block(block)
    form = _FORMS.get(str(standard.get("type")))
    found = form(standard) if form is not None else None
    return found if found is not None else dict(block)


def block_to_wire_of_answer(block: str | Mapping[str, Any]) -> dict[str, Any] | None:
    """A block of an answer; None for what only the model that said it could read: thoughts without a signature of
    Anthropic's, and calls that could not be read."""
    if isinstance(block, str):
        return {"type": "text", "text": block}
    kind = block.get("type")
    if kind == "text" and not block.get("text"):
        return None
    if kind == "reasoning":
        signature = (block.get("extras") or {}).get("signature")
        if not signature:
            return None
        return {"type": "thinking", "thinking": block.get("reasoning", ""), "signature": signature}
    if kind == "thinking" and not block.get("signature"):
        return None
    if kind in ("invalid_tool_call", "tool_call_chunk"):
        return None
    return block_to_wire(block)


def _extras(block: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in (block.get("extras") or {}).items() if key not in _NOT_SENT}


def _is_own_result(block: Mapping[str, Any]) -> bool:
    return str(block["type"]).endswith("_tool_result") and block["type"] != "server_tool_result"


def _text(block: Mapping[str, Any]) -> dict[str, Any]:
    taken = ("type", "text", "id", "index", "annotations", "extras")
    sent = {"type": "text", "text": block.get("text", "")}
    sent |= {key: value for key, value in block.items() if key not in taken and value is not None}
    sent |= _extras(block)
    citations = [_citation(note) for note in block.get("annotations") or ()]
    if any(citations):
        sent["citations"] = [each for each in citations if each]
    return sent


def _citation(note: Mapping[str, Any]) -> dict[str, Any] | None:
    """A citation that was Anthropic's; the wire has no place for others'."""
    if note.get("type") != "citation":
        return None
    extras = note.get("extras") or {}
    kind = extras.get("type")
    if not isinstance(kind, str):
        return None
    sent = {**extras, "cited_text": note.get("cited_text", "")}
    if "title" in note:
        sent["document_title" if kind in _DOCUMENT_TITLES else "title"] = note["title"]
    if "url" in note:
        sent["url"] = note["url"]
    return sent


def _media(kind: str, block: Mapping[str, Any], mime_type: str) -> dict[str, Any] | None:
    if block.get("file_id"):
        source = {"type": "file", "file_id": block["file_id"]}
    elif block.get("base64"):
        source = {"type": "base64", "media_type": block.get("mime_type") or mime_type, "data": block["base64"]}
    elif block.get("url"):
        source = {"type": "url", "url": block["url"]}
    else:
        return None
    return _with_extras({"type": kind, "source": source}, block)


_STANDARD = frozenset({"type", "id", "index", "url", "base64", "file_id", "mime_type", "text", "extras", "filename"})


def _with_extras(sent: dict[str, Any], block: Mapping[str, Any]) -> dict[str, Any]:
    """With what the program says beyond the standard form: `cache_control`, `citations`, `title`, `context`."""
    own = {key: value for key, value in block.items() if key not in _STANDARD and value is not None}
    extras = {key: value for key, value in _extras(block).items() if key not in ("detail", "filename")}
    return {**sent, **extras, **own}


def _image(block: Mapping[str, Any]) -> dict[str, Any] | None:
    return _media("image", block, "image/png")


def _file(block: Mapping[str, Any]) -> dict[str, Any] | None:
    return _media("document", block, "application/pdf")


def _plain(block: Mapping[str, Any]) -> dict[str, Any] | None:
    if block.get("text") is None:
        return _media("document", block, "text/plain")
    source = {"type": "text", "media_type": "text/plain", "data": block["text"]}
    return _with_extras({"type": "document", "source": source}, block)


def _server_call(block: Mapping[str, Any]) -> dict[str, Any]:
    sent = {"type": "server_tool_use", "id": block["id"], "name": block["name"], "input": block.get("args") or {}}
    return {**sent, **(block.get("extras") or {})}


def _server_result(block: Mapping[str, Any]) -> dict[str, Any]:
    """In the type that it came in; of another vendor's, what it says."""
    extras = dict(block.get("extras") or {})
    kind = extras.pop("block_type", None)
    if kind is None or not kind.endswith("_tool_result"):
        return {"type": "text", "text": json.dumps(block.get("output"), ensure_ascii=False)}
    return {"type": kind, "tool_use_id": block["tool_call_id"], "content": block.get("output"), **extras}


def _non_standard(block: Mapping[str, Any]) -> dict[str, Any]:
    return dict(block["value"])


_FORMS: dict[str, Any] = {
    "text": _text,
    "image": _image,
    "file": _file,
    "text-plain": _plain,
    "server_tool_call": _server_call,
    "server_tool_result": _server_result,
    "non_standard": _non_standard,
}
