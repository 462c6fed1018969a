"""Whose turn it is: whatever the order of messages, each vendor gets turns that it takes, and nothing said is lost."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runwell.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from runwell.testing import WireServer

from .test_own_blocks import DIALECTS, Vendor

CALL: Any = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}
FOREIGN: Any = {"type": "server_tool_call", "name": "web_search", "id": "w", "args": {}} | {
    "extras": {"block_type": "web_search_call"}
}


@pytest.fixture(scope="module")
def wires() -> Iterator[dict[str, WireServer]]:
    servers = {name: WireServer(dialect) for name, dialect in DIALECTS.items()}
    yield servers
    for server in servers.values():
        server.close()


def turns(vendor: Vendor, *messages: BaseMessage) -> list[dict[str, Any]]:
    vendor.sent(*messages)
    body = vendor.wire.last["body"]
    found: list[dict[str, Any]] = body.get("messages") or body.get("input") or body.get("contents")
    return found


@pytest.mark.parametrize("name", ["anthropic", "bedrock_converse", "google_genai"])
@pytest.mark.parametrize("first", [[], [HumanMessage(" ")]], ids=["nothing", "blanks"])
def test_a_person_begins_where_the_vendor_wants_it(
    name: str, first: list[BaseMessage], wires: dict[str, WireServer]
) -> None:
    vendor = Vendor(name, wires[name])
    sent = turns(vendor, *first, AIMessage("Hello, I am Bob."), HumanMessage("Hi, Bob."))
    assert [turn["role"] for turn in sent] == ["user", "model" if name == "google_genai" else "assistant", "user"]
    assert "(The conversation begins.)" in str(sent[0])
    assert any("a turn of the user's was put before the first answer" in told for told in vendor.watch.told)


@pytest.mark.parametrize("name", ["openai", "responses", "mistralai", "cohere", "ollama"])
def test_an_answer_begins_where_it_may(name: str, wires: dict[str, WireServer]) -> None:
    sent = turns(Vendor(name, wires[name]), AIMessage("Hello, I am Bob."), HumanMessage("Hi, Bob."))
    assert [turn["role"] for turn in sent] == ["assistant", "user"]


def test_mistral_is_given_an_answer_between_a_tool_and_a_person(wires: dict[str, WireServer]) -> None:
    vendor = Vendor("mistralai", wires["mistralai"])
    called = AIMessage("", tool_calls=[CALL])
    sent = turns(vendor, HumanMessage("Hi"), called, ToolMessage("7", tool_call_id="c1"), HumanMessage("Stop."))
    assert [turn["role"] for turn in sent] == ["user", "assistant", "tool", "assistant", "user"]
    assert sent[3]["content"] == "(There was no answer.)"
    assert any("between a tool's result and what the user says" in told for told in vendor.watch.told)


@pytest.mark.parametrize("empty", ["", [], [FOREIGN]], ids=["text", "blocks", "foreign"])
@pytest.mark.parametrize("name", list(DIALECTS))
def test_an_answer_that_says_nothing_stops_no_conversation(name: str, empty: Any, wires: dict[str, WireServer]) -> None:
    said = AIMessage(empty, response_metadata={"model_provider": "openai"})
    for turn in turns(Vendor(name, wires[name]), HumanMessage("Hi"), said, HumanMessage("And?")):
        if turn.get("role") in ("assistant", "model"):
            assert turn.get("content", turn.get("parts")) != []
            assert name != "mistralai" or turn["content"] == "(There was no answer.)"


TURN = st.sampled_from(["person", "answer", "nothing", "call"])


@pytest.mark.parametrize("name", list(DIALECTS))
@settings(max_examples=15, deadline=None)
@given(kinds=st.lists(TURN, max_size=6))
def test_any_order_is_one_that_the_vendor_takes(name: str, kinds: list[str], wires: dict[str, WireServer]) -> None:
    history: list[BaseMessage] = []
    for place, kind in enumerate(kinds):
        call: Any = {**CALL, "id": f"call_{place}"}
        history += {
            "person": [HumanMessage(f"said {place}.")],
            "answer": [AIMessage(f"said {place}.")],
            "nothing": [AIMessage("")],
            "call": [AIMessage("", tool_calls=[call]), ToolMessage(f"said {place}.", tool_call_id=call["id"])],
        }[kind]
    sent = turns(Vendor(name, wires[name]), *history, HumanMessage("The end."))
    assert all(f"said {place}." in str(sent) for place, kind in enumerate(kinds) if kind != "nothing")
    roles = [turn.get("role", turn.get("type")) for turn in sent]
    if name in ("anthropic", "bedrock_converse", "google_genai"):
        assert roles[0] == "user"
    if name in ("bedrock_converse",):
        assert all(one != two for one, two in pairwise(roles))
    if name == "google_genai":
        assert ("model", "model") not in set(pairwise(roles))
    if name == "mistralai":
        assert ("tool", "user") not in set(pairwise(roles))
        assert all(turn["content"] or turn.get("tool_calls") for turn in sent)
