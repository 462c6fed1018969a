"""A server that speaks Gemini's API, and models that talk to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runwell.models.retry import RetryPolicy
from runwell.providers.google import ChatGoogleGenerativeAI
from runwell.testing.chat_wire import Colour
from runwell.testing.wire import GoogleDialect, WireServer

KEY = "AIza-test-0123456789-secret"
USAGE = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}


class Wire(WireServer):
    """The server of the testing kit, with answers in parts."""

    def __init__(self) -> None:
        super().__init__(GoogleDialect())

    def parts(self, *parts: Any, finish: str | None = "STOP", top: Any = None, **facts: Any) -> None:
        """An answer of these parts; as a stream, one event each."""
        head = {"modelVersion": "served-model-1", "responseId": "r1", "usageMetadata": USAGE, **(top or {})}
        end = {"finishReason": finish, **facts} if finish else facts
        whole = self._whole({**head, "candidates": [{"content": {"parts": list(parts), "role": "model"}, **end}]})
        pieces = [{**head, "candidates": [{"content": {"parts": [part], "role": "model"}}]} for part in parts]
        stream = self._stream([*pieces, {**head, "candidates": [end]}])
        self.script.append(lambda handler: (stream if self.asked.stream else whole)(handler))


class Calls(Colour):
    """Calls a model in one colour, whole or as a stream."""

    def __init__(self, name: str) -> None:
        colour, _, self.form = name.partition(" ")
        super().__init__(colour)

    def __call__(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        if self.form == "stream":
            return self.whole(self.stream(model, *args, **kwargs))
        return self.invoke(model, *args, **kwargs)


class QuickRetries(ChatGoogleGenerativeAI):
    retry_policy = RetryPolicy(first_s=0.001)


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)
    with Wire() as server:
        yield server


@pytest.fixture(params=["sync", "async stream"])
def call(request: pytest.FixtureRequest) -> Calls:
    return Calls(request.param)


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> Colour:
    return Colour(request.param)


@pytest.fixture
def model(wire: Wire) -> Callable[..., ChatGoogleGenerativeAI]:
    """Makes a model that talks to the server; its retries hardly wait."""

    def make(**given: Any) -> ChatGoogleGenerativeAI:
        return QuickRetries(**{"model": "gemini-3-flash", "api_key": KEY, "base_url": wire.base_url, **given})

    return make
