"""Ollama's own chat API, as its public reference describes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from runwell.testing.wire.said import Asked, Call, Said, WireDialect

__all__ = ["OllamaDialect"]


class OllamaDialect(WireDialect):
    """What Ollama speaks: a JSON text per line, and calls without ids."""

    framing: ClassVar[Literal["sse", "lines"]] = "lines"

    def answer(self, said: Said) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": said.text}
        if said.calls:
            message["tool_calls"] = [_call(call) for call in said.calls]
        return {**_line(said, message), **_end(said)}

    def events(self, said: Said) -> list[Any]:
        lines = [_line(said, {"role": "assistant", "content": piece}) for piece in said.pieces]
        lines += [_line(said, {"role": "assistant", "content": "", "tool_calls": [_call(call)]}) for call in said.calls]
        return [*lines, {**_line(said, {"role": "assistant", "content": ""}), **_end(said)}]

    def error(self, status: int, message: str) -> dict[str, Any]:
        return {"error": message}

    def too_long(self, size: int, limit: int) -> tuple[int, dict[str, Any]]:
        return 400, {"error": "the input length exceeds the context length"}

    def asked(self, request: Mapping[str, Any]) -> Asked:
        body = request["body"]
        options = body.get("options") or {}
        form = body.get("format")
        asked = Asked(
            model=body["model"],
            stop=options.get("stop") or [],
            max_tokens=options.get("num_predict"),
            schema=form if isinstance(form, dict) else None,
            stream=body.get("stream", True),
        )
        for message in body["messages"]:
            role, text = message["role"], message["content"]
            asked.images += message.get("images") or []
            if role == "system":
                asked.system.append(text)
                continue
            asked.turns.append((role, text))
            for call in message.get("tool_calls") or ():
                asked.calls[call["id"]] = (call["function"]["name"], call["function"]["arguments"])
            if role == "tool":
                asked.results[message["tool_call_id"]] = text
        for tool in body.get("tools") or ():
            asked.tools[tool["function"]["name"]] = tool["function"]["parameters"]
        return asked


def _call(call: Call) -> dict[str, Any]:
    arguments = json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments
    return {"function": {"name": call.name, "arguments": arguments}}


def _line(said: Said, message: dict[str, Any]) -> dict[str, Any]:
    return {"model": said.model, "created_at": "2026-01-01T00:00:00Z", "message": message, "done": False}


def _end(said: Said) -> dict[str, Any]:
    reason = "length" if said.finish == "length" else "stop"
    counts = {"prompt_eval_count": said.read, "eval_count": said.written}
    return {"done": True, "done_reason": reason, "total_duration": 1, **counts}
