"""Content, tools' results and citations as Cohere's chat API (v2) writes them, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from runwell.messages.calls import calls_as_written, json_text, malformed_args, parse_args
from runwell.messages.message import BaseMessage
from runwell.messages.normal import standard_block
from runwell.models.foreign import readable_by

__all__ = [
    "blocks_of_answer",
    "citation_from_wire",
    "document_to_wire",
    "message_of_answer",
    "parts_to_wire",
    "result_from_wire",
    "result_to_wire",
    "standard_parts",
]

_CITED = {"text": "TEXT_CONTENT", "thinking": "THINKING_CONTENT"}
# What a message carries elsewhere, or only the model that said it could read.
_NOT_SENT = frozenset({"tool_call", "invalid_tool_call", "tool_call_chunk", "reasoning", "server_tool_call"})
_NOT_SENT |= {"server_tool_call_chunk", "refusal"}


# -- what people and the system say


def parts_to_wire(content: Any) -> Any:
    """The content of a message: a text, or parts. What is no text and no picture is named in a text."""
    if isinstance(content, str):
        return content
    return [part for part in map(_part, content) if part is not None]


def _part(given: Any) -> dict[str, Any] | None:
    if isinstance(given, Mapping) and given.get("type") == "image_url" and isinstance(given.get("image_url"), Mapping):
        return dict(given)
    block: Mapping[str, Any] = standard_block(given)
    kind = block["type"]
    if kind == "text" or (kind == "text-plain" and block.get("text")):
        return {"type": "text", "text": block["text"]} if block["text"] else None
    if kind == "image" and (block.get("url") or block.get("base64")):
        url = block.get("url") or f"data:{block.get('mime_type') or 'image/png'};base64,{block['base64']}"
        detail = block.get("detail") or (block.get("extras") or {}).get("detail")
        return {"type": "image_url", "image_url": {"url": url, **({"detail": detail} if detail else {})}}
    if kind in ("image", "audio", "video", "file", "text-plain"):
        name = (block.get("extras") or {}).get("filename") or block.get("url") or block.get("file_id")
        return {"type": "text", "text": f"[{kind}: {name or block.get('mime_type')}]"}
    if kind == "server_tool_result":
        return {"type": "text", "text": json_text(block.get("output"))}
    if kind == "non_standard" and isinstance(block.get("value"), Mapping):
        kept = block["value"]
        # thoughts that another vendor hid
        return None if kept.get("type") == "redacted_thinking" else dict(kept)
    return None if kind in _NOT_SENT else dict(block)


def standard_parts(content: Any) -> Any:
    """A content from the wire in standard blocks; a text as it is."""
    return content if isinstance(content, str) else [standard_block(block) for block in content]


# -- what the model said


def message_of_answer(message: Any) -> dict[str, Any]:
    """An answer of a model in a request. Bare text of an answer with calls is its plan, unless it came as content."""
    calls = []
    for call in calls_as_written(message) if hasattr(message, "tool_calls") else ():
        args = json_text(call["args"]) if isinstance(call["args"], dict) else malformed_args(call["args"])
        calls.append((call["id"], call["name"] or "unknown", args))
    extra = message.additional_kwargs
    plan_apart = bool(calls) and "tool_plan" not in extra
    own = (message._facts or {}).get("model_provider") in (None, "cohere")
    plan: list[str] = []
    parts: list[dict[str, Any]] = []
    citations: list[dict[str, Any]] = []
    bare = [note for note in extra.get("annotations") or () if own]
    single = isinstance(message.content, str)
    for block in [message.content] if single else readable_by("", message.content):
        if isinstance(block, str):
            if not block:
                continue
            if plan_apart:
                plan.append(block)
                citations += _citations(bare, "PLAN", None)
            else:
                citations += _citations(bare, "TEXT_CONTENT", len(parts))
                parts.append({"type": "text", "text": block})
            bare = []
            continue
        part = _answer_part(block, own)
        if part is not None:
            notes = block.get("annotations") or (block.get("extras") or {}).get("annotations") or ()
            citations += _citations(notes, _CITED.get(part["type"]), len(parts))
            parts.append(part)
    wire: dict[str, Any] = {"role": "assistant"}
    if plan:
        wire["tool_plan"] = "".join(plan)
    if parts:
        wire["content"] = parts[0]["text"] if single else parts
    if calls:
        wire["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": args}}
            for call_id, name, args in calls
        ]
    if citations:
        wire["citations"] = citations
    return wire


def _answer_part(block: Mapping[str, Any], own: bool) -> dict[str, Any] | None:
    """Thoughts go back to Cohere's models alone; those that carry a signature are another vendor's."""
    kind = block.get("type")
    if kind in ("thinking", "reasoning"):
        text = block.get("thinking") or block.get("reasoning")
        foreign = not own or block.get("signature") or (block.get("extras") or {}).get("signature")
        return None if foreign or not text else {"type": "thinking", "thinking": text}
    return _part(block)


def blocks_of_answer(wire: Mapping[str, Any]) -> tuple[Any, list[dict[str, Any]], bool]:
    """(The content of an answer, the citations of its bare text, whether that text may be taken for a plan.)"""
    content = wire.get("content") or []
    items = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    plan = wire.get("tool_plan") or ""
    lead = next((place for place, item in enumerate(items) if item.get("type") != "thinking"), len(items))
    found: list[Any] = []
    places: dict[int, int] = {}  # of the wire's contents among ours
    bare: int | None = None
    for place, item in enumerate(items):
        if place == lead and plan:
            found.append(plan)
        kind = item.get("type", "text")
        said = item.get(kind)
        if not said:
            continue
        if kind == "text" and not found and not plan:
            bare = place
            found.append(said)
        else:
            places[place] = len(found)
            found.append({"type": kind, kind: said})
    if plan and lead == len(items):
        found.append(plan)
    notes = []
    for citation in wire.get("citations") or ():
        note = citation_from_wire(citation)
        at = places.get(citation.get("content_index") or 0)
        if citation.get("type") == "PLAN" or at is None:
            notes.append(note)
        else:
            found[at] = {**found[at], "annotations": [*found[at].get("annotations", ()), note]}
    if all(isinstance(each, str) for each in found):
        found = "".join(found)  # type: ignore[assignment]
    return found, notes, bare is None


# -- citations


def citation_from_wire(citation: Mapping[str, Any]) -> dict[str, Any]:
    """A citation in the standard form. Its sources stand in `extras`, and what the first says of itself beside it."""
    note: dict[str, Any] = {"type": "citation"}
    for ours, theirs in (("start_index", "start"), ("end_index", "end"), ("cited_text", "text")):
        if citation.get(theirs) is not None:
            note[ours] = citation[theirs]
    sources = list(citation.get("sources") or ())
    for source in sources:
        about = source.get("document") or source.get("tool_output") or {}
        for key in ("title", "url"):
            if isinstance(about.get(key), str):
                note.setdefault(key, about[key])
    note["extras"] = {"sources": sources}
    return note


def _citations(notes: Any, kind: str | None, place: int | None) -> list[dict[str, Any]]:
    """Those that were Cohere's; the wire has no place for others'."""
    found: list[dict[str, Any]] = []
    for note in notes:
        sources = (note.get("extras") or {}).get("sources") if isinstance(note, Mapping) else None
        if kind is None or sources is None:
            continue
        sent: dict[str, Any] = {}
        for ours, theirs in (("start_index", "start"), ("end_index", "end"), ("cited_text", "text")):
            if note.get(ours) is not None:
                sent[theirs] = note[ours]
        sent |= {"sources": sources, "type": kind}
        found.append(sent if place is None else {**sent, "content_index": place})
    return found


# -- tools' results, and documents


def result_to_wire(message: BaseMessage, shown: list[dict[str, Any]]) -> dict[str, Any]:
    """A tool's result: a document that can be cited, or the parts of its content. Its pictures go to `shown`."""
    failed = getattr(message, "status", None) == "error"
    content = message.content
    if isinstance(content, str):
        sent = [{"type": "document", "document": {"data": _data(content, failed)}}]
    else:
        sent = []
        for part in parts_to_wire(content):
            (shown if part.get("type") == "image_url" else sent).append(part)
        if not sent:
            sent = [{"type": "text", "text": "(see the next message)"}]
        if failed:
            sent.insert(0, {"type": "document", "document": {"data": {"error": "the call failed"}}})
    return {"role": "tool", "tool_call_id": getattr(message, "tool_call_id", ""), "content": sent}


_WRAPPED = (frozenset({"output"}), frozenset({"error"}))


def _data(text: str, failed: bool) -> dict[str, Any]:
    """The fields of a JSON object can be cited by themselves; any other text is one field."""
    if failed:
        return {"error": text}
    if text.startswith("{"):
        try:
            fields = parse_args(text)
        except ValueError:
            fields = {}
        if fields and frozenset(fields) not in _WRAPPED and json_text(fields) == text:
            return fields
    return {"output": text}


def result_from_wire(content: Any) -> tuple[Any, Literal["success", "error"]]:
    """(The content of a tool's result, its status.)"""
    if isinstance(content, str):
        return content, "success"
    if len(content) == 1 and content[0]["type"] == "document":
        data = content[0]["document"]["data"]
        if data.keys() == {"output"}:
            return data["output"], "success"
        if data.keys() == {"error"}:
            return data["error"], "error"
        return json_text(data), "success"
    failed = content[0] == {"type": "document", "document": {"data": {"error": "the call failed"}}}
    return standard_parts(content[1:] if failed else content), "error" if failed else "success"


def document_to_wire(document: Any) -> Any:
    """A document of a request: a text or the API's own form as it is, a `Document` as its text and metadata."""
    text = getattr(document, "page_content", None)
    if text is None:
        return document
    # only what is JSON: metadata may hold anything
    facts = {key: value for key, value in document.metadata.items() if isinstance(value, str | int | float | bool)}
    sent: dict[str, Any] = {"data": {**facts, "text": text}}
    return {"id": document.id, **sent} if document.id is not None else sent
