"""The stored form of messages."""

import ormsgpack
import pytest

from runwell.errors import CheckpointCorrupt, UnserializableType
from runwell.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
    from_record,
    to_record,
    tool_call,
)


def test_the_stored_shape():
    """Stored threads of released versions look like this: a change here needs a migration."""
    call = tool_call(name="f", args={"x": 1}, id="1")
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    assert to_record(HumanMessage("hi", id="1")) == ["human", "1", "hi"]
    assert to_record(RemoveMessage(id="1")) == ["remove", "1", ""]
    assert to_record(AIMessage("", id="2", tool_calls=[call], usage_metadata=usage)) == [
        "ai",
        "2",
        "",
        {"tool_calls": [call], "usage_metadata": usage},
    ]
    assert to_record(ToolMessage("r", tool_call_id="1", status="error", artifact=0)) == [
        "tool",
        None,
        "r",
        {"tool_call_id": "1", "artifact": 0, "status": "error"},
    ]
    chunk = AIMessageChunk("x", tool_call_chunks=[{"name": "f", "args": "{", "id": "1", "index": "0"}])
    assert to_record(chunk)[3] == {
        "tool_call_chunks": [{"name": "f", "args": "{", "id": "1", "index": 0, "type": "tool_call_chunk"}]
    }


def test_bytes_and_objects_pass_through_untouched():
    artifact = object()
    message = ToolMessage("r", tool_call_id="1", artifact=artifact, additional_kwargs={"raw": b"\x00"})
    record = to_record(message)
    assert record[3]["artifact"] is artifact
    assert from_record(record) == message
    plain = HumanMessage("漢🚀", additional_kwargs={"raw": b"\x00\xff"})
    assert from_record(ormsgpack.unpackb(ormsgpack.packb(to_record(plain)))) == plain


@pytest.mark.parametrize(
    "record",
    [
        None,
        [],
        ["human"],
        ["martian", "1", "x"],
        ["human", "1", 3],
        ["human", "1", "x", {"surprise": 1}],
        ["human", "1", "x", 3],
        ["tool", "1", "x"],
        ["remove", None, ""],
        {"type": "human"},
        [["human"], "1", "x"],
        ["ai", "1", "", {"tool_calls": [{"name": "f"}]}],
    ],
)
def test_damaged_records_are_refused_whole(record):
    with pytest.raises(CheckpointCorrupt, match="cannot be read"):
        from_record(record)


def test_a_users_subclass_is_refused_when_storing():
    class Special(HumanMessage):
        pass

    with pytest.raises(UnserializableType, match="Special"):
        to_record(Special("x"))
