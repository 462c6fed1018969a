"""Messages and answers as Mistral's chat API writes them, and back.

An answer that is one text, then calls, is a text and `tool_calls`. One that holds more (thoughts, references to
documents) keeps its blocks in `content`, and they go back as they came; thoughts to Mistral alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from runwell.messages.calls import calls_as_written, json_text, malformed_args, parse_calls, tool_call_chunk
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.message import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.messages.normal import media_of_data_url, standard_block
from runwell.models.outputs import ChatGenerationChunk
from runwell.models.roles import ROLE_OF, role_of_other
from runwell.providers.openai import wire as openai_wire
from runwell.providers.openai.wire import usage_from_wire

__all__ = ["FINISH", "OWN", "ChunkReader", "message_from_wire", "messages_from_wire", "messages_to_wire"]

FINISH = {"model_length": "length"}
"""Why an answer ended, where the API says it in other words than all adapters."""

_CALL_ID = re.compile(r"[a-zA-Z0-9]{9}")
OWN = frozenset({"reference", "tool_reference", "document_url", "resource", "resource_link"})
"""The API's own parts that have no standard form."""

Wire = list[dict[str, Any]]


# -- to the wire


def messages_to_wire(messages: Sequence[BaseMessage]) -> Wire:
    """The request's `messages`: media of results in place, ids of calls as the API takes them. Raises InvalidHistory,
    naming the place, for what cannot be sent."""
    return [_sent(message, index) for index, message in enumerate(messages)]


def _sent(message: Any, index: int) -> dict[str, Any]:
    role = ROLE_OF.get(message.type) or role_of_other(message, index, "cannot be sent to Mistral")
    if role == "assistant":
        return _assistant(message)
    content = message.content
    if not isinstance(content, str):
        content = [part for part in map(_part, content) if part is not None]
    sent: dict[str, Any] = {"role": role, "content": content}
    if role == "tool":
        sent["tool_call_id"] = _call_id(message.tool_call_id)
        if message.name is not None:
            sent["name"] = message.name
    return sent


def _assistant(message: Any) -> dict[str, Any]:
    content = message.content
    if not isinstance(content, str):
        own = (message._facts or {}).get("model_provider") in (None, "mistralai")
        parts = [part for part in (_answer_part(block, own) for block in content) if part is not None]
        content = parts or ""
    sent: dict[str, Any] = {"role": "assistant", "content": content}
    if (message._kwargs or {}).get("prefix"):
        sent["prefix"] = True
    written = calls_as_written(message) if hasattr(message, "tool_calls") else ()
    calls = [_call(call["id"], call["name"] or "unknown", _arguments(call["args"])) for call in written]
    if calls:
        sent["tool_calls"] = calls
    return sent


def _arguments(args: Any) -> str:
    return json_text(args) if isinstance(args, dict) else malformed_args(args)


def _call(call_id: str | None, name: str, arguments: str) -> dict[str, Any]:
    return {"id": _call_id(call_id), "type": "function", "function": {"name": name, "arguments": arguments}}


def _call_id(given: str | None) -> str:
    if given is not None and _CALL_ID.fullmatch(given):
        return given
    return sha256((given or "").encode()).hexdigest()[:9]


def _answer_part(given: Any, own: bool) -> dict[str, Any] | None:
    """A part of an answer. Thoughts go back to Mistral alone."""
    block: Mapping[str, Any] = standard_block(given)
    if block["type"] in ("image", "audio", "video", "file"):
        return None  # what a model made is nothing that it was sent
    if block["type"] == "non_standard":
        value = block.get("value") or {}
        return dict(value) if value.get("type") in OWN else None
    if block["type"] != "reasoning":
        return _part(block)
    extras = block.get("extras") or {}
    told = extras.get("mistral") or {}
    if not own or extras.keys() - {"mistral"} or not (block.get("reasoning") or told.get("thinking")):
        return None
    said = told.get("thinking") or [{"type": "text", "text": block["reasoning"]}]
    return {"type": "thinking", "thinking": said, **{key: told[key] for key in ("closed", "signature") if key in told}}


def _part(given: Any) -> dict[str, Any] | None:
    """A block of a content as a part; None for what has no place here."""
    block: Mapping[str, Any] = standard_block(given)
    kind, extras = block["type"], block.get("extras") or {}
    if kind == "text":
        return {"type": "text", "text": block["text"]}
    if kind == "text-plain" and block.get("text"):
        return {"type": "text", "text": block["text"]}
    if kind == "image" and (block.get("url") or block.get("base64")):
        detail = block.get("detail") or extras.get("detail")
        image = {"url": _url(block, "image/png"), **({"detail": detail} if detail else {})}
        return {"type": "image_url", "image_url": image}
    if kind == "audio" and (block.get("url") or block.get("base64")):
        return {"type": "input_audio", "input_audio": block.get("base64") or block["url"]}
    if kind in ("file", "image", "audio") and block.get("file_id"):
        return {"type": "file", "file_id": block["file_id"]}
    if kind in ("file", "text-plain") and (block.get("url") or block.get("base64")):
        name = extras.get("filename") or block.get("filename")
        part = {"type": "document_url", "document_url": _url(block, "application/pdf")}
        return {**part, "document_name": name} if name else part
    if kind == "server_tool_result":
        return {"type": "text", "text": json_text(block.get("output"))}
    if kind == "non_standard" and isinstance(block.get("value"), Mapping):
        value = block["value"]
        return dict(value) if value.get("type") in OWN else {"type": "text", "text": json_text(value)}
    if kind in ("image", "audio", "video", "file", "text-plain"):
        return {"type": "text", "text": f"[{kind}: {block.get('url') or block.get('mime_type') or 'of unknown kind'}]"}
    return None


def _url(block: Mapping[str, Any], mime_type: str) -> str:
    return block.get("url") or f"data:{block.get('mime_type') or mime_type};base64,{block['base64']}"


# -- from the wire


def messages_from_wire(wire: Sequence[Mapping[str, Any]]) -> list[BaseMessage]:
    """The conversation in a request: what `messages_to_wire` was given, but for what the wire has no place for (ids,
    artifacts, the status of a result)."""
    messages: list[BaseMessage] = []
    for turn in wire:
        role, content = turn["role"], turn.get("content") or ""
        if role == "assistant":
            messages.append(message_from_wire(turn))
            continue
        blocks = content if isinstance(content, str) else [_block(part) for part in content]
        if role == "tool":
            messages.append(ToolMessage(blocks, tool_call_id=turn["tool_call_id"], name=turn.get("name")))
        else:
            messages.append(SystemMessage(blocks) if role == "system" else HumanMessage(blocks))
    return messages


def _block(part: Mapping[str, Any]) -> dict[str, Any]:
    """A part in the standard form."""
    kind = part["type"]
    if kind == "thinking":
        return _thought(part)
    if kind == "document_url":
        data = media_of_data_url(part["document_url"])
        found: dict[str, Any] = {"type": "file"}
        found |= {"base64": data[1], "mime_type": data[0]} if data else {"url": part["document_url"]}
        return {**found, "extras": {"filename": part["document_name"]}} if part.get("document_name") else found
    if kind == "input_audio":
        sound = part["input_audio"]
        return {"type": "audio", "url" if sound.startswith(("http://", "https://")) else "base64": sound}
    return dict(standard_block({key: value for key, value in part.items() if value is not None}))


def _thought(part: Mapping[str, Any]) -> dict[str, Any]:
    said = part.get("thinking") or []
    said = [{"type": "text", "text": said}] if isinstance(said, str) else said
    text = "".join(each.get("text") or "" for each in said)
    told: dict[str, Any] = {"signature": part["signature"]} if part.get("signature") else {}
    if part.get("closed") is False:
        told["closed"] = False
    if any(each.get("type") != "text" for each in said):
        told["thinking"] = [{key: value for key, value in each.items() if value is not None} for each in said]
    return {"type": "reasoning", "reasoning": text, **({"extras": {"mistral": told}} if told else {})}


def message_from_wire(wire: Mapping[str, Any], usage: Mapping[str, Any] | None = None) -> AIMessage:
    """A model's answer: the message that its stream adds up to. Texts side by side are one. Calls with broken arguments
    are in `invalid_tool_calls`, as the model wrote them."""
    parts = _Parts()
    contents = [content for content in parts.take(wire.get("content")) if content]
    whole = (AIMessageChunk(contents[0]) + [AIMessageChunk(each) for each in contents[1:]]) if contents else None
    calls, broken = parse_calls([_fragment(call, None) for call in wire.get("tool_calls") or ()])
    return AIMessage(
        whole.to_message().content if whole is not None else "",
        tool_calls=calls,
        invalid_tool_calls=broken,
        usage_metadata=usage_from_wire(usage) if usage else None,
    )


def _fragment(call: Mapping[str, Any], place: int | None) -> Any:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    index = call.get("index")
    return tool_call_chunk(
        name=function.get("name") or None,
        args=arguments if isinstance(arguments, str) or arguments is None else json_text(arguments),
        id=call.get("id") or None,
        index=(index if index is not None else place) if place is not None else None,
    )


class _Parts:
    """The content of chunks, from that of deltas: plain texts until something comes that they cannot say, then blocks,
    of which those of one kind side by side are one."""

    __slots__ = ("_index", "_kind", "rich")

    def __init__(self) -> None:
        self.rich = False
        self._index = -1
        self._kind: str | None = None

    def take(self, content: Any) -> Iterator[Any]:
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content or ():
            block = _block(part)
            kind = block["type"]
            if kind == "text" and not self.rich:
                yield block["text"]
                continue
            self.rich = True
            if kind == "text" and not block["text"]:
                continue
            if kind != self._kind or kind not in ("text", "reasoning"):
                self._index += 1
                self._kind = kind
            yield [{**block, "index": self._index}]


class ChunkReader(openai_wire.ChunkReader):
    """Reads the events of one streamed answer, which are OpenAI's but for parts in their content."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        super().__init__()
        self._parts = _Parts()

    def take(self, event: Any) -> Sequence[ChatGenerationChunk]:
        """The chunks in an event, if it says anything."""
        found: list[ChatGenerationChunk] = []
        for choice in event.get("choices") or ():
            if choice.get("finish_reason") in FINISH:
                choice["finish_reason"] = FINISH[choice["finish_reason"]]
            delta = choice.get("delta") or {}
            content = delta.get("content")
            plain = isinstance(content, str) and not self._parts.rich  # as OpenAI's
            if content and not plain and not choice.get("index"):
                found += [ChatGenerationChunk(AIMessageChunk(said)) for said in self._parts.take(content) if said]
                delta["content"] = None
            delta.pop("metadata", None)
        rest = super().take(event)
        return [*found, *rest] if found else rest
