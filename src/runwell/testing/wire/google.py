"""Gemini's API, as Google's public reference describes it: answers and their streams, counts of tokens, vectors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, ClassVar

from runwell.testing.wire.said import Asked, Call, Said, WireDialect

__all__ = ["GoogleDialect"]

_STOPS = {"stop": "STOP", "length": "MAX_TOKENS", "tool_calls": "STOP"}
_MODES = {"AUTO": "auto", "VALIDATED": "auto", "NONE": "none", "ANY": "any"}
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class GoogleDialect(WireDialect):
    """What Gemini speaks. Calls come whole; `names_calls=False`: without ids, as older models give them."""

    prefix: ClassVar[str] = ""

    def __init__(self, *, names_calls: bool = True) -> None:
        self.names_calls = names_calls
        self._number = count(1)

    def answer(self, said: Said) -> dict[str, Any]:
        parts = [{"text": said.text}] if said.text else []
        return self._event(said, [*parts, *map(self._call, said.calls)], f"resp-{next(self._number)}", end=True)

    def events(self, said: Said) -> list[Any]:
        named = f"resp-{next(self._number)}"
        events = [self._event(said, [{"text": piece}], named) for piece in said.pieces]
        events += [self._event(said, [self._call(call)], named) for call in said.calls]
        return [*events, self._event(said, [{"text": ""}], named, end=True)]

    def _event(self, said: Said, parts: list[Any], named: str, *, end: bool = False) -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
        usage = {"promptTokenCount": said.read, "totalTokenCount": said.read}
        if end:
            candidate["finishReason"] = _STOPS[said.finish or "stop"]
            usage |= {"candidatesTokenCount": said.written, "totalTokenCount": said.read + said.written}
        if said.cached:
            usage["cachedContentTokenCount"] = said.cached
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": said.model, "responseId": named}

    def _call(self, call: Call) -> dict[str, Any]:
        arguments = json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments
        said = {"name": call.name, "args": arguments}
        return {"functionCall": {"id": call.id, **said} if self.names_calls else said}

    def vectors(self, vectors: Sequence[Sequence[float]]) -> dict[str, Any]:
        """What `batchEmbedContents` answers."""
        return {"embeddings": [{"values": list(vector)} for vector in vectors]}

    def counted(self, tokens: int) -> dict[str, Any]:
        """What `countTokens` answers."""
        return {"totalTokens": tokens}

    def error(self, status: int, message: str) -> dict[str, Any]:
        return {"error": {"code": status, "message": message, "status": _STATUS.get(status, "UNKNOWN")}}

    def too_long(self, size: int, limit: int) -> tuple[int, dict[str, Any]]:
        message = f"The input token count ({size}) exceeds the maximum number of tokens allowed ({limit})."
        return 400, self.error(400, message)

    def asked(self, request: Mapping[str, Any]) -> Asked:
        body = request["body"]
        place, _, query = request["path"].partition("?")
        model, _, method = place.rpartition("/")[2].partition(":")
        config = body.get("generationConfig") or {}
        asked = Asked(
            model=model,
            stop=config.get("stopSequences") or [],
            max_tokens=config.get("maxOutputTokens"),
            schema=config.get("responseJsonSchema"),
            stream=method == "streamGenerateContent" and "alt=sse" in query,
        )
        asked.system += [part["text"] for part in (body.get("systemInstruction") or {}).get("parts", ())]
        for turn in body.get("contents") or ():
            _read(turn, asked)
        for tool in body.get("tools") or ():
            for declared in tool.get("functionDeclarations") or ():
                asked.tools[declared["name"]] = declared.get("parametersJsonSchema") or {"properties": {}}
            asked.tools.update((name, {}) for name in tool if name != "functionDeclarations")  # Google runs it
        calling = (body.get("toolConfig") or {}).get("functionCallingConfig")
        if calling:
            names = calling.get("allowedFunctionNames")
            asked.choice = names[0] if names else _MODES[calling["mode"]]
        return asked


def _read(turn: Mapping[str, Any], asked: Asked) -> None:
    parts = turn["parts"]
    asked.images += [part["inlineData"]["data"] for part in parts if "inlineData" in part]
    for part in parts:
        if "functionCall" in part:
            call = part["functionCall"]
            asked.calls[call.get("id") or f"call_{len(asked.calls)}"] = (call["name"], call.get("args") or {})
        elif "functionResponse" in part:
            said = part["functionResponse"]
            result = said["response"].get("output", said["response"].get("error"))
            result = result if isinstance(result, str) else "".join(result)
            asked.images += [each["inlineData"]["data"] for each in said.get("parts") or () if "inlineData" in each]
            asked.results[said.get("id") or f"call_{len(asked.results)}"] = result
            asked.turns.append(("tool", result))
    text = "".join(part["text"] for part in parts if "text" in part and not part.get("thought"))
    if text or not any("functionResponse" in part for part in parts):
        asked.turns.append(("assistant" if turn.get("role") == "model" else "user", text))
