"""What is Ollama's own: options, thoughts, formats, calls without ids, keys that stay at home."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runwell.errors import ModelError, UnsupportedByProvider
from runwell.messages import AIMessage, HumanMessage, ToolMessage
from runwell.models import init_chat_model
from runwell.providers.ollama import ChatOllama
from runwell.testing.chat_wire import Colour
from runwell.testing.wire import OllamaDialect, WireServer


@pytest.fixture
def wire() -> Iterator[WireServer]:
    with WireServer(OllamaDialect()) as server:
        yield server


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> Colour:
    return Colour(request.param)


def nest(place: dict[str, int | None], tags: list[str]) -> str:
    """Take nested arguments."""
    return str(place) + str(tags)


def line(content: str = "", *, done: bool = False, **message: Any) -> dict[str, Any]:
    said = {"model": "m", "message": {"role": "assistant", "content": content, **message}, "done": done}
    return {**said, "done_reason": "stop", "prompt_eval_count": 5, "eval_count": 2} if done else said


def test_options_and_what_goes_beside_them(wire: WireServer, colour: Colour) -> None:
    wire.say("Hello.")
    model = init_chat_model(
        "ollama:llama3:8b", base_url=wire.base_url, temperature=0, num_ctx=512, num_predict=7, keep_alive="5m"
    )
    colour.invoke(model, "Hi", seed=3)
    body = wire.last["body"]
    assert body["model"] == "llama3:8b"
    assert body["options"] == {"temperature": 0, "num_ctx": 512, "num_predict": 7, "seed": 3}
    assert body["keep_alive"] == "5m"
    assert wire.last["path"] == "/api/chat"


def test_the_whole_schema_of_a_tool_is_sent(wire: WireServer, colour: Colour) -> None:
    wire.say("Hello.")
    colour.invoke(ChatOllama(model="m", base_url=wire.base_url).bind_tools([nest]), "Hi")
    sent = wire.asked.tools["nest"]["properties"]["place"]
    assert sent["additionalProperties"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}


def test_thoughts(wire: WireServer, colour: Colour) -> None:
    model = ChatOllama(model="m", base_url=wire.base_url, reasoning=True)
    wire.json(line("Three.", done=True, thinking="1 and 2."))
    answer = colour.invoke(model, "Hi")
    assert wire.last["body"]["think"] is True
    assert answer.additional_kwargs == {"reasoning_content": "1 and 2."}
    wire.events(line(thinking="1 and"), line(thinking=" 2."), line("Three."), line(done=True))
    streamed = colour.whole(colour.stream(model, "Hi"))
    assert (streamed.content, streamed.additional_kwargs) == (answer.content, answer.additional_kwargs)
    wire.say("Yes.")
    colour.invoke(model, [HumanMessage("Hi"), answer, HumanMessage("Sure?")])
    assert wire.last["body"]["messages"][1]["thinking"] == "1 and 2."


def test_a_result_names_its_tool(wire: WireServer) -> None:
    call = {"name": "add", "args": {}, "id": "1", "type": "tool_call"}
    wire.say("3")
    ChatOllama(model="m", base_url=wire.base_url).invoke(
        [HumanMessage("Hi"), AIMessage("", tool_calls=[call]), ToolMessage("3", tool_call_id="1")]
    )
    assert wire.last["body"]["messages"][2]["tool_name"] == "add"


def test_tools_cannot_be_forced(wire: WireServer) -> None:
    model = ChatOllama(model="m", base_url=wire.base_url)
    for choice in ("any", "none", "nest", True):
        with pytest.raises(UnsupportedByProvider, match="which tools to call"):
            model.bind_tools([nest], tool_choice=choice)
    with pytest.raises(UnsupportedByProvider, match="one call"):
        model.bind_tools([nest], parallel_tool_calls=False)
    with pytest.raises(UnsupportedByProvider, match="strict"):
        model.bind_tools([nest], strict=True)


def test_structured_output_is_by_schema(wire: WireServer, colour: Colour) -> None:
    schema = {"title": "A", "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    wire.say('{"a": 1}')
    assert colour.invoke(ChatOllama(model="m", base_url=wire.base_url).with_structured_output(schema), "Hi") == {"a": 1}
    assert wire.asked.schema is not None
    wire.say('{"a": 1}')
    colour.invoke(ChatOllama(model="m", base_url=wire.base_url, format="json"), "Hi")
    assert wire.last["body"]["format"] == "json"


def test_an_error_in_the_middle_of_a_stream(wire: WireServer, colour: Colour) -> None:
    wire.events(line("Hel"), {"error": "the GPU is on fire"})
    with pytest.raises(ModelError, match="the GPU is on fire"):
        colour.stream(ChatOllama(model="m", base_url=wire.base_url), "Hi")


def test_a3_the_key_in_the_environment_goes_to_no_server_of_yours(
    wire: WireServer, colour: Colour, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A3"""
    monkeypatch.setenv("OLLAMA_API_KEY", "sk-cloud")
    wire.say("Hello.")
    colour.invoke(ChatOllama(model="m", base_url=wire.base_url), "Hi")
    assert "authorization" not in wire.last["headers"]
    wire.say("Hello.")
    colour.invoke(ChatOllama(model="m", base_url=wire.base_url, api_key="mine"), "Hi")
    assert wire.last["headers"]["authorization"] == "Bearer mine"
