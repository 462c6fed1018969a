"""Any conversation goes to the wire and comes back equal; any answer is the same streamed and whole."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from mistralai.client.models import AssistantMessage, UserMessage
from mistralai.client.models import SystemMessage as WireSystem
from mistralai.client.models import ToolMessage as WireTool

from runwell.messages import BaseMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.providers.mistral.wire import ChunkReader, message_from_wire, messages_from_wire, messages_to_wire

TEXT = st.text(min_size=1, max_size=12)
NAME = st.sampled_from(["add", "look_up"])
JSON = st.dictionaries(TEXT, st.one_of(st.integers(-9, 9), TEXT, st.none(), st.lists(TEXT, max_size=2)), max_size=2)
DATA = st.binary(min_size=1, max_size=6).map(lambda data: base64.b64encode(data).decode())

text_block = TEXT.map(lambda text: {"type": "text", "text": text})
image = st.one_of(
    DATA.map(lambda data: {"type": "image", "base64": data, "mime_type": "image/png"}),
    st.just({"type": "image", "url": "https://x/y.png", "extras": {"detail": "low"}}),
)
document = st.one_of(
    DATA.map(lambda data: {"type": "file", "base64": data, "mime_type": "application/pdf"}),
    st.just({"type": "file", "url": "https://x/y.pdf", "extras": {"filename": "y"}}),
    st.just({"type": "file", "file_id": "file_1"}),
)
sound = st.one_of(
    DATA.map(lambda data: {"type": "audio", "base64": data}), st.just({"type": "audio", "url": "https://x"})
)
said = st.one_of(TEXT, st.lists(st.one_of(text_block, image, document, sound), min_size=1, max_size=3))
result = st.one_of(st.text(max_size=8), st.lists(st.one_of(text_block, image), min_size=1, max_size=2))

reference = st.just({"type": "reference", "reference_ids": [1, 2]})
thinking = st.tuples(st.lists(text_block, min_size=1, max_size=2), st.booleans()).map(
    lambda found: {"type": "thinking", "thinking": found[0], **({"closed": False} if found[1] else {})}
)


@st.composite
def wire_answers(draw: Any, first_id: int = 0) -> dict[str, Any]:
    """An assistant's message as the API writes it; parts of one kind do not follow each other."""
    wire: dict[str, Any] = {"role": "assistant", "content": draw(st.one_of(TEXT, st.just("")))}
    if draw(st.booleans()):
        parts = draw(st.lists(st.one_of(text_block, thinking, reference), min_size=1, max_size=4))
        wire["content"] = [parts[0], *(two for one, two in pairwise(parts) if one["type"] != two["type"])]
    arguments = draw(st.lists(JSON, min_size=0 if wire["content"] else 1, max_size=2))
    if arguments:
        wire["tool_calls"] = [
            {"id": f"call{first_id}abc{place}", "type": "function"}
            | {"function": {"name": draw(NAME), "arguments": json.dumps(args, ensure_ascii=False)}}
            for place, args in enumerate(arguments)
        ]
    return wire


@st.composite
def conversations(draw: Any) -> list[BaseMessage]:
    messages: list[BaseMessage] = []
    if draw(st.booleans()):
        messages.append(SystemMessage(draw(st.one_of(TEXT, st.lists(text_block, min_size=1, max_size=2)))))
    for turn in range(draw(st.integers(1, 3))):
        messages.append(HumanMessage(draw(said)))
        answer = message_from_wire(draw(wire_answers(turn)))
        messages.append(answer)
        for call in answer.tool_calls:
            messages.append(ToolMessage(draw(result), tool_call_id=call["id"], name=call["name"]))
    return messages


def meaning(message: BaseMessage) -> Any:
    return (
        type(message),
        message.content_blocks,
        getattr(message, "tool_calls", None),
        getattr(message, "tool_call_id", None),
        message.name,
    )


@settings(max_examples=80, deadline=None)
@given(conversations())
def test_a_conversation_comes_back_from_the_wire(messages: list[BaseMessage]) -> None:
    wire = json.loads(json.dumps(messages_to_wire(messages)))
    back = messages_from_wire(wire)
    assert [meaning(message) for message in back] == [meaning(message) for message in messages]
    assert messages_to_wire(back) == wire, "and goes there again as it was"


@settings(max_examples=60, deadline=None)
@given(conversations())
def test_the_sdk_takes_what_is_sent_and_leaves_nothing_out(messages: list[BaseMessage]) -> None:
    kinds: dict[str, Any] = {"user": UserMessage, "assistant": AssistantMessage, "system": WireSystem, "tool": WireTool}
    for turn in messages_to_wire(messages):
        taken = kinds[turn["role"]].model_validate(turn).model_dump(mode="json", exclude_unset=True, by_alias=True)
        assert without_nulls(taken) == without_nulls(turn)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def events(wire: dict[str, Any]) -> list[dict[str, Any]]:
    """The stream of an answer: texts as texts or parts, thoughts in pieces, calls whole."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    content = wire["content"]
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        if part["type"] == "text":
            deltas += [{"content": part["text"][:1]}, {"content": [{"type": "text", "text": part["text"][1:]}]}]
        elif part["type"] == "thinking":
            rest = {key: value for key, value in part.items() if key != "thinking"}
            deltas += [{"content": [{"type": "thinking", "thinking": [each]}]} for each in part["thinking"][:-1]]
            deltas.append({"content": [{"type": "thinking", "thinking": part["thinking"][-1:], **rest}]})
        else:
            deltas.append({"content": [part]})
    if wire.get("tool_calls"):
        deltas.append({"tool_calls": [{**call, "index": place} for place, call in enumerate(wire["tool_calls"])]})
    found = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    return [*found, {"model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]


@settings(max_examples=80, deadline=None)
@given(wire_answers())
def test_a_stream_adds_up_to_the_answer(wire: dict[str, Any]) -> None:
    reader = ChunkReader()
    chunks = [chunk.message for event in events(wire) for chunk in reader.take(event)]
    chunks.append(reader.end("").message)
    streamed = (chunks[0] + chunks[1:]).to_message() if len(chunks) > 1 else chunks[0].to_message()
    answer = message_from_wire(wire)
    assert streamed.content == answer.content
    assert streamed.tool_calls == answer.tool_calls
