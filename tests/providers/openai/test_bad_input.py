"""What is wrong with a history or a setting is said before the network is touched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runwell.errors import InvalidHistory, InvalidInput, UnsupportedByProvider
from runwell.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.providers.openai import ChatDeepSeek, ChatGroq, ChatOpenAI
from runwell.testing.chat_wire import Colour
from runwell.testing.wire import OpenAIDialect, ResponsesDialect, WireServer

PIXEL = "iVBORw0KGgo="
CALL = {"name": "look", "args": {}, "id": "1", "type": "tool_call"}


@pytest.fixture(params=["chat", "responses"])
def model(request: pytest.FixtureRequest) -> Iterator[Any]:
    responses = request.param == "responses"
    with WireServer(ResponsesDialect() if responses else OpenAIDialect()) as wire:

        class AtOpenAI(ChatOpenAI):
            default_base_url = wire.base_url

        made = AtOpenAI(model="m", api_key="k", use_responses_api=responses)
        yield made
        assert wire.requests == []


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> Colour:
    return Colour(request.param)


def test_a_kind_that_it_does_not_take(model: Any) -> None:
    for film in (
        {"type": "video", "url": "https://x/y.mp4"},
        {"type": "media", "mime_type": "video/mp4", "data": PIXEL},
    ):
        with pytest.raises(InvalidHistory, match="Message 1, block 1: AtOpenAI takes no video") as caught:
            model.invoke([SystemMessage("Be brief."), HumanMessage([{"type": "text", "text": "What?"}, film])])
        assert "It takes image, " in str(caught.value)


def test_what_a_tool_gave_is_named_where_it_cannot_be_shown() -> None:
    """Nobody chose it, and a run must not end at its third turn because of it."""
    picture = {"type": "image", "base64": PIXEL, "mime_type": "image/png"}
    history = [HumanMessage("Look."), AIMessage("", tool_calls=[CALL]), ToolMessage([picture], tool_call_id="1")]  # type: ignore[list-item]
    with WireServer(OpenAIDialect()) as wire:
        wire.say("Dark.")
        model = ChatDeepSeek(model="m", api_key="k", base_url=wire.base_url)
        model.invoke(history)
        assert "of type image" in wire.asked.results["1"]
        with pytest.raises(InvalidHistory, match="takes no image"):
            model.invoke([HumanMessage([picture])])
        with pytest.raises(InvalidInput, match="at most 4 MB"):
            ChatGroq(model="m", api_key="k", base_url=wire.base_url).invoke(
                [HumanMessage([{**picture, "base64": "A" * 6_000_000}])]
            )
        assert len(wire.requests) == 1


@pytest.mark.parametrize(
    ("history", "told"),
    [
        ([HumanMessage("Hi"), ToolMessage("1", tool_call_id="1")], "message 1 is the result of call '1', which no"),
        ([HumanMessage("Hi"), AIMessage("", tool_calls=[CALL]), HumanMessage("And?")], "call '1' of message 1 has no"),  # type: ignore[list-item]
        (
            [HumanMessage("Hi"), AIMessage("", tool_calls=[CALL, CALL]), ToolMessage("1", tool_call_id="1")],  # type: ignore[list-item]
            "two calls of message 1 have the id '1'",
        ),
        (
            [
                HumanMessage("Hi"),
                AIMessage("Hm.", tool_calls=[CALL]),  # type: ignore[list-item]
                ToolMessage("1", tool_call_id="1"),
                ToolMessage("1", tool_call_id="1"),
            ],
            "second result of call '1'",
        ),
    ],
    ids=["orphan", "unanswered", "two under one id", "two results"],
)
def test_histories_that_no_model_takes(model: Any, colour: Colour, history: list[Any], told: str) -> None:
    with pytest.raises(InvalidHistory, match=told):
        colour.invoke(model, history)


def test_one_answer_a_call(model: Any, colour: Colour) -> None:
    for call in (colour.invoke, colour.stream):
        with pytest.raises(UnsupportedByProvider, match=r"n=2|n=2"):
            call(model, "Hi", n=2)
