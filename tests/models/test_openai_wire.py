"""Messages to the wire and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwell.errors import InvalidHistory
from runwell.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)
from runwell.providers.openai.wire import ChunkReader, message_from_wire, messages_to_wire

names = st.text("abcdefgh_", min_size=1, max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
calls = st.lists(
    st.fixed_dictionaries({"name": names, "args": st.dictionaries(names, values), "id": names}),
    max_size=3,
)
answers = st.builds(
    lambda text, calls, extra: AIMessage(text, tool_calls=calls, additional_kwargs=extra),
    st.text(max_size=20),
    calls,
    st.dictionaries(st.sampled_from(["reasoning_content", "refusal", "audio"]), st.text(min_size=1), max_size=2),
)
conversation = st.lists(
    st.builds(HumanMessage, st.text(max_size=20))
    | st.builds(SystemMessage, st.text(max_size=20))
    | answers
    | st.builds(ToolMessage, st.text(max_size=20), tool_call_id=names),
    max_size=6,
)


@given(conversation)
def test_a_conversation_comes_back_equal(messages: list[BaseMessage]) -> None:
    wire = json.loads(json.dumps(messages_to_wire(messages)))
    back = [message_from_wire(each) if each["role"] == "assistant" else convert_to_messages([each])[0] for each in wire]
    assert back == messages


class Asked(HumanMessage):
    """A class of a user's own; those below likewise."""


class Answered(AIMessage):
    pass


class Found(ToolMessage):
    pass


OWN: dict[type[Any], type[Any]] = {HumanMessage: Asked, AIMessage: Answered, ToolMessage: Found}


@given(conversation, st.booleans())
def test_a_users_own_classes_are_written_as_those_they_extend(messages: list[BaseMessage], strictly: bool) -> None:
    own: list[Any] = []
    for each in messages:
        cls = OWN.get(type(each))
        own.append(cls(**{name: getattr(each, name) for name in each._fields}) if cls else each)
    assert messages_to_wire(own, strictly) == messages_to_wire(messages, strictly)


picture = {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"}


def test_pictures_of_a_tool_follow_the_results_of_the_turn() -> None:
    asked = AIMessage("Let me see.", tool_calls=[{"name": "f", "args": {}, "id": each} for each in "12"])
    for following in (HumanMessage("And?"), AIMessage("So."), AIMessage("", tool_calls=asked.tool_calls)):
        messages = [asked, ToolMessage([picture], tool_call_id="1"), ToolMessage("2", tool_call_id="2"), following]
        roles = [each["role"] for each in messages_to_wire(messages)]
        assert roles == ["assistant", "tool", "tool", "user", "user" if following.type == "human" else "assistant"]


@given(answers, st.data())
def test_an_answer_in_pieces_is_the_whole_answer(answer: AIMessage, data: Any) -> None:
    (wire,) = messages_to_wire([answer])
    reader, chunks = ChunkReader(), []
    for delta in _deltas(wire, data):
        chunks += reader.take({"choices": [{"index": 0, "delta": delta}]})
    chunks += reader.take({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    chunks.append(reader.end("server"))
    whole = (chunks[0].message + [chunk.message for chunk in chunks[1:]]).to_message()
    assert whole.model_copy(update={"response_metadata": {}}) == answer


def _deltas(wire: dict[str, Any], data: Any) -> list[dict[str, Any]]:
    """The pieces a server might send, fragments of calls in any interleaving."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    for key, value in wire.items():
        if key not in ("role", "tool_calls") and value:
            deltas += [{key: piece} for piece in _cut(value, data)]
    queues = []
    for index, call in enumerate(wire.get("tool_calls", ())):
        head = {"index": index, "id": call["id"], "function": {"name": call["function"]["name"], "arguments": ""}}
        pieces = [
            {"index": index, "function": {"arguments": piece}} for piece in _cut(call["function"]["arguments"], data)
        ]
        queues.append([head, *pieces])
    if queues:
        # calls begin in order; how their fragments mix is up to the server
        deltas += [{"tool_calls": [queue.pop(0)]} for queue in queues]
        while any(queues):
            queue = data.draw(st.sampled_from([each for each in queues if each]))
            deltas.append({"tool_calls": [queue.pop(0)]})
    return deltas


def _cut(text: str, data: Any) -> list[str]:
    at = data.draw(st.integers(0, len(text)))
    return [text[:at], text[at:]]


def test_instructions_to_a_history_are_no_part_of_one() -> None:
    with pytest.raises(InvalidHistory, match="Message 1 is a RemoveMessage"):
        messages_to_wire([HumanMessage("Hi"), RemoveMessage(id="1")])


def test_roles_of_other_kinds_are_sent_as_they_are() -> None:
    assert messages_to_wire([ChatMessage("x", role="critic")]) == [{"role": "critic", "content": "x"}]


def test_call_fragments_without_an_index_are_told_apart() -> None:
    reader = ChunkReader()
    delta = {
        "tool_calls": [
            {"id": "1", "function": {"name": "a", "arguments": '{"x": 1}'}},
            {"id": "2", "function": {"name": "b", "arguments": {"y": 2}}},
        ]
    }
    (chunk,) = reader.take({"choices": [{"delta": delta}]})
    assert [(call["name"], call["args"]) for call in chunk.message.tool_calls] == [("a", {"x": 1}), ("b", {"y": 2})]
