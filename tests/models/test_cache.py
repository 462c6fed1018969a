"""Answers given again to the same question, and to no other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runwell.messages import AIMessage, HumanMessage
from runwell.models import InMemoryCache, InMemoryRateLimiter
from runwell.testing import FakeChatModel

ADD = {"name": "add", "parameters": {"type": "object", "properties": {}}}
SUB = {"name": "sub", "parameters": {"type": "object", "properties": {}}}


def counting(**given: Any) -> FakeChatModel:
    model = FakeChatModel(**given, cache=InMemoryCache())
    model.responses.extend(str(number) for number in range(20))
    return model


def test_run_12_tools_and_their_choice_are_part_of_the_question() -> None:
    model = counting()
    calls = [
        model.bind_tools([ADD], tool_choice="none"),
        model.bind_tools([ADD], tool_choice="required"),
        model.bind_tools([SUB], tool_choice="none"),
        model.bind(response_format={"type": "json_object"}),
        model.bind(stop=["x"]),
        model.bind(temperature=0.3),
        model,
    ]
    first = [call.invoke("Hi").text for call in calls]
    assert first == [str(number) for number in range(len(calls))]
    assert [call.invoke("Hi").text for call in calls] == first


def test_an_answer_given_again_is_a_message_of_its_own() -> None:
    model = counting()
    first, second = model.invoke("Hi"), asyncio.run(model.ainvoke([HumanMessage("Hi", id="other")]))
    assert first.text == second.text
    assert first.id != second.id
    assert second.usage_metadata is None
    assert len(model.requests) == 1


def test_models_of_other_settings_do_not_share() -> None:
    cache = InMemoryCache()
    one, two = FakeChatModel(["1"], cache=cache, model="a"), FakeChatModel(["2"], cache=cache, model="b")
    assert [one.invoke("Hi").text, two.invoke("Hi").text] == ["1", "2"]


def test_what_does_not_change_an_answer_is_no_part_of_the_question() -> None:
    cache = InMemoryCache()
    one = FakeChatModel(["1"], cache=cache)
    other = FakeChatModel(
        ["1"], cache=cache, max_retries=5, tags=["x"], metadata={"y": 1}, rate_limiter=InMemoryRateLimiter(), name="z"
    )
    assert [one.invoke("Hi").text, other.invoke("Hi").text] == ["1", "1"]
    assert other.requests == []


def test_streams_use_the_cache_too() -> None:
    model = counting()
    assert "".join(chunk.text for chunk in model.stream("Hi")) == "0"
    assert "".join(chunk.text for chunk in model.stream("Hi")) == "0"


def test_failures_are_not_kept() -> None:
    model = FakeChatModel([ValueError("x"), "ok"], cache=InMemoryCache())
    with pytest.raises(ValueError, match="x"):
        model.invoke("Hi")
    assert model.invoke("Hi").text == "ok"


def test_the_memory_is_bounded() -> None:
    cache = InMemoryCache(maxsize=2)
    for number in range(3):
        cache.update(str(number), "m", [AIMessage(str(number))])
    assert [cache.lookup(str(number), "m") is not None for number in range(3)] == [False, True, True]
    cache.clear()
    assert cache.lookup("2", "m") is None
