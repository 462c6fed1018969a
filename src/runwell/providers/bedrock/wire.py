"""Messages and answers as Bedrock's Converse API writes them, and back.

Bytes are bytes here, as the vendor's SDK takes and gives them; in messages they are base64. An answer that is one text,
then calls, is a message with a text and `tool_calls`, as from any provider. One that holds more (thoughts, several
texts, tools that Bedrock ran) keeps its blocks in `content`, each call at its place. Citations of the first text that
came bare stand in `additional_kwargs["annotations"]`, others in the text's block.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from runwell.errors import InvalidHistory, ModelConnectionError
from runwell.messages.calls import in_written_order, tool_call, tool_call_chunk, tool_call_place
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.message import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.messages.usage import UsageMetadata
from runwell.models.outputs import ChatGenerationChunk
from runwell.models.roles import ROLE_OF, role_of_other
from runwell.observe.run import record_decision, watched
from runwell.providers.bedrock.blocks import (
    BlockWriter,
    annotation_from_wire,
    answered_from_wire,
    block_from_wire,
    cache_point,
)

__all__ = [
    "FINISH",
    "ChunkReader",
    "message_from_wire",
    "messages_from_wire",
    "messages_to_wire",
    "metadata_from_wire",
    "usage_from_wire",
]

FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
}
"""Why an answer ended, in the words that all adapters use for `finish_reason`. Others stay as they are."""

_IN_SYSTEM = frozenset({"text", "guardContent", "cachePoint"})
_IN_RESULT = frozenset({"text", "json", "image", "document", "video", "searchResult", "cachePoint"})
_IN_TURN = frozenset({"text", "image", "document", "video", "audio", "guardContent", "cachePoint", "searchResult"})
_IN_TURN |= {"toolAddition", "toolRemoval"}

_CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")

Wire = list[dict[str, Any]]


# -- to the wire


def messages_to_wire(messages: Sequence[BaseMessage], *, system_in_middle: bool = False) -> tuple[Wire, Wire]:
    """(`system`, `messages`) of a request.

    Leading system messages are `system`. A later one stays in its place where the model takes it there, otherwise it
    goes to the end of `system`, and the decision B9 is recorded. Turns alternate: messages of one side in a row are one
    turn, results first. Raises InvalidHistory, naming the place, for what cannot be sent.
    """
    write = BlockWriter()
    system: Wire = []
    wire: Wire = []
    for index, message in enumerate(messages):
        write.index = index
        role = ROLE_OF.get(message.type) or role_of_other(message, index, "cannot be sent to Bedrock")
        if role == "system":
            if wire and system_in_middle and wire[-1]["role"] == "user":
                wire.append({"role": "system", "content": write.said(message.content, _IN_SYSTEM)})
                continue
            if wire and watched():
                reason = f"message {index} is one of the system, and this model takes none there"
                record_decision("B9", "moved to the top", reason, "code")
            system += write.said(message.content, _IN_SYSTEM)
            continue
        if role == "tool":
            content = _tool_result(message, write)
        elif role == "assistant":
            content = _assistant(message, write)
        else:
            content = write.said(message.content, _IN_TURN)
            if not content:
                raise InvalidHistory(
                    f"Message {index}, a {type(message).__name__}, is empty.",
                    hint="Leave it out, or say something in it.",
                )
        role = "user" if role == "tool" else role
        if wire and wire[-1]["role"] == role:
            wire[-1]["content"] += content
        elif content:  # a turn without a word cannot be sent, and says nothing
            wire.append({"role": role, "content": content})
    return system, wire


def _tool_result(message: Any, write: BlockWriter) -> Wire:
    """The result, and after it the point up to which may be cached, which has no place inside."""
    content = write.said(message.content, _IN_RESULT) if message.content else []
    points = [block for block in content if "cachePoint" in block]
    result: dict[str, Any] = {
        "toolUseId": _call_id(message.tool_call_id),
        "content": [block for block in content if block not in points],
    }
    if message.status == "error":
        result["status"] = "error"
    mark = (message._kwargs or {}).get("cache_control")
    return [{"toolResult": result}, *([cache_point(mark)] if mark else points[-1:])]


def _assistant(message: Any, write: BlockWriter) -> Wire:
    """The blocks of an answer. What its `tool_calls` say goes: a call changed or dropped there is so on the wire."""
    content = message.content
    calls = {call["id"]: call for call in getattr(message, "tool_calls", ())}
    broken = [call for call in getattr(message, "invalid_tool_calls", ()) if call["id"]]
    own = (message._facts or {}).get("model_provider") in (None, "bedrock_converse")
    notes = (message._kwargs or {}).get("annotations")
    blocks: Wire = []
    for block in [content] if isinstance(content, str) else content:
        if isinstance(block, dict) and block.get("type") in ("tool_call", "tool_use"):
            call = calls.pop(block.get("id"), None)
            if call is not None:
                blocks.append(_call(call["id"], call["name"], call["args"]))
        else:
            blocks += write.answered(block, notes, own)
            notes = None if isinstance(block, str) else notes
    # As with every wire that has no place for a broken call: what is said of it is in the result that follows.
    return blocks + [
        _call(call["id"], call["name"] or "unknown", _input(call["args"]))
        for call in in_written_order(calls.values(), broken)
    ]


def _input(args: Any) -> Any:
    """The arguments of a call; those of a broken one are text."""
    if isinstance(args, dict):
        return args
    return {"malformed_arguments": args} if args else {}


def _call(call_id: str | None, name: str, args: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": _call_id(call_id), "name": name, "input": args}}


def _call_id(given: str | None) -> str:
    if given is not None and _CALL_ID.fullmatch(given):
        return given
    return f"call_{sha256((given or '').encode()).hexdigest()[:32]}"


# -- from the wire


def messages_from_wire(system: Wire, wire: Sequence[Mapping[str, Any]]) -> list[BaseMessage]:
    """The conversation in a request: what `messages_to_wire` was given, but for what the wire has no place for (names,
    ids, artifacts, where one message of a side ended)."""
    messages: list[BaseMessage] = [SystemMessage([block_from_wire(block) for block in system])] if system else []
    for turn in wire:
        role, content = turn["role"], turn["content"]
        if role == "assistant":
            messages.append(message_from_wire({"content": content}))
        elif role == "system":
            messages.append(SystemMessage([block_from_wire(block) for block in content]))
        else:
            for result in (block["toolResult"] for block in content if "toolResult" in block):
                parts = [block_from_wire(block) for block in result["content"]]
                status = "error" if result.get("status") == "error" else "success"
                messages.append(ToolMessage(_bare(parts), tool_call_id=result["toolUseId"], status=status))  # type: ignore[arg-type]
            rest = [block_from_wire(block) for block in content if "toolResult" not in block]
            if rest:
                messages.append(HumanMessage(rest))
    return messages


def _bare(blocks: list[dict[str, Any]]) -> Any:
    return blocks or ""


def message_from_wire(
    wire: Mapping[str, Any], usage: Mapping[str, Any] | None = None, *, stop: str | None = None
) -> AIMessage:
    """A model's answer: the message that its stream adds up to."""
    content: list[Any] = []
    calls: list[Any] = []
    notes: list[Any] = []
    rich, bare = False, False
    for given in wire.get("content") or ():
        block = answered_from_wire(given)
        kind = block["type"]
        if kind == "text" and not block["text"]:
            continue
        rich = rich or _is_rich(kind, bare, bool(calls))
        if kind == "tool_call":
            calls.append(tool_call(name=block["name"], args=block["args"], id=block["id"]))
            content.append(block)
        elif kind == "text" and not rich:
            bare = True
            content.append(block["text"])
            notes = block.get("annotations") or []
        else:
            content.append(block)
    extra: dict[str, Any] = {"annotations": notes} if notes else {}
    return AIMessage(
        content if rich else "".join(each for each in content if isinstance(each, str)),
        tool_calls=calls,
        additional_kwargs={**extra, **_refusal(stop)},
        usage_metadata=usage_from_wire(usage) if usage else None,
    )


def _is_rich(kind: str, bare: bool, called: bool) -> bool:
    """Whether a message's text and `tool_calls` cannot say a block of this kind, after a text and perhaps calls."""
    return (bare or called) if kind == "text" else kind != "tool_call"


def _refusal(stop: str | None) -> dict[str, Any]:
    if FINISH.get(stop or "") != "content_filter":
        return {}
    return {"refusal": f"The provider ended the answer for reasons of policy ({stop})."}


class ChunkReader:
    """Reads the events of one streamed answer.

    Chunks hold plain texts and fragments of calls until something comes that they cannot say (thoughts, a second text,
    tools that Bedrock ran); from then on they hold blocks.
    """

    __slots__ = ("_bare", "_called", "_facts", "_held", "_rich", "_seen")

    def __init__(self) -> None:
        self._rich = False
        self._bare: int | None = None
        self._called: list[tuple[str | None, int]] = []
        """The calls that were told beside the content, by id and index."""
        self._seen: dict[int, str] = {}
        self._held: dict[int, dict[str, Any]] = {}
        """What nobody reads in pieces, until it is whole."""
        self._facts: dict[str, Any] = {}

    def take(self, event: Any) -> Iterator[ChatGenerationChunk]:
        """The chunk in an event, if it says anything."""
        [(kind, said)] = event.items()
        chunk, was_rich = None, self._rich
        if kind == "contentBlockDelta":
            chunk = self._delta(said.get("contentBlockIndex") or 0, said.get("delta") or {})
        elif kind == "contentBlockStart":
            chunk = self._start(said.get("contentBlockIndex") or 0, said.get("start") or {})
        elif kind == "contentBlockStop":
            chunk = self._stop(said.get("contentBlockIndex") or 0)
        elif kind in ("messageStop", "metadata"):
            self._facts.update(said)
        if self._rich and not was_rich and self._called:  # what comes now stands behind them
            places = [tool_call_place(call_id, index) for call_id, index in self._called]
            yield ChatGenerationChunk(AIMessageChunk(places, tool_call_chunks=()))
        if chunk is not None:
            yield ChatGenerationChunk(chunk)

    def _opened(self, index: int, kind: str) -> str:
        """The kind of a block that may begin here."""
        if index not in self._seen:
            self._seen[index] = kind
            self._rich = self._rich or _is_rich(kind, self._bare is not None, bool(self._called))
            if kind == "text" and not self._rich:
                self._bare = index
        return self._seen[index]

    def _start(self, index: int, start: Mapping[str, Any]) -> AIMessageChunk | None:
        call = start.get("toolUse")
        if call and not call.get("type"):
            self._opened(index, "tool_call")
            if not self._rich:
                self._called.append((call["toolUseId"], index))
            return self._fragment(index, "", call["name"], call["toolUseId"])
        if call:
            self._opened(index, "server_tool_call")
            self._held[index] = {"toolUse": {**call, "input": []}}
        elif start.get("toolResult"):
            self._opened(index, "server_tool_result")
            self._held[index] = {"toolResult": {**start["toolResult"], "content": []}}
        elif start.get("image"):
            self._opened(index, "image")
            self._held[index] = {"image": {**start["image"], "source": {}}}
        return None

    def _delta(self, index: int, delta: Mapping[str, Any]) -> AIMessageChunk | None:
        held = self._held.get(index)
        if "text" in delta:
            return self._text(index, delta["text"]) if delta["text"] else None
        if "toolUse" in delta:
            text = delta["toolUse"].get("input") or ""
            if held is not None:
                held["toolUse"]["input"].append(text)
                return None
            return self._fragment(index, text) if text else None
        if "reasoningContent" in delta:
            return self._thought(index, delta["reasoningContent"])
        if "citation" in delta:
            return self._cited(index, annotation_from_wire(delta["citation"]))
        if held is not None and "toolResult" in delta:
            held["toolResult"]["content"] += delta["toolResult"]
        elif held is not None and "image" in delta:
            held["image"]["source"].update(delta["image"].get("source") or {})
        return None

    def _text(self, index: int, text: str) -> AIMessageChunk:
        self._opened(index, "text")
        if self._bare == index:
            return AIMessageChunk(text)
        return AIMessageChunk([{"type": "text", "text": text, "index": index}])

    def _cited(self, index: int, note: dict[str, Any]) -> AIMessageChunk:
        self._opened(index, "text")
        if self._bare == index:
            return AIMessageChunk("", additional_kwargs={"annotations": [note]})
        return AIMessageChunk([{"type": "text", "text": "", "annotations": [note], "index": index}])

    def _thought(self, index: int, said: Mapping[str, Any]) -> AIMessageChunk | None:
        self._opened(index, "reasoning")
        block: dict[str, Any] = {"type": "reasoning", "reasoning": said.get("text") or "", "index": index}
        if said.get("signature"):
            block["extras"] = {"bedrock_signature": said["signature"]}
        elif said.get("redactedContent"):
            held = self._held.setdefault(index, {"redacted": b""})
            held["redacted"] += said["redactedContent"]
            return None
        return AIMessageChunk([block])

    def _fragment(self, index: int, arguments: str, name: str | None = None, id: str | None = None) -> AIMessageChunk:
        fragment: dict[str, Any] = dict(tool_call_chunk(name=name, args=arguments, id=id, index=index))
        return AIMessageChunk([fragment]) if self._rich else AIMessageChunk("", tool_call_chunks=[fragment])

    def _stop(self, index: int) -> AIMessageChunk | None:
        held = self._held.pop(index, None)
        if held is None:
            return None
        if "redacted" in held:
            hidden = b64encode(held["redacted"]).decode()
            block: dict[str, Any] = {"type": "reasoning", "reasoning": "", "extras": {"bedrock_redacted": hidden}}
        else:
            if "toolUse" in held:
                text = "".join(held["toolUse"]["input"])
                held["toolUse"]["input"] = json.loads(text) if text else {}
            block = answered_from_wire(held)
        return AIMessageChunk([{**block, "index": index}])

    def end(self, who: str | None) -> ChatGenerationChunk:
        """The last chunk. Raises ModelConnectionError if the stream stopped before the answer was complete."""
        stop = self._facts.get("stopReason")
        if not stop:
            raise ModelConnectionError(f"{who} ended the stream before the answer was complete.")
        usage = self._facts.get("usage")
        chunk = AIMessageChunk(
            "",
            additional_kwargs=_refusal(stop),
            response_metadata=metadata_from_wire(self._facts),
            usage_metadata=usage_from_wire(usage) if usage else None,
            chunk_position="last",
        )
        return ChatGenerationChunk(chunk)


def metadata_from_wire(answer: Mapping[str, Any]) -> dict[str, Any]:
    """What an answer says about itself. `trace` is what guardrails found, `metrics` has the latency in milliseconds."""
    reason = answer.get("stopReason")
    routed = ((answer.get("trace") or {}).get("promptRouter") or {}).get("invokedModelId")
    metadata = {
        "finish_reason": FINISH.get(reason or "", reason),
        "stop_reason": reason,
        "model_name": routed,
        "metrics": answer.get("metrics"),
        "trace": answer.get("trace"),
        "additional_model_response_fields": answer.get("additionalModelResponseFields"),
        "performance_config": answer.get("performanceConfig"),
        "service_tier": (answer.get("serviceTier") or {}).get("type"),
    }
    return {name: value for name, value in metadata.items() if value is not None}


def usage_from_wire(usage: Mapping[str, Any]) -> UsageMetadata:
    """Tokens used, under our names. As everywhere, `input_tokens` counts what the cache gave and took."""
    read, made = usage.get("cacheReadInputTokens"), usage.get("cacheWriteInputTokens")
    given = (usage.get("inputTokens") or 0) + (read or 0) + (made or 0)
    written = usage.get("outputTokens") or 0
    result: UsageMetadata = {"input_tokens": given, "output_tokens": written, "total_tokens": given + written}
    details = {"cache_creation": made, "cache_read": read}
    if any(value is not None for value in details.values()):
        result["input_token_details"] = {k: v for k, v in details.items() if v is not None}  # type: ignore[typeddict-item]
    return result
