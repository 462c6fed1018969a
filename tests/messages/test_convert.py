"""Messages from what callers write."""

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
    convert_to_message,
    convert_to_messages,
    messages_from_dict,
    messages_to_dict,
)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("hi", HumanMessage("hi")),
        (("user", "hi"), HumanMessage("hi")),
        (("human", "hi"), HumanMessage("hi")),
        (["assistant", "hi"], AIMessage("hi")),
        (("ai", "hi"), AIMessage("hi")),
        (("system", "hi"), SystemMessage("hi")),
        (("remove", "id1"), RemoveMessage(id="id1")),
        ({"role": "user", "content": "hi"}, HumanMessage("hi")),
        ({"type": "human", "content": "hi", "id": "1"}, HumanMessage("hi", id="1")),
        ({"role": "user", "type": "message", "content": "hi"}, HumanMessage("hi")),
        ({"role": "user", "content": [{"type": "text", "text": "hi"}]}, HumanMessage([{"type": "text", "text": "hi"}])),
        ({"role": "tool", "content": "r", "tool_call_id": "1"}, ToolMessage("r", tool_call_id="1")),
        ({"role": "function", "content": "r", "name": "f"}, FunctionMessage("r", name="f")),
        ({"role": "remove", "id": "1"}, RemoveMessage(id="1")),
        ({"type": "remove", "id": "1", "content": ""}, RemoveMessage(id="1")),
        ({"type": "chat", "role": "critic", "content": "x"}, ChatMessage("x", role="critic")),
        ({"type": "human", "data": {"content": "hi"}}, HumanMessage("hi")),
        (
            {"role": "developer", "content": "hi"},
            SystemMessage("hi", additional_kwargs={"openai_role": "developer"}),
        ),
    ],
)
def test_a6_every_form_of_message_is_taken(written, expected):
    assert convert_to_message(written) == expected
    assert convert_to_messages([written]) == [expected]


def test_one_message_or_many_or_something_that_gives_messages():
    class Prompt:
        def to_messages(self):
            return [HumanMessage("hi")]

    assert convert_to_messages("hi") == convert_to_messages(("user", "hi")) == convert_to_messages(Prompt())
    assert convert_to_messages(HumanMessage("hi")) == convert_to_messages({"role": "user", "content": "hi"})
    assert convert_to_messages(["user", "hi"]) == [HumanMessage("user"), HumanMessage("hi")]
    assert convert_to_messages(each for each in ["a", "b"]) == [HumanMessage("a"), HumanMessage("b")]


def test_messages_stay_the_same_objects_in_a_new_list():
    given = [HumanMessage("a"), AIMessage("b")]
    converted = convert_to_messages(given)
    assert converted is not given and all(mine is theirs for mine, theirs in zip(converted, given, strict=True))


def test_calls_in_openais_form_are_parsed():
    written = {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"x": "漢"}'}},
            {"id": "2", "type": "function", "function": {"name": "g", "arguments": '{"x": '}},
        ],
    }
    message = convert_to_message(written)
    assert message.content == "" and message.additional_kwargs == {}
    assert message.tool_calls == [{"name": "f", "args": {"x": "漢"}, "id": "1", "type": "tool_call"}]
    assert message.invalid_tool_calls[0]["args"] == '{"x": ' and message.invalid_tool_calls[0]["id"] == "2"


def test_fields_of_a_vendor_are_kept():
    message = convert_to_message({"role": "assistant", "content": "x", "reasoning_content": "hm", "audio": None})
    assert message.additional_kwargs == {"reasoning_content": "hm"}


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (("usr", "hi"), "did you mean 'user'"),
        ({"role": "critic", "content": "x"}, "Unknown role 'critic'"),
        ({"content": "x"}, "neither 'role' nor 'type'"),
        ({"role": "user"}, "no 'content'"),
        ({"role": "user", "content": 3}, "got 3"),
        ({"role": "tool", "content": "x"}, "id of the call"),
        ({"role": "user", "content": "x", "tool_calls": [{"name": "f", "args": {}}]}, "Only an assistant"),
        (3, "3 is no message"),
        (("a", "b", "c"), "is no message"),
        ({"lc": 1, "type": "constructor", "id": ["HumanMessage"], "kwargs": {"content": "x"}}, "constructor"),
    ],
)
def test_what_is_no_message_is_refused_by_name(written, told):
    with pytest.raises(InvalidInput, match=told):
        convert_to_messages([written])


def test_no_messages_at_all_is_refused():
    with pytest.raises(InvalidInput, match="Expected messages"):
        convert_to_messages(None)


def test_dicts_and_back():
    messages = [
        HumanMessage("hi", id="1"),
        AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "c"}]),
        ToolMessage("r", tool_call_id="c", artifact={"a": 1}, status="error"),
        RemoveMessage(id="1"),
        ChatMessage("x", role="critic"),
        AIMessageChunk("x", tool_call_chunks=[{"name": "f", "args": "{", "id": "c", "index": 0}]),
    ]
    dicts = messages_to_dict(messages)
    assert dicts[0]["type"] == "human" and dicts[0]["data"]["content"] == "hi"
    assert messages_from_dict(dicts) == messages


@pytest.mark.parametrize("entry", [{"type": "human"}, "x", {"type": "human", "data": {"content": "x", "kontent": 1}}])
def test_other_dicts_are_refused(entry):
    with pytest.raises(InvalidInput):
        messages_from_dict([entry])


HUGE = "x" * 1_000_000


@pytest.mark.parametrize(
    "bad",
    [
        lambda: HumanMessage(HUGE.encode()),
        lambda: HumanMessage([HUGE.encode()]),
        lambda: convert_to_messages(HUGE.encode()),
        lambda: convert_to_messages([HUGE.encode()]),
        lambda: convert_to_messages([(HUGE, "x")]),
        lambda: convert_to_messages([{"content": HUGE}]),
        lambda: convert_to_messages([{"role": "user", "contents": HUGE}]),
        lambda: messages_from_dict([{"a": HUGE}]),
        lambda: AIMessage("", tool_calls=[{"name": "x", "args": HUGE}]),
        lambda: AIMessageChunk("", tool_call_chunks=[{"args": {"x": HUGE}}]),
        lambda: ToolMessage("x", tool_call_id=HUGE.encode()),
        lambda: HumanMessage.model_validate({"content": HUGE, "foo": 1}),
    ],
    ids=map(str, range(12)),
)
def test_an_error_quotes_so_much_and_no_more(bad):
    with pytest.raises(InvalidInput) as caught:
        bad()
    assert len(str(caught.value)) < 1000
