"""The Messages API, as Anthropic's public reference describes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from runwell.testing.wire.said import Asked, Call, Said, WireDialect

__all__ = ["AnthropicDialect"]

_STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


class AnthropicDialect(WireDialect):
    """What Anthropic speaks."""

    prefix: ClassVar[str] = ""

    def answer(self, said: Said) -> dict[str, Any]:
        blocks: list[dict[str, Any]] = [{"type": "text", "text": said.text, "citations": None}] if said.text else []
        blocks += [_call(call, _arguments(call)) for call in said.calls]
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": said.model,
            "content": blocks,
            "stop_reason": _STOPS[said.finish or "stop"],
            "stop_sequence": None,
            "usage": {**_read_usage(said), "output_tokens": said.written},
        }

    def events(self, said: Said) -> list[Any]:
        start = {**self.answer(said), "content": [], "stop_reason": None}
        start["usage"] = {**_read_usage(said), "output_tokens": 1}
        events: list[dict[str, Any]] = [{"type": "message_start", "message": start}, {"type": "ping"}]
        index = 0
        if said.pieces:
            events += block(
                index,
                {"type": "text", "text": ""},
                *({"type": "text_delta", "text": piece} for piece in said.pieces),
            )
            index += 1
        for call in said.calls:
            text = json.dumps(_arguments(call))
            half = len(text) // 2
            parts = ("", text[:half], text[half:])
            events += block(
                index, _call(call, {}), *({"type": "input_json_delta", "partial_json": part} for part in parts)
            )
            index += 1
        events += [
            {
                "type": "message_delta",
                "delta": {"stop_reason": _STOPS[said.finish or "stop"], "stop_sequence": None},
                "usage": {"output_tokens": said.written},
            },
            {"type": "message_stop"},
        ]
        return [(event["type"], event) for event in events]

    def error(self, status: int, message: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": _KINDS.get(status, "api_error"), "message": message}}

    def asked(self, request: Mapping[str, Any]) -> Asked:
        body = request["body"]
        asked = Asked(
            model=body["model"],
            stop=body.get("stop_sequences") or [],
            max_tokens=body["max_tokens"],
            stream=body.get("stream", False),
        )
        asked.system += [part["text"] for part in _parts(body.get("system") or [])]
        for message in body["messages"]:
            _read(message, asked)
        for tool in body.get("tools") or ():
            asked.tools[tool["name"]] = tool.get("input_schema", {})  # none: Anthropic runs it
        choice = body.get("tool_choice")
        if choice is not None:
            asked.choice = choice["name"] if choice["type"] == "tool" else choice["type"]
            if "disable_parallel_tool_use" in choice:
                asked.parallel = not choice["disable_parallel_tool_use"]
        form = (body.get("output_config") or {}).get("format")
        if form:
            asked.schema = form["schema"]
        return asked


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of one content block."""
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def _arguments(call: Call) -> Any:
    return json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments


def _call(call: Call, arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}


def _read_usage(said: Said) -> dict[str, Any]:
    """What came out of the cache is not among the input tokens here."""
    return {
        "input_tokens": said.read - said.cached,
        "cache_read_input_tokens": said.cached,
        "cache_creation_input_tokens": 0,
    }


def _parts(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _shown(image: Mapping[str, Any]) -> str:
    """An image's data, or where it is."""
    source = image["source"]
    return str(source.get("data") or source.get("url") or source.get("file_id"))


def _read(message: Mapping[str, Any], asked: Asked) -> None:
    role, parts = message["role"], _parts(message["content"])
    text = "".join(part["text"] for part in parts if part["type"] == "text")
    if role == "system":
        asked.system.append(text)
        return
    asked.images += [_shown(part) for part in parts if part["type"] == "image"]
    for part in parts:
        if part["type"] == "tool_use":
            asked.calls[part["id"]] = (part["name"], part["input"])
        elif part["type"] == "tool_result":
            inner = _parts(part.get("content") or "")
            result = "".join(each["text"] for each in inner if each["type"] == "text")
            asked.images += [_shown(each) for each in inner if each["type"] == "image"]
            asked.results[part["tool_use_id"]] = result
            asked.turns.append(("tool", result))
    if text or not any(part["type"] == "tool_result" for part in parts):
        asked.turns.append((role, text))
