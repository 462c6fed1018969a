"""Any conversation goes to the wire and comes back equal; any answer is the same streamed and whole."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from runwell.messages import BaseMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.providers.cohere.wire import ChunkReader, message_from_wire, messages_from_wire, messages_to_wire
from runwell.testing.wire.cohere import content

TEXT = st.text(min_size=1, max_size=12)
NAME = st.sampled_from(["add", "look_up"])
JSON = st.dictionaries(TEXT, st.one_of(st.integers(-9, 9), TEXT, st.none(), st.lists(TEXT, max_size=2)), max_size=2)

source = st.one_of(
    st.builds(lambda text: {"type": "document", "id": "doc_1", "document": {"title": text, "snippet": "x"}}, TEXT),
    st.just({"type": "tool", "id": "call_0:0", "tool_output": {"output": "3"}}),
)
citation = st.tuples(st.integers(0, 9), TEXT, st.lists(source, min_size=1, max_size=2)).map(
    lambda found: {"start": found[0], "end": found[0] + 3, "text": found[1], "sources": found[2]}
)

text_block = TEXT.map(lambda text: {"type": "text", "text": text})
image = st.sampled_from(
    [
        {"type": "image", "base64": "aGk=", "mime_type": "image/png"},
        {"type": "image", "url": "https://x/y.png", "extras": {"detail": "low"}},
    ]
)
said = st.one_of(TEXT, st.lists(st.one_of(text_block, image), min_size=1, max_size=3))
result_content = st.one_of(
    st.text(max_size=8),
    JSON.map(json.dumps),
    JSON.map(lambda each: json.dumps(each, ensure_ascii=False)),
    st.lists(text_block, min_size=1, max_size=2),
)


@st.composite
def wire_answers(draw: Any, first_id: int = 0) -> dict[str, Any]:
    """An assistant's message as the API writes it."""
    thoughts = draw(st.lists(TEXT.map(lambda text: {"type": "thinking", "thinking": text}), max_size=2))
    calls = [
        {"id": f"call_{first_id}_{place}", "type": "function", "function": {"name": draw(NAME), "arguments": args}}
        for place, args in enumerate(draw(st.lists(JSON.map(lambda e: json.dumps(e, ensure_ascii=False)), max_size=2)))
    ]
    plan = draw(st.one_of(st.just(""), TEXT)) if calls else ""
    texts = draw(st.lists(text_block, min_size=0 if calls else 1, max_size=2))
    wire: dict[str, Any] = {"role": "assistant"}
    if plan:
        wire["tool_plan"] = plan
    if thoughts or texts:
        wire["content"] = [*thoughts, *texts]
    if calls:
        wire["tool_calls"] = calls
    citations = []
    for place, part in enumerate(wire.get("content") or ()):
        kind = "TEXT_CONTENT" if part["type"] == "text" else "THINKING_CONTENT"
        for each in draw(st.lists(citation, max_size=1)):
            citations.append({**each, "type": kind, "content_index": place})
    if plan:
        citations += [{**each, "type": "PLAN"} for each in draw(st.lists(citation, max_size=1))]
    if citations:
        wire["citations"] = citations
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


@settings(max_examples=80, deadline=None)
@given(conversations())
def test_a_conversation_comes_back_from_the_wire(messages: list[BaseMessage]) -> None:
    wire = json.loads(json.dumps(messages_to_wire(messages)))
    back = messages_from_wire(wire)
    assert [meaning(message) for message in back] == [meaning(message) for message in messages]
    assert messages_to_wire(back) == wire, "and goes there again as it was"


@settings(max_examples=60, deadline=None)
@given(conversations())
def test_the_sdk_has_nothing_against_what_is_sent(messages: list[BaseMessage]) -> None:
    from cohere.types import chat_message_v2 as sdk

    kinds: dict[str, Any] = {"user": sdk.UserChatMessageV2, "assistant": sdk.AssistantChatMessageV2}
    kinds |= {"system": sdk.SystemChatMessageV2, "tool": sdk.ToolChatMessageV2}
    for turn in messages_to_wire(messages):
        kinds[turn["role"]].model_validate(turn)


def kept(wire: dict[str, Any]) -> Any:
    """An answer on the wire, whatever the order of its citations, and whether its text is a part or alone."""
    parts = wire.get("content") or []
    parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts
    citations = sorted(json.dumps(each, sort_keys=True) for each in wire.get("citations") or ())
    return parts, wire.get("tool_plan"), wire.get("tool_calls"), citations


@settings(max_examples=80, deadline=None)
@given(wire_answers())
def test_an_answer_goes_back_as_it_came(wire: dict[str, Any]) -> None:
    assert kept(messages_to_wire([message_from_wire(wire)])[0]) == kept(wire)


def events(wire: dict[str, Any]) -> list[dict[str, Any]]:
    """The stream of an answer: thoughts, plan, texts, calls, and citations behind what they cite."""
    found: list[Any] = []
    parts = wire.get("content") or []
    parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts
    citations = list(wire.get("citations") or ())
    plan = wire.get("tool_plan") or ""
    planned = [("tool-plan-delta", {"delta": {"message": {"tool_plan": piece}}}) for piece in (plan[:1], plan[1:])]
    lead = next((place for place, part in enumerate(parts) if part["type"] == "text"), len(parts))
    for place, part in enumerate(parts):
        if place == lead:
            found += planned
        kind = part["type"]
        found += content(place, kind, part[kind][:1], part[kind][1:])
    if lead == len(parts):
        found += planned
    for index, call in enumerate(wire.get("tool_calls") or ()):
        function = call["function"]
        begun = {**call, "function": {**function, "arguments": ""}}
        found.append(("tool-call-start", {"index": index, "delta": {"message": {"tool_calls": begun}}}))
        delta = {"function": {"arguments": function["arguments"]}}
        found.append(("tool-call-delta", {"index": index, "delta": {"message": {"tool_calls": delta}}}))
    found += [("citation-start", {"index": i, "delta": {"message": {"citations": e}}}) for i, e in enumerate(citations)]
    found.append(("message-end", {"delta": {"finish_reason": "COMPLETE"}}))
    return [{"type": kind, **event} for kind, event in found]


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
    assert streamed.additional_kwargs == answer.additional_kwargs
