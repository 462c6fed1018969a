"""Content blocks that are not in the standard form, and messages that say nothing: one behaviour with every vendor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runwell import create_agent, init_chat_model
from runwell.errors import InvalidHistory, InvalidInput, UnsupportedByProvider
from runwell.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.observe.handlers import BaseCallbackHandler
from runwell.persistence.checkpoints import InMemorySaver
from runwell.providers.openai import ChatOpenAI, ChatOpenRouter, ChatVLLM
from runwell.testing import WireServer
from runwell.testing.wire import (
    AnthropicDialect,
    BedrockDialect,
    CohereDialect,
    GoogleDialect,
    MistralDialect,
    OllamaDialect,
    OpenAIDialect,
    ResponsesDialect,
)

DIALECTS: dict[str, Any] = {
    "openai": OpenAIDialect(),
    "responses": ResponsesDialect(),
    "anthropic": AnthropicDialect(),
    "google_genai": GoogleDialect(),
    "mistralai": MistralDialect(),
    "cohere": CohereDialect(),
    "bedrock_converse": BedrockDialect(),
    "ollama": OllamaDialect(),
}
DATA = "iVBORw0KGgo="
CALL: Any = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}
FOUND = {"type": "search_result", "source": "https://w.example", "title": "Weather"} | {
    "content": [{"type": "text", "text": "It rains in Bergen."}]
}


class Decisions(BaseCallbackHandler):
    """Those that were made of where things stand."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def on_decision(self, decision: Any, **about: Any) -> None:
        if decision.seat == "B9":
            self.told.append(f"{decision.outcome}: {decision.reason}")


@pytest.fixture(scope="module")
def wires() -> Iterator[dict[str, WireServer]]:
    servers = {name: WireServer(dialect) for name, dialect in DIALECTS.items()}
    yield servers
    for server in servers.values():
        server.close()


class Vendor:
    def __init__(self, name: str, wire: WireServer) -> None:
        self.name = name
        self.wire = wire
        wire.script.clear()
        wire.requests.clear()
        prefix, further = ("openai", {"use_responses_api": True}) if name == "responses" else (name, {})
        self.model: Any = init_chat_model(f"{prefix}:m", base_url=wire.base_url, api_key="none", **further)
        self.watch = Decisions()

    def sent(self, *messages: Any) -> str:
        """The body that the vendor got."""
        self.wire.say("Fine.")
        self.model.invoke(list(messages), {"callbacks": [self.watch]})
        return str(self.wire.last["body"])

    def refuses(self, kind: type[Exception], match: str, *messages: Any) -> None:
        with pytest.raises(kind, match=match):
            self.model.invoke(list(messages))
        assert self.wire.requests == []


@pytest.fixture(params=list(DIALECTS))
def vendor(request: pytest.FixtureRequest, wires: dict[str, WireServer]) -> Vendor:
    return Vendor(request.param, wires[request.param])


@pytest.fixture
def openai(wires: dict[str, WireServer]) -> Vendor:
    return Vendor("openai", wires["openai"])


# -- types of blocks


@pytest.mark.parametrize("where", ["human", "system", "tool", "ai"])
def test_a_block_of_nobodys_is_refused_by_type_and_place(vendor: Vendor, where: str) -> None:
    block: Any = ["Look:", {"type": "hologram", "data": "x"}]
    history: list[Any] = {
        "human": [HumanMessage("Hi"), HumanMessage(block)],
        "system": [SystemMessage("Be brief."), SystemMessage(block), HumanMessage("Hi")],
        "tool": [AIMessage("", tool_calls=[CALL]), ToolMessage(block, tool_call_id="c1"), HumanMessage("Hi")],
        "ai": [HumanMessage("Hi"), AIMessage(block), HumanMessage("Hi")],
    }[where]
    who = type(vendor.model).__name__
    vendor.refuses(
        UnsupportedByProvider,
        rf"Message 1 \(\w+\), block 1, is of type 'hologram', which {who} does not",
        *history,
    )


def test_a_type_that_is_nearly_one_is_told(vendor: Vendor) -> None:
    vendor.refuses(UnsupportedByProvider, "did you mean 'image'", HumanMessage([{"type": "imaeg", "url": "https://x"}]))


def test_what_the_program_marks_as_the_vendors_is_not_lost(vendor: Vendor) -> None:
    own = {"type": "hologram", "data": "shine"}
    content: Any = ["Look:", {"type": "non_standard", "value": own}]
    if vendor.name in ("google_genai", "mistralai"):  # whose SDKs check what they send
        content = ["Look:", {"type": "non_standard", "value": {"text": "shine"}}]
    assert "shine" in vendor.sent(HumanMessage(content))


def test_b9_what_another_vendors_blocks_say_is_said(vendor: Vendor) -> None:
    history = [
        HumanMessage("Weather?"),
        AIMessage("", tool_calls=[CALL]),
        ToolMessage([FOUND], tool_call_id="c1"),  # type: ignore[list-item]
        HumanMessage([{"type": "document_url", "document_url": "https://d.example"}, "And?"]),
    ]
    body = vendor.sent(*history)
    assert "It rains in Bergen." in body
    assert "https://d.example" in body
    assert ("search_result" in body) == (vendor.name == "anthropic")
    assert ("document_url" in body.replace("[document_url:", "")) == (vendor.name == "mistralai")
    told = [each for each in vendor.watch.told if "turns in an order" not in each]  # that is Mistral's, and no block's
    assert len(told) == (1 if vendor.name in ("anthropic", "mistralai", "bedrock_converse") else 2)
    assert len(vendor.watch.told) - len(told) == (1 if vendor.name == "mistralai" else 0)


def test_b9_what_only_a_model_says_is_left_out_of_what_people_say(vendor: Vendor) -> None:
    """An agent's answer handed on as a message of a person's: its thoughts and calls are nobody's words."""
    body = vendor.sent(
        HumanMessage([{"type": "reasoning", "reasoning": "Hmm, secret."}, CALL, {"type": "text", "text": "Go."}])
    )
    assert "Go." in body
    assert "secret" not in body
    assert "look" not in body
    assert vendor.watch.told[0].endswith(
        "holds reasoning, tool_call, which " + type(vendor.model).__name__ + " does not take there"
    )


def test_what_a_newer_model_of_another_vendor_said_stops_no_conversation(vendor: Vendor) -> None:
    said = AIMessage(["Yes.", {"type": "thing_of_2030", "x": 1}], response_metadata={"model_provider": "some_vendor"})  # type: ignore[list-item]
    body = vendor.sent(HumanMessage("Hi"), said, HumanMessage("Sure?"))
    assert "Yes." in body
    assert "thing_of_2030" not in body


def test_a_new_item_of_the_responses_api_goes_back_there_and_not_to_chat_completions(
    wires: dict[str, WireServer],
) -> None:
    item = {"type": "non_standard", "value": {"type": "item_of_2030", "id": "x_1"}}
    said = AIMessage([{"type": "text", "text": "Yes."}, item], response_metadata={"model_provider": "openai"})
    history = [HumanMessage("Hi"), said, HumanMessage("Sure?")]
    assert "item_of_2030" in Vendor("responses", wires["responses"]).sent(*history)
    body = Vendor("openai", wires["openai"]).sent(*history)
    assert "Yes." in body
    assert "item_of_2030" not in body


def test_an_answer_to_a_servers_question_is_an_item_of_its_own(wires: dict[str, WireServer]) -> None:
    answer = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    responses = Vendor("responses", wires["responses"])
    responses.sent(HumanMessage([answer]), HumanMessage(["Go on.", answer]))
    assert responses.wire.last["body"]["input"] == [
        answer,
        {"role": "user", "content": [{"type": "input_text", "text": "Go on."}]},
        answer,
    ]


# -- media that chat completions do not take


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ({"type": "image", "file_id": "file-1"}, "takes no image by file_id"),
        ({"type": "input_image", "file_id": "file-1"}, "takes no image by file_id"),
        ({"type": "file", "url": "https://x/y.pdf"}, "takes no file by url"),
        ({"type": "input_file", "file_url": "https://x/y.pdf"}, "takes no file by url"),
        ({"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}}, "takes no file by url"),
        ({"type": "text-plain", "url": "https://x/y.txt", "mime_type": "text/plain"}, "takes no file by url"),
        ({"type": "audio", "url": "https://x/y.wav"}, "takes no audio by url"),
        ({"type": "audio", "file_id": "file-1"}, "takes no audio by file_id"),
    ],
)
def test_b9_media_given_as_chat_completions_do_not_take_them(openai: Vendor, block: Any, told: str) -> None:
    openai.refuses(InvalidHistory, f"Message 0, block 1: ChatOpenAI {told}", HumanMessage(["See:", block]))
    body = openai.sent(HumanMessage(["See:", block]), AIMessage("Yes."), HumanMessage("And?"))
    assert "which this model cannot be shown" in body
    assert "file-1" not in body
    assert "https://x" not in body
    assert openai.watch.told[0].startswith("named in a text: message 0 holds ")


def test_media_that_the_responses_api_takes_and_the_other_does_not(wires: dict[str, WireServer]) -> None:
    class AtOpenAI(ChatOpenAI):
        default_base_url = wires["openai"].base_url

    with pytest.raises(InvalidHistory, match="The Responses API takes it: use_responses_api=True"):
        AtOpenAI(model="m", api_key="k").invoke([HumanMessage([{"type": "file", "url": "https://x/y.pdf"}])])
    body = Vendor("responses", wires["responses"]).sent(
        HumanMessage([{"type": "image", "file_id": "file-1"}, {"type": "file", "url": "https://x/y.pdf"}])
    )
    assert "'file_id': 'file-1'" in body
    assert "'file_url': 'https://x/y.pdf'" in body


def test_a_text_file_in_base64_goes_as_a_file(openai: Vendor) -> None:
    openai.sent(HumanMessage([{"type": "text-plain", "base64": "aGk=", "mime_type": "text/plain"}]))
    [part] = openai.wire.last["body"]["messages"][0]["content"]
    assert part == {"type": "file", "file": {"filename": "file", "file_data": "data:text/plain;base64,aGk="}}


def test_what_servers_like_openais_take_beyond_the_format(wires: dict[str, WireServer]) -> None:
    wire = wires["openai"]
    wire.script.clear()
    film = {"type": "video_url", "video_url": {"url": "https://x/y.mp4"}}
    wire.say("A film.")
    ChatVLLM(model="m", base_url=wire.base_url).invoke([HumanMessage(["See:", film])])
    assert wire.last["body"]["messages"][0]["content"][1] == film
    wire.say("A file.")
    ChatOpenRouter(model="m", api_key="k", base_url=wire.base_url).invoke(
        [HumanMessage(["See:", {"type": "file", "url": "https://x/y.pdf", "filename": "y.pdf"}])]
    )
    assert wire.last["body"]["messages"][0]["content"][1] == {
        "type": "file",
        "file": {"filename": "y.pdf", "file_data": "https://x/y.pdf"},
    }


@pytest.mark.parametrize("name", ["cohere", "ollama", "bedrock_converse"])
def test_b9_a_picture_given_as_the_vendor_does_not_take_it_is_named(wires: dict[str, WireServer], name: str) -> None:
    vendor = Vendor(name, wires[name])
    body = vendor.sent(HumanMessage(["See:", {"type": "image", "file_id": "file-1"}]))
    assert "[image: file-1]" in body
    assert vendor.watch.told == [
        "named in a text: message 0 holds [image: file-1], which has no place there with this provider"
    ]


# -- messages that say nothing


@pytest.mark.parametrize("content", ["", " ", "\n\t ", [], [""], [{"type": "text", "text": " "}, "\n"]], ids=repr)
def test_a_message_that_says_nothing_is_refused(vendor: Vendor, content: Any) -> None:
    vendor.refuses(
        InvalidHistory,
        "Message 1, a HumanMessage, (is empty|holds nothing but blanks)",
        AIMessage("Yes?"),
        HumanMessage(content),
    )


def test_b9_a_thread_with_one_goes_on_when_something_is_said(vendor: Vendor) -> None:
    """What a person sent by mistake is in the thread by then: it must not stop each later turn."""
    body = vendor.sent(SystemMessage(" "), HumanMessage("Hi"), HumanMessage("  "), HumanMessage("Hello?"))
    assert "Hello?" in body
    assert [each for each in vendor.watch.told if each.startswith("left out")] == [
        "left out: message 0 says nothing",
        "left out: message 2 says nothing",
    ]


def test_results_and_answers_of_blanks_are_taken(vendor: Vendor) -> None:
    for blank in ("", " \n"):
        history = [HumanMessage("Hi"), AIMessage(blank, tool_calls=[CALL]), ToolMessage(blank, tool_call_id="c1")]
        body = vendor.sent(*history, AIMessage(blank), HumanMessage("And?"))
        assert "look" in body
        if vendor.name in ("anthropic", "bedrock_converse"):  # which refuse blank texts wherever they stand
            assert "' \\n'" not in body


@pytest.mark.parametrize("name", ["anthropic", "bedrock_converse"])
def test_blank_texts_among_other_blocks_are_left_out_where_they_are_refused(
    wires: dict[str, WireServer], name: str
) -> None:
    blank = {"type": "text", "text": "\n"}
    thought = {"type": "text", "text": "Let me see."}
    body = Vendor(name, wires[name]).sent(
        SystemMessage([blank, thought]),
        HumanMessage([blank, thought]),
        AIMessage([blank, thought], tool_calls=[CALL]),
        ToolMessage([blank, thought], tool_call_id="c1"),  # type: ignore[list-item]
    )
    assert body.count("Let me see.") == 4
    assert "'\\n'" not in body


def test_a_marked_block_that_is_no_dict_is_refused(vendor: Vendor) -> None:
    vendor.refuses(
        InvalidInput, "is marked as the vendor's and holds 3", HumanMessage([{"type": "non_standard", "value": 3}])
    )


def test_b9_an_agents_thread_is_not_stuck_behind_a_blank_message(wires: dict[str, WireServer]) -> None:
    vendor = Vendor("anthropic", wires["anthropic"])
    agent = create_agent(vendor.model, [], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    with pytest.raises(InvalidHistory, match="nothing but blanks"):
        agent.invoke({"messages": "  "}, config)
    vendor.wire.say("Hi.")
    assert agent.invoke({"messages": "hello"}, config)["messages"][-1].text == "Hi."
    assert vendor.wire.last["body"]["messages"] == [{"role": "user", "content": "hello"}]


# -- histories that other programs began


@pytest.mark.parametrize(
    "block",
    [
        {"type": "reasoning_content", "reasoning_content": {"text": "Hm.", "signature": "s"}},
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        {"type": "executable_code", "executable_code": "1", "language": "PYTHON"},
        {"type": "code_execution_result", "code_execution_result": "1", "outcome": 1},
        {"reasoningContent": {"reasoningText": {"text": "Hm."}}},
    ],
    ids=lambda block: str(block.get("type", "typeless")),
)
def test_an_answer_in_some_vendors_form_that_does_not_say_whose(vendor: Vendor, block: Any) -> None:
    body = vendor.sent(HumanMessage("Hi"), AIMessage([block, {"type": "text", "text": "Fine."}]), HumanMessage("And?"))
    assert "Fine." in body
    assert "And?" in body


def test_blocks_without_a_type_that_a_vendor_knows(vendor: Vendor) -> None:
    """Bedrock's marks for its cache and words to check, Gemini's media: a conversation with them goes on elsewhere."""
    body = vendor.sent(
        SystemMessage([{"type": "text", "text": "Be brief."}, {"cachePoint": {"type": "default"}}]),
        HumanMessage(["Check: ", {"guardContent": {"text": {"text": "my words"}}}, {"cachePoint": {"type": "default"}}])
        if vendor.name != "google_genai"
        else HumanMessage(["Check: my words"]),
    )
    assert "my words" in body
    assert ("cachePoint" in body) == (vendor.name == "bedrock_converse")
    if vendor.name not in ("google_genai", "bedrock_converse"):
        body = vendor.sent(HumanMessage(["Look:", {"inlineData": {"mimeType": "image/png", "data": DATA}}]))
        assert "[inlineData: image/png]" in body
        assert DATA not in body


@pytest.mark.parametrize(
    ("role", "sent"), [("human", "user"), ("ai", "assistant"), ("developer", "system")], ids=lambda value: str(value)
)
def test_roles_in_words_that_providers_do_not_use(vendor: Vendor, role: str, sent: str) -> None:
    vendor.sent(ChatMessage("So.", role=role), HumanMessage("And?"))
    said = [asked for asked, text in vendor.wire.asked.turns if "So." in text]
    if sent == "system":
        assert "So." in str(vendor.wire.last["body"])
    else:
        assert said == [sent]


def test_an_older_form_of_pictures_and_texts(vendor: Vendor) -> None:
    picture: Any = {"type": "image_url", "image_url": f"data:image/png;base64,{DATA}"}
    body = vendor.sent(HumanMessage([{"text": "Look:"}, picture]))
    assert "Look:" in body
    assert DATA in body or vendor.name == "bedrock_converse"  # which says bytes
    if vendor.name == "openai":
        assert vendor.wire.last["body"]["messages"][0]["content"] == [
            {"type": "text", "text": "Look:"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
        ]
