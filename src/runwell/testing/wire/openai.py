"""The chat completions API, as OpenAI's public reference describes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from runwell.testing.wire.said import Asked, Call, Said, WireDialect, shown

__all__ = ["OpenAIDialect"]

_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
_KINDS = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


class OpenAIDialect(WireDialect):
    """What OpenAI and the many servers like it speak."""

    prefix: ClassVar[str] = "/v1"

    def answer(self, said: Said) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
        if said.calls:
            message["tool_calls"] = [_call(call, _arguments(call)) for call in said.calls]
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": said.model,
            "choices": [{"index": 0, "finish_reason": said.finish, "message": message}],
            "usage": _usage(said),
        }

    def events(self, said: Said) -> list[Any]:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": piece} for piece in said.pieces]
        for index, call in enumerate(said.calls):
            text = _arguments(call)
            half = len(text) // 2
            deltas.append({"tool_calls": [{"index": index, **_call(call, "")}]})
            deltas += [
                {"tool_calls": [{"index": index, "function": {"arguments": part}}]}
                for part in (text[:half], text[half:])
            ]
        events: list[Any] = [_event(said, [{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
        events.append(_event(said, [{"index": 0, "delta": {}, "finish_reason": said.finish}]))
        return [*events, {**_event(said, []), "usage": _usage(said)}, "[DONE]"]

    def error(self, status: int, message: str) -> dict[str, Any]:
        return {"error": {"message": message, "type": _KINDS.get(status, "server_error"), "code": None, "param": None}}

    def too_long(self, size: int, limit: int) -> tuple[int, dict[str, Any]]:
        message = (
            f"This model's maximum context length is {limit} tokens. However, your messages resulted in {size} tokens. "
            "Please reduce the length of the messages."
        )
        error = {"message": message, "type": "invalid_request_error", "code": "context_length_exceeded"}
        return 400, {"error": {**error, "param": "messages"}}

    def asked(self, request: Mapping[str, Any]) -> Asked:
        body = request["body"]
        asked = Asked(
            model=body["model"],
            parallel=body.get("parallel_tool_calls"),
            stop=body.get("stop") or [],
            max_tokens=body.get("max_completion_tokens", body.get("max_tokens")),
            stream=body.get("stream", False),
        )
        for message in body["messages"]:
            _read(message, asked)
        for tool in body.get("tools") or ():
            function = tool.get("function") or {"name": tool["type"], "parameters": {}}
            asked.tools[function["name"]] = function["parameters"]
        choice = body.get("tool_choice")
        if choice is not None:
            asked.choice = _CHOICES[choice] if isinstance(choice, str) else choice["function"]["name"]
        form = body.get("response_format")
        if form and form["type"] == "json_schema":
            asked.schema = form["json_schema"]["schema"]
        return asked


def _event(said: Said, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": said.model,
        "choices": choices,
    }


def _arguments(call: Call) -> str:
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)


def _call(call: Call, arguments: str) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _usage(said: Said) -> dict[str, Any]:
    return {
        "prompt_tokens": said.read,
        "completion_tokens": said.written,
        "total_tokens": said.read + said.written,
        "prompt_tokens_details": {"cached_tokens": said.cached},
    }


def _read(message: Mapping[str, Any], asked: Asked) -> None:
    role, content = message["role"], message.get("content") or ""
    parts: list[Any] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    text = "".join(part["text"] for part in parts if part["type"] == "text")
    asked.images += [shown(part["image_url"]["url"]) for part in parts if part["type"] == "image_url"]
    if role in ("system", "developer"):
        asked.system.append(text)
        return
    asked.turns.append((role, text))
    for call in message.get("tool_calls") or ():
        asked.calls[call["id"]] = (call["function"]["name"], json.loads(call["function"]["arguments"]))
    if role == "tool":
        asked.results[message["tool_call_id"]] = text
