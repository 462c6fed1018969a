"""Any conversation goes to chat completions and comes back equal; any answer is the same streamed and whole."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from runwell.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage, convert_to_messages
from runwell.providers.openai.wire import ChunkReader, message_from_wire, messages_to_wire

TEXT = st.text(min_size=1, max_size=12)
NAME = st.sampled_from(["add", "look_up"])
JSON = st.dictionaries(TEXT, st.one_of(st.integers(-9, 9), TEXT, st.none(), st.lists(TEXT, max_size=2)), max_size=2)

text_block = TEXT.map(lambda text: {"type": "text", "text": text})
media = st.sampled_from(
    [
        {"type": "image", "url": "https://x/y.png"},
        {"type": "image", "url": "https://x/y.png", "extras": {"detail": "low"}},
        {"type": "image", "base64": "aGk=", "mime_type": "image/png"},
        {"type": "audio", "base64": "aGk=", "mime_type": "audio/wav"},
        {"type": "file", "file_id": "file_1"},
        {"type": "file", "base64": "aGk=", "mime_type": "application/pdf", "extras": {"filename": "a.pdf"}},
    ]
)
said = st.one_of(TEXT, st.lists(st.one_of(text_block, media), min_size=1, max_size=3))
person = st.sampled_from([None, "ada"])


@st.composite
def answers(draw: Any, first_id: int) -> AIMessage:
    calls: list[Any] = [
        {"name": draw(NAME), "args": draw(JSON), "id": f"call_{first_id}_{place}", "type": "tool_call"}
        for place in range(draw(st.integers(0, 2)))
    ]
    extra = draw(st.sampled_from([{}, {"refusal": "No."}, {"reasoning_content": "Hm."}]))
    content = draw(TEXT) if not calls else draw(st.text(max_size=3))
    return AIMessage(content, tool_calls=calls, additional_kwargs=dict(extra))


@st.composite
def conversations(draw: Any) -> list[BaseMessage]:
    messages: list[BaseMessage] = []
    if draw(st.booleans()):
        role = draw(st.sampled_from([{}, {"openai_role": "developer"}]))
        messages.append(SystemMessage(draw(TEXT), additional_kwargs=dict(role)))
    for turn in range(draw(st.integers(1, 3))):
        messages.append(HumanMessage(draw(said), name=draw(person)))
        answer = draw(answers(turn))
        messages.append(answer)
        messages += [
            ToolMessage(draw(st.text(max_size=5)), tool_call_id=call["id"] or "") for call in answer.tool_calls
        ]
    return messages


@settings(max_examples=100, deadline=None)
@given(conversations())
def test_what_goes_to_the_wire_comes_back(messages: list[BaseMessage]) -> None:
    back = convert_to_messages(json.loads(json.dumps(messages_to_wire(messages))))
    assert [type(each) for each in back] == [type(each) for each in messages]
    for one, other in zip(back, messages, strict=True):
        assert one.content_blocks == other.content_blocks
        assert (one.text, one.name, one.additional_kwargs) == (other.text, other.name, other.additional_kwargs)
        for field in ("tool_calls", "invalid_tool_calls", "tool_call_id"):
            assert getattr(one, field, None) == getattr(other, field, None)


@settings(max_examples=100, deadline=None)
@given(answers(0), st.integers(1, 4), st.booleans())
def test_a_stream_adds_up_to_the_whole(answer: AIMessage, size: int, thinks: bool) -> None:
    [wire] = messages_to_wire([answer])
    if thinks:
        wire["reasoning"] = "Hm. So."
        wire.pop("reasoning_content", None)
    whole = message_from_wire(wire, thoughts="reasoning")
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    for field in ("reasoning", "reasoning_content", "refusal", "content"):
        text = wire.get(field) or ""
        deltas += [{field: text[at : at + size]} for at in range(0, len(text), size)]
    for index, call in enumerate(wire.get("tool_calls", ())):
        function = call["function"]
        deltas.append({"tool_calls": [{**call, "index": index, "function": {**function, "arguments": ""}}]})
        pieces = [function["arguments"][at : at + size] for at in range(0, len(function["arguments"]), size)]
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in pieces]
    events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    reader = ChunkReader("reasoning")
    chunks = [piece.message for event in events for piece in reader.take(event)] + [reader.end("x").message]
    streamed = (chunks[0] + chunks[1:]).to_message() if len(chunks) > 1 else chunks[0].to_message()
    for field in ("content", "tool_calls", "invalid_tool_calls", "additional_kwargs"):
        assert getattr(streamed, field) == getattr(whole, field), field
