"""Any conversation goes to the wire and comes back equal; any answer is the same streamed and whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runwell.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.providers.google.answer import ChunkReader, message_from_wire
from runwell.providers.google.wire import messages_from_wire, messages_to_wire

TEXT = st.text(min_size=1, max_size=12)
NAME = st.sampled_from(["add", "look_up"])
JSON = st.dictionaries(TEXT, st.one_of(st.integers(-9, 9), TEXT, st.none(), st.lists(TEXT, max_size=2)), max_size=2)
SIGNATURE = st.sampled_from(["c2ln", "x" * 40])


def signed(block: dict[str, Any], signature: str | None) -> dict[str, Any]:
    return {**block, "extras": {"google": {"thought_signature": signature}}} if signature else block


text_block = TEXT.map(lambda text: {"type": "text", "text": text})
signed_text = st.tuples(st.text(max_size=12), SIGNATURE).map(
    lambda found: signed({"type": "text", "text": found[0]}, found[1])
)
reasoning = st.tuples(TEXT, SIGNATURE).map(lambda found: signed({"type": "reasoning", "reasoning": found[0]}, found[1]))
media = st.sampled_from(
    [
        {"type": "image", "base64": "aGk=", "mime_type": "image/png"},
        {"type": "image", "url": "https://x/y", "mime_type": "image/webp"},
        {"type": "image", "url": "https://x/y.png", "mime_type": "image/png"},
        {"type": "audio", "base64": "aGk=", "mime_type": "audio/mpeg"},
        {"type": "video", "url": "https://www.youtube.com/watch?v=1", "mime_type": "video/mp4"},
        {
            "type": "video",
            "file_id": "files/abc-1",
            "mime_type": "video/mp4",
            "extras": {"google": {"video_metadata": {"fps": 2}}},
        },
        {"type": "file", "base64": "aGk=", "mime_type": "application/pdf"},
        {"type": "file", "url": "gs://bucket/a.csv", "mime_type": "text/csv"},
    ]
)
said = st.one_of(TEXT, st.lists(st.one_of(text_block, media), min_size=1, max_size=3))
result_content = st.one_of(
    st.text(max_size=8),
    st.tuples(st.lists(text_block, max_size=2), st.lists(media, min_size=1, max_size=2)).map(
        lambda two: [*two[0], *two[1]]
    ),
)
picture = st.one_of(st.none(), SIGNATURE).map(
    lambda signature: signed({"type": "image", "base64": "aGk=", "mime_type": "image/png"}, signature)
)


def code(named: bool) -> list[dict[str, Any]]:
    mark = {"named": True} if named else {}
    name = "c1" if named else "server_1"
    call = {"part": "executableCode", **mark}
    result = {"part": "codeExecutionResult", "outcome": "OUTCOME_OK", **mark}
    return [
        {
            "type": "server_tool_call",
            "name": "code_execution",
            "args": {"language": "PYTHON", "code": "1"},
            "id": name,
            "extras": {"google": call},
        },
        {
            "type": "server_tool_result",
            "tool_call_id": name,
            "status": "success",
            "output": "1\n",
            "extras": {"google": result},
        },
    ]


search = [
    {
        "type": "server_tool_call",
        "name": "google_search_web",
        "args": {"queries": ["x"]},
        "id": "t1",
        "extras": {"google": {"part": "toolCall", "tool_type": "GOOGLE_SEARCH_WEB", "named": True}},
    },
    {
        "type": "server_tool_result",
        "tool_call_id": "t1",
        "status": "success",
        "output": {"search_suggestions": "<b>"},
        "extras": {
            "google": {
                "part": "toolResponse",
                "tool_type": "GOOGLE_SEARCH_WEB",
                "named": True,
                "thought_signature": "c2ln",
            }
        },
    },
]


@st.composite
def answers(draw: Any, first_id: int) -> AIMessage:
    form = draw(st.sampled_from(["text", "calls", "rich"]))
    calls = [
        {"name": draw(NAME), "args": draw(JSON), "id": f"call_{first_id}_{place}", "type": "tool_call"}
        for place in range(draw(st.integers(0 if form != "calls" else 1, 2)))
    ]
    if form != "rich":
        places = [*(call["id"] for call in calls), *draw(st.sampled_from([[], ["text"], ["after_text"]]))]
        signatures = {place: draw(SIGNATURE) for place in places if form == "text" or place.startswith("call_")}
        kept = {"thought_signatures": signatures} if signatures and draw(st.booleans()) else None
        return AIMessage(draw(TEXT) if form == "text" else "", tool_calls=calls, response_metadata=kept)
    blocks: list[Any] = draw(st.sampled_from([[], code(True), code(False), search]))
    blocks = [*blocks, draw(reasoning), *draw(st.lists(st.one_of(text_block, signed_text, picture), max_size=3))]
    return AIMessage(blocks + [signed(call, draw(st.one_of(st.none(), SIGNATURE))) for call in calls])


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
        message.response_metadata,
    )


@settings(max_examples=150, deadline=None)
@given(conversations())
def test_a_conversation_comes_back_from_the_wire(messages: list[BaseMessage]) -> None:
    system, wire = json.loads(json.dumps(messages_to_wire(messages)))
    back = messages_from_wire(system, wire)
    assert [meaning(message) for message in back] == [meaning(message) for message in messages]
    assert messages_to_wire(back) == (system, wire), "and goes there again as it was"


wire_part = st.one_of(
    TEXT.map(lambda text: {"text": text}),
    st.tuples(st.text(max_size=9), SIGNATURE).map(lambda two: {"text": two[0], "thoughtSignature": two[1]}),
    TEXT.map(lambda text: {"text": text, "thought": True}),
    st.tuples(NAME, JSON).map(lambda two: {"functionCall": {"name": two[0], "args": two[1]}}),
    st.tuples(NAME, SIGNATURE).map(
        lambda two: {"functionCall": {"name": two[0], "args": {}, "id": "own"}, "thoughtSignature": two[1]}
    ),
    st.just({"executableCode": {"language": "PYTHON", "code": "1"}}),
    st.just({"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "no"}}),
    st.just({"inlineData": {"mimeType": "image/png", "data": "aGk="}}),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(wire_part, min_size=1, max_size=5), st.booleans(), st.data())
def test_a_stream_adds_up_to_the_answer(parts: list[dict[str, Any]], rich: bool, data: Any) -> None:
    """However the stream cuts the answer's texts."""
    pieces: list[dict[str, Any]] = []
    for place, part in enumerate(parts):
        if "functionCall" in part and "id" in part["functionCall"]:  # ids differ
            parts[place] = part = {**part, "functionCall": {**part["functionCall"], "id": f"own_{place}"}}
        if "text" in part and "thoughtSignature" not in part:
            cut = data.draw(st.integers(0, len(part["text"])))
            pieces += [{**part, "text": part["text"][:cut]}, {**part, "text": part["text"][cut:]}]
        else:
            pieces.append(part)
    head = {"responseId": "r", "modelVersion": "m"}
    reader = ChunkReader(rich)
    chunks: list[Any] = []
    for piece in pieces:
        event = {**head, "candidates": [{"content": {"parts": [piece]}}]}
        chunks += [chunk.message for chunk in reader.take(event)]
    chunks += [chunk.message for chunk in reader.take({**head, "candidates": [{"finishReason": "STOP"}]})]
    chunks.append(reader.end("").message)
    streamed = (chunks[0] + chunks[1:]).to_message() if len(chunks) > 1 else chunks[0].to_message()
    answer = message_from_wire(
        [{**head, "candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}], rich=rich
    )
    assert streamed.content == answer.content
    assert streamed.tool_calls == answer.tool_calls
    assert streamed.response_metadata == answer.response_metadata


@settings(max_examples=100, deadline=None)
@given(st.lists(wire_part, min_size=1, max_size=4))
def test_what_was_answered_goes_back_as_it_came(parts: list[dict[str, Any]]) -> None:
    """Texts side by side are joined; thoughts without a signature stay here."""
    expected: list[dict[str, Any]] = []
    for place, part in enumerate(parts):
        if "functionCall" in part and "id" in part["functionCall"]:
            parts[place] = part = {**part, "functionCall": {**part["functionCall"], "id": f"own_{place}"}}
        before = parts[place - 1] if place else {}
        if part.get("thought"):
            continue
        if part.keys() == {"text"} == before.keys():
            expected[-1] = {"text": expected[-1]["text"] + part["text"]}
        else:
            expected.append(part)
    answer = message_from_wire([{"responseId": "r", "candidates": [{"content": {"parts": parts}}]}], rich=True)
    _, [_, *sent] = messages_to_wire([HumanMessage("Hi"), answer], newer=False)
    found = sent[0]["parts"] if sent else []
    for part in found:
        call = part.get("functionCall", {})
        if call.get("id", "").startswith("call_r_"):
            del call["id"]
    assert found == expected


@pytest.mark.parametrize("newer", [True, False], ids=["gemini 3", "before"])
def test_every_request_is_one_that_the_sdk_knows(newer: bool) -> None:
    """The parts that we write are of the types of Google's own SDK."""
    from google.genai.types import Content

    history = [
        HumanMessage([{"type": "image", "base64": "aGk=", "mime_type": "image/png"}, "Hi"]),
        AIMessage([*search, *code(True), {"type": "tool_call", "name": "add", "args": {"a": 1}, "id": "x"}]),
        ToolMessage(
            ["So.", {"type": "image", "base64": "aGk=", "mime_type": "image/png"}], tool_call_id="x", status="error"
        ),
    ]
    _, contents = messages_to_wire(history, newer=newer)
    for content in contents:
        read = Content.model_validate(content, strict=False, extra="forbid")
        assert read.parts
        assert read.role in ("user", "model")
