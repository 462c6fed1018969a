"""Messages in OpenAI's form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwell.errors import InvalidInput
from runwell.messages import (
    AIMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
    convert_to_openai_messages,
    invalid_tool_call,
    tool_call,
)


def test_roles_calls_and_results():
    history = [
        SystemMessage("s"),
        HumanMessage("q", name="ann"),
        AIMessage(
            "",
            tool_calls=[tool_call(name="f", args={"x": "漢"}, id="1")],
            invalid_tool_calls=[invalid_tool_call(name="g", args="{", id="2")],
        ),
        ToolMessage("r", tool_call_id="1"),
        ChatMessage("c", role="critic"),
    ]
    assert convert_to_openai_messages(history) == [
        {"role": "system", "content": "s"},
        {"role": "user", "name": "ann", "content": "q"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"type": "function", "id": "1", "function": {"name": "f", "arguments": '{"x": "漢"}'}},
                {"type": "function", "id": "2", "function": {"name": "g", "arguments": "{"}},
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "r"},
        {"role": "critic", "content": "c"},
    ]


def test_one_message_gives_one_dict():
    assert convert_to_openai_messages(HumanMessage("x", id="1"), include_id=True) == {
        "role": "user",
        "id": "1",
        "content": "x",
    }
    assert convert_to_openai_messages("x") == {"role": "user", "content": "x"}
    assert convert_to_openai_messages({"role": "developer", "content": "x"}) == {"role": "developer", "content": "x"}


def test_text_as_a_string_or_as_blocks():
    message = HumanMessage([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
    assert convert_to_openai_messages(message)["content"] == "a\nb"
    assert convert_to_openai_messages(message, text_format="block")["content"] == message.content
    assert convert_to_openai_messages("x", text_format="block")["content"] == [{"type": "text", "text": "x"}]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            {"type": "image", "base64": "aGk=", "mime_type": "image/jpeg"},
            {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,aGk="}},
        ),
        (
            {"type": "image", "source": {"type": "url", "url": "https://x"}},
            {"type": "image_url", "image_url": {"url": "https://x"}},
        ),
        (
            {"type": "audio", "base64": "aGk=", "mime_type": "audio/mpeg"},
            {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}},
        ),
        ({"type": "file", "file_id": "f"}, {"type": "file", "file": {"file_id": "f"}}),
        (
            {"type": "file", "base64": "aGk=", "mime_type": "application/pdf", "extras": {"filename": "a.pdf"}},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,aGk=", "filename": "a.pdf"}},
        ),
    ],
)
def test_media_of_any_form_are_written(block, expected):
    assert convert_to_openai_messages(HumanMessage([block]))["content"] == [expected]


def test_what_cannot_be_written_is_passed_on_or_refused():
    odd = HumanMessage([{"type": "hologram", "x": 1}])
    assert convert_to_openai_messages(odd)["content"] == [{"type": "hologram", "x": 1}]
    with pytest.raises(InvalidInput, match="non_standard"):
        convert_to_openai_messages(odd, pass_through_unknown_blocks=False)
    with pytest.raises(InvalidInput, match="'remove'"):
        convert_to_openai_messages([RemoveMessage(id="1")])


def test_calls_that_stand_as_blocks_are_written_once():
    message = AIMessage(
        [
            {"type": "text", "text": "x"},
            {"type": "tool_use", "name": "f", "input": {}, "id": "1"},
            {"type": "thinking", "thinking": "h"},
        ]
    )
    written = convert_to_openai_messages(message)
    assert written["content"] == "x" and len(written["tool_calls"]) == 1


texts = st.text(max_size=5)
conversation = st.lists(
    st.one_of(
        st.builds(HumanMessage, texts),
        st.builds(SystemMessage, texts),
        st.builds(
            AIMessage,
            texts,
            tool_calls=st.lists(
                st.builds(
                    tool_call,
                    name=st.text(min_size=1, max_size=4),
                    args=st.dictionaries(texts, st.none() | st.integers() | texts, max_size=2),
                    id=st.text(min_size=1, max_size=4),
                ),
                max_size=2,
            ),
        ),
        st.builds(ToolMessage, texts, tool_call_id=texts),
    ),
    max_size=5,
)


@given(conversation)
def test_there_and_back(history):
    assert convert_to_messages(convert_to_openai_messages(history)) == history
