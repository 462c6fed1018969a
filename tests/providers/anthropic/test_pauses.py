"""A turn that Anthropic pauses (`pause_turn`) goes on by itself, and comes as one message."""

from __future__ import annotations

from typing import Any

import pytest

from runwell import create_agent
from runwell.messages import AIMessage, HumanMessage

SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"type": "web_search_result"}]}
AGAIN = {"type": "server_tool_use", "id": "srv_2", "name": "web_search", "input": {"query": "y"}}
FOUND_AGAIN = {"type": "web_search_tool_result", "tool_use_id": "srv_2", "content": []}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def answered(colour: Any, model: Any, streamed: bool) -> AIMessage:
    if not streamed:
        return colour.invoke(model, "Look it up.")
    chunks = colour.stream(model, "Look it up.")
    assert [chunk.chunk_position for chunk in chunks].count("last") == 1
    assert chunks[-1].chunk_position == "last"
    assert len({chunk.id for chunk in chunks}) == 1
    return colour.whole(chunks)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_the_halves_of_a_turn_are_one_answer(streamed: bool, wire: Any, model: Any, colour: Any) -> None:
    container = {"id": "cntr_1", "expires_at": "2027-01-01T00:00:00Z"}
    wire.blocks(text("Let me see."), SEARCH, FOUND, stop="pause_turn", container=container)
    wire.blocks(AGAIN, FOUND_AGAIN, stop="pause_turn")
    wire.blocks(text("It is sunny."))
    answer = answered(colour, model(), streamed)
    assert answer.text == "Let me see.It is sunny."
    assert [block["type"] if isinstance(block, dict) else "text" for block in answer.content] == [
        *("text", "server_tool_use", "web_search_tool_result", "server_tool_use", "web_search_tool_result", "text"),
    ]
    assert answer.response_metadata["finish_reason"] == "stop"
    assert answer.usage_metadata["input_tokens"] == 27  # type: ignore[index]
    assert len(wire.requests) == 3
    sent = wire.requests[2]["body"]["messages"]
    assert [turn["role"] for turn in sent] == ["user", "assistant"], "the turn goes back as one"
    assert [block["type"] for block in sent[1]["content"]] == [
        *("text", "server_tool_use", "web_search_tool_result", "server_tool_use", "web_search_tool_result"),
    ]
    if not streamed:
        assert wire.requests[1]["body"]["container"] == "cntr_1", "code goes on where it began"


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_call_after_a_pause_is_a_call(streamed: bool, wire: Any, model: Any, colour: Any) -> None:
    wire.blocks(SEARCH, FOUND, stop="pause_turn")
    call = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}}
    wire.blocks(text("So."), call, stop="tool_use")
    answer = answered(colour, model(), streamed)
    assert [(each["name"], each["args"]) for each in answer.tool_calls] == [("add", {"a": 1})]
    assert answer.response_metadata["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_it_goes_on_so_often_and_no_further(streamed: bool, wire: Any, model: Any, colour: Any) -> None:
    for _ in range(3):
        wire.blocks(SEARCH, FOUND, stop="pause_turn")
    answer = answered(colour, model(max_pauses=2), streamed)
    assert answer.response_metadata["finish_reason"] == "pause_turn"
    assert len(wire.requests) == 3
    wire.blocks(SEARCH, FOUND, stop="pause_turn")
    assert answered(colour, model(max_pauses=0), streamed).response_metadata["finish_reason"] == "pause_turn"
    wire.blocks(text("Done."))
    history = [HumanMessage("Look it up."), answer]
    assert colour.invoke(model(), [*history, HumanMessage("And?")]).text == "Done."


def test_an_agent_does_not_notice(wire: Any, model: Any) -> None:
    wire.blocks(SEARCH, FOUND, stop="pause_turn")
    wire.blocks(text("It is sunny."))
    state = create_agent(model(), []).invoke({"messages": "Weather?"})
    assert [message.type for message in state["messages"]] == ["human", "ai"]
    assert state["messages"][-1].text == "It is sunny."
