"""Any conversation goes to the wire and comes back equal; any answer is the same streamed and whole."""

from __future__ import annotations

import base64
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from runwell.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.providers.ollama.wire import ChunkReader, message_from_wire, messages_from_wire, messages_to_wire

TEXT = st.text(min_size=1, max_size=12)
NAME = st.sampled_from(["add", "look_up"])
JSON = st.dictionaries(TEXT, st.one_of(st.integers(-9, 9), TEXT, st.none(), st.lists(TEXT, max_size=2)), max_size=2)
DATA = st.binary(min_size=1, max_size=6).map(lambda data: base64.b64encode(data).decode())

text_block = TEXT.map(lambda text: {"type": "text", "text": text})
image = DATA.map(lambda data: {"type": "image", "base64": data, "mime_type": "image/png"})
said = st.one_of(TEXT, st.lists(st.one_of(text_block, image), min_size=1, max_size=3))


@st.composite
def answers(draw: Any, first_id: int = 0) -> AIMessage:
    calls = [
        {"name": draw(NAME), "args": draw(JSON), "id": f"call_{first_id}_{place}", "type": "tool_call"}
        for place in range(draw(st.integers(0, 2)))
    ]
    thought = draw(st.one_of(st.just(""), TEXT))
    text = draw(st.text(max_size=12))
    if draw(st.booleans()):
        return AIMessage(text, tool_calls=calls, additional_kwargs={"reasoning_content": thought} if thought else None)
    block = [{"type": "reasoning", "reasoning": thought}] if thought else []
    return AIMessage([*block, {"type": "text", "text": text}], tool_calls=calls)


@st.composite
def conversations(draw: Any) -> list[BaseMessage]:
    messages: list[BaseMessage] = []
    if draw(st.booleans()):
        messages.append(SystemMessage(draw(st.one_of(TEXT, st.lists(text_block, min_size=1, max_size=2)))))
    for turn in range(draw(st.integers(1, 3))):
        messages.append(HumanMessage(draw(said)))
        answer = draw(answers(turn))
        messages.append(answer)
        for call in answer.tool_calls:
            content = draw(st.one_of(st.text(max_size=8), st.lists(text_block, min_size=1, max_size=2)))
            messages.append(
                ToolMessage(content, tool_call_id=str(call["id"]), name=draw(st.sampled_from([call["name"]])))
            )
        if draw(st.booleans()):
            messages.append(SystemMessage(draw(TEXT)))
    return messages


def meaning(message: BaseMessage) -> Any:
    """What the wire has a place for: one text, pictures, thoughts, calls."""
    blocks: list[Any] = list(message.content_blocks)
    return (
        type(message),
        "".join(block["text"] for block in blocks if block["type"] == "text"),
        [block["base64"] for block in blocks if block["type"] == "image"],
        "".join(block["reasoning"] for block in blocks if block["type"] == "reasoning"),
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
@given(answers(), st.data())
def test_a_stream_adds_up_to_the_answer(answer: AIMessage, data: Any) -> None:
    [turn] = messages_to_wire([answer])
    cut = data.draw(st.integers(0, len(turn["content"])))
    lines = [{"thinking": turn["thinking"][:1]}, {"thinking": turn["thinking"][1:]}] if turn.get("thinking") else []
    lines += [{"content": turn["content"][:cut]}, {"content": turn["content"][cut:]}]
    lines += [{"content": "", "tool_calls": [call]} for call in turn.get("tool_calls") or ()]
    reader = ChunkReader()
    chunks = [chunk.message for line in lines for chunk in reader.take({"message": line, "done": False})]
    assert list(reader.take({"message": {"content": ""}, "done": True, "done_reason": "stop"})) == []
    chunks.append(reader.end("").message)
    streamed = (chunks[0] + chunks[1:]).to_message() if len(chunks) > 1 else chunks[0].to_message()
    whole = message_from_wire({"message": turn})
    assert (streamed.content, streamed.tool_calls) == (whole.content, whole.tool_calls)
    assert streamed.additional_kwargs == whole.additional_kwargs


def test_thoughts_beside_the_content_are_among_its_blocks() -> None:
    answer = AIMessage("Yes.", additional_kwargs={"reasoning_content": "Hm."})
    assert [block["type"] for block in answer.content_blocks] == ["reasoning", "text"]
    noted = AIMessage("Yes.", additional_kwargs={"reasoning_content": "Hm.", "annotations": [{"type": "citation"}]})
    thought, text = noted.content_blocks
    assert "annotations" not in thought
    assert text["annotations"] == [{"type": "citation"}]
