"""What goes wrong with Gemini, and what must not be changed by the environment."""

from __future__ import annotations

import time
from typing import Any

import pytest

from runwell import init_chat_model
from runwell.errors import (
    ContextOverflow,
    MissingApiKey,
    MissingExtra,
    ModelAuthenticationError,
    ModelBadRequest,
    ModelError,
    ModelOverloaded,
    ModelRateLimitError,
)
from runwell.providers import vendor_model
from runwell.providers.google import ChatGoogleGenerativeAI

RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.08s"}


def status(code: int, message: str, *details: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": "RESOURCE_EXHAUSTED", "details": list(details)}}


def quota(name: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": name}]}


def test_e8_the_delay_that_google_names_is_waited_out(wire: Any, model: Any, call: Any) -> None:
    """E8"""
    wire.json(status(429, "slow down", quota("GenerateRequestsPerMinutePerProjectPerModel"), RETRY), 429)
    wire.parts({"text": "Hello."})
    started = time.monotonic()
    assert call(model(), "Hi").text == "Hello."
    assert time.monotonic() - started >= 0.08


def test_e8_a_long_delay_is_the_callers_to_decide(wire: Any, model: Any, colour: Any) -> None:
    """E8"""
    wire.json(status(429, "slow down", {**RETRY, "retryDelay": "3600s"}), 429)
    with pytest.raises(ModelRateLimitError) as caught:
        colour.invoke(model(), "Hi")
    assert caught.value.retry_after == 3600
    assert len(wire.requests) == 1


def test_e8_a_quota_for_the_day_is_not_tried_again(wire: Any, model: Any, colour: Any) -> None:
    """E8"""
    wire.json(status(429, "used up", quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier"), RETRY), 429)
    with pytest.raises(ModelRateLimitError, match="used up"):
        colour.invoke(model(), "Hi")
    assert len(wire.requests) == 1


def test_a_key_that_is_none(wire: Any, model: Any, colour: Any) -> None:
    """Google says so with status 400."""
    reason = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
    wire.json(status(400, "API key not valid. Please pass a valid API key.", reason), 400)
    with pytest.raises(ModelAuthenticationError, match="not valid") as caught:
        colour.invoke(model(), "Hi")
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("code", "kind"), [(400, ModelBadRequest), (403, ModelAuthenticationError), (504, ModelOverloaded)]
)
def test_errors_by_status(wire: Any, model: Any, colour: Any, code: int, kind: type[ModelError]) -> None:
    wire.json([status(code, "so it is")], code)  # as a list, the way streams have it
    with pytest.raises(kind, match="so it is"):
        colour.invoke(model(max_retries=0), "Hi")


def test_f3_too_long_where_the_size_is_not_told(wire: Any, model: Any, call: Any) -> None:
    """F3"""
    wire.json(status(400, "The input token count exceeds the maximum number of tokens allowed 1048576."), 400)
    with pytest.raises(ContextOverflow) as caught:
        call(model(), "Hi")
    assert caught.value.over is None


def test_an_error_in_a_stream(wire: Any, model: Any, colour: Any) -> None:
    begun = {"candidates": [{"content": {"parts": [{"text": "Hel"}]}}]}
    wire.events(begun, status(503, "overloaded"))
    chunks: list[Any] = []
    with pytest.raises(ModelOverloaded, match="overloaded"):
        colour.stream(model(), "Hi", into=chunks)
    assert [chunk.text for chunk in chunks] == ["Hel"]
    assert len(wire.requests) == 1
    wire.events(status(503, "overloaded"))
    wire.parts({"text": "Hello."})
    assert colour.whole(colour.stream(model(), "Hi")).text == "Hello.", "before the first chunk it is tried again"


def test_an_event_that_is_no_json(wire: Any, model: Any, colour: Any) -> None:
    wire.events("{nonsense")
    with pytest.raises(ModelError, match="no JSON"):
        colour.stream(model(max_retries=0), "Hi")


def test_an_error_with_status_200(wire: Any, model: Any, colour: Any) -> None:
    wire.json(status(429, "slow down"))
    with pytest.raises(ModelRateLimitError, match="slow down"):
        colour.invoke(model(max_retries=0), "Hi")


@pytest.mark.parametrize("body", ['"oops"', "3", "null", "[]", '{"error": "oops"}'])
def test_an_error_in_no_form_at_all(wire: Any, model: Any, colour: Any, body: str) -> None:
    wire.json(body, 503)
    with pytest.raises(ModelOverloaded):
        colour.invoke(model(max_retries=0), "Hi")


# -- the environment


def test_a3_no_variable_reroutes_or_pays(wire: Any, model: Any, colour: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A3"""
    for name, value in {
        "GOOGLE_GENAI_USE_VERTEXAI": "true",
        "GOOGLE_GENAI_USE_ENTERPRISE": "true",
        "GOOGLE_CLOUD_PROJECT": "somebody",
        "GOOGLE_CLOUD_LOCATION": "mars",
        "GOOGLE_GENAI_API_VERSION": "v9",
        "GOOGLE_GENAI_CLIENT_MODE": "replay",
        "GOOGLE_GENAI_REPLAYS_DIRECTORY": "/nowhere",
        "GOOGLE_GENAI_REPLAY_ID": "x",
        "GOOGLE_GENAI_HTTP_CLIENT": "httpx",
        "GOOGLE_API_USE_MTLS_ENDPOINT": "always",
        "GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:9",
        "GOOGLE_VERTEX_BASE_URL": "http://127.0.0.1:9",
        "GOOGLE_API_KEY": "AIza-somebodys",
    }.items():
        monkeypatch.setenv(name, value)
    wire.parts({"text": "Hello."})
    mine = model()
    assert colour.invoke(mine, "Hi").text == "Hello."
    assert type(mine._clients.plain(mine)._api).__name__ == "BaseApiClient", "none that replays"
    assert wire.last["path"] == "/v1beta/models/gemini-3-flash:generateContent"
    assert wire.last["headers"]["x-goog-api-key"] == "AIza-test-0123456789-secret"


def test_the_key_and_the_address_are_read_only_where_asked(wire: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingApiKey, match="GOOGLE_API_KEY"):
        init_chat_model("gemini-3-flash")
    monkeypatch.setenv("GEMINI_API_KEY", "AIza-second")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", wire.base_url)
    assert init_chat_model("google:gemini-3-flash").base_url == "https://generativelanguage.googleapis.com"
    for name, key in (("GEMINI_API_KEY", "AIza-second"), ("GOOGLE_API_KEY", "AIza-first")):
        monkeypatch.setenv(name, key)
        wire.parts({"text": "Hello."})
        assert init_chat_model("google_genai:gemini-3-flash", base_url="env").invoke("Hi").text == "Hello."
        assert wire.last["headers"]["x-goog-api-key"] == key


def test_names_that_mean_google(wire: Any) -> None:
    for name in ("google:gemini-3-flash", "google-genai:gemini-3-flash", "gemini-3-flash"):
        model = init_chat_model(name, api_key="k", base_url=wire.base_url)
        assert isinstance(model, ChatGoogleGenerativeAI)
        assert model.model == "gemini-3-flash"
    assert init_chat_model("gemini-3-flash", model_provider="google", api_key="k").provider == "google_genai"


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_a_client_of_your_own(wire: Any, model: Any, library: str) -> None:
    """Of either library that the SDK takes. It is yours to close."""
    from importlib import import_module

    client = import_module(library).Client(headers={"x-mine": "1"})
    for _ in range(2):
        wire.parts({"text": "Hel"}, {"text": "lo."})
    mine = model(http_client=client)
    assert mine.invoke("Hi").text == "Hello."
    assert "".join(chunk.text for chunk in mine.stream("Hi")) == "Hello."
    assert wire.last["headers"]["x-mine"] == "1"
    wire.hang()
    with pytest.raises(ModelError, match="in time"):
        model(http_client=client, timeout=0.05, max_retries=0).invoke("Hi")
    del mine
    assert not client.is_closed
    client.close()


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the package that holds it is missing too."""

    def find(name: str) -> None:
        raise ModuleNotFoundError("No module named 'google'", name="google")

    monkeypatch.setattr(vendor_model, "find_spec", find)
    with pytest.raises(MissingExtra, match=r"runwell\[google\]"):
        ChatGoogleGenerativeAI(model="m", api_key="k")
