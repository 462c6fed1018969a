"""A server that speaks the Messages API, and models that talk to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runwell.models.retry import RetryPolicy
from runwell.providers.anthropic import ChatAnthropic
from runwell.testing.chat_wire import Colour
from runwell.testing.wire import AnthropicDialect, Said, WireServer

KEY = "sk-ant-test-0123456789"


def message(*blocks: dict[str, Any], stop: str = "end_turn", **fields: Any) -> dict[str, Any]:
    """The body of an answer."""
    usage = {"input_tokens": 9, "output_tokens": 3}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "served-model-1",
        "content": list(blocks),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
        **fields,
    }


def events(body: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The stream of an answer, each of its blocks in pieces as the public description has them."""
    start = {**body, "content": [], "stop_reason": None, "usage": {**body["usage"], "output_tokens": 1}}
    found: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(body["content"]):
        begun, deltas = _pieces(block)
        found.append({"type": "content_block_start", "index": index, "content_block": begun})
        found += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        found.append({"type": "content_block_stop", "index": index})
    last = {key: body.get(key) for key in ("stop_reason", "stop_sequence", "stop_details")}
    found.append({"type": "message_delta", "delta": last, "usage": {"output_tokens": body["usage"]["output_tokens"]}})
    found.append({"type": "message_stop"})
    return [(each["type"], each) for each in found]


def _pieces(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    kind = block["type"]
    if kind == "text":
        half = len(block["text"]) // 2
        deltas: list[dict[str, Any]] = [
            {"type": "text_delta", "text": part} for part in (block["text"][:half], block["text"][half:])
        ]
        deltas += [{"type": "citations_delta", "citation": each} for each in block.get("citations") or ()]
        return {"type": "text", "text": ""}, deltas
    if kind == "thinking":
        half = len(block["thinking"]) // 2
        deltas = [
            {"type": "thinking_delta", "thinking": part}
            for part in (block["thinking"][:half], block["thinking"][half:])
        ]
        return {"type": "thinking", "thinking": "", "signature": ""}, [
            *deltas,
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    if kind in ("tool_use", "server_tool_use"):
        text = json.dumps(block["input"])
        half = len(text) // 2
        parts = ["", text[:half], text[half:]]
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in parts]
    return block, []


class Wire(WireServer):
    """The server of the testing kit, with answers in blocks."""

    message = staticmethod(message)

    def __init__(self) -> None:
        super().__init__(AnthropicDialect())

    def blocks(self, *blocks: dict[str, Any], **fields: Any) -> None:
        """An answer of these blocks, whole or as a stream."""
        body = message(*blocks, **fields)
        whole, stream = self._whole(body), self._stream(events(body))
        self.script.append(lambda handler: (stream if self.last["body"].get("stream") else whole)(handler))

    @property
    def begun(self) -> list[Any]:
        """A stream that stops after a word."""
        return AnthropicDialect().events(Said(pieces=["Hel", "lo."]))[:4]


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    for name in ("API_KEY", "AUTH_TOKEN", "BASE_URL", "CUSTOM_HEADERS"):
        monkeypatch.delenv(f"ANTHROPIC_{name}", raising=False)
    server = Wire()
    yield server
    server.close()


@pytest.fixture(scope="session")
def events_of() -> Callable[..., list[tuple[str, dict[str, Any]]]]:
    """The stream of an answer of these blocks."""
    return lambda *blocks: events(message(*blocks))


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> Colour:
    return Colour(request.param)


class QuickRetries(ChatAnthropic):
    retry_policy = RetryPolicy(first_s=0.001)


@pytest.fixture
def model(wire: Wire) -> Callable[..., ChatAnthropic]:
    """Makes a model that talks to the server; its retries hardly wait."""

    def make(**given: Any) -> ChatAnthropic:
        return QuickRetries(**{"model": "m", "api_key": KEY, "base_url": wire.base_url, **given})

    return make
