"""Tool calls as values, and their ids."""

from typing import Any

import pytest

from runwell.messages import (
    AIMessage,
    AIMessageChunk,
    calls_as_written,
    ensure_call_ids,
    filter_messages,
    invalid_tool_call,
    merge_message_runs,
    tool_call,
    tool_call_chunk,
)
from runwell.messages.calls import parse_args
from runwell.messages.deep_calls import text_of_args
from runwell.models.reply import as_chunk


def test_constructors_fill_in_every_key():
    assert tool_call(name="f", args={}, id="1") == {"name": "f", "args": {}, "id": "1", "type": "tool_call"}
    assert invalid_tool_call(name="f", args="{", id="1", error="e") == {
        "name": "f",
        "args": "{",
        "id": "1",
        "error": "e",
        "type": "invalid_tool_call",
    }
    assert tool_call_chunk(args="{", index="3") == {
        "name": None,
        "args": "{",
        "id": None,
        "index": 3,
        "type": "tool_call_chunk",
    }


def test_b4_every_call_of_a_reply_gets_an_id():
    reply = AIMessage(
        "",
        id="m",
        tool_calls=[tool_call(name="f", args={}, id=None), tool_call(name="g", args={}, id="kept")],
        invalid_tool_calls=[invalid_tool_call(name="h", args="{", id="")],
    )
    named = ensure_call_ids(reply)
    ids = [call["id"] for call in (*named.tool_calls, *named.invalid_tool_calls)]
    assert all(ids) and len(set(ids)) == 3 and ids[1] == "kept"
    assert reply.tool_calls[0]["id"] is None, "the reply itself is not changed"
    assert named.id == "m"


def test_b4_calls_that_share_an_id_are_told_apart():
    reply = AIMessage("", tool_calls=[tool_call(name="f", args={"x": n}, id="call_0") for n in range(3)])
    ids = [call["id"] for call in ensure_call_ids(reply).tool_calls]
    assert ids[0] == "call_0" and len(set(ids)) == 3


def test_b4_blocks_that_show_a_call_carry_its_new_id():
    reply = AIMessage(
        [
            {"type": "text", "text": "x"},
            {"type": "tool_use", "name": "f", "input": {}, "id": None},
            {"type": "tool_use", "name": "f", "input": {"y": 1}, "id": None},
        ]
    )
    named = ensure_call_ids(reply)
    assert [block["id"] for block in named.content[1:]] == [call["id"] for call in named.tool_calls]
    assert all(call["id"] for call in named.tool_calls)


def test_a_reply_with_nothing_missing_is_the_same_object():
    for reply in (AIMessage("x"), AIMessage("", tool_calls=[tool_call(name="f", args={}, id="1")])):
        assert ensure_call_ids(reply) is reply


def test_b4_chunks_get_ids_as_well():
    chunk = AIMessageChunk("", tool_call_chunks=[tool_call_chunk(name="f", args="{}", index=0)])
    named = ensure_call_ids(chunk)
    assert isinstance(named, AIMessageChunk) and named.tool_calls[0]["id"]


def test_arguments_too_deep_to_be_checked_or_saved_are_a_broken_call() -> None:
    def message(depth: int) -> AIMessageChunk:
        text = '{"k": ' * depth + "1" + "}" * depth
        return AIMessageChunk(tool_call_chunks=[tool_call_chunk(name="t", args=text, id="1", index=0)])

    assert len(message(200).tool_calls) == 1
    for depth in (201, 50_000):
        broken = message(depth)
        assert not broken.tool_calls
        assert broken.invalid_tool_calls[0]["error"]
    wide = '{"a": [' + ", ".join(["{}"] * 500) + "]}"
    assert AIMessageChunk(tool_call_chunks=[tool_call_chunk(name="t", args=wide, id="1", index=0)]).tool_calls


@pytest.mark.parametrize("levels", [201, 700, 3000])
def test_arguments_that_came_parsed_and_too_deep_are_read_as_too_deep(levels: int) -> None:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    with pytest.raises(ValueError, match="nested more than 200 deep"):
        parse_args(text_of_args(value))
    chunk = AIMessageChunk("", tool_call_chunks=[{"name": "f", "args": text_of_args(value), "id": "1", "index": 0}])
    assert chunk.to_message().invalid_tool_calls[0]["error"].endswith("nested more than 200 deep")


def test_calls_in_the_order_written_survive_merging_copying_and_json() -> None:
    texts = {"a": "{}", "b": "{}", "x": "{", "y": "{"}
    fragments = [{"index": n, "id": each, "name": "f", "args": texts[each]} for n, each in enumerate("xayb")]
    message = AIMessageChunk("", tool_call_chunks=fragments).to_message()
    again = AIMessage.model_validate_json(message.model_dump_json())
    [merged] = merge_message_runs([message, message.model_copy(update={"id": "2"})])
    for each, order in ((message, "xayb"), (again, "xayb"), (merged, "xaybxayb")):
        assert "".join(str(call["id"]) for call in calls_as_written(each)) == order
    assert [call["id"] for call in as_chunk(message).to_message().invalid_tool_calls] == ["x", "y"]
    assert calls_as_written(as_chunk(message).to_message()) == calls_as_written(message)
    [dropped] = filter_messages([message], exclude_tool_calls=["a"])
    assert [call["id"] for call in calls_as_written(dropped)] == ["x", "y", "b"]
