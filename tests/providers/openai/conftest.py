"""A server that speaks the chat completions API and answers what a test scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runwell.models.retry import RetryPolicy
from runwell.providers.openai import ChatOpenAI
from runwell.testing.chat_wire import Colour
from runwell.testing.wire import OpenAIDialect, WireServer

KEY = "sk-test-0123456789-secret"


def completion(content: str | None = "Hello.", *, finish: str = "stop", **message: Any) -> dict[str, Any]:
    """The body of an answer."""
    return {
        "id": "chatcmpl-1",
        "model": "served-model-1",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
        ],
        "usage": {
            "prompt_tokens": 9,
            "completion_tokens": 3,
            "total_tokens": 12,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
    }


def event(delta: dict[str, Any] | None = None, *, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """An event of a stream."""
    choices = [] if delta is None and finish is None else [{"index": 0, "delta": delta or {}, "finish_reason": finish}]
    return {"id": "chatcmpl-1", "model": "served-model-1", "choices": choices, **fields}


def call_event(index: int, arguments: str, name: str | None = None, id: str | None = None) -> dict[str, Any]:
    """An event with a fragment of a tool call."""
    call: dict[str, Any] = {"index": index, "function": {"arguments": arguments}}
    if name:
        call |= {"id": id, "type": "function"}
        call["function"]["name"] = name
    return event({"tool_calls": [call]})


class Wire(WireServer):
    """The server of the testing kit, with the pieces of answers that these tests are written in."""

    completion = staticmethod(completion)
    event = staticmethod(event)
    call_event = staticmethod(call_event)
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
    text = [event({"role": "assistant", "content": ""}), event({"content": "Hel"}), event({"content": "lo."})]
    end = [event({}, finish="stop"), event(usage=usage), "[DONE]"]

    def __init__(self) -> None:
        super().__init__(OpenAIDialect())

    def error(self, status: int, message: str = "no", *, code: Any = None, type: str = "", **headers: str) -> None:
        self.json({"error": {"message": message, "code": code, "type": type}}, status, **headers)


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS"):
        monkeypatch.delenv(name, raising=False)
    server = Wire()
    yield server
    server.close()


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> Colour:
    return Colour(request.param)


class QuickRetries(ChatOpenAI):
    retry_policy = RetryPolicy(first_s=0.001)


@pytest.fixture
def model(wire: Wire) -> Callable[..., ChatOpenAI]:
    """Makes a model that talks to the server; its retries hardly wait."""

    def make(**given: Any) -> ChatOpenAI:
        return QuickRetries(**{"model": "m", "api_key": KEY, "base_url": wire.base_url, **given})

    return make
