"""What is Cohere's own: plans, citations, documents, thoughts, its choices of tools and its errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runwell import create_agent
from runwell.documents import Document
from runwell.errors import (
    ContextOverflow,
    InvalidHistory,
    InvalidInput,
    MissingApiKey,
    ModelAuthenticationError,
    ModelError,
    UnsupportedByProvider,
)
from runwell.messages import AIMessage, HumanMessage, ToolMessage
from runwell.models import init_chat_model
from runwell.providers.cohere import ChatCohere
from runwell.testing.chat_wire import Colour
from runwell.testing.wire import Call, CohereDialect, Said, WireServer
from runwell.testing.wire.cohere import content

DOCUMENT = {
    "type": "document",
    "id": "doc_1",
    "document": {"title": "Cats", "snippet": "Cats sleep.", "url": "https://c"},
}
CITATION = {"start": 0, "end": 4, "text": "Cats", "sources": [DOCUMENT], "type": "TEXT_CONTENT", "content_index": 0}


@pytest.fixture
def wire() -> Iterator[WireServer]:
    with WireServer(CohereDialect()) as server:
        yield server


@pytest.fixture
def model(wire: WireServer) -> ChatCohere:
    return ChatCohere(model="m", api_key="key-0123", base_url=wire.base_url, max_retries=0)


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> Colour:
    return Colour(request.param)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def look_up(word: str, limit: int = 3) -> str:
    """Look a word up."""
    return word


def answer(**message: Any) -> dict[str, Any]:
    return {**CohereDialect().answer(Said(text="x")), "message": {"role": "assistant", **message}}


def events(*of: tuple[str, dict[str, Any]], **end: Any) -> list[Any]:
    last = ("message-end", {"delta": {"finish_reason": "COMPLETE", **end}})
    start = ("message-start", {"id": "a", "delta": {"message": {"role": "assistant"}}})
    return [(kind, {"type": kind, **event}) for kind, event in (start, *of, last)]


def test_a_plan_is_the_text_and_goes_back_as_the_plan(wire: WireServer, model: ChatCohere, colour: Colour) -> None:
    for call in (colour.invoke, lambda *given: colour.whole(colour.stream(*given))):
        wire.say("I will add.", calls=[Call("add", {"a": 1, "b": 2}, "c1")])
        said = call(model.bind_tools([add]), "1 + 2?")
        assert said.content == "I will add."
        wire.say("3.")
        colour.invoke(model, [HumanMessage("1 + 2?"), said, ToolMessage("3", tool_call_id="c1")])
        turn = wire.last["body"]["messages"][1]
        assert turn["tool_plan"] == "I will add."
        assert "content" not in turn


def test_a_result_is_a_document_that_can_be_cited(wire: WireServer, model: ChatCohere, colour: Colour) -> None:
    calls = [{"name": "look_up", "args": {"word": "x"}, "id": each, "type": "tool_call"} for each in ("a", "b", "c")]
    wire.say("Done.")
    results = [
        ToolMessage("12 degrees", tool_call_id="a"),
        ToolMessage('{"city": "Bern", "degrees": 12}', tool_call_id="b"),
        ToolMessage("no such city", tool_call_id="c", status="error"),
    ]
    colour.invoke(model, [HumanMessage("Hi"), AIMessage("", tool_calls=calls), *results])
    sent = [turn["content"][0]["document"]["data"] for turn in wire.last["body"]["messages"] if turn["role"] == "tool"]
    assert sent == [{"output": "12 degrees"}, {"city": "Bern", "degrees": 12}, {"error": "no such city"}]


def test_documents_of_a_result_in_the_words_of_the_api(wire: WireServer, model: ChatCohere, colour: Colour) -> None:
    call = {"name": "look_up", "args": {"word": "x"}, "id": "a", "type": "tool_call"}
    found = [{"type": "document", "document": {"id": str(n), "data": {"text": f"Cat {n}."}}} for n in range(2)]
    wire.say("Done.")
    colour.invoke(model, [HumanMessage("Hi"), AIMessage("", tool_calls=[call]), ToolMessage(found, tool_call_id="a")])
    assert wire.last["body"]["messages"][2]["content"] == found


@pytest.mark.parametrize("form", ["invoke", "stream"])
def test_citations_are_annotations_of_the_text(wire: WireServer, model: ChatCohere, colour: Colour, form: str) -> None:
    documents = [
        Document("Cats sleep.", {"title": "Cats", "when": object()}, "doc_1"),
        "Dogs bark.",
        {"data": {"x": 1}},
    ]
    if form == "invoke":
        wire.json(answer(content=[{"type": "text", "text": "Cats sleep."}], citations=[CITATION]))
        said = colour.invoke(model, "What do cats do?", documents=documents)
    else:
        cited = ("citation-start", {"index": 0, "delta": {"message": {"citations": CITATION}}})
        end = ("citation-end", {"index": 0})
        wire.events(*events(*content(0, "text", "Cats ", "sleep."), cited, end))
        said = colour.whole(colour.stream(model, "What do cats do?", documents=documents))
    assert wire.last["body"]["documents"] == [
        {"id": "doc_1", "data": {"text": "Cats sleep.", "title": "Cats"}},
        "Dogs bark.",
        {"data": {"x": 1}},
    ]
    assert said.content == "Cats sleep."
    [block] = said.content_blocks
    [note] = block["annotations"]
    assert note["cited_text"] == said.text[note["start_index"] : note["end_index"]] == "Cats"
    assert (note["title"], note["url"]) == ("Cats", "https://c")
    assert note["extras"]["sources"] == [DOCUMENT]
    wire.say("Yes.")
    colour.invoke(model, [HumanMessage("What?"), said, HumanMessage("Sure?")])
    assert wire.last["body"]["messages"][1]["citations"] == [CITATION]


def test_thoughts_stay_and_go_back(wire: WireServer, model: ChatCohere, colour: Colour) -> None:
    wire.events(*events(*content(0, "thinking", "Hm", "."), *content(1, "text", "Yes", ".")))
    said = colour.whole(colour.stream(model, "Hi", thinking={"type": "enabled", "token_budget": 100}))
    assert wire.last["body"]["thinking"] == {"type": "enabled", "token_budget": 100}
    assert said.text == "Yes."
    assert [block["type"] for block in said.content_blocks] == ["reasoning", "text"]
    wire.say("Sure.")
    colour.invoke(model, [HumanMessage("Hi"), said, HumanMessage("Sure?")])
    assert wire.last["body"]["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "text", "text": "Yes."},
    ]


def test_thoughts_of_another_vendor_are_not_sent(wire: WireServer, model: ChatCohere, colour: Colour) -> None:
    thought = AIMessage(
        [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Yes."}],
        response_metadata={"model_provider": "openai"},
    )
    wire.say("Sure.")
    colour.invoke(model, [HumanMessage("Hi"), thought, HumanMessage("Sure?")])
    assert wire.last["body"]["messages"][1]["content"] == [{"type": "text", "text": "Yes."}]


def test_a_tool_by_name_is_sent_alone(wire: WireServer, model: ChatCohere, colour: Colour) -> None:
    wire.say("", calls=[Call("add", {"a": 1, "b": 2})])
    colour.invoke(model.bind_tools([add, look_up], tool_choice="add"), "Hi")
    body = wire.last["body"]
    assert (body["tool_choice"], [tool["function"]["name"] for tool in body["tools"]]) == ("REQUIRED", ["add"])


def test_strict_is_said_of_the_whole_request(wire: WireServer, model: ChatCohere, colour: Colour) -> None:
    wire.say("Hi.")
    colour.invoke(model.bind_tools([look_up], strict=True), "Hi")
    body = wire.last["body"]
    assert body["strict_tools"] is True
    assert "strict" not in body["tools"][0]["function"]
    with pytest.raises(UnsupportedByProvider, match="anything"):
        model.bind_tools([{"name": "anything", "description": "", "parameters": {"type": "object"}}], strict=True)


def test_a_schema_and_tools_do_not_go_together(wire: WireServer, model: ChatCohere, colour: Colour) -> None:
    person = {"title": "Person", "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    with pytest.raises(UnsupportedByProvider, match="function_calling"):
        model.bind_tools([add]).with_structured_output(person, method="json_schema")
    structured = model.with_structured_output(person, method="json_schema")
    with pytest.raises(UnsupportedByProvider, match="function_calling"):
        colour.invoke(structured, "Who?", documents=["Ada."])
    assert wire.requests == []
    wire.say('{"name": "Ada"}')
    assert colour.invoke(model.with_structured_output(person, method="json_schema"), "Who?") == {"name": "Ada"}
    assert wire.last["body"]["response_format"]["type"] == "json_object"


@pytest.mark.parametrize("form", ["invoke", "stream"])
def test_an_answer_that_broke_off_is_none(wire: WireServer, model: ChatCohere, colour: Colour, form: str) -> None:
    if form == "invoke":
        wire.json({**answer(content=[{"type": "text", "text": "Hel"}]), "finish_reason": "ERROR"})
    else:
        wire.events(*events(*content(0, "text", "Hel"), finish_reason="ERROR", error="the GPU caught fire"))
    with pytest.raises(ModelError, match="ERROR: the") as caught:
        (colour.invoke if form == "invoke" else colour.stream)(model, "Hi")
    assert caught.value.retryable


def test_errors_in_its_forms(wire: WireServer, model: ChatCohere, colour: Colour) -> None:
    wire.json({"message": "invalid api token"}, 498)
    with pytest.raises(ModelAuthenticationError, match="invalid api token"):
        colour.invoke(model, "Hi")
    wire.fail(400, "total number of tokens in the prompt cannot exceed 4081 - received 4292. Try a shorter prompt.")
    with pytest.raises(ContextOverflow) as caught:
        colour.invoke(model, "Hi")
    assert caught.value.over == 211


def test_usage_counts_tokens_and_keeps_what_is_billed(wire: WireServer, model: ChatCohere, colour: Colour) -> None:
    wire.say("Hi.", read=100, written=5)
    said = colour.invoke(model, "Hi")
    assert said.usage_metadata["input_tokens"] == 100
    assert said.response_metadata["billed_units"] == {"input_tokens": 98, "output_tokens": 5}


def test_a_text_may_hold_line_breaks_that_only_unicode_knows(
    wire: WireServer, model: ChatCohere, colour: Colour
) -> None:
    raw = '{"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "a\u2028b\u0085c"}}}}'
    first, *rest = events(*content(0, "text"))
    wire.events(first, raw, *rest)
    assert colour.whole(colour.stream(model, "Hi")).text == "a\u2028b\u0085c"


def test_media_it_cannot_take_are_named(wire: WireServer, model: ChatCohere, colour: Colour) -> None:
    wire.say("Hm.")
    sound = {"type": "audio", "url": "https://x/a.mp3"}
    colour.invoke(model, [HumanMessage([{"type": "text", "text": "What is it?"}, sound])])
    assert wire.last["body"]["messages"][0]["content"][1] == {"type": "text", "text": "[audio: https://x/a.mp3]"}


def test_bad_input_stays_here(wire: WireServer, model: ChatCohere, colour: Colour) -> None:
    with pytest.raises(InvalidHistory, match="Message 1"):
        colour.invoke(model, [AIMessage("Hi"), HumanMessage("")])
    with pytest.raises(InvalidInput, match="document"):
        colour.invoke(model, "Hi", documents=[{"text": "no data"}])
    with pytest.raises(InvalidInput, match="document"):
        ChatCohere(model="m", api_key="key-0123", documents=[3])
    assert wire.requests == []


def test_an_agent_with_structured_output(wire: WireServer, model: ChatCohere, colour: Colour) -> None:
    person = {"title": "Person", "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    wire.say("I add.", calls=[Call("add", {"a": 1, "b": 2}, "c1")])
    wire.say("", calls=[Call("Person", {"name": "Ada"}, "c2")])
    agent = create_agent(model, [add], response_format=person)
    assert colour.invoke(agent, {"messages": "Who?"})["structured_response"] == {"name": "Ada"}


def test_the_sdk_knows_every_argument(model: ChatCohere) -> None:
    import inspect

    from cohere.v2.client import V2Client

    full = ChatCohere(
        model="m",
        api_key="key-0123",
        temperature=0.1,
        max_tokens=5,
        stop="END",
        p=0.9,
        k=3,
        seed=1,
        frequency_penalty=0.1,
        presence_penalty=0.1,
        logprobs=True,
        safety_mode="STRICT",
        citation_options={"mode": "fast"},
        thinking={"type": "disabled"},
        priority=1,
    )
    bound = full.bind_tools([look_up], tool_choice="any", strict=True)
    body, _ = full._request([HumanMessage("Hi")], None, {**bound.kwargs, "documents": ["x"]}, True)
    known = set(inspect.signature(V2Client.chat_stream).parameters)
    assert set(body) - known == {"stream"}
    assert {"strict_tools", "tool_choice", "documents", "stop_sequences"} <= set(body)


def test_init_chat_model(wire: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COHERE_API_KEY", raising=False)
    monkeypatch.setenv("CO_API_KEY", "the SDK's own variable")
    with pytest.raises(MissingApiKey, match="COHERE_API_KEY"):
        init_chat_model("cohere:command-a-03-2025")
    monkeypatch.setenv("COHERE_API_KEY", "sk-env")
    wire.say("Hello.")
    model = init_chat_model("command-a-03-2025", base_url=wire.base_url, top_p=0.5, seed=3, client_name="tests")
    assert model.profile is not None
    assert model.profile["max_input_tokens"] == 256_000
    assert model.invoke("Hi").text == "Hello."
    assert wire.last["path"] == "/v2/chat"
    assert (wire.last["body"]["p"], wire.last["body"]["seed"]) == (0.5, 3)
    assert wire.last["headers"]["authorization"] == "Bearer sk-env"
    assert wire.last["headers"]["x-client-name"] == "tests"
