"""From the forms in which providers and older programs write content blocks to the standard ones of `blocks.py`.

Nothing is fetched, dropped or refused: a block that has no standard form, or claims one and lacks what it needs, is
kept whole in a `non_standard` block. Fields without a place in the standard form go to `extras`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from runwell.messages.blocks import DATA_BLOCK_TYPES, KNOWN_BLOCK_TYPES, ContentBlock
from runwell.messages.calls import calls_as_written, parse_args
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.message import AIMessage, BaseMessage, Content

__all__ = ["blocks_of", "media_of_data_url", "standard_block", "standard_blocks"]

Block = Mapping[str, Any]


def blocks_of(message: BaseMessage) -> list[ContentBlock]:
    """The message's content in standard blocks. What stands beside it is there too: thoughts
    (`additional_kwargs["reasoning_content"]`) before it, notes on a bare text (`additional_kwargs["annotations"]`) in
    its block, calls that are no block of it at its end."""
    blocks = standard_blocks(message.content)
    if not isinstance(message, AIMessage):
        return blocks
    beside = message._kwargs or {}
    notes = beside.get("annotations")
    if notes and isinstance(notes, list):
        blocks = _annotated(blocks, message.content, notes)
    thought = beside.get("reasoning_content")
    if thought and isinstance(thought, str) and not any(block["type"] == "reasoning" for block in blocks):
        blocks = [{"type": "reasoning", "reasoning": thought}, *blocks]
    calls: list[Any]
    if isinstance(message, AIMessageChunk) and message.chunk_position != "last":
        calls = message.tool_call_chunks
    else:
        calls = calls_as_written(message)
    if calls:
        kinds = ("tool_call", "tool_call_chunk", "invalid_tool_call")
        by_id = {call["id"]: call for call in calls}
        blocks = [
            by_id.get(block.get("id"), block)
            if block["type"] == "tool_call_chunk" and block.get("name") is None
            else block
            for block in blocks
        ]
        shown = [(block.get("id"), block.get("name")) for block in blocks if block["type"] in kinds]
        blocks += [call for call in calls if (call["id"], call["name"]) not in shown]
    return blocks


def _annotated(blocks: list[ContentBlock], content: Content, notes: list[Any]) -> list[ContentBlock]:
    """With the notes in the first text that came without a block around it."""
    bare = [place for place, item in enumerate([content] if isinstance(content, str) else content) if type(item) is str]
    if not bare or not blocks:
        return blocks
    block = cast("ContentBlock", {**blocks[bare[0]], "annotations": [_annotation(note) for note in notes]})
    return [*blocks[: bare[0]], block, *blocks[bare[0] + 1 :]]


def standard_blocks(content: Content) -> list[ContentBlock]:
    """A content as standard blocks; an empty text gives none. Blocks that are standard already are the same objects."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [standard_block(item) for item in content]


def standard_block(item: str | Block) -> ContentBlock:
    """One block in the standard form."""
    if isinstance(item, str):
        return {"type": "text", "text": item}
    kind = item.get("type")
    if kind is None and isinstance(item.get("text"), str):
        kind = "text"
    converter = _CONVERTERS.get(kind) if isinstance(kind, str) else None
    if converter is None and isinstance(kind, str):
        if kind in KNOWN_BLOCK_TYPES:
            return cast("ContentBlock", item)
        if kind.endswith("_tool_result"):
            converter = _server_result
    try:
        block = converter(item) if converter is not None else None
    except (KeyError, TypeError, ValueError, AttributeError):  # it lacks what its type promises
        block = None
    return cast("ContentBlock", block if block is not None else {"type": "non_standard", "value": item})


def media_of_data_url(url: str) -> tuple[str, str] | None:
    """(mime type, base64 text) of a `data:` URL in base64, else None."""
    if not url.startswith("data:"):
        return None
    head, comma, data = url[5:].partition(",")
    if not comma or not head.endswith(";base64"):
        return None
    return head[: -len(";base64")].split(";")[0] or "text/plain", data


def _with(block: dict[str, Any], item: Block, taken: set[str]) -> dict[str, Any]:
    """`block` with the item's id and index, and what else it has as extras."""
    for key in ("id", "index"):
        if key not in taken and item.get(key) is not None:
            block.setdefault(key, item[key])
    extras = dict(item.get("extras") or {})
    extras.update(
        (key, value)
        for key, value in item.items()
        if key not in taken and key not in ("type", "id", "index", "extras") and value is not None
    )
    if extras:
        block["extras"] = {**block.get("extras", {}), **extras}
    return block


def _by_url(kind: str, url: str) -> dict[str, Any]:
    found = media_of_data_url(_text(url))
    if found is None:
        return {"type": kind, "url": url}
    return {"type": kind, "base64": found[1], "mime_type": found[0]}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("text expected")
    return value


# -- text and reasoning


def _plain_text(item: Block) -> dict[str, Any]:
    text = _text(item["text"])
    citations = item.get("citations")
    annotations = item.get("annotations")
    known = {"type", "text", "id", "index", "extras", "annotations"}
    standard = not annotations or all(
        isinstance(each, dict) and each.get("type") in ("citation", "non_standard_annotation") for each in annotations
    )
    if item.get("type") == "text" and item.keys() <= known and standard:
        return cast("dict[str, Any]", item)
    block: dict[str, Any] = {"type": "text", "text": text}
    notes = [_annotation(each) for each in (*(annotations or ()), *(citations or ()))]
    if notes:
        block["annotations"] = notes
    return _with(block, item, {"text", "annotations", "citations"})


def _annotation(note: Any) -> dict[str, Any]:
    if isinstance(note, dict):
        kind = note.get("type")
        if kind in ("citation", "non_standard_annotation"):
            return note
        if kind == "url_citation":
            inner = note["url_citation"] if isinstance(note.get("url_citation"), dict) else note
            taken = {"url", "title", "start_index", "end_index", "type"}
            block = {"type": "citation", **{key: inner[key] for key in taken - {"type"} if key in inner}}
            return _with(block, {key: inner[key] for key in inner if key != "url_citation"}, taken)
        if kind in ("file_citation", "container_file_citation"):
            block = {"type": "citation", "title": _text(note["filename"])}
            block |= {key: note[key] for key in ("start_index", "end_index") if key in note}
            block["extras"] = {key: value for key, value in note.items() if key != "filename" and key not in block}
            block["extras"]["type"] = kind
            return block
        if "cited_text" in note:  # citations of a document or a search result
            title = note.get("document_title") or note.get("title")
            block = {"type": "citation", "cited_text": note["cited_text"]}
            if title:
                block["title"] = title
            if isinstance(note.get("url"), str):
                block["url"] = note["url"]
            block["extras"] = {
                key: value
                for key, value in note.items()
                if key not in ("cited_text", "document_title", "title", "url") and value is not None
            }
            return block
    return {"type": "non_standard_annotation", "value": note}


def _refusal(item: Block) -> dict[str, Any]:
    _text(item["refusal"])
    return cast("dict[str, Any]", item)


def _thinking(item: Block) -> dict[str, Any]:
    return _with({"type": "reasoning", "reasoning": _text(item["thinking"])}, item, {"thinking"})


def _reasoning(item: Block) -> dict[str, Any]:
    if "summary" not in item:
        return cast("dict[str, Any]", item)
    summary = item["summary"] or []
    block = {"type": "reasoning", "reasoning": "\n\n".join(_text(part["text"]) for part in summary)}
    # the summary stays in extras: its division into parts is needed to send the block back
    return _with(block, item, {"reasoning"})


# -- media


def _image_url(item: Block) -> dict[str, Any]:
    inner = item["image_url"]
    if isinstance(inner, str):
        return _with(_by_url("image", inner), item, {"image_url"})
    return _with(_with(_by_url("image", inner["url"]), inner, {"url"}), item, {"image_url"})


def _input_image(item: Block) -> dict[str, Any]:
    if item.get("image_url"):
        return _with(_by_url("image", item["image_url"]), item, {"image_url", "file_id"})
    return _with({"type": "image", "file_id": _text(item["file_id"])}, item, {"image_url", "file_id"})


def _input_audio(item: Block) -> dict[str, Any]:
    inner = item["input_audio"]
    block = {"type": "audio", "base64": _text(inner["data"]), "mime_type": f"audio/{inner['format']}"}
    return _with(block, item, {"input_audio"})


def _openai_file(item: Block) -> dict[str, Any]:
    inner = item["file"] if isinstance(item.get("file"), dict) else item
    if inner.get("file_id"):
        block: dict[str, Any] = {"type": "file", "file_id": _text(inner["file_id"])}
    elif inner.get("file_url"):
        block = {"type": "file", "url": _text(inner["file_url"])}
    else:
        block = _by_url("file", inner["file_data"])
        if "url" in block:  # bare base64, without the data URL around it
            block = {"type": "file", "base64": inner["file_data"]}
    taken = {"file_id", "file_data", "file_url"}
    block = _with(block, inner, taken)
    return block if inner is item else _with(block, item, {"file"})


def _media(item: Block) -> dict[str, Any]:
    """`image`, `audio`, `video`, `file` in any of their forms."""
    kind = item["type"]
    if kind == "file" and isinstance(item.get("file"), dict):
        return _openai_file(item)
    if isinstance(item.get("source"), dict):
        return _with_source(kind, item)
    if "source_type" in item:
        return _first_generation(kind, item)
    if not any(isinstance(item.get(key), str) for key in ("url", "base64", "file_id", "text")):
        raise KeyError("url")
    return cast("dict[str, Any]", item)


def _first_generation(kind: str, item: Block) -> dict[str, Any]:
    """Blocks with a `source_type`, which named the same facts otherwise."""
    source = item["source_type"]
    taken = {"source_type", "data", "url", "text", "mime_type"}
    block: dict[str, Any] = {"type": kind}
    if source == "base64":
        block["base64"] = _text(item["data"])
    elif source == "url":
        block["url"] = _text(item["url"])
    elif source == "text":
        block.update(type="text-plain", text=_text(item["text"]), mime_type="text/plain")
    elif source == "id":
        taken.add("id")  # here the id is the file's, not the block's
        block["file_id"] = _text(item["id"])
    else:
        raise ValueError(source)
    if item.get("mime_type"):
        block["mime_type"] = item["mime_type"]
    return _with(block, item, taken)


def _with_source(kind: str, item: Block) -> dict[str, Any]:
    """Blocks whose data stands in a `source`; `document` among them."""
    source = item["source"]
    how = source.get("type")
    block: dict[str, Any] = {"type": "file" if kind == "document" else kind}
    if how == "base64":
        block.update(base64=_text(source["data"]), mime_type=source["media_type"])
    elif how == "url":
        block["url"] = _text(source["url"])
    elif how == "file":
        block["file_id"] = _text(source["file_id"])
    elif how == "text":
        block.update(type="text-plain", text=_text(source["data"]), mime_type="text/plain")
    else:
        raise ValueError(how)
    return _with(block, item, {"source"})


def _google_media(item: Block) -> dict[str, Any]:
    mime_type = _text(item["mime_type"])
    kind = mime_type.split("/")[0]
    block: dict[str, Any] = {"type": kind if kind in DATA_BLOCK_TYPES else "file"}
    if item.get("data"):
        block["base64"] = _text(item["data"])
    else:
        block["url"] = _text(item["file_uri"])
    block["mime_type"] = mime_type
    return _with(block, item, {"mime_type", "data", "file_uri"})


# -- calls


def _tool_use(item: Block) -> dict[str, Any]:
    if not isinstance(item["input"], dict):
        raise TypeError("input")
    block = {"type": "tool_call", "name": item["name"], "args": item["input"], "id": item.get("id")}
    return _with(block, item, {"name", "input", "id", "partial_json"})


def _function_call(item: Block) -> dict[str, Any]:
    text, call_id, name = _text(item["arguments"]), item.get("call_id"), item["name"]
    taken = {"name", "arguments", "call_id", "id"}
    block: dict[str, Any] = {"type": "tool_call", "name": name, "args": None, "id": call_id}
    try:
        block["args"] = parse_args(text)
    except ValueError as error:
        block.update(type="invalid_tool_call", args=text, error=str(error))
    if item.get("id") is not None:  # the item's own id, beside the call's
        block["extras"] = {"item_id": item["id"]}
    return _with(block, item, taken)


def _server_call(item: Block) -> dict[str, Any]:
    block = {"type": "server_tool_call", "name": item["name"], "args": item["input"], "id": item["id"]}
    return _with(block, item, {"name", "input", "id", "partial_json"})


def _server_result(item: Block) -> dict[str, Any]:
    output = item["content"]
    failed = isinstance(output, dict) and str(output.get("type", "")).endswith("_error")
    block = {
        "type": "server_tool_result",
        "tool_call_id": item["tool_use_id"],
        "status": "error" if failed else "success",
        "output": output,
    }
    return {**_with(block, item, {"content", "tool_use_id"}), "extras": {"block_type": item["type"]}}


_CONVERTERS: dict[str, Callable[[Block], dict[str, Any]]] = {
    "text": _plain_text,
    "input_text": _plain_text,
    "output_text": _plain_text,
    "refusal": _refusal,
    "thinking": _thinking,
    "reasoning": _reasoning,
    "image_url": _image_url,
    "input_image": _input_image,
    "input_audio": _input_audio,
    "input_file": _openai_file,
    "image": _media,
    "audio": _media,
    "video": _media,
    "file": _media,
    "document": lambda item: _with_source("document", item),
    "media": _google_media,
    "tool_use": _tool_use,
    "function_call": _function_call,
    "server_tool_use": _server_call,
}
