"""Cohere's chat API, version 2, as its public reference describes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from runwell.testing.wire.said import Asked, Call, Said, WireDialect, shown

__all__ = ["CohereDialect"]

_STOPS = {"stop": "COMPLETE", "length": "MAX_TOKENS", "tool_calls": "TOOL_CALL"}


class CohereDialect(WireDialect):
    """What Cohere speaks. What is said before calls is their plan. The API never tells which model answered."""

    prefix: ClassVar[str] = ""

    def answer(self, said: Said) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant"}
        if said.calls:
            message |= {"tool_plan": said.text, "tool_calls": [_call(call, _arguments(call)) for call in said.calls]}
        else:
            message["content"] = [{"type": "text", "text": said.text}]
        return {
            "id": "answer-1",
            "finish_reason": _STOPS[said.finish or "stop"],
            "message": message,
            "usage": _use(said),
        }

    def events(self, said: Said) -> list[Any]:
        events: list[tuple[str, dict[str, Any]]] = [
            ("message-start", {"id": "answer-1", "delta": {"message": {"role": "assistant", "content": []}}})
        ]
        if said.calls:
            events += [("tool-plan-delta", {"delta": {"message": {"tool_plan": piece}}}) for piece in said.pieces]
        else:
            events += content(0, "text", *said.pieces)
        for index, call in enumerate(said.calls):
            text = _arguments(call)
            half = len(text) // 2
            events.append(("tool-call-start", {"index": index, "delta": {"message": {"tool_calls": _call(call, "")}}}))
            events += [
                (
                    "tool-call-delta",
                    {"index": index, "delta": {"message": {"tool_calls": {"function": {"arguments": part}}}}},
                )
                for part in (text[:half], text[half:])
            ]
            events.append(("tool-call-end", {"index": index}))
        events.append(("message-end", {"delta": {"finish_reason": _STOPS[said.finish or "stop"], "usage": _use(said)}}))
        return [*((kind, {"type": kind, **event}) for kind, event in events), "[DONE]"]

    def error(self, status: int, message: str) -> dict[str, Any]:
        return {"id": "error-1", "message": message}

    def too_long(self, size: int, limit: int) -> tuple[int, dict[str, Any]]:
        message = f"too many tokens: size limit exceeded by {size - limit} tokens. Try using shorter or fewer inputs."
        return 400, self.error(400, message)

    def asked(self, request: Mapping[str, Any]) -> Asked:
        body = request["body"]
        asked = Asked(
            model=body["model"],
            stop=body.get("stop_sequences") or [],
            max_tokens=body.get("max_tokens"),
            stream=body.get("stream", False),
        )
        for message in body["messages"]:
            _read(message, asked)
        for tool in body.get("tools") or ():
            asked.tools[tool["function"]["name"]] = tool["function"]["parameters"]
        choice = body.get("tool_choice")
        if choice is not None:
            asked.choice = {"REQUIRED": "any", "NONE": "none"}[choice]
            if choice == "REQUIRED" and len(asked.tools) == 1:
                [asked.choice] = asked.tools
        asked.schema = (body.get("response_format") or {}).get("json_schema")
        return asked


def content(index: int, kind: str, *pieces: str) -> list[tuple[str, dict[str, Any]]]:
    """The events of one part of the content: "text" or "thinking"."""
    begun = {"index": index, "delta": {"message": {"content": {"type": kind, kind: ""}}}}
    deltas = [{"index": index, "delta": {"message": {"content": {kind: piece}}}} for piece in pieces]
    return [("content-start", begun), *(("content-delta", each) for each in deltas), ("content-end", {"index": index})]


def _arguments(call: Call) -> str:
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)


def _call(call: Call, arguments: str) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _use(said: Said) -> dict[str, Any]:
    return {
        "billed_units": {"input_tokens": said.read - 2, "output_tokens": said.written},
        "tokens": {"input_tokens": said.read, "output_tokens": said.written},
        "cached_tokens": said.cached,
    }


def _parts(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _read(message: Mapping[str, Any], asked: Asked) -> None:
    role, parts = message["role"], _parts(message.get("content") or [])
    texts = [part["text"] for part in parts if part["type"] == "text"]
    asked.images += [shown(part["image_url"]["url"]) for part in parts if part["type"] == "image_url"]
    if role == "system":
        asked.system += texts
        return
    if role == "tool":
        data = [part["document"]["data"] for part in parts if part["type"] == "document"]
        texts += [each.get("output") or each.get("error") or json.dumps(each) for each in data]
        asked.results[message["tool_call_id"]] = "".join(texts)
    asked.turns.append((role, message.get("tool_plan", "") + "".join(texts)))
    for call in message.get("tool_calls") or ():
        asked.calls[call["id"]] = (call["function"]["name"], json.loads(call["function"]["arguments"]))
