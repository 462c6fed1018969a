"""What is Anthropic's own: thinking, citations, caching, tools that it runs, system messages, refusals, limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runwell.errors import (
    InvalidConfig,
    InvalidHistory,
    MissingApiKey,
    ModelConnectionError,
    ModelOverloaded,
    ModelRefusalError,
    UnsupportedByProvider,
)
from runwell.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.models import init_chat_model
from runwell.observe import DecisionLog
from runwell.providers.anthropic import ChatAnthropic

Make = Callable[..., ChatAnthropic]

THOUGHT = {"type": "thinking", "thinking": "They want a sum.", "signature": "c2ln"}
HIDDEN = {"type": "redacted_thinking", "data": "b3BhcXVl"}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1, "b": 2}}
SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "weather"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srv_1",
    "content": [{"type": "web_search_result", "url": "https://w.example", "title": "W", "encrypted_content": "eA=="}],
}
CITATION = {
    "type": "web_search_result_location",
    "cited_text": "Sunny.",
    "url": "https://w.example",
    "title": "W",
    "encrypted_index": "aQ==",
}
CITED = {"type": "text", "text": "It is sunny.", "citations": [CITATION]}
OF_A_DOCUMENT = {
    "type": "char_location",
    "cited_text": "Sunny.",
    "document_index": 0,
    "document_title": "Sky",
    "start_char_index": 0,
    "end_char_index": 6,
}


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def both(wire: Any, model: Any, colour: Any, given: Any, *blocks: Any, **fields: Any) -> AIMessage:
    """The answer, which must be the same streamed and whole."""
    wire.blocks(*blocks, **fields)
    answer = colour.invoke(model, given)
    wire.blocks(*blocks, **fields)
    streamed = colour.whole(colour.stream(model, given))
    answer.response_metadata.pop("request_id", None)
    for name in ("content", "tool_calls", "usage_metadata", "additional_kwargs", "response_metadata"):
        assert getattr(streamed, name) == getattr(answer, name), name
    assert streamed.content_blocks == answer.content_blocks
    return answer


@pytest.mark.parametrize(
    "blocks",
    [
        [THOUGHT, {"type": "text", "text": "Let me see."}, CALL],
        [THOUGHT, HIDDEN, CALL, {**CALL, "id": "toolu_2"}],
        [{"type": "text", "text": "I look."}, SEARCH, FOUND, CITED, {"type": "text", "text": "Bye."}],
        [{**CALL, "caller": {"type": "code_execution_20250825", "tool_id": "srv_1"}}],
        [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}],
        [{"type": "text", "text": "One."}, CALL],
    ],
    ids=["thinking", "redacted", "server tool", "caller", "two texts", "plain"],
)
def test_what_came_goes_back_as_it_came(wire: Any, model: Make, colour: Any, blocks: list[Any]) -> None:
    answer = both(wire, model().bind_tools([add]), colour, "Hi", *blocks)
    results = [ToolMessage("3", tool_call_id=call["id"] or "") for call in answer.tool_calls]
    wire.say("Done.")
    colour.invoke(model(), [HumanMessage("Hi"), answer, *results, HumanMessage("And?")])
    assert wire.last["body"]["messages"][1] == {"role": "assistant", "content": blocks}


def test_thoughts_are_reasoning_blocks(wire: Any, model: Make, colour: Any) -> None:
    answer = both(wire, model(), colour, "Hi", THOUGHT, {"type": "text", "text": "Three."})
    assert answer.text == "Three."
    assert answer.content_blocks[0] == {
        "type": "reasoning",
        "reasoning": "They want a sum.",
        "extras": {"signature": "c2ln"},
    }
    # in the standard form too it goes back signed
    wire.say("Done.")
    colour.invoke(model(), [HumanMessage("Hi"), AIMessage(answer.content_blocks), HumanMessage("And?")])
    assert wire.last["body"]["messages"][1]["content"] == [THOUGHT, {"type": "text", "text": "Three."}]


def test_thoughts_of_other_models_are_not_sent(wire: Any, model: Make) -> None:
    wire.say("Done.")
    thought = {"type": "reasoning", "reasoning": "Hm.", "id": "rs_1"}
    model().invoke([HumanMessage("Hi"), AIMessage([thought, {"type": "text", "text": "Yes."}]), HumanMessage("And?")])
    assert wire.last["body"]["messages"][1]["content"] == [{"type": "text", "text": "Yes."}]


def test_citations_of_a_document(wire: Any, model: Make, colour: Any) -> None:
    document = {"type": "text-plain", "text": "Sunny.", "mime_type": "text/plain", "title": "Sky"}
    asked = HumanMessage(
        [{**document, "extras": {"citations": {"enabled": True}}}, {"type": "text", "text": "Weather?"}]
    )
    cited = {"type": "text", "text": "It is sunny.", "citations": [OF_A_DOCUMENT]}
    answer = both(wire, model(), colour, [asked], cited)
    assert wire.last["body"]["messages"][0]["content"][0] == {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "Sunny."},
        "title": "Sky",
        "citations": {"enabled": True},
    }
    [note] = answer.content_blocks[0]["annotations"]  # type: ignore[typeddict-item]
    assert (note["type"], note["cited_text"], note["title"]) == ("citation", "Sunny.", "Sky")
    wire.say("Done.")
    colour.invoke(model(), [asked, AIMessage(answer.content_blocks), HumanMessage("And?")])
    assert wire.last["body"]["messages"][1]["content"] == [cited]


def test_marks_for_the_prompt_cache_are_passed_on(wire: Any, model: Make, colour: Any) -> None:
    mark = {"type": "ephemeral", "ttl": "1h"}
    tool = {"name": "add", "description": "Add.", "input_schema": {"type": "object", "properties": {}}}
    wire.blocks(
        {"type": "text", "text": "Hello."},
        usage={
            "input_tokens": 5,
            "cache_creation_input_tokens": 100,
            "cache_read_input_tokens": 40,
            "output_tokens": 7,
            "output_tokens_details": {"thinking_tokens": 2},
        },
    )
    answer = colour.invoke(
        model(cache_control=mark).bind_tools([{**tool, "cache_control": mark}]),
        [
            SystemMessage([{"type": "text", "text": "Be brief.", "cache_control": mark}]),
            HumanMessage([{"type": "image", "base64": "aGk=", "mime_type": "image/png", "cache_control": mark}]),
            AIMessage("", tool_calls=[{"name": "add", "args": {}, "id": "1", "type": "tool_call"}]),
            ToolMessage([{"type": "text", "text": "3", "cache_control": mark}], tool_call_id="1"),
        ],
    )
    body = wire.last["body"]
    assert body["cache_control"] == mark
    assert body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": mark}]
    assert body["messages"][0]["content"][0]["cache_control"] == mark
    assert body["messages"][2]["content"][0]["content"][0]["cache_control"] == mark
    assert body["tools"] == [{**tool, "cache_control": mark}]
    assert answer.usage_metadata == {
        "input_tokens": 145,
        "output_tokens": 7,
        "total_tokens": 152,
        "input_token_details": {"cache_creation": 100, "cache_read": 40},
        "output_token_details": {"reasoning": 2},
    }


def test_b9_a_system_message_in_the_middle(wire: Any, model: Make, colour: Any) -> None:
    """B9: in place where the model takes it, otherwise at the top, and the decision is recorded."""
    history = [
        SystemMessage("Be brief."),
        HumanMessage("Hi"),
        AIMessage("Hello."),
        HumanMessage("And?"),
        SystemMessage("Speak German."),
    ]
    log = DecisionLog()
    wire.say("Ja.")
    colour.invoke(model(), history, {"callbacks": [log]})
    assert wire.last["body"]["system"] == [
        {"type": "text", "text": "Be brief."},
        {"type": "text", "text": "Speak German."},
    ]
    assert [turn["role"] for turn in wire.last["body"]["messages"]] == ["user", "assistant", "user"]
    [taken] = log.of("B9")
    assert taken.outcome == "moved to the top"
    assert "message 4" in taken.reason

    log.clear()
    wire.say("Ja.")
    colour.invoke(model(model="claude-opus-4-8"), history, {"callbacks": [log]})
    assert wire.last["body"]["system"] == "Be brief."
    assert wire.last["body"]["messages"][-1] == {"role": "system", "content": "Speak German."}
    assert log.of("B9") == []


def test_an_answers_limit(wire: Any, model: Make) -> None:
    for given, limit in (({}, 4096), ({"model": "claude-haiku-4-5-20251001"}, 64_000), ({"max_tokens": 7}, 7)):
        wire.say("Hello.")
        model(**given).invoke("Hi")
        assert wire.last["body"]["max_tokens"] == limit
    wire.say("Hello.")
    model().invoke("Hi", max_tokens=9)
    assert wire.last["body"]["max_tokens"] == 9
    with pytest.raises(InvalidConfig, match="budget of 5000"):
        model(thinking={"type": "enabled", "budget_tokens": 5000})


def test_a_refusal(wire: Any, model: Make, colour: Any) -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "No recipes."}
    answer = both(wire, model(), colour, "Hi", stop="refusal", stop_details=details)
    assert answer.additional_kwargs["refusal"] == "No recipes. (bio)"
    assert answer.response_metadata["finish_reason"] == "content_filter"
    assert answer.response_metadata["stop_details"] == details
    wire.blocks(stop="refusal", stop_details=details)
    with pytest.raises(ModelRefusalError, match="No recipes"):
        colour.invoke(model().with_structured_output({"title": "A", "type": "object", "properties": {}}), "Hi")
    # what was refused says nothing, and is no turn of its own in the next request
    wire.say("Yes.")
    colour.invoke(model(), [HumanMessage("Hi"), answer, HumanMessage("And?")])
    assert [turn["role"] for turn in wire.last["body"]["messages"]] == ["user", "user"]


def test_structured_output_and_effort(wire: Any, model: Make, colour: Any) -> None:
    schema = {"title": "A", "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    wire.say('{"a": 1}')
    assert colour.invoke(model(effort="low").with_structured_output(schema, method="json_schema"), "Hi") == {"a": 1}
    config = wire.last["body"]["output_config"]
    assert config["effort"] == "low"
    assert config["format"]["type"] == "json_schema"
    assert config["format"]["schema"]["additionalProperties"] is False


def test_a_model_that_thinks_cannot_be_made_to_call(wire: Any, model: Make) -> None:
    thinking = model(thinking={"type": "enabled", "budget_tokens": 1024})
    with pytest.raises(UnsupportedByProvider, match="while they think"):
        thinking.bind_tools([add], tool_choice="any")
    with pytest.raises(UnsupportedByProvider, match="while they think"):
        thinking.with_structured_output({"title": "A", "type": "object", "properties": {}}).invoke("Hi")
    assert wire.requests == []


def test_tools_that_anthropic_runs_betas_and_headers(wire: Any, model: Make, colour: Any) -> None:
    wire.say("Hello.")
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
    colour.invoke(
        model(betas=["files-api-2025-04-14", "x"]).bind_tools([search, add]), "Hi", extra_headers={"X-Mine": "1"}
    )
    assert wire.last["body"]["tools"][0] == search
    assert wire.last["body"]["tools"][1]["name"] == "add"
    assert wire.last["headers"]["anthropic-beta"] == "files-api-2025-04-14,x"
    assert wire.last["headers"]["x-mine"] == "1"
    assert wire.last["path"] == "/v1/messages"


def test_a_call_that_was_changed_goes_as_it_is_now(wire: Any, model: Make) -> None:
    """A person who edits a call edits `tool_calls`; the block in the content follows."""
    answer = AIMessage(
        [THOUGHT, {"type": "tool_call", "name": "add", "args": {"a": 1, "b": 2}, "id": "1"}],
        tool_calls=[{"name": "add", "args": {"a": 5, "b": 2}, "id": "1", "type": "tool_call"}],
    )
    wire.say("Seven.")
    model().invoke([HumanMessage("Hi"), answer, ToolMessage("7", tool_call_id="1")])
    assert wire.last["body"]["messages"][1]["content"][1]["input"] == {"a": 5, "b": 2}


def test_a_broken_call_of_another_model_is_sent_with_its_result(wire: Any, model: Make) -> None:
    broken = {"name": "add", "args": '{"a": ', "id": "1", "error": "cut", "type": "invalid_tool_call"}
    wire.say("Sorry.")
    history = [HumanMessage("Hi"), AIMessage("", invalid_tool_calls=[broken]), ToolMessage("cut", tool_call_id="1")]
    model().invoke(history)
    assert wire.last["body"]["messages"][1]["content"] == [
        {"type": "tool_use", "id": "1", "name": "add", "input": {"malformed_arguments": '{"a": '}}
    ]


@pytest.mark.parametrize(("kind", "expected"), [("overloaded_error", ModelOverloaded), ("api_error", ModelOverloaded)])
def test_an_error_in_the_middle_of_a_stream(
    wire: Any, model: Make, colour: Any, kind: str, expected: type[Exception]
) -> None:
    wire.events(*wire.begun, ("error", {"type": "error", "error": {"type": kind, "message": "on fire"}}))
    chunks: list[Any] = []
    with pytest.raises(expected, match="on fire"):
        colour.stream(model(), "Hi", into=chunks)
    assert [chunk.text for chunk in chunks] == ["Hel"]


def test_broken_arguments_of_a_call_in_a_stream(wire: Any, model: Make, colour: Any) -> None:
    start = {"type": "content_block_start", "index": 0, "content_block": {**CALL, "input": {}}}
    delta = {"type": "input_json_delta", "partial_json": '{"a": '}
    wire.events(
        wire.begun[0],
        ("content_block_start", start),
        ("content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}),
        ("message_delta", {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {}}),
    )
    whole = colour.whole(colour.stream(model(), "Hi"))
    assert whole.tool_calls == []
    assert whole.invalid_tool_calls[0]["args"] == '{"a": '


def test_a_stream_event_that_is_no_json(wire: Any, model: Make, colour: Any) -> None:
    wire.events(*wire.begun, ("content_block_delta", '{"type": "cont'))
    with pytest.raises(Exception, match="no JSON"):
        colour.stream(model(), "Hi")


def test_an_empty_message_is_told_by_its_place(wire: Any, model: Make) -> None:
    with pytest.raises(InvalidHistory, match="Message 1, a HumanMessage, is empty"):
        model().invoke([HumanMessage("Hi"), HumanMessage("")])
    assert wire.requests == []


def test_a3_environment_variables_add_nothing(
    wire: Any, model: Make, colour: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A3"""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "stolen")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "Authorization: Bearer stolen\nX-Extra: env")
    monkeypatch.setenv("ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE", "content")
    wire.say("Hello.")
    colour.invoke(model(default_headers={"X-Mine": "yes"}), "Hi")
    headers = wire.last["headers"]
    assert "stolen" not in str(headers)
    assert "sk-ant-test" in str(headers)
    assert headers["x-mine"] == "yes"
    assert not {"x-extra", "traceparent"} & headers.keys()


def test_init_chat_model(wire: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingApiKey, match="ANTHROPIC_API_KEY"):
        init_chat_model("anthropic:claude-opus-5")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-env")
    model = init_chat_model("claude-opus-5", base_url=wire.base_url)
    assert type(model) is ChatAnthropic
    wire.say("Hello.")
    assert model.invoke("Hi").text == "Hello."
    assert wire.asked.model == "claude-opus-5"
    named = ChatAnthropic(model_name="m", anthropic_api_key="k", max_tokens_to_sample=3, stop_sequences=["x"])
    assert (named.model, named.max_tokens, named.stop) == ("m", 3, ["x"])
    assert "sk-env" not in repr(model)


def test_a_stream_without_its_last_event_is_no_answer(wire: Any, model: Make, colour: Any) -> None:
    wire.events(*wire.begun)
    with pytest.raises(ModelConnectionError, match="before the answer was complete"):
        colour.stream(model(), "Hi")
