"""What every message can do."""

import copy
import dataclasses
import gc
import os
import pickle
import subprocess
import sys
import threading

import pytest

from runwell.errors import InvalidInput
from runwell.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    ToolMessageChunk,
    add_messages,
    convert_to_openai_messages,
    trim_messages,
    validate_history,
)
from runwell.messages.message import with_id
from runwell.messages.record import from_record, to_record


def test_a_message_is_built_from_its_content_in_three_ways():
    assert HumanMessage("hi") == HumanMessage(content="hi") == HumanMessage(content="hi", additional_kwargs={})
    blocks = [{"type": "text", "text": "hi"}]
    assert HumanMessage(blocks).content == blocks
    assert HumanMessage(content_blocks=blocks) == HumanMessage(blocks)


def test_types_are_the_names_of_the_field():
    messages = [
        HumanMessage("x"),
        AIMessage("x"),
        SystemMessage("x"),
        ToolMessage("x", tool_call_id="1"),
        ChatMessage("x", role="critic"),
        FunctionMessage("x", name="f"),
        RemoveMessage(id="1"),
    ]
    assert [each.type for each in messages] == ["human", "ai", "system", "tool", "chat", "function", "remove"]
    assert all(dataclasses.is_dataclass(each) for each in messages)


def test_equality_is_by_class_and_fields():
    assert HumanMessage("x") != AIMessage("x")
    assert HumanMessage("x", id="1") != HumanMessage("x", id="2")
    assert HumanMessage("x", id="1") == HumanMessage("x", id="1")


def test_text_joins_the_texts_of_blocks():
    message = AIMessage(
        ["a", {"type": "text", "text": "b"}, {"type": "reasoning", "reasoning": "no"}, {"type": "image", "url": "u"}]
    )
    assert message.text == "ab"
    assert HumanMessage("plain").text == "plain"


@pytest.mark.parametrize("content", [3, {"type": "text", "text": "x"}, [3], None, [["x"]]])
def test_content_of_another_kind_is_refused_where_it_is_written(content):
    with pytest.raises(InvalidInput, match="HumanMessage"):
        HumanMessage(content)


def test_both_content_and_blocks_are_refused():
    with pytest.raises(InvalidInput, match="both"):
        HumanMessage([{"type": "text", "text": "x"}], content_blocks=["y"])


def test_a_model_message_may_consist_of_calls_alone():
    message = AIMessage(tool_calls=[{"name": "f", "args": {}, "id": "1"}])
    assert message.content == ""
    assert message.tool_calls == [{"name": "f", "args": {}, "id": "1", "type": "tool_call"}]


def test_calls_are_completed_without_changing_the_callers_dicts():
    call = {"name": "f", "args": {"x": 1}}
    message = AIMessage("", tool_calls=[call])
    assert message.tool_calls == [{"name": "f", "args": {"x": 1}, "id": None, "type": "tool_call"}]
    assert call == {"name": "f", "args": {"x": 1}}


@pytest.mark.parametrize(
    "call", [{"name": "f"}, {"args": {}}, {"name": "f", "args": "{}"}, {"name": None, "args": {}}, "f", 3]
)
def test_what_is_no_call_is_refused(call):
    with pytest.raises(InvalidInput, match="tool call"):
        AIMessage("", tool_calls=[call])


def test_calls_that_stand_as_blocks_are_calls():
    standard = AIMessage([{"type": "tool_call", "name": "f", "args": {"x": 1}, "id": "1"}])
    vendor = AIMessage([{"type": "tool_use", "name": "f", "input": {"x": 1}, "id": "1"}])
    assert standard.tool_calls == vendor.tool_calls == [{"name": "f", "args": {"x": 1}, "id": "1", "type": "tool_call"}]
    told = AIMessage([{"type": "tool_use", "name": "f", "input": {"x": 1}, "id": "1"}], tool_calls=[])
    assert told.tool_calls == []


def test_a_result_needs_the_id_of_its_call():
    with pytest.raises(InvalidInput, match="tool_call_id=None"):
        ToolMessage("x")
    with pytest.raises(InvalidInput, match="'maybe'"):
        ToolMessage("x", tool_call_id="1", status="maybe")


def test_remove_and_chat_need_what_makes_them_meaningful():
    with pytest.raises(InvalidInput, match="id of a message"):
        RemoveMessage(id=None)
    with pytest.raises(InvalidInput, match="role"):
        ChatMessage("x")


def test_copy_changes_only_what_is_said_and_checks_it():
    original = AIMessage("x", id="1", response_metadata={"model": "m"})
    changed = original.model_copy(update={"content": "y", "tool_calls": [{"name": "f", "args": {}, "id": "2"}]})
    assert original.content == "x" and original.tool_calls == []
    assert changed.content == "y" and changed.id == "1" and changed.response_metadata == {"model": "m"}
    assert changed.tool_calls[0]["type"] == "tool_call"
    with pytest.raises(InvalidInput, match="did you mean 'content'"):
        original.model_copy(update={"contents": "y"})
    with pytest.raises(InvalidInput):
        original.model_copy(update={"content": 3})


def test_a_deep_copy_shares_nothing():
    original = HumanMessage([{"type": "text", "text": "x"}])
    shallow, deep = original.model_copy(), original.model_copy(deep=True)
    original.content[0]["text"] = "changed"
    assert shallow.content[0]["text"] == "changed" and deep.content[0]["text"] == "x"


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_copies_of_the_standard_library_are_equal(again):
    for message in (HumanMessage("x", id="1"), ToolMessage("r", tool_call_id="1", artifact={"a": 1}, status="error")):
        assert again(message) == message


each_kind = pytest.mark.parametrize(
    "make",
    [
        lambda **more: HumanMessage("x", **more),
        lambda **more: AIMessage("x", **more),
        lambda **more: ToolMessage("x", tool_call_id="1", **more),
        lambda **more: ChatMessage("x", role="critic", **more),
        lambda **more: AIMessageChunk("x", **more),
        lambda **more: ToolMessageChunk("x", tool_call_id="1", **more),
    ],
    ids=["human", "ai", "tool", "chat", "ai chunk", "tool chunk"],
)
DICTS = ("additional_kwargs", "response_metadata")
each_dict = pytest.mark.parametrize("field", DICTS)


def asizeof(value):
    """Bytes of a value and all that is in it."""
    seen, todo, total = set(), [value], 0
    while todo:
        each = todo.pop()
        if id(each) not in seen and not isinstance(each, type):
            seen.add(id(each))
            total += sys.getsizeof(each)
            todo += gc.get_referents(each)
    return total


@each_kind
@each_dict
def test_what_is_put_in_a_dict_of_a_message_is_seen_later(make, field):
    message = make()
    getattr(message, field)["k"] = 1
    assert getattr(message, field) == {"k": 1}
    assert message != make() and message == make(**{field: {"k": 1}}) and f"{field}={{'k': 1}}" in repr(message)
    assert message.model_dump()[field] == {"k": 1} and make().model_dump()[field] == {}
    for again in (
        copy.copy(message),
        copy.deepcopy(message),
        pickle.loads(pickle.dumps(message)),
        with_id(message, "i"),
    ):
        assert getattr(again, field) == {"k": 1}
    assert type(message).model_validate(message.model_dump()) == message
    setattr(message, field, {"other": 2})
    assert getattr(message, field) == {"other": 2}


@each_kind
@each_dict
def test_a_message_whose_dicts_were_looked_at_is_equal_to_one_whose_were_not(make, field):
    looked_at = make()
    assert getattr(looked_at, field) == {}
    assert looked_at == make() == make(**{field: {}}) and make() == looked_at
    given = {"k": 1}
    assert getattr(make(**{field: given}), field) is given
    assert getattr(copy.copy(looked_at), field) is getattr(looked_at, field) or "Chunk" in looked_at.type


def test_a_history_that_is_stored_counted_trimmed_and_sent_holds_no_dicts_for_it():
    call = {"name": "f", "args": {}, "id": "1"}
    history = [HumanMessage("x", id="h"), AIMessage("x", tool_calls=[call]), ToolMessage("x", tool_call_id="1")]
    before = asizeof(history)
    kept = [from_record(to_record(message)) for message in add_messages([], history)]
    assert trim_messages(kept, max_tokens=1_000, token_counter="approximate") == kept
    assert [message.content_blocks for message in kept] == [message.content_blocks for message in history]
    assert validate_history(kept) == [] and convert_to_openai_messages(kept) == convert_to_openai_messages(history)
    assert asizeof(history) == before
    assert {field: getattr(history[0], field) for field in DICTS} == {"additional_kwargs": {}, "response_metadata": {}}
    assert asizeof(history) > before  # the dicts that were just made


@each_dict
def test_threads_that_look_at_a_dict_at_the_same_moment_get_one_dict(field):
    for _ in range(50):
        message, barrier, seen = HumanMessage("x"), threading.Barrier(4), []

        def look(message=message, barrier=barrier, seen=seen):
            barrier.wait()
            seen.append(getattr(message, field))

        threads = [threading.Thread(target=look) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert all(each is getattr(message, field) for each in seen)


def test_the_same_object_is_equal_to_itself_though_it_be_not_a_number_in_every_field():
    nan = float("nan")
    one = ToolMessage("x", tool_call_id="1", artifact=nan, additional_kwargs={"n": nan})
    assert one == ToolMessage("x", tool_call_id="1", artifact=nan, additional_kwargs={"n": nan})


@dataclasses.dataclass(init=False)
class Noted(HumanMessage):
    """A user's own class, which says more."""

    note: str = ""

    def __init__(self, content, note="", **more):
        super().__init__(content, **more)
        self.note = note


class Marked(AIMessage):
    """A user's own class, with attributes of its own."""


def test_a_users_own_classes_keep_their_fields_and_dicts():
    noted = Noted("x", note="n")
    assert noted == Noted("x", note="n") != Noted("x", note="m") and noted.additional_kwargs == {}
    noted.additional_kwargs["k"] = 1
    assert noted != Noted("x", note="n") and with_id(noted, "i").note == "n"
    marked = Marked("x")
    marked.mark = 1
    marked.response_metadata["k"] = 1
    for again in (copy.copy(marked), pickle.loads(pickle.dumps(marked)), with_id(marked, "i")):
        assert again.mark == 1 and again.response_metadata == {"k": 1}
    assert Marked("x") == Marked("x") != AIMessage("x")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_reads_messages_while_a_thread_of_its_parent_was_reading_one():
    program = """
import os, sys, threading
from runwell.messages import AIMessageChunk, HumanMessage

sys.setswitchinterval(1e-6)

def read():
    while True:
        HumanMessage("x").additional_kwargs

threading.Thread(target=read, daemon=True).start()
for _ in range(60):
    child = os.fork()
    if not child:
        HumanMessage("x").additional_kwargs, AIMessageChunk("x").response_metadata
        os._exit(0)
    os.waitpid(child, 0)
os._exit(0)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=30)


def test_repr_shows_what_was_said_and_no_defaults():
    assert repr(HumanMessage("hi")) == "HumanMessage(content='hi')"
    assert repr(ToolMessage("r", tool_call_id="1", status="error")) == (
        "ToolMessage(content='r', tool_call_id='1', status='error')"
    )


def test_patterns_match_on_fields():
    match AIMessage("hi", id="7"):
        case AIMessage(content=str(text), id="7"):
            assert text == "hi"
        case _:
            pytest.fail("no match")
