"""Any conversation goes to the wire and comes back equal; any answer is the same streamed and whole."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from runwell.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.providers.anthropic.wire import ChunkReader, message_from_wire, messages_from_wire, messages_to_wire

TEXT = st.text(min_size=1, max_size=12)
NAME = st.sampled_from(["add", "look_up"])
JSON = st.dictionaries(TEXT, st.one_of(st.integers(-9, 9), TEXT, st.none(), st.lists(TEXT, max_size=2)), max_size=2)
MARK = st.sampled_from([{}, {"extras": {"cache_control": {"type": "ephemeral"}}}])
SIGNATURE = st.sampled_from(["c2ln", "x" * 40])

CITATION = st.sampled_from(
    [
        {
            "type": "citation",
            "cited_text": "a",
            "title": "T",
            "extras": {"type": "char_location", "document_index": 0, "start_char_index": 0, "end_char_index": 1},
        },
        {
            "type": "citation",
            "cited_text": "b",
            "title": "T",
            "url": "https://x",
            "extras": {"type": "web_search_result_location", "encrypted_index": "aQ=="},
        },
    ]
)


def joined(*parts: Any) -> Any:
    return st.tuples(*parts).map(lambda found: {key: value for part in found for key, value in part.items()})


text_block = joined(TEXT.map(lambda text: {"type": "text", "text": text}), MARK)
cited_block = st.tuples(TEXT, st.lists(CITATION, min_size=1, max_size=2)).map(
    lambda found: {"type": "text", "text": found[0], "annotations": found[1]}
)
source = st.sampled_from(
    [{"base64": "aGk=", "mime_type": "image/png"}, {"url": "https://x/y.png"}, {"file_id": "file_1"}]
)
image = joined(st.just({"type": "image"}), source, MARK)
document = joined(
    st.just({"type": "file"}),
    st.sampled_from([{"base64": "aGk=", "mime_type": "application/pdf"}, {"file_id": "file_1"}]),
    MARK,
)
plain = joined(TEXT.map(lambda text: {"type": "text-plain", "text": text, "mime_type": "text/plain"}), MARK)
said = st.one_of(TEXT, st.lists(st.one_of(text_block, image, document, plain), min_size=1, max_size=3))
result_content = st.one_of(st.text(max_size=8), st.lists(st.one_of(text_block, image), min_size=1, max_size=2))

reasoning = st.tuples(TEXT, SIGNATURE).map(
    lambda found: {"type": "reasoning", "reasoning": found[0], "extras": {"signature": found[1]}}
)
hidden = st.just({"type": "non_standard", "value": {"type": "redacted_thinking", "data": "eA=="}})
server = JSON.map(
    lambda args: [
        {"type": "server_tool_call", "id": "srv", "name": "web_search", "args": args},
        {
            "type": "server_tool_result",
            "tool_call_id": "srv",
            "status": "success",
            "output": [{"type": "web_search_result", "url": "https://x"}],
            "extras": {"block_type": "web_search_tool_result"},
        },
    ]
)


@st.composite
def answers(draw: Any, first_id: int) -> AIMessage:
    form = draw(st.sampled_from(["text", "calls", "rich"]))
    calls = [
        {"name": draw(NAME), "args": draw(JSON), "id": f"call_{first_id}_{place}", "type": "tool_call"}
        for place in range(draw(st.integers(0 if form != "calls" else 1, 2)))
    ]
    if form == "text":
        return AIMessage(draw(TEXT), tool_calls=calls)
    if form == "calls":
        return AIMessage("", tool_calls=calls)
    blocks: list[Any] = [draw(st.one_of(reasoning, hidden))]
    for block in draw(st.lists(st.one_of(text_block, cited_block, server, reasoning), max_size=3)):
        blocks += block if isinstance(block, list) else [block]
    return AIMessage(blocks + calls)


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
            status = draw(st.sampled_from(["success", "error"]))
            messages.append(ToolMessage(draw(result_content), tool_call_id=call["id"], status=status))
    return messages


def meaning(message: BaseMessage) -> Any:
    return (
        type(message),
        message.content_blocks,
        getattr(message, "tool_calls", None),
        getattr(message, "tool_call_id", None),
        getattr(message, "status", None),
    )


@settings(max_examples=120, deadline=None)
@given(conversations())
def test_a_conversation_comes_back_from_the_wire(messages: list[BaseMessage]) -> None:
    system, wire = messages_to_wire(messages)
    wire = json.loads(json.dumps(wire))
    back = messages_from_wire(system, wire)
    assert [meaning(message) for message in back] == [meaning(message) for message in messages]
    assert messages_to_wire(back) == (system, wire), "and goes there again as it was"


wire_block = st.one_of(
    TEXT.map(lambda text: {"type": "text", "text": text}),
    st.tuples(TEXT, SIGNATURE).map(lambda found: {"type": "thinking", "thinking": found[0], "signature": found[1]}),
    st.just({"type": "redacted_thinking", "data": "eA=="}),
    st.tuples(NAME, JSON).map(lambda found: {"type": "tool_use", "id": "t", "name": found[0], "input": found[1]}),
    JSON.map(lambda args: {"type": "tool_use", "id": "t", "name": "add", "input": args, "caller": {"type": "direct"}}),
    JSON.map(lambda args: {"type": "server_tool_use", "id": "s", "name": "web_search", "input": args}),
    st.just({"type": "web_search_tool_result", "tool_use_id": "s", "content": []}),
    st.just({"type": "text", "text": "So.", "citations": [{"type": "page_location", "cited_text": "x"}]}),
)


@settings(max_examples=120, deadline=None)
@given(st.lists(wire_block, min_size=1, max_size=4))
def test_a_stream_adds_up_to_the_answer(events_of: Any, blocks: list[dict[str, Any]]) -> None:
    for place, block in enumerate(blocks):  # ids differ
        if block["type"] == "tool_use":
            blocks[place] = {**block, "id": f"toolu_{place}"}
    rich = any(block.get("citations") for block in blocks)  # then the request has a document to cite
    reader = ChunkReader(rich)
    chunks = [chunk.message for _, event in events_of(*blocks) for chunk in reader.take(event)]
    chunks.append(reader.end("").message)
    streamed = (chunks[0] + chunks[1:]).to_message() if len(chunks) > 1 else chunks[0].to_message()
    answer = message_from_wire({"content": blocks}, rich=rich)
    assert streamed.content == answer.content
    assert streamed.tool_calls == answer.tool_calls
