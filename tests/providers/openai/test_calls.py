"""Requests and answers that go well."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from runwell.errors import MissingApiKey, ModelRefusalError, UnsupportedByProvider
from runwell.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.observe import BaseCallbackHandler
from runwell.providers.openai import ChatOpenAI

Make = Callable[..., ChatOpenAI]


def test_an_answer(wire: Any, model: Make, colour: Any) -> None:
    wire.json(wire.completion(), x_request_id="req-7")
    answer = colour.invoke(model(temperature=0, max_tokens=5), [SystemMessage("Be brief."), ("user", "Hi")])
    assert isinstance(answer, AIMessage)
    assert answer.text == "Hello."
    assert answer.id is not None
    assert answer.id.startswith("run-")
    assert answer.usage_metadata == {
        "input_tokens": 9,
        "output_tokens": 3,
        "total_tokens": 12,
        "input_token_details": {"cache_read": 4},
        "output_token_details": {"reasoning": 2},
    }
    assert answer.response_metadata["model_name"] == "served-model-1"  # A4: the model that answered
    assert answer.response_metadata["model_provider"] == "openai"
    assert answer.response_metadata["finish_reason"] == "stop"
    assert answer.response_metadata["request_id"] == "req-7"
    assert wire.last["path"] == "/v1/chat/completions"
    assert wire.last["headers"]["authorization"].startswith("Bearer sk-test")
    assert wire.last["body"] == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        "temperature": 0,
        "max_tokens": 5,
    }


def test_a_stream(wire: Any, model: Make, colour: Any) -> None:
    wire.events(*wire.text, *wire.end)
    chunks = colour.stream(model(), "Hi")
    assert [chunk.text for chunk in chunks] == ["Hel", "lo.", ""]
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[-1].chunk_position == "last"
    whole = (chunks[0] + chunks[1:]).to_message()
    assert whole.text == "Hello."
    assert whole.usage_metadata == {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11}
    assert whole.response_metadata == {
        "model_provider": "openai",
        "model_name": "served-model-1",
        "finish_reason": "stop",
        "id": "chatcmpl-1",
    }
    assert wire.last["body"]["stream"] is True
    assert wire.last["body"]["stream_options"] == {"include_usage": True}


def test_usage_said_with_every_event_counts_once(wire: Any, model: Make, colour: Any) -> None:
    wire.events(*(wire.event({"content": piece}, usage=wire.usage) for piece in "abc"), *wire.end)
    chunks = colour.stream(model(), "Hi")
    assert (chunks[0] + chunks[1:]).usage_metadata["total_tokens"] == 11


def test_tool_calls_split_over_interleaved_events(wire: Any, model: Make, colour: Any) -> None:
    wire.events(
        wire.event({"role": "assistant", "content": None}),
        wire.call_event(0, "", "add", "call_a"),
        wire.call_event(0, '{"a": '),
        wire.call_event(1, "", "look_up", "call_b"),
        wire.call_event(1, '{"word"'),
        wire.call_event(0, "1}"),
        wire.call_event(1, ': "x"}'),
        wire.event({}, finish="tool_calls"),
        "[DONE]",
    )
    chunks = colour.stream(model(), "Hi")
    assert (chunks[0] + chunks[1:]).to_message().tool_calls == [
        {"name": "add", "args": {"a": 1}, "id": "call_a", "type": "tool_call"},
        {"name": "look_up", "args": {"word": "x"}, "id": "call_b", "type": "tool_call"},
    ]


def test_tool_calls_and_broken_ones(wire: Any, model: Make, colour: Any) -> None:
    calls = [
        {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}},
        {"id": "2", "type": "function", "function": {"name": "add", "arguments": '{"a": '}},
    ]
    wire.json(wire.completion(None, finish="tool_calls", tool_calls=calls))
    answer = colour.invoke(model(), "Hi")
    assert answer.content == ""
    assert [call["id"] for call in answer.tool_calls] == ["1"]
    assert answer.invalid_tool_calls[0]["args"] == '{"a": '
    # sent back, so that each call can be answered, and as JSON, which servers of this API read
    wire.json(wire.completion())
    history = [HumanMessage("Hi"), answer, ToolMessage("2", tool_call_id="1"), ToolMessage("broken", tool_call_id="2")]
    colour.invoke(model(), history)
    sent = wire.last["body"]["messages"]
    calls[1]["function"]["arguments"] = '{"malformed_arguments": "{\\"a\\": "}'  # type: ignore[index]
    assert sent[1] == {"role": "assistant", "content": None, "tool_calls": calls}
    assert sent[2] == {"role": "tool", "tool_call_id": "1", "content": "2"}


def test_fields_of_a_server_are_kept_and_sent_back(wire: Any, model: Make, colour: Any) -> None:
    wire.json(wire.completion("Yes.", reasoning_content="Because.", annotations=[{"type": "url_citation"}]))
    answer = colour.invoke(model(), "Hi")
    assert answer.additional_kwargs == {"reasoning_content": "Because.", "annotations": [{"type": "url_citation"}]}
    wire.json(wire.completion())
    colour.invoke(model(), [HumanMessage("Hi"), answer, HumanMessage("Sure?")])
    assert wire.last["body"]["messages"][1] == {
        "role": "assistant",
        "content": "Yes.",
        "reasoning_content": "Because.",
        "annotations": [{"type": "url_citation"}],
    }


def test_fields_of_a_server_add_up_in_a_stream(wire: Any, model: Make, colour: Any) -> None:
    wire.events(
        wire.event({"reasoning_content": "Be"}), wire.event({"reasoning_content": "cause."}), *wire.text, *wire.end
    )
    chunks = colour.stream(model(), "Hi")
    assert (chunks[0] + chunks[1:]).additional_kwargs == {"reasoning_content": "Because."}


def test_bound_tools_are_sent(wire: Any, model: Make, colour: Any) -> None:
    def add(a: int, b: int = 0) -> int:
        """Add two numbers.

        Args:
            a: the first
        """
        return a + b

    wire.json(wire.completion())
    bound = model().bind_tools([add, {"type": "web_search"}], tool_choice="add", parallel_tool_calls=False)
    colour.invoke(bound, "Hi", stop=["END"])
    body = wire.last["body"]
    function = body["tools"][0]["function"]
    assert function["name"] == "add"
    assert function["description"] == "Add two numbers."
    assert function["parameters"]["properties"]["a"]["description"] == "the first"
    assert function["parameters"]["required"] == ["a"]
    assert body["tools"][1] == {"type": "web_search"}
    assert body["tool_choice"] == {"type": "function", "function": {"name": "add"}}
    assert body["parallel_tool_calls"] is False
    assert body["stop"] == ["END"]


def test_no_tools_at_all_are_not_sent_as_an_empty_list(wire: Any, model: Make, colour: Any) -> None:
    wire.json(wire.completion())
    colour.invoke(model().bind_tools([], parallel_tool_calls=False), "Hi")
    assert wire.last["body"].keys() == {"model", "messages"}


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int = 0


def test_structured_output_by_json_schema(wire: Any, model: Make, colour: Any) -> None:
    wire.json(wire.completion('{"name": "Ada", "age": 36}'))
    structured = model().with_structured_output(Person, method="json_schema")
    assert colour.invoke(structured, "Who?") == Person(name="Ada", age=36)
    sent = wire.last["body"]["response_format"]
    assert sent["type"] == "json_schema"
    assert sent["json_schema"]["name"] == "Person"
    assert sent["json_schema"]["strict"] is True
    assert sent["json_schema"]["schema"]["required"] == ["name", "age"]
    assert sent["json_schema"]["schema"]["additionalProperties"] is False


def test_a_refusal_is_an_error_of_its_own(wire: Any, model: Make, colour: Any) -> None:
    wire.json(wire.completion(None, refusal="I would rather not."))
    with pytest.raises(ModelRefusalError, match="I would rather not"):
        colour.invoke(model().with_structured_output(Person, method="json_schema"), "Who?")


def test_a_watching_handler_gets_tokens_of_an_invoke(wire: Any, model: Make, colour: Any) -> None:
    class Tokens(BaseCallbackHandler):
        wants_tokens = True

        def __init__(self) -> None:
            self.tokens: list[str] = []
            self.ended: list[Any] = []

        def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
            self.tokens.append(token)

        def on_llm_end(self, response: Any, **kwargs: Any) -> None:
            self.ended.append(response.generations[0][0].message)

    handler = Tokens()
    wire.events(*wire.text, *wire.end)
    answer = colour.invoke(model(), "Hi", {"callbacks": [handler]})
    assert wire.last["body"]["stream"] is True
    assert handler.tokens == ["Hel", "lo.", ""]
    assert handler.ended == [answer]
    assert type(answer) is AIMessage
    assert answer.text == "Hello."


def test_one_model_serves_several_event_loops_and_threads(wire: Any, model: Make) -> None:
    one = model()

    async def two_at_once() -> list[str]:
        return [answer.text for answer in await asyncio.gather(one.ainvoke("a"), one.ainvoke("b"))]

    for _ in range(6):
        wire.json(wire.completion())
    assert asyncio.run(two_at_once()) == ["Hello."] * 2
    assert asyncio.run(two_at_once()) == ["Hello."] * 2
    assert [answer.text for answer in one.batch(["a", "b"])] == ["Hello."] * 2


def test_leaving_a_stream_ends_the_call(wire: Any, model: Make) -> None:
    wire.events(*wire.text, then="flood")
    stream = model().stream("Hi")
    assert next(stream).text == "Hel"
    stream.close()  # type: ignore[attr-defined]
    assert wire.gone.wait(10), "the server still writes to somebody"


def test_leaving_an_async_stream_ends_the_call(wire: Any, model: Make) -> None:
    wire.events(*wire.text, then="flood")

    async def read_one() -> str:
        stream = model().astream("Hi")
        async for chunk in stream:
            await stream.aclose()  # type: ignore[attr-defined]
            return chunk.text
        raise AssertionError("no chunk")

    assert asyncio.run(read_one()) == "Hel"
    assert wire.gone.wait(10), "the server still writes to somebody"


def test_a_slow_reader_is_no_silent_server(wire: Any, model: Make) -> None:
    wire.events(*wire.text, *wire.end)
    texts = []
    for chunk in model(stream_idle_timeout=0.05).stream("Hi"):
        texts.append(chunk.text)
        threading.Event().wait(0.12)
    assert texts == ["Hel", "lo.", ""]


def test_a3_environment_variables_reroute_nothing(
    wire: Any, model: Make, colour: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/elsewhere")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-env")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-env")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer stolen\nX-Extra: env")
    wire.json(wire.completion())
    colour.invoke(model(default_headers={"X-Mine": "yes"}), "Hi")
    headers = wire.last["headers"]
    assert headers["authorization"] == "Bearer sk-test-0123456789-secret"
    assert headers["x-mine"] == "yes"
    assert not {"openai-organization", "openai-project", "x-extra"} & headers.keys()
    assert ChatOpenAI(model="m", api_key="k").base_url == "https://api.openai.com/v1"


def test_a3_base_url_env_is_a_choice(wire: Any, colour: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", wire.base_url)
    wire.json(wire.completion())
    assert colour.invoke(ChatOpenAI(model="m", api_key="none", base_url="env"), "Hi").text == "Hello."


def test_the_key_may_come_from_a_function(wire: Any, model: Make, colour: Any) -> None:
    async def key() -> str:
        return "sk-rotated"

    wire.json(wire.completion())
    colour.invoke(model(api_key=key), "Hi")
    assert wire.last["headers"]["authorization"] == "Bearer sk-rotated"


def test_a_missing_key_is_said_at_construction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(MissingApiKey, match="OPENAI_API_KEY"):
        ChatOpenAI(model="m")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    assert ChatOpenAI(model="m").api_key.get_secret_value() == "sk-env"


def test_openai_itself_is_sent_the_new_name_for_the_token_limit() -> None:
    at_openai = ChatOpenAI(model="gpt-5.5", api_key="k", max_tokens=7)
    body, _ = at_openai._request([HumanMessage("Hi")], None, {}, False)
    assert body["max_completion_tokens"] == 7
    assert "max_tokens" not in body
    assert at_openai.profile is not None
    assert at_openai.profile["structured_output"] is True


def test_extra_body_and_model_kwargs(wire: Any, model: Make, colour: Any) -> None:
    wire.json(wire.completion())
    colour.invoke(
        model(model_kwargs={"metadata": {"a": "b"}}, extra_body={"top_k": 4}), "Hi", extra_headers={"X-A": "1"}
    )
    assert wire.last["body"]["metadata"] == {"a": "b"}
    assert wire.last["body"]["top_k"] == 4
    assert wire.last["headers"]["x-a"] == "1"


def test_several_answers_cannot_be_streamed(wire: Any, model: Make) -> None:
    with pytest.raises(UnsupportedByProvider, match="n=2"):
        list(model(model_kwargs={"n": 2}).stream("Hi"))
    assert wire.requests == []


def test_media_in_messages(wire: Any, model: Make) -> None:
    wire.json(wire.completion())
    picture = {"type": "image", "base64": "aGk=", "mime_type": "image/jpeg"}
    call = {"name": "look", "args": {}, "id": "1", "type": "tool_call"}
    model().invoke(
        [
            HumanMessage(["See:", picture, {"type": "image", "url": "https://x/y.png"}]),
            AIMessage("", tool_calls=[call]),
            ToolMessage(["Here.", picture], tool_call_id="1"),
        ]
    )
    shown = {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,aGk="}}
    sent = wire.last["body"]["messages"]
    assert sent[0]["content"] == [
        {"type": "text", "text": "See:"},
        shown,
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
    ]
    # a tool's result has no place for it: it follows in a user's message
    assert sent[2]["content"] == [{"type": "text", "text": "Here."}]
    assert sent[3]["role"] == "user"
    assert sent[3]["content"][1] == shown
    assert json.dumps(sent)
