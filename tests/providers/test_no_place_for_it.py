"""What a vendor has no place for, in a history that it must go on with: converted, or refused before it is sent."""

from __future__ import annotations

from typing import Any

import pytest

from runwell import init_chat_model
from runwell.errors import InvalidHistory, InvalidInput, ModelConnectionError
from runwell.messages import AIMessage, FunctionMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from runwell.testing import WireServer
from runwell.testing.wire import (
    AnthropicDialect,
    BedrockDialect,
    CohereDialect,
    GoogleDialect,
    MistralDialect,
    OllamaDialect,
    OpenAIDialect,
)

DIALECTS: dict[str, Any] = {
    "openai": OpenAIDialect,
    "anthropic": AnthropicDialect,
    "google_genai": GoogleDialect,
    "mistralai": MistralDialect,
    "cohere": CohereDialect,
    "bedrock_converse": BedrockDialect,
    "ollama": OllamaDialect,
}
DATA = "iVBORw0KGgo="
PICTURE = {"type": "image", "base64": DATA, "mime_type": "image/png"}
SOUND = {"type": "audio", "base64": DATA, "mime_type": "audio/wav"}
FILM = {"type": "video", "base64": DATA, "mime_type": "video/mp4"}
CALL = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}

every = pytest.mark.parametrize("name", list(DIALECTS))


def sent(name: str, messages: list[Any]) -> str:
    """The body that a vendor got."""
    with WireServer(DIALECTS[name]()) as wire:
        wire.say("Fine.")
        init_chat_model(f"{name}:m", base_url=wire.base_url, api_key="none").invoke(messages)
        return str(wire.last["body"])


def refused(name: str, messages: list[Any], kind: type[Exception], match: str) -> None:
    with WireServer(DIALECTS[name]()) as wire:
        model = init_chat_model(f"{name}:m", base_url=wire.base_url, api_key="none")
        with pytest.raises(kind, match=match):
            model.invoke(messages)
        assert not wire.requests


@pytest.mark.parametrize("name", [name for name in DIALECTS if name != "ollama"])  # which takes them anywhere
def test_b9_a_picture_of_the_systems_is_named_in_a_text(name: str) -> None:
    body = sent(name, [SystemMessage([{"type": "text", "text": "Use this."}, PICTURE]), HumanMessage("Hi")])
    assert "[image: image/png]" in body
    assert DATA not in body


@pytest.mark.parametrize("name", ["openai", "anthropic", "cohere", "mistralai", "bedrock_converse"])
def test_b9_a_picture_that_another_vendors_model_made_stops_no_conversation(name: str) -> None:
    made = AIMessage(
        [{"type": "text", "text": "Here."}, PICTURE, SOUND], response_metadata={"model_provider": "google_genai"}
    )
    body = sent(name, [HumanMessage("Draw"), made, HumanMessage("Thanks")])
    assert "Here." in body
    assert DATA not in body


def test_b9_sound_and_film_are_named_to_anthropic_in_turns_and_in_results() -> None:
    history = [
        HumanMessage([{"type": "text", "text": "What is it?"}, SOUND]),
        AIMessage("", tool_calls=[CALL]),
        ToolMessage([{"type": "text", "text": "Found:"}, FILM, PICTURE], tool_call_id="c1"),
    ]
    body = sent("anthropic", history)
    assert "[audio: audio/wav]" in body
    assert "[video: video/mp4]" in body
    assert "'type': 'image'" in body


@every
@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), object(), {1, 2}, [b"x"]], ids=lambda each: str(type(each))
)
def test_arguments_that_json_cannot_say_are_refused(name: str, value: Any) -> None:
    call = {"name": "look", "args": {"at": {"deep": value}}, "id": "c1", "type": "tool_call"}
    history = [HumanMessage("a"), AIMessage("", tool_calls=[call]), ToolMessage("r", tool_call_id="c1")]
    refused(name, history, InvalidInput, r"Message 1 \(AIMessage\) has a call of 'look' whose arguments hold .* JSON")


@every
def test_an_instruction_to_a_history_is_refused_alike(name: str) -> None:
    refused(
        name, [HumanMessage("a"), RemoveMessage(id="x")], InvalidHistory, "Message 1 is a RemoveMessage.*\n.*add_mess"
    )


@pytest.mark.parametrize("name", [name for name in DIALECTS if name not in ("openai", "google_genai")])
def test_a_functions_result_says_what_to_make_of_it(name: str) -> None:
    messages = [HumanMessage("a"), FunctionMessage("x", name="f")]
    refused(name, messages, InvalidHistory, "Message 1 is a FunctionMessage, which this.*\n.*ToolMessage that answers")


@pytest.mark.parametrize("name", ["anthropic", "google_genai", "bedrock_converse"])
def test_instructions_alone_are_refused_where_they_stand_apart(name: str) -> None:
    refused(name, [SystemMessage("Be brief.")], InvalidHistory, "holds instructions alone.*\n.*Add a HumanMessage")


@every
def test_a_server_that_is_not_there_is_told_with_one_full_stop(name: str) -> None:
    model = init_chat_model(f"{name}:m", base_url="http://127.0.0.1:9", api_key="none", max_retries=0)
    with pytest.raises(ModelConnectionError, match=r"^http://127.0.0.1:9 was not reached, or .*[^.]\. \[RW515\]"):
        model.invoke("Hi")
