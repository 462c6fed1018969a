"""Content blocks as Bedrock's Converse API writes them (bytes as bytes), from the standard ones, and back."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from runwell.errors import InvalidHistory
from runwell.messages.calls import json_text
from runwell.messages.normal import standard_block

__all__ = [
    "BlockWriter",
    "annotation_from_wire",
    "answered_from_wire",
    "block_from_wire",
    "cache_point",
    "is_known",
    "is_own",
]

OWN = frozenset(
    {"text", "image", "document", "video", "audio", "json", "toolUse", "toolResult", "guardContent", "cachePoint"}
    | {"reasoningContent", "citationsContent", "searchResult", "toolAddition", "toolRemoval"}
)
"""The one key of each of the API's own blocks."""

_DOCUMENTS = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
}
_VIDEOS = {
    "video/x-matroska": "mkv",
    "video/quicktime": "mov",
    "video/x-flv": "flv",
    "video/x-ms-wmv": "wmv",
    "video/3gpp": "three_gp",
}
_AUDIO = {"audio/mpeg": "mp3"}
_FORMATS: dict[str, dict[str, str]] = {"image": {}, "file": _DOCUMENTS, "video": _VIDEOS, "audio": _AUDIO}
"""Formats by mime type, where they are not its second half."""
_TYPES = {kind: {form: mime for mime, form in forms.items()} for kind, forms in _FORMATS.items()}
_ALIASES = {"jpg": "jpeg", "x-wav": "wav", "wave": "wav", "x-flac": "flac"}
_DEFAULTS = {"image": "image/png", "file": "application/pdf", "video": "video/mp4", "audio": "audio/wav"}
_KEYS = {"image": "image", "file": "document", "video": "video", "audio": "audio"}
_UNFIT = re.compile(r"[^a-zA-Z0-9\s\-()\[\]]+|\s+")

# Other vendors', which only the model that said them could read; calls stand in the message's `tool_calls`.
_NOT_SENT = frozenset({"tool_call", "invalid_tool_call", "tool_call_chunk", "server_tool_call_chunk", "refusal"})


def is_own(block: Mapping[str, Any]) -> bool:
    """Whether a block is in the API's own form."""
    return "type" not in block and len(block) == 1 and not OWN.isdisjoint(block)


def is_known(block: Mapping[str, Any]) -> bool:
    """Whether a block is in the API's own form, or one that some programs write: with a `type` beside it."""
    return (
        is_own(block)
        or block.get("type") == "search_result"
        or sum(key in OWN and isinstance(value, Mapping) for key, value in block.items()) == 1
    )


class BlockWriter:
    """Writes the blocks of one conversation. Raises InvalidHistory, naming the message, for media that are none."""

    def __init__(self) -> None:
        self.index = 0
        """Which message is written."""
        self._named = 0

    def said(self, content: Any, takes: frozenset[str]) -> list[dict[str, Any]]:
        """A content as blocks of the kinds that are taken there; what is of no such kind is named in a text."""
        found: list[dict[str, Any]] = []
        for given in [content] if isinstance(content, str) else content:
            if isinstance(given, Mapping) and is_own(given):
                found.append(dict(given))
                continue
            block: Mapping[str, Any] = standard_block(given)
            sent = self._block(block)
            if sent is not None and takes.isdisjoint(sent):
                sent = {"text": _named_in_text(block)}
            if sent is not None:
                found.append(sent)
            if _mark(block):
                found.append(cache_point(_mark(block)))
        return found

    def _block(self, block: Mapping[str, Any]) -> dict[str, Any] | None:
        kind = str(block["type"])
        if kind == "text":
            return {"text": block["text"]} if block["text"] else None
        if kind == "text-plain" and block.get("text") is not None:
            return self._document(block, {"text": block["text"]}, "text/plain")
        if kind in _KEYS or kind == "text-plain":
            return self._media(block, kind)
        if kind == "server_tool_result":
            return {"text": json_text(block.get("output"))}
        if kind == "non_standard" and isinstance(block.get("value"), Mapping):
            return self._other(block["value"])
        return None

    def _other(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """A block that has no standard form: in the API's, or as the JSON that it is."""
        own = {key: each for key, each in value.items() if key in OWN and isinstance(each, Mapping)}
        if len(own) == 1:  # with a type of its own beside it, as some programs write it
            return own
        if value.get("type") == "search_result":
            kept = {key: value[key] for key in ("source", "title", "content", "citations") if key in value}
            texts = [{"text": part["text"]} for part in kept.get("content") or () if part.get("text")]
            return {"searchResult": {**kept, "content": texts}}
        try:
            return {"text": json_text(value)}
        except TypeError:
            raise InvalidHistory(
                f"Message {self.index} holds a block that Bedrock has no form for, and that is no JSON: {value!r:.200}."
            ) from None

    def _media(self, block: Mapping[str, Any], kind: str) -> dict[str, Any] | None:
        extras = block.get("extras") or {}
        if block.get("base64"):
            source: dict[str, Any] = {"bytes": self._bytes(block["base64"], kind)}
        elif str(block.get("url") or "").startswith("s3://"):
            owner = extras.get("bucketOwner")
            source = {"s3Location": {"uri": block["url"], **({"bucketOwner": owner} if owner else {})}}
        else:
            return {"text": _named_in_text(block)}
        if kind in ("file", "text-plain"):
            return self._document(block, source, "text/plain" if kind == "text-plain" else _DEFAULTS["file"])
        return {_KEYS[kind]: {"format": _format(kind, block, _DEFAULTS[kind]), "source": source}}

    def _document(self, block: Mapping[str, Any], source: dict[str, Any], mime_type: str) -> dict[str, Any]:
        extras = block.get("extras") or {}
        told = next(
            (each[key] for each in (extras, block) for key in ("name", "filename", "title") if each.get(key)), None
        )
        name = _UNFIT.sub(" ", str(told)).strip() if told else ""
        if not name:  # each needs one, and two of the same are refused
            self._named += 1
            name = f"document {self._named}"
        sent = {"format": _format("file", block, mime_type), "name": name, "source": source}
        sent |= {key: extras[key] for key in ("citations", "context") if extras.get(key)}
        return {"document": sent}

    def _bytes(self, text: str, kind: str) -> bytes:
        try:
            return b64decode(text, validate=True)
        except ValueError as error:
            raise InvalidHistory(
                f"Message {self.index} holds media ({kind}) whose base64 cannot be decoded: {error}.",
                hint="base64.b64encode(data).decode(), without a data: URL around it.",
            ) from None

    # -- what the model said

    def answered(self, block: str | Mapping[str, Any], notes: Any, own: bool) -> list[dict[str, Any]]:
        """A block of an answer. Thoughts go back to Bedrock alone, and calls that it ran itself."""
        if isinstance(block, str):
            return [_text(block, notes)] if block.strip() else []
        if is_own(block):
            return [dict(block)]
        standard: Mapping[str, Any] = standard_block(block)
        kind, extras = standard["type"], standard.get("extras") or {}
        if kind == "text":
            sent = [_text(standard["text"], standard.get("annotations"))] if standard["text"].strip() else []
            return [*sent, cache_point(_mark(standard))] if _mark(standard) else sent
        if kind == "reasoning":
            return _reasoning(standard, extras, own)
        if kind == "server_tool_call":
            if "bedrock_type" not in extras:
                return []
            call = {"toolUseId": standard["id"], "name": standard["name"], "input": standard.get("args") or {}}
            return [{"toolUse": {**call, "type": extras["bedrock_type"]}}]
        if kind == "server_tool_result" and "bedrock_type" in extras:
            result = {"toolUseId": standard["tool_call_id"], "content": standard.get("output") or []}
            result |= {"type": extras["bedrock_type"]} if extras["bedrock_type"] else {}
            result |= {"status": extras["status"]} if extras.get("status") else {}
            return [{"toolResult": result}]
        if kind in _NOT_SENT or (kind in _KEYS and "bedrock_type" not in extras):  # another model's pictures
            return []
        if kind == "non_standard" and not is_own(standard.get("value") or {}):
            return []
        sent_block = self._block(standard)
        return [sent_block] if sent_block is not None else []


def _text(text: str, notes: Any) -> dict[str, Any]:
    citations = [citation for citation in map(_citation, _listed(notes)) if citation]
    return {"citationsContent": {"content": [{"text": text}], "citations": citations}} if citations else {"text": text}


def _listed(notes: Any) -> list[Mapping[str, Any]]:
    return [note for note in notes if isinstance(note, Mapping)] if isinstance(notes, list) else []


def _reasoning(block: Mapping[str, Any], extras: Mapping[str, Any], own: bool) -> list[dict[str, Any]]:
    hidden, signature = extras.get("bedrock_redacted"), extras.get("bedrock_signature")
    if hidden:
        return [{"reasoningContent": {"redactedContent": b64decode(hidden)}}]
    text = block.get("reasoning")
    if not text or not (signature or (own and not extras)):
        return []
    said = {"text": text, **({"signature": signature} if signature else {})}
    return [{"reasoningContent": {"reasoningText": said}}]


def _format(kind: str, block: Mapping[str, Any], default: str) -> str:
    mime = block.get("mime_type") or default
    half = mime.partition("/")[2]
    return _FORMATS[kind].get(mime) or _ALIASES.get(half, half)


def _named_in_text(block: Mapping[str, Any]) -> str:
    name = (block.get("extras") or {}).get("filename") or block.get("url") or block.get("file_id")
    return f"[{block['type']}: {name or block.get('mime_type') or 'of unknown kind'}]"


def _mark(block: Mapping[str, Any]) -> Any:
    return (block.get("extras") or {}).get("cache_control") or block.get("cache_control")


def cache_point(mark: Any) -> dict[str, Any]:
    """The block for a mark (`cache_control`), which stands after what it marks."""
    ttl = mark.get("ttl") if isinstance(mark, Mapping) else None
    return {"cachePoint": {"type": "default", **({"ttl": ttl} if ttl else {})}}


# -- citations


def annotation_from_wire(citation: Mapping[str, Any]) -> dict[str, Any]:
    """A citation in the standard form; what has no place there is in `extras`."""
    note: dict[str, Any] = {"type": "citation"}
    said = "".join(part.get("text", "") for part in citation.get("sourceContent") or ())
    if said:
        note["cited_text"] = said
    if citation.get("title"):
        note["title"] = citation["title"]
    location = citation.get("location") or {}
    if (location.get("web") or {}).get("url"):
        note["url"] = location["web"]["url"]
    note["extras"] = {"location": dict(location)}
    if citation.get("source"):
        note["extras"]["source"] = citation["source"]
    return note


def _citation(note: Mapping[str, Any]) -> dict[str, Any] | None:
    """A citation that was Bedrock's; the wire has no place for others'."""
    extras = note.get("extras") or {}
    location = extras.get("location")
    if note.get("type") != "citation" or not isinstance(location, Mapping):
        return None
    sent: dict[str, Any] = {"title": note["title"]} if note.get("title") else {}
    if extras.get("source"):
        sent["source"] = extras["source"]
    if note.get("cited_text"):
        sent["sourceContent"] = [{"text": note["cited_text"]}]
    return {**sent, "location": dict(location)} if location else sent


# -- from the wire


def block_from_wire(block: Mapping[str, Any]) -> dict[str, Any]:
    """A block in the standard form. One that has none is kept whole in a `non_standard` block."""
    [(key, value)] = block.items()
    if key == "text":
        return {"type": "text", "text": value}
    if key == "citationsContent":
        text = "".join(part.get("text", "") for part in value.get("content") or ())
        notes = [annotation_from_wire(each) for each in value.get("citations") or ()]
        return {"type": "text", "text": text, **({"annotations": notes} if notes else {})}
    if key == "reasoningContent":
        if "redactedContent" in value:
            hidden = b64encode(value["redactedContent"]).decode()
            return {"type": "reasoning", "reasoning": "", "extras": {"bedrock_redacted": hidden}}
        said = value.get("reasoningText") or {}
        found: dict[str, Any] = {"type": "reasoning", "reasoning": said.get("text", "")}
        if said.get("signature"):
            found["extras"] = {"bedrock_signature": said["signature"]}
        return found
    if key == "toolUse" and value.get("type"):
        call = {"type": "server_tool_call", "id": value["toolUseId"], "name": value["name"], "args": value["input"]}
        return {**call, "extras": {"bedrock_type": value["type"]}}
    if key == "toolUse":
        return {"type": "tool_call", "id": value["toolUseId"], "name": value["name"], "args": value["input"]}
    if key == "toolResult":
        told = {"bedrock_type": value.get("type") or ""} | ({"status": value["status"]} if value.get("status") else {})
        return {
            "type": "server_tool_result",
            "tool_call_id": value["toolUseId"],
            "status": value.get("status") or "success",
            "output": value.get("content"),
            "extras": told,
        }
    return _media_from_wire(key, value) or {"type": "non_standard", "value": dict(block)}


def answered_from_wire(block: Mapping[str, Any]) -> dict[str, Any]:
    """As `block_from_wire`, for a block of an answer: what the model made itself is marked as Bedrock's."""
    found = block_from_wire(block)
    if found["type"] in _KEYS:
        return {**found, "extras": {**found.get("extras", {}), "bedrock_type": found["type"]}}
    return found


def _media_from_wire(key: str, value: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = {wire: ours for ours, wire in _KEYS.items()}.get(key)
    source = value.get("source") or {} if kind else {}
    extras = {name: value[name] for name in ("name", "citations", "context") if value.get(name)}
    form = value.get("format") or "" if kind else ""
    if not kind or not source:
        return None
    known = {"image": f"image/{form}", "video": f"video/{form}", "audio": f"audio/{form}", "file": form}[kind]
    found: dict[str, Any] = {"type": kind, "mime_type": _TYPES[kind].get(form, known)}
    if "bytes" in source:
        found["base64"] = b64encode(source["bytes"]).decode()
    elif "s3Location" in source:
        found["url"] = source["s3Location"]["uri"]
        if source["s3Location"].get("bucketOwner"):
            extras["bucketOwner"] = source["s3Location"]["bucketOwner"]
    elif "text" in source:
        found |= {"type": "text-plain", "text": source["text"]}
    else:
        return None
    return {**found, "extras": extras} if extras else found
