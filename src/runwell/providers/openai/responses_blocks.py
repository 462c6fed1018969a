"""The items of OpenAI's Responses API as content blocks, and back.

An item is a message, a thought, a call, or a call that OpenAI ran itself with what it found. Blocks are in the standard
form; what that has no place for is under `extras`, so that an item goes back as it came.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from runwell.messages.blocks import DATA_BLOCK_TYPES
from runwell.messages.calls import json_text, parse_args, parse_calls, tool_call_chunk
from runwell.messages.normal import standard_block
from runwell.models.foreign import OPENAI_ITEMS
from runwell.providers.openai.wire import args_text

__all__ = ["blocks_of_item", "call_block", "item_of_call", "items_of_blocks", "tidy"]

Item = dict[str, Any]
Block = Mapping[str, Any]


class _Served(NamedTuple):
    """How a call that OpenAI runs is written: `args` is the key that holds the arguments, or keys that are some."""

    name: str
    args: str | tuple[str, ...]
    found: str | None = None
    id: str = "id"


_SERVED = {
    "web_search_call": _Served("web_search", "action", "sources"),
    "file_search_call": _Served("file_search", ("queries",), "results"),
    "code_interpreter_call": _Served("code_interpreter", ("code",), "outputs"),
    "mcp_call": _Served("", "arguments", "output"),
    "computer_call": _Served("computer", ("action", "actions"), id="call_id"),
    "local_shell_call": _Served("local_shell", "action", id="call_id"),
    "shell_call": _Served("shell", "action", id="call_id"),
    "apply_patch_call": _Served("apply_patch", "operation", id="call_id"),
}
_WANTED: dict[str, dict[str, Any]] = {
    "code_interpreter_call": {"code": None, "outputs": None},
    "image_generation_call": {"result": None},
}
"""Fields that the API wants to see although they may say nothing."""

_CITATIONS = frozenset({"file_citation", "container_file_citation", "file_path"})


def tidy(item: Block) -> Item:
    """Without the fields that say nothing."""
    return {key: value for key, value in item.items() if value is not None}


# -- from the wire


def blocks_of_item(item: Block) -> list[Item]:
    """The blocks that say what an item of an answer says."""
    item = tidy(item)
    kind = item.get("type")
    if kind == "message":
        return list(_said(item))
    if kind == "reasoning":
        return [_thought(item)]
    if kind in ("function_call", "custom_tool_call"):
        return [call_block(item)]
    if kind == "image_generation_call":
        return [_picture(item)]
    if kind in _SERVED:
        return _served(item, _SERVED[kind])
    return [{"type": "non_standard", "value": item}]


def _said(item: Item) -> Iterator[Item]:
    content = item.get("content") or ()
    if isinstance(content, str):
        content = [{"type": "output_text", "text": content}]
    for part in content:
        if part.get("type") == "refusal":
            block: Item = {"type": "refusal", "refusal": part["refusal"]}
        else:
            block = {"type": "text", "text": part.get("text", "")}
            if part.get("annotations"):
                block["annotations"] = standard_block({**block, "annotations": part["annotations"]})["annotations"]  # type: ignore[typeddict-item]
        if item.get("id"):
            block["id"] = item["id"]
        if item.get("phase"):
            block["extras"] = {"phase": item["phase"]}
        yield block


def _thought(item: Item) -> Item:
    summary = [part["text"] for part in item.get("summary") or ()]
    said = [part["text"] for part in item.get("content") or ()]
    block: Item = {"type": "reasoning", "reasoning": "\n\n".join(summary or said)}
    if item.get("id"):
        block["id"] = item["id"]
    extras = {key: value for key, value in item.items() if key not in ("type", "id", "summary", "content", "status")}
    if len(summary) > 1:
        extras["summary"] = summary  # how it is divided
    if said:
        extras["content"] = said
    if extras:
        block["extras"] = extras
    return block


def call_block(item: Block) -> Item:
    """A call of one of the program's tools. A free-form one has its text as the argument `input`."""
    item = tidy(item)
    custom = item["type"] == "custom_tool_call"
    text = json_text({"input": item.get("input", "")}) if custom else item.get("arguments")
    extras = call_extras(item)
    calls, broken = parse_calls([tool_call_chunk(name=item.get("name"), args=text, id=item.get("call_id"), index=0)])
    block: Item = dict((*calls, *broken)[0])
    return {**block, "extras": extras} if extras else block


def call_extras(item: Block) -> Item:
    """What a call says beyond its name, arguments and id."""
    taken = ("type", "id", "call_id", "name", "arguments", "input", "status")
    extras = {key: value for key, value in item.items() if key not in taken and value is not None}
    if item.get("id"):
        extras["item_id"] = item["id"]
    if item["type"] == "custom_tool_call":
        extras["custom"] = True
    return extras


def _picture(item: Item) -> Item:
    kind = {"jpeg": "image/jpeg", "webp": "image/webp", "gif": "image/gif", "svg": "image/svg+xml"}
    block: Item = {"type": "image", "id": item["id"]}
    if "result" in item:
        block["base64"] = item["result"]
        block["mime_type"] = kind.get(item.get("output_format", ""), "image/png")
    extras = {key: value for key, value in item.items() if key not in ("type", "id", "result")}
    return {**block, "extras": {"block_type": item["type"], **extras}}


def _served(item: Item, how: _Served) -> list[Item]:
    kind = item["type"]
    taken = {"type", how.id}
    if isinstance(how.args, tuple):
        args = {key: item[key] for key in how.args if key in item}
        taken |= set(how.args)
    else:
        args = item.get(how.args) or {}
        taken.add(how.args)
        if isinstance(args, str):
            try:
                args = parse_args(args)
            except ValueError:
                args = {"malformed_arguments": args}
    found = None
    if how.found is not None:
        if kind == "web_search_call":
            args = dict(args)
            found = args.pop(how.found, None)
        else:
            found = item.get(how.found)
            taken.add(how.found)
    name = how.name
    if not name:
        name = item["name"]
        taken.add("name")
    extras = {"block_type": kind, **{key: value for key, value in item.items() if key not in taken}}
    blocks: list[Item] = [
        {"type": "server_tool_call", "id": item[how.id], "name": name, "args": args, "extras": extras}
    ]
    failed = item.get("status") in ("failed", "incomplete") or item.get("error") is not None
    if found is not None or failed:
        blocks.append(
            {
                "type": "server_tool_result",
                "tool_call_id": item[how.id],
                "status": "error" if failed else "success",
                "output": found if found is not None else item.get("error"),
                "extras": {"block_type": kind},
            }
        )
    return blocks


# -- to the wire


def items_of_blocks(blocks: list[Block], mine: bool) -> Iterator[Item]:
    """The items that blocks of an answer came from; texts of one message are one item. Calls of the program's tools are
    left as blocks of type `tool_call`, for the caller to put in. `mine`: whether OpenAI said them, and reads them."""
    message: Item | None = None
    for block in blocks:
        part = _part(block, mine)
        if part is not None:
            head = _head(block)
            if message is None or {key: message.get(key) for key in ("id", "phase")} != head:
                if message is not None:
                    yield message
                message = {"type": "message", "role": "assistant", **tidy(head), "content": []}
                if "id" in message:
                    message["status"] = "completed"
            message["content"].append(part)
            continue
        item = _item(block, mine)
        if item is None:
            continue
        if item["type"] == "server_tool_result":
            continue
        if message is not None:
            yield message
            message = None
        yield _with_found(item, blocks) if item["type"] in _SERVED else item
    if message is not None:
        yield message


def _head(block: Block) -> Item:
    return {"id": block.get("id"), "phase": (block.get("extras") or {}).get("phase")}


def _part(block: Block, mine: bool) -> Item | None:
    """A part of a message's content; None for what is an item of its own."""
    kind = block.get("type")
    if kind == "refusal":
        return {"type": "refusal", "refusal": block["refusal"]}
    if kind in ("text", "text-plain"):
        part: Item = {"type": "output_text", "text": block.get("text", "")}
        notes = [note for note in map(_note, block.get("annotations") or ()) if note is not None]
        if notes or block.get("id"):
            part["annotations"] = notes  # the API wants it where it has the id of a message
        return part
    if kind == "server_tool_result" and not (mine and _kind(block) in _SERVED):
        return {"type": "output_text", "text": json_text(block.get("output"))}
    if kind in DATA_BLOCK_TYPES and not (mine and _kind(block) == "image_generation_call"):
        return {"type": "output_text", "text": f"({kind})"}  # an answer has no place for media
    return None


def _note(note: Block) -> Item | None:
    """An annotation of OpenAI's; the wire has no place for others'."""
    if note.get("type") == "non_standard_annotation":
        return dict(note["value"]) if note["value"].get("type") in _CITATIONS else None
    extras = note.get("extras") or {}
    if extras.get("type") in _CITATIONS:
        places = {key: note[key] for key in ("start_index", "end_index") if key in note}
        return {**extras, "filename": note.get("title", ""), **places}
    if "url" in note and "start_index" in note and "cited_text" not in note:
        places = {key: note[key] for key in ("url", "title", "start_index", "end_index") if key in note}
        return {"type": "url_citation", **places, **extras}
    return None


def _kind(block: Block) -> str:
    return str((block.get("extras") or {}).get("block_type"))


def _item(block: Block, mine: bool) -> Item | None:
    kind = block.get("type")
    if kind == "tool_call":
        return dict(block)
    if kind == "reasoning":
        return _thought_item(block) if mine else None
    if kind == "image" and _kind(block) == "image_generation_call" and mine:
        extras = {key: value for key, value in block["extras"].items() if key != "block_type"}
        found = {"result": block["base64"]} if "base64" in block else {}
        return {
            "type": "image_generation_call",
            **_WANTED["image_generation_call"],
            "id": block["id"],
            **extras,
            **found,
        }
    if kind == "server_tool_call" and _kind(block) in _SERVED and mine:
        return _served_item(block)
    if kind == "server_tool_result":
        return {"type": "server_tool_result"}
    if kind == "non_standard":
        value = block["value"]
        return dict(value) if mine or value.get("type") not in OPENAI_ITEMS else None
    return None


def _thought_item(block: Block) -> Item | None:
    if not block.get("id") or "signature" in (block.get("extras") or {}):
        return None  # of another vendor's
    extras = dict(block.get("extras") or {})
    said = extras.pop("content", ())
    text = block.get("reasoning", "")
    summary = extras.pop("summary", [] if said or not text else [text])
    item = {"type": "reasoning", "id": block["id"], "summary": [_text_part("summary_text", each) for each in summary]}
    if said:
        item["content"] = [_text_part("reasoning_text", each) for each in said]
    return {**item, **extras}


def _text_part(kind: str, text: Any) -> Item:
    return {"type": kind, "text": text} if isinstance(text, str) else dict(text)


def _served_item(block: Block) -> Item:
    extras = dict(block["extras"])
    kind = extras.pop("block_type")
    how = _SERVED[kind]
    item: Item = {"type": kind, **_WANTED.get(kind, {}), how.id: block["id"], **extras}
    if isinstance(how.args, tuple):
        return {**item, **block["args"]}
    if how.args == "arguments":
        broken = block["args"].get("malformed_arguments")
        return {**item, "name": block["name"], "arguments": broken if broken is not None else json_text(block["args"])}
    return {**item, how.args: dict(block["args"])}


def _with_found(item: Item, blocks: list[Block]) -> Item:
    how = _SERVED[item["type"]]
    for block in blocks:
        if block.get("type") == "server_tool_result" and block.get("tool_call_id") == item[how.id]:
            found = block.get("output")
            if how.found is None or found is None or found == item.get("error"):
                break
            if item["type"] == "web_search_call":
                item["action"][how.found] = found
            else:
                item[how.found] = found
            break
    return item


def item_of_call(name: str, args: Mapping[str, Any] | str, id: str | None, block: Block) -> Item:
    """A call of one of the program's tools as an item; `block` is where it stood in the content, if it did."""
    extras = dict(block.get("extras") or {})
    item_id = extras.pop("item_id", None)
    custom = extras.pop("custom", False)
    text = args if isinstance(args, str) else args_text(args)
    item: Item = {"type": "custom_tool_call" if custom else "function_call", "call_id": id, "name": name}
    if custom:
        item["input"] = args.get("input", "") if isinstance(args, Mapping) else args
    else:
        item["arguments"] = text
    if item_id:
        item["id"] = item_id
    return {**item, **extras}
