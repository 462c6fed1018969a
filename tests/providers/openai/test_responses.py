"""What is the Responses API's own: thoughts, calls that OpenAI runs, sources, answers that it keeps, free calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runwell.errors import (
    ContextOverflow,
    InvalidConfig,
    InvalidHistory,
    ModelConnectionError,
    ModelError,
    ModelOverloaded,
    ModelRateLimitError,
    ModelRefusalError,
    UnsupportedByProvider,
)
from runwell.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.models.retry import RetryPolicy
from runwell.providers.openai import ChatOpenAI
from runwell.testing.chat_wire import Colour
from runwell.testing.wire import Call, ResponsesDialect, WireServer
from runwell.testing.wire.responses import events_of_response

Make = Callable[..., ChatOpenAI]

THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "They want a sum."}, {"type": "summary_text", "text": "I add."}],
    "encrypted_content": "b3BhcXVl",
}
SILENT = {"type": "reasoning", "id": "rs_2", "summary": []}
OPEN = {"type": "reasoning", "id": "rs_3", "summary": [], "content": [{"type": "reasoning_text", "text": "Hmm."}]}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "add",
    "arguments": '{"a":1,"b":2}',
    "status": "completed",
}
SEARCH = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "weather", "sources": [{"type": "url", "url": "https://w.example"}]},
}
FILES = {
    "type": "file_search_call",
    "id": "fs_1",
    "status": "completed",
    "queries": ["sky"],
    "results": [{"file_id": "file_1", "filename": "sky.md", "score": 0.9, "text": "Blue."}],
}
CODE = {
    "type": "code_interpreter_call",
    "id": "ci_1",
    "status": "completed",
    "container_id": "cntr_1",
    "code": "print(3)",
    "outputs": [{"type": "logs", "logs": "3\n"}],
}
PICTURE = {
    "type": "image_generation_call",
    "id": "ig_1",
    "status": "completed",
    "result": "aGk=",
    "revised_prompt": "A dot.",
    "output_format": "png",
}
TOOLS_OF_SERVER = {
    "type": "mcp_list_tools",
    "id": "mcpl_1",
    "server_label": "dice",
    "tools": [{"name": "roll", "input_schema": {"type": "object"}}],
}
ROLLED = {
    "type": "mcp_call",
    "id": "mcp_1",
    "status": "completed",
    "server_label": "dice",
    "name": "roll",
    "arguments": '{"sides": 6}',
    "output": "4",
}
CLICK = {
    "type": "computer_call",
    "id": "cu_1",
    "call_id": "call_c",
    "status": "completed",
    "action": {"type": "screenshot"},
    "pending_safety_checks": [],
}
FREE = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_f", "name": "run", "input": 'print("hé\\n")'}
URL = {"type": "url_citation", "url": "https://w.example", "title": "W", "start_index": 0, "end_index": 12}
FILE = {"type": "file_citation", "file_id": "file_1", "filename": "sky.md", "index": 12}


def said(*parts: Any, id: str = "msg_1", **fields: Any) -> dict[str, Any]:
    """A message of these texts, or parts."""
    content = [
        {"type": "output_text", "text": part, "annotations": []} if isinstance(part, str) else part for part in parts
    ]
    return {"type": "message", "id": id, "role": "assistant", "status": "completed", "content": content, **fields}


def cited(text: str, *notes: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": list(notes)}


def response(*items: Any, **fields: Any) -> dict[str, Any]:
    """The body of an answer."""
    return {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "served-model-1",
        "output": list(items),
        "usage": {
            "input_tokens": 9,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens": 3,
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": 12,
        },
        **fields,
    }


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


class Wire(WireServer):
    """The server of the testing kit, with answers in items."""

    def __init__(self) -> None:
        super().__init__(ResponsesDialect())

    def items(self, *items: Any, **fields: Any) -> None:
        """An answer of these items, whole or as a stream."""
        body = response(*items, **fields)
        whole, stream = self._whole(body), self._stream(events_of_response(body))
        self.script.append(lambda handler: (stream if self.last["body"].get("stream") else whole)(handler))


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS"):
        monkeypatch.delenv(name, raising=False)
    with Wire() as server:
        yield server


class QuickRetries(ChatOpenAI):
    retry_policy = RetryPolicy(first_s=0.001)


@pytest.fixture
def model(wire: Wire) -> Make:
    def make(**given: Any) -> ChatOpenAI:
        settings = {"model": "m", "api_key": "k", "base_url": wire.base_url, "use_responses_api": True}
        return QuickRetries(**{**settings, **given})

    return make


@pytest.fixture
def at_openai(wire: Wire) -> Make:
    """Makes a model that takes the server for OpenAI itself."""

    class AtOpenAI(QuickRetries):
        default_base_url = wire.base_url

    return lambda **given: AtOpenAI(**{"model": "m", "api_key": "k", **given})


def both(wire: Wire, model: Any, colour: Colour, given: Any, *items: Any, **fields: Any) -> AIMessage:
    """The answer, which must be the same streamed and whole."""
    wire.items(*items, **fields)
    answer = colour.invoke(model, given)
    wire.items(*items, **fields)
    streamed = colour.whole(colour.stream(model, given))
    for name in ("content", "tool_calls", "invalid_tool_calls", "usage_metadata", "additional_kwargs"):
        assert getattr(streamed, name) == getattr(answer, name), name
    assert streamed.response_metadata == answer.response_metadata
    assert streamed.content_blocks == answer.content_blocks
    return answer


def sent(wire: Wire) -> Any:
    return wire.last["body"]["input"]


def without_status(item: Any) -> Any:
    return {key: value for key, value in item.items() if key != "status"}


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> Colour:
    return Colour(request.param)


# -- what came goes back


@pytest.mark.parametrize(
    "items",
    [
        [THOUGHT, said("Let me see."), CALL],
        [SILENT, CALL, {**CALL, "call_id": "call_2", "id": "fc_2"}],
        [THOUGHT, CALL, SILENT, {**CALL, "call_id": "call_2", "id": "fc_2"}, said("Both.")],
        [OPEN, said("Yes.")],
        [SEARCH, said(cited("It is sunny.", URL))],
        [SEARCH, {**SEARCH, "id": "ws_2"}, said("One.", cited("Two.", FILE))],
        [FILES, said(cited("Blue.", FILE))],
        [SILENT, CODE, said("3")],
        [PICTURE],
        [TOOLS_OF_SERVER, ROLLED, said("You rolled 4.")],
        [{**ROLLED, "output": None, "status": "failed", "error": {"type": "mcp", "message": "no dice"}}],
        [CLICK],
        [said("I think aloud.", id="msg_1", phase="commentary"), said("3", id="msg_2", phase="final_answer")],
        [FREE],
        [{"type": "brand_new_call", "id": "bn_1", "shape": {"a": [1]}}],
    ],
    ids=[
        *("reasoning", "silent", "interleaved", "open", "search", "searches", "files", "code", "picture", "mcp"),
        *("mcp failed", "computer", "phases", "custom", "unknown"),
    ],
)
def test_what_came_goes_back_as_it_came(wire: Wire, model: Make, colour: Colour, items: list[Any]) -> None:
    bound = model().bind_tools([add, {"type": "web_search"}])
    answer = both(wire, bound, colour, "Hi", *items)
    wire.say("Done.")
    colour.invoke(model(), [HumanMessage("Hi"), answer, HumanMessage("And?")])
    back = [{key: value for key, value in item.items() if value is not None} for item in items]
    assert [without_status(item) for item in sent(wire)[1:-1]] == [without_status(item) for item in back]


def test_a_plain_answer_is_a_text_and_calls(wire: Wire, model: Make, colour: Colour) -> None:
    answer = both(wire, model().bind_tools([add]), colour, "Hi", said("Let me see."), CALL)
    assert answer.content == "Let me see."
    assert answer.tool_calls == [{"name": "add", "args": {"a": 1, "b": 2}, "id": "call_1", "type": "tool_call"}]
    assert answer.response_metadata["finish_reason"] == "tool_calls"
    assert answer.response_metadata["id"] == "resp_1"
    assert answer.usage_metadata == {
        "input_tokens": 9,
        "output_tokens": 3,
        "total_tokens": 12,
        "input_token_details": {"cache_read": 4},
        "output_token_details": {"reasoning": 2},
    }
    wire.say("3")
    colour.invoke(model(), [HumanMessage("Hi"), answer, ToolMessage("3", tool_call_id="call_1")])
    assert sent(wire) == [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Let me see."},
        {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": '{"a":1,"b":2}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "3"},
    ]
    assert wire.last["path"] == "/v1/responses"


def test_blocks_are_the_standard_ones(wire: Wire, model: Make, colour: Colour) -> None:
    answer = both(
        wire, model().bind_tools([{"type": "web_search"}]), colour, "Hi", THOUGHT, SEARCH, said(cited("Sunny.", URL))
    )
    thought, call, result, text = answer.content_blocks
    assert answer.text == "Sunny."
    assert answer.content == answer.content_blocks, "they are what the message holds"
    assert thought["type"] == "reasoning"
    assert thought["reasoning"] == "They want a sum.\n\nI add."
    assert (call["type"], call["name"], call["args"]) == (
        "server_tool_call",
        "web_search",
        {"type": "search", "query": "weather"},
    )
    assert (result["type"], result["tool_call_id"], result["status"]) == ("server_tool_result", "ws_1", "success")
    assert result["output"] == [{"type": "url", "url": "https://w.example"}]
    assert text["annotations"] == [
        {"type": "citation", "url": "https://w.example", "title": "W", "start_index": 0, "end_index": 12}
    ]


def test_thoughts_stream_as_they_come(wire: Wire, model: Make, colour: Colour) -> None:
    wire.items(THOUGHT, said("Three."))
    chunks = colour.stream(model(), "Hi")
    thoughts = [
        block.get("reasoning") for chunk in chunks for block in chunk.content_blocks if block["type"] == "reasoning"
    ]
    assert [each for each in thoughts if each] == ["They wan", "t a sum.", "\n\n", "I a", "dd."]
    assert [chunk.text for chunk in chunks if chunk.text] == ["Thr", "ee."]


def test_a_thought_goes_to_its_sayer_only(wire: Wire, model: Make) -> None:
    answer = AIMessage(
        [{"type": "reasoning", "reasoning": "Hm.", "id": "rs_1"}, {"type": "text", "text": "Yes."}],
        response_metadata={"model_provider": "xai"},
    )
    signed = AIMessage([{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, {"type": "text", "text": "Yes."}])
    wire.say("Done.")
    model().invoke([HumanMessage("Hi"), answer, HumanMessage("Hm"), signed, HumanMessage("And?")])
    assert "reasoning" not in str(sent(wire))
    assert "Hm." not in str(sent(wire))


def test_without_storage_thoughts_go_back_encrypted_or_not_at_all(wire: Wire, model: Make, colour: Colour) -> None:
    unstored = model(store=False, reasoning={"effort": "low", "summary": "auto"})
    answer = both(wire, unstored, colour, "Hi", THOUGHT, SILENT, said("Three."))
    body = wire.last["body"]
    assert body["store"] is False
    assert body["include"] == ["reasoning.encrypted_content"]
    assert body["reasoning"] == {"effort": "low", "summary": "auto"}
    wire.say("Done.")
    colour.invoke(unstored, [HumanMessage("Hi"), answer, HumanMessage("And?")])
    assert [item["id"] for item in sent(wire) if item.get("type") == "reasoning"] == ["rs_1"]


# -- what is asked for


def test_the_api_is_chosen_by_what_is_asked_for(wire: Wire, at_openai: Make) -> None:
    def path(model: Any, **kwargs: Any) -> str:
        wire.json({"error": {"message": "no"}}, 400)
        with pytest.raises(ModelError):
            model.invoke("Hi", **kwargs)
        return str(wire.last["path"])

    chat, responses = "/v1/chat/completions", "/v1/responses"
    assert path(at_openai()) == chat
    assert path(at_openai().bind_tools([add])) == chat
    assert path(at_openai(reasoning_effort="low", verbosity="low")) == chat
    assert path(at_openai(reasoning={"effort": "low"})) == responses
    assert path(at_openai(include=["file_search_call.results"])) == responses
    assert path(at_openai(truncation="auto")) == responses
    assert path(at_openai(), previous_response_id="resp_0") == responses
    assert path(at_openai(), text={"verbosity": "low"}) == responses
    assert path(at_openai(model_kwargs={"max_tool_calls": 2})) == responses
    assert path(at_openai().bind_tools([{"type": "web_search"}])) == responses
    assert path(at_openai(model="gpt-5-pro")) == responses
    assert path(at_openai(model="gpt-5.1-codex-max")) == responses
    assert path(at_openai(use_responses_api=True)) == responses
    assert path(at_openai(use_responses_api=False).bind_tools([{"type": "web_search"}])) == chat


def test_settings_in_this_apis_words(wire: Wire, model: Make, colour: Colour) -> None:
    wire.say("Hello.")
    settings: dict[str, Any] = {"temperature": 0.5, "top_p": 0.9, "max_tokens": 99, "service_tier": "flex", "user": "u"}
    colour.invoke(
        model(**settings, reasoning_effort="low", verbosity="high", logprobs=True, top_logprobs=2),
        "Hi",
        extra_headers={"X-Mine": "1"},
        extra_body={"brand_new": 1},
    )
    body = wire.last["body"]
    assert body == {
        "model": "m",
        "input": [{"role": "user", "content": "Hi"}],
        **{key: value for key, value in settings.items() if key != "max_tokens"},
        "max_output_tokens": 99,
        "top_logprobs": 2,
        "reasoning": {"effort": "low"},
        "text": {"verbosity": "high"},
        "include": ["message.output_text.logprobs"],
        "brand_new": 1,
    }
    assert wire.last["headers"]["x-mine"] == "1"


@pytest.mark.parametrize(
    ("name", "value"),
    [("seed", 1), ("presence_penalty", 0.5), ("frequency_penalty", 1.0), ("logit_bias", {"1": 2}), ("n", 2)],
)
def test_what_it_has_no_place_for_is_refused(wire: Wire, model: Make, name: str, value: Any) -> None:
    with pytest.raises(UnsupportedByProvider, match=name):
        model().invoke("Hi", **{name: value})
    assert wire.requests == []


def test_settings_that_contradict(model: Make) -> None:
    with pytest.raises(InvalidConfig, match="store=False"):
        model(use_previous_response_id=True, store=False)
    with pytest.raises(InvalidConfig, match="reasoning"):
        model(use_responses_api=False, reasoning={"effort": "low"})
    with pytest.raises(InvalidConfig, match="reasoning_effort"):
        model(reasoning="low")
    with pytest.raises(InvalidConfig, match="a list"):
        model(include="reasoning.encrypted_content")


def test_tools_and_choices(wire: Wire, model: Make, colour: Colour) -> None:
    mcp = {"type": "mcp", "server_label": "dice", "server_url": "https://d.example", "require_approval": "never"}
    free = {"type": "custom", "name": "run", "description": "Run Python."}
    tools = [add, {"type": "web_search"}, mcp, free]
    wanted = {
        "add": {"type": "function", "name": "add"},
        "web_search": {"type": "web_search"},
        "mcp": {"type": "mcp", "server_label": "dice"},
        "run": {"type": "custom", "name": "run"},
        "any": "required",
    }
    for choice, told in wanted.items():
        wire.say("Hello.")
        colour.invoke(model().bind_tools(tools, tool_choice=choice, parallel_tool_calls=False), "Hi")
        assert wire.last["body"]["tool_choice"] == told
        assert wire.last["body"]["parallel_tool_calls"] is False
    function, *others = wire.last["body"]["tools"]
    assert others == [{"type": "web_search"}, mcp, free]
    assert (function["type"], function["name"], function["strict"]) == ("function", "add", False)
    assert set(function["parameters"]["properties"]) == {"a", "b"}
    wire.say("Hello.")
    colour.invoke(model().bind_tools([add], strict=True), "Hi")
    assert wire.last["body"]["tools"][0]["strict"] is True


def test_structured_output_is_held_to_its_schema(wire: Wire, model: Make, colour: Colour) -> None:
    schema = {"title": "A", "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    wire.items(THOUGHT, said('{"a": 1}'))
    structured = model(verbosity="low").with_structured_output(schema, method="json_schema")
    assert colour.invoke(structured, "Hi") == {"a": 1}
    text = wire.last["body"]["text"]
    assert text["verbosity"] == "low"
    assert (text["format"]["type"], text["format"]["name"], text["format"]["strict"]) == ("json_schema", "A", True)
    assert text["format"]["schema"]["additionalProperties"] is False
    wire.say('{"a": 2}')
    assert colour.invoke(model().with_structured_output(schema, method="json_mode"), "Hi") == {"a": 2}
    assert wire.last["body"]["text"] == {"format": {"type": "json_object"}}


def test_a_refusal(wire: Wire, model: Make, colour: Colour) -> None:
    answer = both(wire, model(), colour, "Hi", said({"type": "refusal", "refusal": "I cannot help."}))
    assert answer.text == ""
    assert answer.additional_kwargs["refusal"] == "I cannot help."
    wire.items(said({"type": "refusal", "refusal": "I cannot help."}))
    with pytest.raises(ModelRefusalError, match="I cannot help"):
        colour.invoke(model().with_structured_output({"title": "A", "type": "object", "properties": {}}), "Hi")
    wire.say("Yes.")
    colour.invoke(model(), [HumanMessage("Hi"), answer, HumanMessage("And?")])
    assert sent(wire)[1]["content"] == [{"type": "refusal", "refusal": "I cannot help."}]


def test_a_free_form_call_and_its_result(wire: Wire, model: Make, colour: Colour) -> None:
    free = {"type": "custom", "name": "run", "description": "Run Python."}
    answer = both(wire, model().bind_tools([free]), colour, "Hi", FREE)
    assert answer.tool_calls == [
        {"name": "run", "args": {"input": 'print("hé\\n")'}, "id": "call_f", "type": "tool_call"}
    ]
    wire.say("Done.")
    colour.invoke(model(), [HumanMessage("Hi"), answer, ToolMessage("hé", tool_call_id="call_f")])
    assert sent(wire)[1:] == [FREE, {"type": "custom_tool_call_output", "call_id": "call_f", "output": "hé"}]


def test_a_screenshot_answers_a_computer_call(wire: Wire, model: Make, colour: Colour) -> None:
    answer = both(wire, model(truncation="auto"), colour, "Hi", SILENT, CLICK)
    call = answer.content_blocks[1]
    assert (call["type"], call["name"], call["id"]) == ("server_tool_call", "computer", "call_c")
    assert call["args"] == {"action": {"type": "screenshot"}}
    shot = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    wire.say("Done.")
    seen = {"acknowledged_safety_checks": [{"id": "sc_1"}]}
    result = ToolMessage([shot], tool_call_id="call_c", additional_kwargs={"responses_output": seen})
    colour.invoke(model(), [HumanMessage("Hi"), answer, result])
    assert sent(wire)[-1] == {
        "type": "computer_call_output",
        "call_id": "call_c",
        "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,aGk="},
        **seen,
    }


def test_a_picture_that_the_model_made(wire: Wire, model: Make, colour: Colour) -> None:
    answer = both(wire, model().bind_tools([{"type": "image_generation"}]), colour, "Hi", PICTURE, said("A dot."))
    picture = answer.content_blocks[0]
    assert (picture["type"], picture["base64"], picture["mime_type"]) == ("image", "aGk=", "image/png")
    assert picture["extras"]["revised_prompt"] == "A dot."


def test_a_call_that_was_changed_goes_as_it_is_now(wire: Wire, model: Make, colour: Colour) -> None:
    answer = both(wire, model(), colour, "Hi", SILENT, CALL, {**CALL, "id": "fc_2", "call_id": "call_2"})
    answer.tool_calls = [{**answer.tool_calls[0], "args": {"a": 5, "b": 2}}]  # a person edits one and drops one
    wire.say("Seven.")
    colour.invoke(model(), [HumanMessage("Hi"), answer, ToolMessage("7", tool_call_id="call_1")])
    calls = [item for item in sent(wire) if item.get("type") == "function_call"]
    assert [(call["id"], call["arguments"]) for call in calls] == [("fc_1", '{"a":5,"b":2}')]


def test_broken_arguments(wire: Wire, model: Make, colour: Colour) -> None:
    answer = both(wire, model(), colour, "Hi", SILENT, {**CALL, "arguments": '{"a": '})
    assert answer.tool_calls == []
    assert answer.invalid_tool_calls[0]["args"] == '{"a": '
    wire.say("Sorry.")
    colour.invoke(model(), [HumanMessage("Hi"), answer, ToolMessage("cut", tool_call_id="call_1")])
    assert [item["arguments"] for item in sent(wire) if item.get("type") == "function_call"] == ['{"a": ']


# -- answers that OpenAI keeps


def test_only_what_is_new_is_sent(wire: Wire, model: Make, colour: Colour) -> None:
    kept = model(use_previous_response_id=True)
    history: list[Any] = [SystemMessage("Be brief."), HumanMessage("1 + 2?")]
    wire.items(CALL)
    history.append(colour.invoke(kept, history))
    assert sent(wire) == [{"role": "user", "content": "1 + 2?"}]
    assert wire.last["body"]["instructions"] == "Be brief."
    assert "previous_response_id" not in wire.last["body"]
    history.append(ToolMessage("3", tool_call_id="call_1"))
    wire.items(said("Three."), id="resp_2")
    history.append(colour.whole(colour.stream(kept, history)))
    assert sent(wire) == [{"type": "function_call_output", "call_id": "call_1", "output": "3"}]
    assert wire.last["body"]["previous_response_id"] == "resp_1"
    assert wire.last["body"]["instructions"] == "Be brief.", "which is not kept with an answer"
    wire.say("Yes.")
    colour.invoke(kept, [*history, SystemMessage("Speak German."), HumanMessage("Sure?")])
    assert [item["content"] for item in sent(wire)] == ["Speak German.", "Sure?"]
    assert wire.last["body"]["previous_response_id"] == "resp_2"


def test_an_answer_of_another_provider_is_not_referred_to(wire: Wire, model: Make) -> None:
    other = AIMessage("Hello.", response_metadata={"id": "resp_9", "model_provider": "azure_openai"})
    wire.say("Yes.")
    model(use_previous_response_id=True).invoke([HumanMessage("Hi"), other, HumanMessage("Sure?")])
    assert len(sent(wire)) == 3
    assert "previous_response_id" not in wire.last["body"]


def test_a_reference_of_the_callers_own(wire: Wire, model: Make) -> None:
    wire.say("Yes.")
    model().invoke([HumanMessage("Sure?")], previous_response_id="resp_5")
    assert wire.last["body"]["previous_response_id"] == "resp_5"
    assert sent(wire) == [{"role": "user", "content": "Sure?"}]


# -- how answers end


def test_why_an_answer_ended(wire: Wire, model: Make, colour: Colour) -> None:
    details = {"reason": "content_filter"}
    answer = both(wire, model(), colour, "Hi", said("Hel"), status="incomplete", incomplete_details=details)
    assert answer.response_metadata["finish_reason"] == "content_filter"
    details = {"reason": "max_output_tokens"}
    answer = both(wire, model(), colour, "Hi", SILENT, status="incomplete", incomplete_details=details)
    assert answer.response_metadata["finish_reason"] == "length"
    answer = both(wire, model(), colour, "Hi", status="incomplete", incomplete_details=details)
    assert answer.content == ""


@pytest.mark.parametrize(
    ("code", "kind"), [("server_error", ModelOverloaded), ("rate_limit_exceeded", ModelRateLimitError)]
)
def test_a_response_that_failed(wire: Wire, model: Make, colour: Colour, code: str, kind: type[Exception]) -> None:
    error = {"code": code, "message": "on fire"}
    for call in (colour.invoke, colour.stream):
        wire.items(status="failed", error=error)
        with pytest.raises(kind, match="on fire"):
            call(model(max_retries=0), "Hi")


def test_an_error_in_the_middle_of_a_stream(wire: Wire, model: Make, colour: Colour) -> None:
    begun = events_of_response(response(said("Hello.")))[:5]
    wire.events(*begun, ("error", {"type": "error", "code": "server_error", "message": "on fire", "param": None}))
    chunks: list[Any] = []
    with pytest.raises(ModelOverloaded, match="on fire"):
        colour.stream(model(), "Hi", into=chunks)
    assert [chunk.text for chunk in chunks] == ["Hel"]
    too_long = {"type": "error", "code": "context_length_exceeded", "message": "Your input exceeds the context window."}
    wire.events(("error", too_long))
    with pytest.raises(ContextOverflow):
        colour.stream(model(), "Hi")


def test_a_stream_that_breaks_off(wire: Wire, model: Make, colour: Colour) -> None:
    begun = events_of_response(response(said("Hello.")))[:-1]
    for then in ("end", "cut"):
        wire.events(*begun, then=then)
        with pytest.raises(ModelConnectionError):
            colour.stream(model(), "Hi")


def test_a_server_that_streams_less(wire: Wire, model: Make, colour: Colour) -> None:
    """Some tell items at their end only."""
    body = response(said(cited("Sunny.", URL)), CALL, FREE)
    events = [
        each for each in events_of_response(body) if each[0] in ("response.output_item.done", "response.completed")
    ]
    wire.events(*events)
    answer = colour.whole(colour.stream(model(), "Hi"))
    assert answer.text == "Sunny."
    assert [call["args"] for call in answer.tool_calls] == [{"a": 1, "b": 2}, {"input": 'print("hé\\n")'}]


def test_logprobs_are_facts_about_the_answer(wire: Wire, model: Make, colour: Colour) -> None:
    scores = [{"token": "Hi", "logprob": -0.1, "bytes": [72, 105], "top_logprobs": []}]
    part = {"type": "output_text", "text": "Hi", "annotations": [], "logprobs": scores}
    wire.items(said(part))
    assert colour.invoke(model(logprobs=True), "Hi").response_metadata["logprobs"] == {"content": scores}


def test_a_role_without_a_place(wire: Wire, model: Make) -> None:
    with pytest.raises(InvalidHistory, match="Message 1"):
        model().invoke([HumanMessage("Hi"), ChatMessage("x", role="narrator")])
    assert wire.requests == []


def test_media_in_their_places(wire: Wire, model: Make, colour: Colour) -> None:
    blocks = [
        {"type": "text", "text": "What?"},
        {"type": "image", "url": "https://x/y.png", "extras": {"detail": "low"}},
        {"type": "image", "file_id": "file_1"},
        {"type": "file", "base64": "aGk=", "mime_type": "application/pdf", "filename": "a.pdf"},
        {"type": "file", "url": "https://x/y.pdf"},
        {"type": "file", "file_id": "file_2"},
    ]
    call = {"name": "look", "args": {}, "id": "call_1", "type": "tool_call"}
    wire.say("A dot.")
    colour.invoke(
        model(),
        [HumanMessage(blocks), AIMessage("", tool_calls=[call]), ToolMessage(blocks[:2], tool_call_id="call_1")],
    )
    picture = {"type": "input_image", "image_url": "https://x/y.png", "detail": "low"}
    assert sent(wire)[0]["content"] == [
        {"type": "input_text", "text": "What?"},
        picture,
        {"type": "input_image", "file_id": "file_1", "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="},
        {"type": "input_file", "file_url": "https://x/y.pdf"},
        {"type": "input_file", "file_id": "file_2"},
    ]
    assert sent(wire)[-1]["output"] == [{"type": "input_text", "text": "What?"}, picture]


def test_sound_has_no_place_there(wire: Wire, model: Make) -> None:
    sound = {"type": "audio", "base64": "aGk=", "mime_type": "audio/mpeg"}
    with pytest.raises(InvalidHistory, match="takes no audio"):
        model().invoke([HumanMessage([sound])])
    wire.say("Yes.")
    model().invoke([HumanMessage([sound]), AIMessage("Hm."), HumanMessage("And?")])
    assert "of type audio" in str(sent(wire)[0])


def test_an_agent_that_thinks_and_searches(wire: Wire, model: Make, colour: Colour) -> None:
    from runwell import create_agent

    wire.items(THOUGHT, SEARCH, CALL)
    wire.items(SILENT, said("Three."))
    agent = create_agent(model(), [add, {"type": "web_search"}])
    state = colour.invoke(agent, {"messages": "1 + 2?"})
    assert state["messages"][-1].text == "Three."
    kinds = [item.get("type", item.get("role")) for item in sent(wire)]
    assert kinds == ["user", "reasoning", "web_search_call", "function_call", "function_call_output"]


def test_calls_of_a_script(wire: Wire, model: Make) -> None:
    wire.say(calls=[Call("add", {"a": 1, "b": 2}, "x")])
    assert model().bind_tools([add]).invoke("Hi").tool_calls[0]["id"] == "x"
