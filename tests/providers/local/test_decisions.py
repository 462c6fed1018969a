"""Which tool is called next, and when the model answers: on a scripted engine, so that every branch is walked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwell.errors import InvalidHistory, InvalidInput, UnsupportedByProvider
from runwell.messages import AIMessage, HumanMessage, ToolMessage
from runwell.providers.local import LocalChatModel, LocalRuntime
from runwell.providers.local.completion import Settings
from runwell.providers.local.grammar import constrainable
from runwell.providers.local.toolcalls import may_hold_several, tidy_parts
from runwell.providers.local.transcript import read

from .conftest import ScriptedEngine, tool

Scripted = Callable[..., ScriptedEngine]

ADD, CLOCK, FIND = tool("add", "a", "b"), tool("clock"), tool("find", "query")
TOOLS = [ADD, CLOCK, FIND]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def called(name: str, arguments: dict[str, Any], result: str, id: str = "c1") -> list[dict[str, Any]]:
    call = {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": id, "content": result},
    ]


def says(name: str, **arguments: Any) -> str:
    return json.dumps({"name": name, "arguments": arguments})


ANSWER = json.dumps({"name": "answer"})


def branches(engine: ScriptedEngine, place: int = -1) -> list[str]:
    """The names the engine was allowed to choose from."""
    schema = engine.asked[place].schema
    assert schema is not None
    return [branch["properties"]["name"]["const"] for branch in schema["anyOf"]]


def ask(messages: list[dict[str, Any]], **options: Any) -> tuple[str, list[tuple[str, dict[str, Any]]], str]:
    text, calls, end = LocalRuntime("smollm2-135m").complete(messages, tools=TOOLS, **options)
    return text, [(call.name, json.loads(call.arguments)) for call in calls], end.reason


def test_a_call_is_one_constrained_choice(scripted: Scripted) -> None:
    engine = scripted(says("find", query="x"))
    assert ask([user("Find x")]) == ("", [("find", {"query": "x"})], "tool_calls")
    assert sorted(branches(engine)) == ["add", "answer", "clock", "find"]
    assert engine.asked[0].temperature == 0


def test_an_answer_after_the_choice(scripted: Scripted) -> None:
    engine = scripted(ANSWER, "Hello\nthere")
    assert ask([user("Hi")]) == ("Hello\nthere", [], "stop")
    assert engine.asked[-1].messages == [user("Hi")]
    assert engine.asked[-1].schema is None


def test_one_part_is_served_by_one_call(scripted: Scripted) -> None:
    engine = scripted(says("add", a="1", b="2"), "It is 3.")
    text, calls, _ = ask([user("1+2?"), *called("add", {"a": "1", "b": "2"}, "3")])
    assert (text, calls) == ("It is 3.", [])
    final = engine.asked[-1].messages[-1]["content"]
    assert "Question: 1+2?" in final
    assert "Tool result from add" in final
    assert final.endswith("Answer:")


def test_several_parts_are_served_one_after_the_other(scripted: Scripted) -> None:
    request = user("Add 1 and 2, then tell me the time")
    parts = json.dumps(["Add 1 and 2", "Tell me the time"])
    runtime = LocalRuntime("smollm2-135m")
    engine = scripted(parts, says("add", a="1", b="2"), says("clock"), "3, at noon.")
    _, first, _ = runtime.complete([request], tools=TOOLS)
    history = [request, *called("add", {"a": "1", "b": "2"}, "3")]
    _, second, _ = runtime.complete(history, tools=TOOLS)
    assert 'Known: add({"a": "1", "b": "2"}) gave 3' in engine.asked[-1].messages[-1]["content"]
    history += called("clock", {}, "noon", "c2")
    text, third, _ = runtime.complete(history, tools=TOOLS)
    assert [call.name for call in first + second] == ["add", "clock"]
    assert (text, third) == ("3, at noon.", [])
    assert engine.answers == []


def test_a_fresh_process_decides_the_same(scripted: Scripted) -> None:
    parts = json.dumps(["Add 1 and 2", "Tell me the time"])
    scripted(parts, says("add", a="1", b="2"), says("clock"))
    history = [user("Add 1 and 2, then tell me the time"), *called("add", {"a": "1", "b": "2"}, "3")]
    assert ask(history)[1] == [("clock", {})]


def test_arguments_that_a_person_edited_count_as_served(scripted: Scripted) -> None:
    scripted(says("add", a="1", b="2"), "It is 30.")
    history = [user("1+2?"), *called("add", {"a": "10", "b": "20"}, "30")]
    assert ask(history) == ("It is 30.", [], "stop")


def test_no_call_is_made_twice_with_the_same_arguments(scripted: Scripted) -> None:
    parts = json.dumps(["Find x", "Find x again"])
    engine = scripted(parts, says("find", query="x"), says("find", query="x"), ANSWER, "done")
    assert ask([user("Find x, and find x again"), *called("find", {"query": "x"}, "here")])[1] == []
    assert "find" not in branches(engine, 3)


def test_a_tool_without_arguments_is_not_offered_again(scripted: Scripted) -> None:
    parts = json.dumps(["the time", "the time again"])
    engine = scripted(parts, says("clock"), ANSWER, "noon")
    assert ask([user("The time, and the time again"), *called("clock", {}, "noon")])[1] == []
    assert "clock" not in branches(engine, 2)


def test_parallel_calls_come_together(scripted: Scripted) -> None:
    scripted(json.dumps(["Add 1 and 2", "Tell me the time"]), says("add", a="1", b="2"), says("clock"))
    calls = ask([user("Add 1 and 2, and tell me the time")], parallel_tool_calls=True)[1]
    assert calls == [("add", {"a": "1", "b": "2"}), ("clock", {})]


@pytest.mark.parametrize("choice", ["any", "required"])
def test_a_forced_choice_cannot_answer(scripted: Scripted, choice: str) -> None:
    engine = scripted(says("clock"))
    assert ask([user("Hi")], tool_choice=choice)[1] == [("clock", {})]
    assert "answer" not in branches(engine)


def test_a_forced_choice_takes_an_unused_tool_when_all_is_served(scripted: Scripted) -> None:
    engine = scripted(says("find", query="x"), says("add", a="1", b="2"))
    calls = ask([user("Find x"), *called("find", {"query": "x"}, "here")], tool_choice="any")[1]
    assert calls == [("add", {"a": "1", "b": "2"})]
    assert sorted(branches(engine)) == ["add", "clock"]


@pytest.mark.parametrize("choice", ["clock", {"type": "function", "function": {"name": "clock"}}])
def test_a_named_choice(scripted: Scripted, choice: Any) -> None:
    engine = scripted(says("clock"))
    assert ask([user("Hi, and hello")], tool_choice=choice)[1] == [("clock", {})]
    assert branches(engine) == ["clock"]
    assert len(engine.asked) == 1


def test_no_choice_goes_straight_to_the_answer(scripted: Scripted) -> None:
    engine = scripted("Hello")
    assert ask([user("Hi")], tool_choice="none") == ("Hello", [], "stop")
    assert len(engine.asked) == 1


def test_a_choice_of_an_unknown_tool_is_refused(scripted: Scripted) -> None:
    scripted()
    with pytest.raises(InvalidInput, match=r"'clok'.*did you mean 'clock'"):
        ask([user("Hi")], tool_choice="clok")


def test_a_call_cut_short_is_handed_on_as_it_is(scripted: Scripted) -> None:
    scripted('{"name": "find", "arguments": {"query": "endless')
    _, calls, end = LocalRuntime("smollm2-135m").complete([user("Find")], tools=TOOLS)
    assert [(call.name, call.arguments) for call in calls] == [("find", '{"query": "endless')]
    assert end.reason == "length"


def test_usage_counts_decisions_and_answer(scripted: Scripted) -> None:
    scripted(ANSWER, "Hello")
    _, _, end = LocalRuntime("smollm2-135m").complete([user("Hi")], tools=TOOLS)
    assert (end.usage.input_tokens, end.usage.output_tokens) == (20, 4)


def test_structured_output_after_tools(scripted: Scripted) -> None:
    engine = scripted(says("clock"), '{"hour": 12}')
    schema = {"type": "object", "properties": {"hour": {"type": "integer", "title": "Hour"}}, "required": ["hour"]}
    form = {"type": "json_schema", "json_schema": {"name": "T", "schema": schema}}
    text, calls, _ = ask([user("Time?"), *called("clock", {}, "noon")], response_format=form)
    assert (text, calls) == ('{"hour": 12}', [])
    sent = engine.asked[-1].schema
    assert sent is not None
    assert sent["properties"] == {"hour": {"type": "integer"}}


def test_settings_reach_the_engine(scripted: Scripted) -> None:
    engine = scripted("x")
    settings = Settings(max_tokens=7, temperature=0.5, seed=3, stop=("END",), timeout=2.0, cache_prompt=False)
    LocalRuntime("smollm2-135m").complete([user("Hi")], settings=settings)
    body = engine.asked[0].body()
    assert (body["max_tokens"], body["temperature"], body["seed"], body["stop"]) == (7, 0.5, 3, ["END"])
    assert body["cache_prompt"] is False
    assert engine.asked[0].timeout == 2.0


def test_closing_the_stream_closes_the_generation(scripted: Scripted) -> None:
    engine = scripted("one\ntwo\nthree\n")
    events = LocalRuntime("smollm2-135m").stream([user("Hi")])
    next(events)
    events.close()  # type: ignore[attr-defined]
    assert engine.closed.is_set()


# -- the chat model


def test_the_chat_model_streams_calls_and_text(scripted: Scripted) -> None:
    scripted(says("find", query="x"), "It is\nhere.")
    model = LocalChatModel().bind_tools(TOOLS)
    whole = model.invoke("Find x")
    assert [(call["name"], call["args"]) for call in whole.tool_calls] == [("find", {"query": "x"})]
    assert whole.usage_metadata is not None
    assert whole.usage_metadata["total_tokens"] == 12
    assert whole.response_metadata["finish_reason"] == "tool_calls"
    history = [HumanMessage("Find x"), whole, ToolMessage("here", tool_call_id=whole.tool_calls[0]["id"])]
    assert [chunk.content for chunk in model.stream(history)] == ["It is\n", "here.", ""]


def test_streamed_calls_are_chunks(scripted: Scripted) -> None:
    scripted(says("find", query="x"))
    chunks = list(LocalChatModel().bind_tools(TOOLS).stream("Find x"))
    assert [chunk["name"] for chunk in chunks[0].tool_call_chunks] == ["find"]
    assert sum(chunks[1:], chunks[0]).tool_calls[0]["args"] == {"query": "x"}


def test_broken_arguments_are_invalid_calls(scripted: Scripted) -> None:
    scripted('{"name": "find", "arguments": {"query": "endl')
    message = LocalChatModel().bind_tools(TOOLS).invoke("Find")
    assert message.tool_calls == []
    assert message.invalid_tool_calls[0]["name"] == "find"
    assert message.response_metadata["finish_reason"] == "length"


def test_a_copy_has_its_own_runtime() -> None:
    model = LocalChatModel(context=1024)
    twin = model.model_copy(update={"context": 2048})
    assert (model._runtime.options.context, twin._runtime.options.context) == (1024, 2048)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "all-minilm-l6-v2"}, "makes embeddings"),
        ({"model": "qwen"}, "No bundled model"),
        ({"model": "/no/such.gguf"}, "cannot be read"),
        ({"max_tokens": 0}, "max_tokens must be at least 1"),
        ({"temprature": 1}, "did you mean 'temperature'"),
    ],
)
def test_bad_construction(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LocalChatModel(**arguments)


def test_a_call_with_an_unknown_setting_is_refused(scripted: Scripted) -> None:
    scripted("x")
    with pytest.raises(InvalidInput, match="frequency_penalty"):
        LocalChatModel().invoke("Hi", frequency_penalty=1)


def test_the_smallest_model_takes_no_tools() -> None:
    with pytest.raises(UnsupportedByProvider, match="too small"):
        LocalChatModel(model="smollm2-135m").bind_tools(TOOLS)


# -- reading and splitting


def test_a_conversation_is_read_into_a_turn() -> None:
    turn = read(
        [
            {"role": "system", "content": "Be brief."},
            user("First"),
            *called("add", {"a": "1"}, "1"),
            {"role": "assistant", "content": "One."},
            user("Second"),
            user([{"type": "text", "text": "and third"}]),  # type: ignore[arg-type]
            *called("find", {"query": "x"}, "here", "c2"),
        ]
    )
    assert turn.system == "Be brief."
    assert turn.request == "Second\nand third"
    assert [(made.name, made.result) for made in turn.made] == [("find", "here")]
    assert turn.before == [{"role": "user", "content": "First"}, {"role": "assistant", "content": "One."}]


def test_parts_are_tidied() -> None:
    assert tidy_parts("a and b", ["a and b", "a", "a", "b", "something new"]) == ["a", "b"]
    assert tidy_parts("a and b", ["nothing shared"]) == ["a and b"]
    assert tidy_parts("a and b", ["a and b"]) == ["a and b"]


@given(st.text(max_size=60), st.lists(st.text(max_size=60), max_size=5))
def test_there_is_always_a_part_and_none_is_repeated(request: str, parts: list[str]) -> None:
    tidy = tidy_parts(request, parts)
    assert tidy
    assert len(set(tidy)) == len(tidy)
    assert all(part in parts or part == request for part in tidy)


def test_only_what_may_hold_several_is_split() -> None:
    assert not may_hold_several("What is 23*47?")
    assert may_hold_several("What is 23*47, and what time is it?")
    assert not may_hold_several("Summarise this, please: " + "word " * 100)


# -- schemas


def test_references_and_remarks_are_resolved_away() -> None:
    schema = {
        "title": "Order",
        "type": "object",
        "properties": {
            "item": {"$ref": "#/$defs/Item"},
            "count": {"type": "integer", "minimum": 1, "description": "how many", "default": 1},
            "code": {"type": "string", "pattern": "[a-z]+"},
            "exact": {"type": "string", "pattern": "^[a-z]{3}$"},
        },
        "required": ["item"],
        "$defs": {"Item": {"type": "object", "properties": {"name": {"type": "string", "title": "Name"}}}},
    }
    assert constrainable(schema) == {
        "type": "object",
        "properties": {
            "item": {"type": "object", "properties": {"name": {"type": "string"}}, "additionalProperties": False},
            "count": {"type": "integer", "minimum": 1},
            "code": {"type": "string"},
            "exact": {"type": "string", "pattern": "^[a-z]{3}$"},
        },
        "required": ["item"],
        "additionalProperties": False,
    }


def test_a_schema_that_contains_itself_ends() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    clean = constrainable({"$ref": "#/$defs/Node", "$defs": {"Node": node}})
    assert len(json.dumps(clean)) < 2000
    assert "$ref" not in json.dumps(clean)


def test_what_is_no_text_is_refused_or_named(scripted: Scripted) -> None:
    """MSG-03: nothing that was said is left out without a word."""
    model = LocalChatModel(model="smollm2-135m")
    picture: Any = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    with pytest.raises(InvalidHistory, match="Message 0, block 1: LocalChatModel takes no image"):
        model.invoke([HumanMessage(["See:", picture])])
    with pytest.raises(UnsupportedByProvider, match="is of type 'hologram', which LocalChatModel does not know"):
        model.invoke([HumanMessage([{"type": "hologram"}])])
    with pytest.raises(InvalidHistory, match="holds nothing but blanks"):
        model.invoke(" ")
    engine = scripted("Fine.")
    assert model.invoke([HumanMessage(["See:", picture]), AIMessage("Yes."), HumanMessage("And?")]).text == "Fine."
    assert "of type image" in str(engine.asked[0].messages)
