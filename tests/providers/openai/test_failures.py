"""What goes wrong at the other end, and what the caller is told."""

from __future__ import annotations

import asyncio
import logging
import pickle
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from runwell.errors import (
    ContextOverflow,
    InvalidHistory,
    InvalidInput,
    ModelAuthenticationError,
    ModelBadRequest,
    ModelConnectionError,
    ModelError,
    ModelNotFound,
    ModelOverloaded,
    ModelRateLimitError,
    ModelRefusalError,
    ModelTimeout,
)
from runwell.messages import RemoveMessage
from runwell.observe import BaseCallbackHandler
from runwell.providers.openai import ChatOpenAI

Make = Callable[..., ChatOpenAI]
KEY = "sk-test-0123456789-secret"


class Retries(BaseCallbackHandler):
    def __init__(self) -> None:
        self.seen: list[tuple[int, type, float]] = []

    def on_retry(self, retry_state: Any, **kwargs: Any) -> None:
        self.seen.append((retry_state.attempt_number, type(retry_state.error), retry_state.wait))


def test_e8_a_rate_limited_call_waits_as_long_as_the_provider_asks(wire: Any, model: Make, colour: Any) -> None:
    wire.error(429, "slow down", retry_after="0.05")
    wire.error(503, "busy", retry_after_ms="20")
    wire.json(wire.completion())
    watching = Retries()
    assert colour.invoke(model(), "Hi", {"callbacks": [watching]}).text == "Hello."
    assert watching.seen == [(1, ModelRateLimitError, 0.05), (2, ModelOverloaded, 0.02)]


@pytest.mark.parametrize("streaming", [False, True])
def test_e8_two_retries_and_no_more(wire: Any, model: Make, colour: Any, streaming: bool) -> None:
    for _ in range(5):
        wire.error(500, "broken", x_request_id="req-9")
    with pytest.raises(ModelOverloaded, match="500: broken") as caught:
        (colour.stream if streaming else colour.invoke)(model(), "Hi")
    assert len(wire.requests) == 3
    assert (caught.value.status, caught.value.request_id) == (500, "req-9")


def test_e8_retries_are_ours_alone_and_can_be_turned_off(wire: Any, model: Make, colour: Any) -> None:
    for call in (model(max_retries=0), model().bind(max_retries=0), model().with_max_retries(0)):
        wire.error(529, "overloaded")
        with pytest.raises(ModelOverloaded):
            colour.invoke(call, "Hi")
    assert len(wire.requests) == 3
    assert "max_retries" not in wire.last["body"]


def test_a_stream_is_retried_before_its_first_chunk(wire: Any, model: Make, colour: Any) -> None:
    wire.events({"error": {"message": "hold on", "type": "server_error"}})
    wire.events(*wire.text, *wire.end)
    assert "".join(chunk.text for chunk in colour.stream(model(), "Hi")) == "Hello."


@pytest.mark.parametrize(
    ("status", "code", "message", "expected"),
    [
        (401, "invalid_api_key", "no such key", ModelAuthenticationError),
        (403, None, "not allowed", ModelAuthenticationError),
        (404, "model_not_found", "no such model", ModelNotFound),
        (400, None, "what is this", ModelBadRequest),
        (422, None, "what is this", ModelBadRequest),
        (400, "content_filter", "not nice", ModelRefusalError),
        (429, "insufficient_quota", "pay first", ModelRateLimitError),
        (429, "rate_limit_exceeded", "Request too large for m: Limit 10, Requested 20", ModelRateLimitError),
    ],
)
def test_what_cannot_pass_is_not_tried_again(
    wire: Any, model: Make, colour: Any, status: int, code: str | None, message: str, expected: type[ModelError]
) -> None:
    wire.error(status, message, code=code)
    with pytest.raises(expected, match=message) as caught:
        colour.invoke(model(), "Hi")
    assert type(caught.value) is expected
    assert not caught.value.retryable
    assert len(wire.requests) == 1


@pytest.mark.parametrize(
    ("body", "over"),
    [
        (
            {
                "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in "
                "9000 tokens. Please reduce the length of the messages.",
                "code": "context_length_exceeded",
            },
            808,
        ),
        (
            {
                "message": "the request exceeds the available context size, try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 700,
                "n_ctx": 512,
            },
            188,
        ),
        ({"message": "the prompt is too long for this model"}, None),
    ],
)
def test_f3_context_overflow_says_by_how_much(
    wire: Any, model: Make, colour: Any, body: dict[str, Any], over: int | None
) -> None:
    wire.json({"error": body}, 400)
    with pytest.raises(ContextOverflow) as caught:
        colour.invoke(model(), "Hi")
    assert caught.value.over == over


@pytest.mark.parametrize("streaming", [False, True])
def test_f2_no_answer_in_time(wire: Any, model: Make, colour: Any, streaming: bool) -> None:
    wire.hang()
    with pytest.raises(ModelTimeout, match="no answer in time"):
        (colour.stream if streaming else colour.invoke)(model(timeout=0.1, max_retries=0), "Hi")
    assert not wire.outwaited.is_set(), "the client waited until the server gave up"


def test_f2_a_stream_that_goes_silent(wire: Any, model: Make, colour: Any) -> None:
    wire.events(*wire.text, then="hang")
    chunks: list[Any] = []
    with pytest.raises(ModelTimeout, match=r"nothing more for 0\.15 s"):
        colour.stream(model(stream_idle_timeout=0.15), "Hi", into=chunks)
    assert [chunk.text for chunk in chunks] == ["Hel", "lo."]
    assert not wire.outwaited.is_set(), "the client waited until the server gave up"


def test_nobody_listens(wire: Any, model: Make, colour: Any) -> None:
    with pytest.raises(ModelConnectionError, match=r"127\.0\.0\.1:9"):
        colour.invoke(model(base_url="http://127.0.0.1:9/v1"), "Hi")


def test_the_connection_breaks_in_a_stream(wire: Any, model: Make, colour: Any) -> None:
    wire.events(*wire.text, then="cut")
    chunks: list[Any] = []
    with pytest.raises(ModelConnectionError):
        colour.stream(model(), "Hi", into=chunks)
    assert [chunk.text for chunk in chunks] == ["Hel", "lo."]
    assert len(wire.requests) == 1, "what the reader has seen is not asked for again"


def test_a_stream_that_ends_too_early_is_no_answer(wire: Any, model: Make, colour: Any) -> None:
    wire.events(*wire.text)
    with pytest.raises(ModelConnectionError, match="before the answer was complete"):
        colour.stream(model(), "Hi")


def test_an_error_in_the_middle_of_a_stream(wire: Any, model: Make, colour: Any) -> None:
    wire.events(*wire.text, {"error": {"message": "the GPU is on fire", "type": "server_error"}})
    with pytest.raises(ModelOverloaded, match="the GPU is on fire"):
        colour.stream(model(), "Hi")


@pytest.mark.parametrize("body", ['{"choices": [', "<html>Gateway</html>", "[]", '{"choices": []}'])
def test_an_answer_that_is_none(wire: Any, model: Make, colour: Any, body: str) -> None:
    wire.json(body)
    with pytest.raises(ModelError, match="not a chat completion"):
        colour.invoke(model(max_retries=0), "Hi")
    wire.json(body)
    wire.json(wire.completion())
    assert colour.invoke(model(), "Hi").text == "Hello."  # a proxy's hiccup passes


def test_a_stream_event_that_is_no_json(wire: Any, model: Make, colour: Any) -> None:
    wire.events(*wire.text, '{"choices": [{"del')
    with pytest.raises(ModelError, match="no JSON"):
        colour.stream(model(), "Hi")


def test_an_error_under_status_200(wire: Any, model: Make, colour: Any) -> None:
    wire.json({"error": {"message": "no such model", "type": "not_found_error"}})
    with pytest.raises(ModelNotFound, match="no such model"):
        colour.invoke(model(), "Hi")


def test_bad_input_never_reaches_the_network(wire: Any, model: Make, colour: Any) -> None:
    with pytest.raises(InvalidInput, match="no messages"):
        colour.invoke(model(), [])
    with pytest.raises(InvalidHistory, match="Message 1"):
        colour.invoke(model(), ["Hi", RemoveMessage(id="1")])
    with pytest.raises(InvalidInput, match=r"'ad'.*'add'"):
        model().bind_tools([{"name": "add", "parameters": {}}], tool_choice="ad")
    with pytest.raises(InvalidInput, match="http"):
        model(base_url="localhost:8000")
    with pytest.raises(InvalidInput, match=r"'temprature'.*'temperature'"):
        model(temprature=1)
    assert wire.requests == []


def test_the_key_is_shown_nowhere(wire: Any, model: Make, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    one = model(default_headers={"X-Api-Key": "hidden-header"})
    wire.error(401, f"Incorrect API key provided: {KEY}")
    with pytest.raises(ModelAuthenticationError) as caught:
        one.invoke("Hi")
    wire.error(401, f"Incorrect API key provided: {KEY}")
    with pytest.raises(ModelAuthenticationError):
        asyncio.run(one.ainvoke("Hi"))
    shown = [
        repr(one),
        str(one),
        repr(one.bind_tools([])),
        str(vars(one)),
        str(one._identifying_params),
        "".join(traceback.format_exception(caught.value)),
        repr(caught.value.args),
        caplog.text,
    ]
    for text in shown:
        assert KEY not in text
    assert "hidden-header" not in repr(one)
    assert "**********" in str(caught.value)


def test_a_model_can_be_pickled_and_still_calls(wire: Any, model: Make) -> None:
    wire.json(wire.completion())
    wire.json(wire.completion())
    one = ChatOpenAI(model="m", api_key=KEY, base_url=wire.base_url)
    assert one.invoke("Hi").text == "Hello."
    assert pickle.loads(pickle.dumps(one)).invoke("Hi").text == "Hello."
