"""Messages and answers as Ollama's own chat API writes them, and back.

Thoughts are `additional_kwargs["reasoning_content"]`, as with other servers of open weights. The API names no calls:
ids are made up where a server sends none, and sent along, which does no harm.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runwell.errors import InvalidHistory, ModelConnectionError
from runwell.messages.calls import calls_as_written, json_text, tool_call, tool_call_chunk
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.deep_calls import text_of_args
from runwell.messages.message import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.messages.normal import standard_blocks
from runwell.messages.usage import UsageMetadata
from runwell.models.foreign import readable_by
from runwell.models.outputs import ChatGenerationChunk
from runwell.models.roles import OTHER_WORDS, ROLE_OF

__all__ = [
    "ChunkReader",
    "message_from_wire",
    "messages_from_wire",
    "messages_to_wire",
    "metadata_from_wire",
    "usage_from_wire",
]


def messages_to_wire(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """The request's `messages`. Pictures of a tool's result follow in a user's message; what is no text and no picture
    in base64 is named in the text. Raises InvalidHistory, naming the place, for what cannot be sent."""
    wire: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    shown: list[str] = []
    for index, message in enumerate(messages):
        role = ROLE_OF.get(message.type) or getattr(message, "role", None)
        role = OTHER_WORDS.get(role, role)
        if role is None:
            raise InvalidHistory(
                f"Message {index} is a {type(message).__name__}, an instruction to a history, not part of one.",
                hint="Apply it first: add_messages(history, [RemoveMessage(...)]).",
            )
        if shown and role != "tool":
            wire.append({"role": "user", "content": "From the tools' results:", "images": shown})
            shown = []
        content = message.content
        if role == "assistant" and not isinstance(content, str):
            content = readable_by("", content)
        text, images = _parts(content)
        sent: dict[str, Any] = {"role": role, "content": text}
        if role == "assistant":
            _add_calls(sent, message, names)
        elif role == "tool":
            call_id = getattr(message, "tool_call_id", "")
            sent |= {"tool_call_id": call_id, "tool_name": message.name or names.get(call_id, "")}
            shown += images
            images = []
        if images:
            sent["images"] = images
        wire.append(sent)
    if shown:
        wire.append({"role": "user", "content": "From the tools' results:", "images": shown})
    return wire


def _add_calls(sent: dict[str, Any], message: Any, names: dict[str, str]) -> None:
    thought = (message._kwargs or {}).get("reasoning_content") or _thoughts(message)
    if thought:
        sent["thinking"] = thought
    calls = [
        (
            call["id"],
            call["name"] or "unknown",
            call["args"] if isinstance(call["args"], dict) else {"malformed_arguments": call["args"]},
        )
        for call in (calls_as_written(message) if hasattr(message, "tool_calls") else ())
    ]
    names.update((str(call_id), name) for call_id, name, _ in calls)
    if calls:
        sent["tool_calls"] = [
            {"id": call_id, "function": {"name": name, "arguments": args}} for call_id, name, args in calls
        ]


def _thoughts(message: Any) -> str:
    """Those in blocks, of models that an Ollama server ran."""
    if isinstance(message.content, str) or (message._facts or {}).get("model_provider") not in (None, "ollama"):
        return ""
    blocks: list[Any] = list(standard_blocks(message.content))
    return "".join(b.get("reasoning") or "" for b in blocks if b["type"] == "reasoning" and not b.get("extras"))


def _parts(content: Any) -> tuple[str, list[str]]:
    """(The text, the pictures.)"""
    texts: list[str] = []
    images: list[str] = []
    blocks: list[Any] = list(standard_blocks(content))
    for block in blocks:
        kind = block["type"]
        if kind == "text" or (kind == "text-plain" and block.get("text")):
            texts.append(block["text"])
        elif kind == "image" and block.get("base64"):
            images.append(block["base64"])
        elif kind in ("image", "audio", "video", "file", "text-plain"):
            texts.append(f"[{kind}: {block.get('url') or block.get('file_id') or block.get('mime_type')}]")
        elif kind == "server_tool_result":
            texts.append(json_text(block.get("output")))
    return "".join(texts), images


def messages_from_wire(wire: Sequence[Mapping[str, Any]]) -> list[BaseMessage]:
    """The conversation in a request: what `messages_to_wire` was given, but for what the wire has no place for (where
    one text ended, types of pictures, ids, the status of a result). Pictures of results are the message they went in.
    """
    messages: list[BaseMessage] = []
    for turn in wire:
        text, role = turn["content"], turn["role"]
        images = [{"type": "image", "base64": data} for data in turn.get("images") or ()]
        content: Any = [*([{"type": "text", "text": text}] if text else []), *images] if images else text
        if role == "assistant":
            messages.append(message_from_wire({"message": turn}))
        elif role == "tool":
            messages.append(ToolMessage(content, tool_call_id=turn["tool_call_id"], name=turn["tool_name"] or None))
        else:
            messages.append(SystemMessage(content) if role == "system" else HumanMessage(content))
    return messages


def message_from_wire(answer: Mapping[str, Any]) -> AIMessage:
    """A model's answer."""
    said = answer["message"]
    thought = said.get("thinking")
    return AIMessage(
        said.get("content") or "",
        tool_calls=[
            tool_call(name=name, args=args, id=call_id)
            for call_id, name, args in map(_call, said.get("tool_calls") or ())
        ],
        additional_kwargs={"reasoning_content": thought} if thought else None,
        usage_metadata=usage_from_wire(answer),
    )


def _call(call: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    function = call["function"]
    return call.get("id") or f"call_{os.urandom(8).hex()}", function["name"], function.get("arguments") or {}


class ChunkReader:
    """Reads the lines of one streamed answer. Calls come whole."""

    __slots__ = ("_calls", "_last")

    def __init__(self) -> None:
        self._calls = 0
        self._last: Mapping[str, Any] = {}

    def take(self, event: Any) -> Iterator[ChatGenerationChunk]:
        """The chunk in a line, if it says anything."""
        said = event.get("message") or {}
        fragments = []
        for call_id, name, args in map(_call, said.get("tool_calls") or ()):
            fragments.append(tool_call_chunk(name=name, args=text_of_args(args), id=call_id, index=self._calls))
            self._calls += 1
        thought = said.get("thinking")
        if said.get("content") or thought or fragments:
            yield ChatGenerationChunk(
                AIMessageChunk(
                    said.get("content") or "",
                    tool_call_chunks=fragments or None,
                    additional_kwargs={"reasoning_content": thought} if thought else None,
                )
            )
        if event.get("done"):
            self._last = event

    def end(self, who: str | None) -> ChatGenerationChunk:
        """The last chunk. Raises ModelConnectionError if the stream stopped before the answer was complete."""
        if not self._last:
            raise ModelConnectionError(f"{who} ended the stream before the answer was complete.")
        chunk = AIMessageChunk(
            "",
            response_metadata=metadata_from_wire(self._last, called=self._calls > 0),
            usage_metadata=usage_from_wire(self._last),
            chunk_position="last",
        )
        return ChatGenerationChunk(chunk)


def metadata_from_wire(answer: Mapping[str, Any], *, called: bool) -> dict[str, Any]:
    """What an answer says about itself. Durations are in nanoseconds."""
    reason = answer.get("done_reason") or "stop"
    metadata = {"finish_reason": "tool_calls" if called and reason == "stop" else reason}
    metadata["model_name"] = answer.get("model")
    for name in ("created_at", "total_duration", "load_duration", "prompt_eval_duration", "eval_duration", "logprobs"):
        metadata[name] = answer.get(name)
    return {name: value for name, value in metadata.items() if value is not None}


def usage_from_wire(answer: Mapping[str, Any]) -> UsageMetadata | None:
    """Tokens used; None where the server does not say."""
    given, made = answer.get("prompt_eval_count"), answer.get("eval_count")
    if given is None and made is None:
        return None
    return {
        "input_tokens": given or 0,
        "output_tokens": made or 0,
        "total_tokens": (given or 0) + (made or 0),
    }
