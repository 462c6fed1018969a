"""Any conversation goes to the wire and comes back equal; any answer is the same streamed and whole."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runwell.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.providers.bedrock import ChatBedrockConverse
from runwell.providers.bedrock.wire import ChunkReader, message_from_wire, messages_from_wire, messages_to_wire

TEXT = st.text(min_size=1, max_size=12).filter(str.strip)
NAME = st.sampled_from(["add", "look_up"])
JSON = st.dictionaries(TEXT, st.one_of(st.integers(-9, 9), TEXT, st.none(), st.lists(TEXT, max_size=2)), max_size=2)
DATA = st.binary(min_size=1, max_size=6).map(lambda data: base64.b64encode(data).decode())

text_block = TEXT.map(lambda text: {"type": "text", "text": text})
point = st.just({"type": "non_standard", "value": {"cachePoint": {"type": "default"}}})


def media(kind: str, *mime_types: str) -> Any:
    return st.tuples(DATA, st.sampled_from(mime_types)).map(
        lambda found: {"type": kind, "mime_type": found[1], "base64": found[0]}
    )


image = st.one_of(
    media("image", "image/png", "image/jpeg", "image/webp"),
    st.just({"type": "image", "mime_type": "image/gif", "url": "s3://b/k.gif", "extras": {"bucketOwner": "123"}}),
)
video = media("video", "video/mp4", "video/quicktime", "video/3gpp")
sound = media("audio", "audio/mpeg", "audio/wav")
named = st.sampled_from([{"name": "report"}, {"name": "b [2]", "citations": {"enabled": True}, "context": "draft"}])
document = st.tuples(media("file", "application/pdf", "text/csv", "text/markdown"), named).map(
    lambda found: {**found[0], "extras": found[1]}
)
plain = st.tuples(TEXT, named).map(
    lambda found: {"type": "text-plain", "mime_type": "text/plain", "text": found[0], "extras": found[1]}
)
found_there = st.just(
    {"type": "non_standard", "value": {"searchResult": {"source": "s", "title": "t", "content": [{"text": "x"}]}}}
)
told = st.dictionaries(st.just("json"), JSON, min_size=1).map(lambda each: {"type": "non_standard", "value": each})

citation = st.sampled_from(
    [
        {
            "title": "T",
            "sourceContent": [{"text": "a"}],
            "location": {"documentChar": {"documentIndex": 0, "start": 0}},
        },
        {"title": "W", "source": "w", "location": {"web": {"url": "https://x", "domain": "x"}}},
    ]
)
wire_text = TEXT.map(lambda text: {"text": text})
wire_cited = st.tuples(TEXT, st.lists(citation, min_size=1, max_size=2)).map(
    lambda found: {"citationsContent": {"content": [{"text": found[0]}], "citations": found[1]}}
)
wire_thought = st.tuples(TEXT, st.sampled_from([{}, {"signature": "c2ln"}, {"signature": "x" * 40}])).map(
    lambda found: {"reasoningContent": {"reasoningText": {"text": found[0], **found[1]}}}
)
wire_hidden = st.binary(min_size=1, max_size=5).map(lambda data: {"reasoningContent": {"redactedContent": data}})
wire_image = st.binary(min_size=1, max_size=5).map(lambda data: {"image": {"format": "png", "source": {"bytes": data}}})
wire_server = JSON.map(
    lambda args: [
        {"toolUse": {"toolUseId": "srv", "name": "nova_grounding", "input": args, "type": "server_tool_use"}},
        {"toolResult": {"toolUseId": "srv", "content": [{"json": args}], "status": "success", "type": "grounding"}},
    ]
)


@st.composite
def wire_answers(draw: Any, first_id: int = 0) -> list[dict[str, Any]]:
    """The blocks of an answer as the API writes them: calls end it."""
    blocks: list[dict[str, Any]] = []
    kinds = st.one_of(wire_text, wire_cited, wire_thought, wire_hidden, wire_image, wire_server)
    for block in draw(st.lists(kinds, max_size=3)):
        blocks += block if isinstance(block, list) else [block]
    for place in range(draw(st.integers(0 if blocks else 1, 2))):
        call = {"toolUseId": f"call_{first_id}_{place}", "name": draw(NAME), "input": draw(JSON)}
        blocks.append({"toolUse": call})
    return blocks


@st.composite
def conversations(draw: Any) -> list[BaseMessage]:
    messages: list[BaseMessage] = []
    if draw(st.booleans()):
        messages.append(SystemMessage(draw(st.lists(st.one_of(text_block, point), min_size=1, max_size=2))))
    for turn in range(draw(st.integers(1, 3))):
        kinds = st.one_of(text_block, image, video, sound, document, plain, point, found_there)
        said = draw(st.one_of(TEXT, st.lists(kinds, min_size=1, max_size=3)))
        answered = messages[-1:] and messages[-1].type == "tool"
        if not answered or draw(st.booleans()):
            messages.append(HumanMessage(said))
        answer = message_from_wire({"content": draw(wire_answers(turn))})
        messages.append(answer)
        for call in answer.tool_calls:
            status = draw(st.sampled_from(["success", "error"]))
            content = draw(
                st.one_of(
                    TEXT, st.just(""), st.lists(st.one_of(text_block, image, document, told), min_size=1, max_size=2)
                )
            )
            messages.append(ToolMessage(content, tool_call_id=call["id"], status=status))
    return messages


def meaning(message: BaseMessage) -> Any:
    return (
        type(message),
        message.content_blocks,
        getattr(message, "tool_calls", None),
        getattr(message, "tool_call_id", None),
        getattr(message, "status", None),
    )


@settings(max_examples=80, deadline=None)
@given(conversations())
def test_a_conversation_comes_back_from_the_wire(messages: list[BaseMessage]) -> None:
    system, wire = messages_to_wire(messages)
    back = messages_from_wire(system, wire)
    assert [meaning(message) for message in back] == [meaning(message) for message in messages]
    assert messages_to_wire(back) == (system, wire), "and goes there again as it was"
    assert all(one["role"] != other["role"] for one, other in pairwise(wire)), "turns alternate"


@pytest.fixture(scope="module")
def checked_by_sdk() -> Callable[[dict[str, Any]], str]:
    """What AWS's SDK has against the arguments of a request."""
    from botocore.session import Session
    from botocore.validate import ParamValidator

    shape = Session().get_service_model("bedrock-runtime").operation_model("ConverseStream").input_shape
    return lambda body: ParamValidator().validate(body, shape).generate_report()


@settings(max_examples=60, deadline=None)
@given(conversations())
def test_the_sdk_has_nothing_against_what_is_sent(checked_by_sdk: Any, messages: list[BaseMessage]) -> None:
    system, wire = messages_to_wire(messages)
    assert checked_by_sdk({"modelId": "m", "system": system, "messages": wire}) == ""


def test_the_sdk_knows_every_argument(checked_by_sdk: Any) -> None:
    model = ChatBedrockConverse(
        model="m",
        region_name="us-east-1",
        api_key="k",
        temperature=0.5,
        top_p=0.9,
        max_tokens=5,
        stop=["END"],
        guardrail_config={"guardrailIdentifier": "g", "guardrailVersion": "1", "streamProcessingMode": "sync"},
        performance_config={"latency": "optimized"},
        service_tier="flex",
        request_metadata={"team": "blue"},
        prompt_variables={"x": {"text": "y"}},
        additional_model_request_fields={"thinking": {"type": "enabled"}},
        additional_model_response_field_paths=["/x"],
        effort="high",
    )
    tool = {"name": "f", "description": "F.", "parameters": {"type": "object", "properties": {}}, "strict": True}
    bound = model.bind_tools([{"type": "function", "function": tool}, {"systemTool": {"name": "s"}}], tool_choice="f")
    form = {
        "type": "json_schema",
        "json_schema": {"name": "a", "schema": {"type": "object", "properties": {"a": {"type": "string"}}}},
    }
    body, _ = model._request([HumanMessage("Hi")], None, {**bound.kwargs, "response_format": form}, True)
    assert checked_by_sdk(body) == ""


@settings(max_examples=80, deadline=None)
@given(wire_answers())
def test_an_answer_goes_back_as_it_came(blocks: list[dict[str, Any]]) -> None:
    answer = message_from_wire({"content": blocks})
    json.dumps(answer.model_dump())  # nothing in it is bytes
    _, [turn] = messages_to_wire([answer])
    assert turn == {"role": "assistant", "content": blocks}


def events(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The stream of an answer, each of its blocks in pieces as the public description has them."""
    found: list[dict[str, Any]] = [{"messageStart": {"role": "assistant"}}]
    for index, block in enumerate(blocks):
        [(kind, value)] = block.items()
        start: Any = None
        deltas: list[Any] = []
        if kind == "text":
            deltas = [{"text": value[:1]}, {"text": value[1:]}]
        elif kind == "citationsContent":
            text = value["content"][0]["text"]
            deltas = [{"text": text[:1]}, {"text": text[1:]}, *({"citation": each} for each in value["citations"])]
        elif "reasoningText" in value:
            said = value["reasoningText"]
            deltas = [{"reasoningContent": {"text": part}} for part in (said["text"][:1], said["text"][1:])]
            if "signature" in said:
                deltas.append({"reasoningContent": {"signature": said["signature"]}})
        elif "redactedContent" in value:
            data = value["redactedContent"]
            deltas = [{"reasoningContent": {"redactedContent": part}} for part in (data[:1], data[1:])]
        elif kind == "toolUse":
            text = json.dumps(value["input"])
            start = {"toolUse": {key: each for key, each in value.items() if key != "input"}}
            deltas = [{"toolUse": {"input": part}} for part in (text[:3], text[3:])]
        elif kind == "toolResult":
            start = {"toolResult": {key: each for key, each in value.items() if key != "content"}}
            deltas = [{"toolResult": value["content"]}]
        elif kind == "image":
            start, deltas = {"image": {"format": value["format"]}}, [{"image": {"source": value["source"]}}]
        if start:
            found.append({"contentBlockStart": {"contentBlockIndex": index, "start": start}})
        found += [{"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}} for delta in deltas]
        found.append({"contentBlockStop": {"contentBlockIndex": index}})
    return [*found, {"messageStop": {"stopReason": "end_turn"}}]


@settings(max_examples=80, deadline=None)
@given(wire_answers())
def test_a_stream_adds_up_to_the_answer(blocks: list[dict[str, Any]]) -> None:
    reader = ChunkReader()
    chunks = [chunk.message for event in events(blocks) for chunk in reader.take(event)]
    chunks.append(reader.end("").message)
    streamed = (chunks[0] + chunks[1:]).to_message() if len(chunks) > 1 else chunks[0].to_message()
    answer = message_from_wire({"content": blocks})
    assert streamed.content == answer.content
    assert streamed.tool_calls == answer.tool_calls
    assert streamed.additional_kwargs == answer.additional_kwargs


def test_a_text_stays_a_text() -> None:
    answer = message_from_wire(
        {"content": [{"text": "Hi."}, {"toolUse": {"toolUseId": "c", "name": "f", "input": {}}}]}
    )
    assert isinstance(answer, AIMessage)
    assert answer.content == "Hi."
