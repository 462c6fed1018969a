"""What is Mistral's own: ids of nine letters, system messages at the top, its finish reasons and errors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runwell.errors import MissingApiKey, ModelAuthenticationError, ModelError
from runwell.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.models import init_chat_model
from runwell.observe import DecisionLog
from runwell.providers.mistral import ChatMistralAI
from runwell.testing.chat_wire import Colour
from runwell.testing.wire import MistralDialect, Said, WireServer


@pytest.fixture
def wire() -> Iterator[WireServer]:
    with WireServer(MistralDialect()) as server:
        yield server


@pytest.fixture
def model(wire: WireServer) -> ChatMistralAI:
    return ChatMistralAI(model="m", api_key="k", base_url=wire.base_url)


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> Colour:
    return Colour(request.param)


def test_ids_are_nine_letters_the_same_in_call_and_result(
    wire: WireServer, model: ChatMistralAI, colour: Colour
) -> None:
    calls = [{"name": "add", "args": {}, "id": given, "type": "tool_call"} for given in ("toolu_01ABC", "D681PevKs")]
    results = [ToolMessage("3", tool_call_id=str(call["id"])) for call in calls]
    wire.say("Three.")
    colour.invoke(model, [HumanMessage("Hi"), AIMessage("", tool_calls=calls), *results])
    made, kept = wire.asked.calls
    assert kept == "D681PevKs"
    assert len(made) == 9
    assert made.isalnum()
    assert list(wire.asked.results) == [made, kept]


def test_b9_system_messages_go_to_the_top(wire: WireServer, model: ChatMistralAI, colour: Colour) -> None:
    """B9"""
    log = DecisionLog()
    wire.say("Ja.")
    history = [SystemMessage("Be brief."), HumanMessage("Hi"), AIMessage("Hello."), SystemMessage("In German.")]
    colour.invoke(model, history, {"callbacks": [log]})
    assert [turn["role"] for turn in wire.last["body"]["messages"]] == ["system", "user", "assistant"]
    assert wire.asked.system == ["Be brief.\n\nIn German."]
    [taken] = log.of("B9")
    assert taken.outcome == "1 moved to the top"


THOUGHTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}], "closed": True},
    {"type": "text", "text": "Yes"},
    {"type": "reference", "reference_ids": [1]},
    {"type": "text", "text": "."},
]


@pytest.mark.parametrize("form", ["invoke", "stream"])
def test_thoughts_and_references_stay_and_go_back(
    wire: WireServer, model: ChatMistralAI, colour: Colour, form: str
) -> None:
    if form == "invoke":
        answer = MistralDialect().answer(Said())
        answer["choices"][0] |= {"finish_reason": "stop", "message": {"role": "assistant", "content": THOUGHTS}}
        wire.json(answer)
        said = colour.invoke(model, "Hi")
    else:
        first, *_, end, usage, done = MistralDialect().events(Said(text="x"))
        deltas: list[object] = [[THOUGHTS[0]], "Y", "es", [THOUGHTS[2]], [THOUGHTS[3]]]
        pieces = [
            {**first, "choices": [{"index": 0, "delta": {"content": each}, "finish_reason": None}]} for each in deltas
        ]
        wire.events(first, *pieces, end, usage, done)
        said = colour.whole(colour.stream(model, "Hi"))
    assert said.text == "Yes."
    assert [block["type"] for block in said.content_blocks] == ["reasoning", "text", "non_standard", "text"]
    wire.say("Sure.")
    colour.invoke(model, [HumanMessage("Hi"), said, HumanMessage("Sure?")])
    sent = wire.last["body"]["messages"][1]["content"]
    assert [{key: part[key] for key in part if key != "closed"} for part in sent] == [
        {key: part[key] for key in part if key != "closed"} for part in THOUGHTS
    ]


def test_media_go_in_the_words_of_the_api(wire: WireServer, model: ChatMistralAI, colour: Colour) -> None:
    wire.say("Hm.")
    content = [
        {"type": "file", "base64": "aGk=", "mime_type": "application/pdf", "filename": "a.pdf"},
        {"type": "audio", "base64": "aGk=", "mime_type": "audio/mpeg"},
        {"type": "video", "url": "https://x/v.mp4"},
    ]
    colour.invoke(model, [HumanMessage(content)])
    document, sound, film = wire.last["body"]["messages"][0]["content"]
    assert (document["document_url"], document["document_name"]) == ("data:application/pdf;base64,aGk=", "a.pdf")
    assert sound["input_audio"] == "aGk="
    assert film["text"] == "[video: https://x/v.mp4]"


def test_a_window_that_is_full_is_a_length(wire: WireServer, model: ChatMistralAI, colour: Colour) -> None:
    answer = MistralDialect().answer(Said())
    answer["choices"][0] |= {"finish_reason": "model_length", "message": {"role": "assistant", "content": "Hel"}}
    wire.json(answer)
    assert colour.invoke(model, "Hi").response_metadata["finish_reason"] == "length"


@pytest.mark.parametrize("form", ["invoke", "stream"])
def test_an_answer_that_broke_off_is_none(wire: WireServer, colour: Colour, form: str) -> None:
    model = ChatMistralAI(model="m", api_key="k", base_url=wire.base_url, max_retries=0)
    if form == "invoke":
        answer = MistralDialect().answer(Said())
        answer["choices"][0] |= {"finish_reason": "error", "message": {"role": "assistant", "content": "Hel"}}
        wire.json(answer)
    else:
        *start, end, usage, done = MistralDialect().events(Said(text="Hel"))
        end["choices"][0]["finish_reason"] = "error"
        wire.events(*start, end, usage, done)
    with pytest.raises(ModelError, match="error: the answer was not finished") as caught:
        (colour.invoke if form == "invoke" else colour.stream)(model, "Hi")
    assert caught.value.retryable


def test_errors_in_either_of_its_forms(wire: WireServer, model: ChatMistralAI, colour: Colour) -> None:
    wire.json({"detail": "Unauthorized"}, 401)
    with pytest.raises(ModelAuthenticationError, match="Unauthorized"):
        colour.invoke(model, "Hi")


def test_init_chat_model(wire: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MISTRAL_API_KEY", raising=False)
    with pytest.raises(MissingApiKey, match="MISTRAL_API_KEY"):
        init_chat_model("mistralai:mistral-large-latest")
    monkeypatch.setenv("MISTRAL_API_KEY", "sk-env")
    wire.say("Hello.")
    model = init_chat_model("mistral-large-latest", base_url=wire.base_url, random_seed=3, max_tokens=5)
    assert model.invoke("Hi").text == "Hello."
    assert wire.last["path"].partition("#")[0] == "/v1/chat/completions"
    assert wire.last["body"]["random_seed"] == 3
    assert wire.last["headers"]["authorization"] == "Bearer sk-env"
