"""Messages as JSON and inside pydantic models."""

import json
import subprocess
import sys
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from runwell.errors import InvalidInput, UnserializableType
from runwell.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    ToolMessageChunk,
    from_record,
    invalid_tool_call,
    messages_from_dict,
    messages_to_dict,
    to_record,
    tool_call,
)

values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**53), 2**53),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=5),
    ),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
)
dicts = st.dictionaries(
    st.sampled_from(["id", "type", "lc", "role", "content", "x"]),
    values | st.just({"lc": 1, "type": "constructor", "id": ["x"], "kwargs": {}}),
    max_size=3,
)
contents = st.text(max_size=6) | st.lists(
    st.text(max_size=4)
    | dicts
    | st.builds(lambda n: {"type": "tool_use", "name": "f", "input": {"x": n}, "id": "1"}, values),
    max_size=3,
)
maybe = st.none() | st.text(max_size=4)
common = {"id": maybe, "name": maybe, "additional_kwargs": dicts, "response_metadata": dicts}
calls = st.lists(st.builds(tool_call, name=st.text(max_size=4), args=dicts, id=maybe), max_size=2)
broken = st.lists(st.builds(invalid_tool_call, name=maybe, args=maybe, id=maybe, error=maybe), max_size=2)
fragments = st.lists(
    st.fixed_dictionaries({"name": maybe, "args": maybe, "id": maybe, "index": st.none() | st.integers(0, 2)}),
    max_size=3,
)
usage = st.none() | st.just({"input_tokens": 1, "output_tokens": 2, "total_tokens": 3})
status = st.sampled_from(["success", "error"])
result = {**common, "tool_call_id": st.text(max_size=4), "artifact": values, "status": status}
messages = st.one_of(
    *(st.builds(cls, contents, **common) for cls in (HumanMessage, SystemMessage, HumanMessageChunk)),
    st.builds(
        AIMessage,
        contents,
        **common,
        tool_calls=st.none() | calls,
        invalid_tool_calls=st.none() | broken,
        usage_metadata=usage,
    ),
    st.builds(
        AIMessageChunk,
        contents,
        **common,
        tool_call_chunks=fragments,
        usage_metadata=usage,
        chunk_position=st.sampled_from([None, "last"]),
    ),
    *(st.builds(cls, contents, **result) for cls in (ToolMessage, ToolMessageChunk)),
    st.builds(ChatMessage, contents, **common, role=st.text(min_size=1, max_size=4)),
    st.builds(FunctionMessage, contents, **{**common, "name": st.text(min_size=1, max_size=4)}),
    st.builds(RemoveMessage, id=st.text(min_size=1, max_size=4)),
)


def same(left, right):
    # 1 == 1.0 == True in Python: the text tells them apart
    return left == right and type(left) is type(right) and repr(left) == repr(right)


@given(messages)
@settings(max_examples=300)
def test_every_way_to_write_a_message_reads_back_exactly(message):
    cls = type(message)
    assert same(cls.model_validate(message.model_dump()), message)
    assert same(cls.model_validate_json(message.model_dump_json()), message)
    assert same(cls.model_validate(json.loads(json.dumps(message.model_dump(mode="json")))), message)
    assert same(from_record(to_record(message)), message)
    assert same(from_record(json.loads(json.dumps(to_record(message)))), message)
    assert same(messages_from_dict(messages_to_dict([message]))[0], message)


ANY = TypeAdapter(list[AnyMessage])


@given(st.lists(messages, max_size=3))
@settings(max_examples=150)
def test_pydantic_writes_and_reads_any_message_exactly(several):
    read = ANY.validate_json(ANY.dump_json(several))
    assert all(same(one, two) for one, two in zip(read, several, strict=True))
    assert ANY.validate_python(ANY.dump_python(several)) == several


class State(BaseModel):
    messages: list[AnyMessage]
    first: BaseMessage
    question: HumanMessage | None = None


def test_models_keep_the_very_message_and_take_what_callers_write():
    message = HumanMessage("x")
    state = State(messages=[message, ("ai", "y"), {"role": "user", "content": "z"}, "w"], first=message)
    assert state.messages[0] is message and state.first is message
    assert state.messages[1:] == [AIMessage("y"), HumanMessage("z"), HumanMessage("w")]
    assert State.model_validate_json(state.model_dump_json()) == state


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"type": "human", "content": 3}, "content"),
        ({"type": "human", "content": "x", "kontent": "y"}, "kontent"),
        ({"type": "tool", "content": "x"}, "tool_call_id"),
        ({"type": "ai", "content": "", "tool_calls": [{"name": "f", "args": "{}", "id": "1"}]}, "tool_calls"),
        ({"role": "nobody", "content": "x"}, "messages"),
        (3, "messages"),
    ],
)
def test_models_say_which_field_does_not_fit(value, place):
    with pytest.raises(ValidationError) as caught:
        State(messages=[value], first="x")
    assert any(place in error["loc"] for error in caught.value.errors())


def test_a_field_of_one_class_takes_only_that_class():
    with pytest.raises(ValidationError):
        State(messages=[], first="x", question=AIMessage("x"))
    with pytest.raises(InvalidInput, match="Expected AIMessage, got HumanMessage"):
        AIMessage.model_validate({"role": "user", "content": "x"})


def test_the_schema_names_every_type():
    schema = json.dumps(ANY.json_schema())
    for kind in ("human", "ai", "tool", "system", "remove"):
        assert f'"const": "{kind}"' in schema


def test_json_keeps_characters_and_dumps_share_nothing():
    message = HumanMessage([{"type": "text", "text": "漢🚀"}])
    assert "漢🚀" in message.model_dump_json()
    dumped = message.model_dump()
    dumped["content"][0]["text"] = "changed"
    assert message.text == "漢🚀"


def test_dumps_may_leave_out_what_is_not_there():
    message = ToolMessage("x", tool_call_id="1")
    assert message.model_dump(exclude_defaults=True) == {"type": "tool", "content": "x", "tool_call_id": "1"}
    assert None not in message.model_dump(exclude_none=True).values()


def test_json_mode_turns_values_into_json_and_refuses_what_has_no_form():
    message = ToolMessage("x", tool_call_id="1", artifact={"at": datetime(2026, 1, 2)})
    assert message.model_dump(mode="json")["artifact"] == {"at": "2026-01-02T00:00:00"}
    assert message.model_dump()["artifact"] == {"at": datetime(2026, 1, 2)}
    for write in (lambda m: m.model_dump(mode="json"), lambda m: m.model_dump_json()):
        with pytest.raises(UnserializableType, match="ToolMessage"):
            write(ToolMessage("x", tool_call_id="1", artifact=object()))


def test_safe_06_data_that_imitates_an_envelope_stays_data(monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_TEST", "leaked")
    secret = {"lc": 1, "type": "secret", "id": ["SECRET_OF_THE_TEST"]}
    built = {"lc": 1, "type": "constructor", "id": ["runwell", "messages", "HumanMessage"], "kwargs": {"content": "x"}}
    record = {"a": ["human", "id", "content"], "b": {"type": "human", "data": {"content": "x"}}}
    extra = {"secret": secret, "built": built, "record": record}
    message = AIMessage(
        [dict(built)], additional_kwargs=extra, tool_calls=[tool_call(name="f", args=dict(secret), id="1")]
    )
    for read in (
        AIMessage.model_validate_json(message.model_dump_json()),
        from_record(to_record(message)),
        messages_from_dict(messages_to_dict([message]))[0],
        ANY.validate_json(ANY.dump_json([message]))[0],
    ):
        assert read == message and type(read.additional_kwargs["built"]) is dict
        assert "leaked" not in repr(read)


def test_bad_json_is_refused():
    with pytest.raises(InvalidInput, match="not JSON"):
        HumanMessage.model_validate_json("{")


def test_messages_load_neither_pydantic_nor_asyncio():
    code = (
        "import sys; from runwell.messages import HumanMessage, AIMessageChunk, add_messages, trim_messages; "
        "print([name for name in ('pydantic', 'pydantic_core', 'asyncio', 'httpx') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
