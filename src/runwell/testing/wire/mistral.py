"""Mistral's chat API, as its public reference describes it: OpenAI's, with errors and limits of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from runwell.testing.wire.openai import OpenAIDialect
from runwell.testing.wire.said import Said

__all__ = ["MistralDialect"]


class MistralDialect(OpenAIDialect):
    """What Mistral speaks."""

    prefix: ClassVar[str] = ""

    def events(self, said: Said) -> list[Any]:
        """Calls come whole."""
        *events, end, usage, done = super().events(replace(said, calls=()))
        message = self.answer(said)["choices"][0]["message"]
        if said.calls:
            calls = [{**call, "index": index} for index, call in enumerate(message["tool_calls"])]
            events.append(
                {**events[0], "choices": [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": None}]}
            )
        return [*events, end, usage, done]

    def error(self, status: int, message: str) -> dict[str, Any]:
        return {"object": "error", "message": message, "type": "invalid_request_error", "param": None, "code": "1000"}

    def too_long(self, size: int, limit: int) -> tuple[int, dict[str, Any]]:
        message = f"Prompt contains {size} tokens, too large for model with {limit} maximum context length"
        return 400, self.error(400, message)
