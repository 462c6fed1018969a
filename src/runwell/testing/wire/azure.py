"""OpenAI's APIs in a resource of Azure's, as Azure's public reference describes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from runwell.testing.wire.openai import OpenAIDialect
from runwell.testing.wire.said import Said

__all__ = ["AzureOpenAIDialect"]

_SAFE = {"hate": {"filtered": False, "severity": "safe"}, "violence": {"filtered": False, "severity": "safe"}}
_V1 = re.compile(r"/openai/v1/(chat/completions|responses|embeddings)")
_DEPLOYED = re.compile(
    r"/openai/deployments/(?P<name>[^/]+)/(chat/completions|embeddings)\?api-version=\d{4}-\d\d-\d\d.*"
)
_RESPONSES = re.compile(r"/openai/responses\?api-version=\d{4}-\d\d-\d\d.*")


class AzureOpenAIDialect(OpenAIDialect):
    """What Azure speaks: chat completions at addresses of its own, with what its filters found. A request to another
    address, or without a key or token, is refused."""

    prefix: ClassVar[str] = "/openai/v1"

    def refusal(self, request: Mapping[str, Any]) -> tuple[int, Any] | None:
        path, headers = request["path"], request["headers"]
        deployed = _DEPLOYED.fullmatch(path)
        if not (_V1.fullmatch(path) or deployed or _RESPONSES.fullmatch(path)):
            return 404, {"error": {"code": "404", "message": f"Resource not found: {path}"}}
        if deployed and deployed["name"] != request["body"].get("model"):
            return 400, {"error": {"code": "BadRequest", "message": "The body names another deployment."}}
        if "api-key" not in headers and not headers.get("authorization", "").startswith("Bearer "):
            return 401, {"error": {"code": "401", "message": "Access denied: no key and no token."}}
        return None

    def answer(self, said: Said) -> dict[str, Any]:
        answer = super().answer(said)
        answer["prompt_filter_results"] = [{"prompt_index": 0, "content_filter_results": _SAFE}]
        answer["choices"][0]["content_filter_results"] = _SAFE
        return answer

    def events(self, said: Said) -> list[Any]:
        events = super().events(said)
        prompt = {
            **events[0],
            "choices": [],
            "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": _SAFE}],
        }
        for event in events:
            if isinstance(event, dict) and event["choices"]:
                event["choices"][0]["content_filter_results"] = _SAFE if event["choices"][0]["finish_reason"] else {}
        return [prompt, *events]
