"""Bedrock's Converse API, as AWS's public reference describes it, with the binary framing of its streams."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import unquote
from zlib import crc32

from runwell.testing.wire.said import Asked, Call, Said, WireDialect

__all__ = ["BedrockDialect", "event_message"]

_STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
_KINDS = {
    400: "ValidationException",
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    429: "ThrottlingException",
    500: "InternalServerException",
    503: "ServiceUnavailableException",
}


class BedrockDialect(WireDialect):
    """What Bedrock's Converse speaks. An event is a pair (name, dict); a name that ends in "Exception" is an error in
    the middle of the stream. Bytes are base64 texts."""

    content_type: ClassVar[str] = "application/vnd.amazon.eventstream"

    def frame(self, event: Any) -> bytes:
        if isinstance(event, bytes):
            return event
        if isinstance(event, str):  # what is no event at all
            return event.encode()
        name, body = event
        return event_message(name, json.dumps(body).encode())

    def answer(self, said: Said) -> dict[str, Any]:
        content: list[dict[str, Any]] = [{"text": said.text}] if said.text or not said.calls else []
        content += [{"toolUse": {**_call(call), "input": _arguments(call)}} for call in said.calls]
        return {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": _STOPS[said.finish or "stop"],
            "usage": _usage(said),
            "metrics": {"latencyMs": 12},
        }

    def events(self, said: Said) -> list[Any]:
        events: list[Any] = [("messageStart", {"role": "assistant"})]
        index = 0
        if said.pieces:
            events += deltas(index, *({"text": piece} for piece in said.pieces))
            index += 1
        for call in said.calls:
            text = json.dumps(_arguments(call))
            half = len(text) // 2
            events.append(("contentBlockStart", {"contentBlockIndex": index, "start": {"toolUse": _call(call)}}))
            events += deltas(index, *({"toolUse": {"input": part}} for part in (text[:half], text[half:])))
            index += 1
        events.append(("messageStop", {"stopReason": _STOPS[said.finish or "stop"]}))
        events.append(("metadata", {"usage": _usage(said), "metrics": {"latencyMs": 12}}))
        return events

    def error(self, status: int, message: str) -> dict[str, Any]:
        kind = _KINDS.get(status)
        return {"message": message, **({"__type": kind} if kind else {})}

    def asked(self, request: Mapping[str, Any]) -> Asked:
        body = request["body"]
        *_, name, how = request["path"].split("/")
        inference = body.get("inferenceConfig") or {}
        asked = Asked(
            model=unquote(name),
            stop=inference.get("stopSequences") or [],
            max_tokens=inference.get("maxTokens"),
            stream=how == "converse-stream",
        )
        asked.system += [block["text"] for block in body.get("system") or () if "text" in block]
        for message in body["messages"]:
            _read(message, asked)
        config = body.get("toolConfig") or {}
        for tool in config.get("tools") or ():
            if "toolSpec" in tool:
                asked.tools[tool["toolSpec"]["name"]] = tool["toolSpec"]["inputSchema"]["json"]
        for kind, told in (config.get("toolChoice") or {}).items():
            asked.choice = told["name"] if kind == "tool" else kind
        form = ((body.get("outputConfig") or {}).get("textFormat") or {}).get("structure")
        if form:
            asked.schema = json.loads(form["jsonSchema"]["schema"])
        return asked


def event_message(name: str, payload: bytes) -> bytes:
    """One message of AWS's event stream encoding: lengths, their checksum, headers, payload, checksum of it all."""
    kind = "exception" if name.endswith("Exception") else "event"
    headers = b"".join(
        struct.pack("!B", len(key)) + key.encode() + struct.pack("!BH", 7, len(value)) + value.encode()
        for key, value in (
            (f":{kind}-type", name),
            (":content-type", "application/json"),
            (":message-type", kind),
        )
    )
    lengths = struct.pack("!II", len(headers) + len(payload) + 16, len(headers))
    message = lengths + struct.pack("!I", crc32(lengths)) + headers + payload
    return message + struct.pack("!I", crc32(message))


def deltas(index: int, *of: dict[str, Any]) -> list[Any]:
    """The events of one content block after its start."""
    events: list[Any] = [("contentBlockDelta", {"contentBlockIndex": index, "delta": delta}) for delta in of]
    return [*events, ("contentBlockStop", {"contentBlockIndex": index})]


def _arguments(call: Call) -> Any:
    return json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments


def _call(call: Call) -> dict[str, Any]:
    return {"toolUseId": call.id, "name": call.name}


def _usage(said: Said) -> dict[str, Any]:
    """What came out of the cache is not among the input tokens here."""
    usage = {"inputTokens": said.read - said.cached, "outputTokens": said.written}
    return {**usage, "cacheReadInputTokens": said.cached, "totalTokens": said.read + said.written}


def _read(message: Mapping[str, Any], asked: Asked) -> None:
    role, blocks = message["role"], message["content"]
    text = "".join(_said(block) for block in blocks)
    if role == "system":
        asked.system.append(text)
        return
    for block in blocks:
        if "image" in block:
            asked.images.append(block["image"]["source"].get("bytes", ""))
        elif "toolUse" in block:
            asked.calls[block["toolUse"]["toolUseId"]] = (block["toolUse"]["name"], block["toolUse"]["input"])
        elif "toolResult" in block:
            inner = block["toolResult"]["content"]
            result = "".join(_said(each) for each in inner)
            asked.images += [each["image"]["source"].get("bytes", "") for each in inner if "image" in each]
            asked.results[block["toolResult"]["toolUseId"]] = result
            asked.turns.append(("tool", result))
    if text or not any("toolResult" in block for block in blocks):
        asked.turns.append((role, text))


def _said(block: Mapping[str, Any]) -> str:
    if "citationsContent" in block:
        return "".join(part["text"] for part in block["citationsContent"]["content"])
    return str(block.get("text", ""))
