"""Choosing and joining messages."""

import pytest

from runwell.errors import InvalidInput
from runwell.messages import (
    AIMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    filter_messages,
    merge_message_runs,
    tool_call,
)

HISTORY = [
    SystemMessage("s", id="0"),
    HumanMessage("a", id="1", name="ann"),
    AIMessage("b", id="2", name="bot"),
    HumanMessage("c", id="3", name="ben"),
]


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ({}, "0123"),
        ({"include_types": "human"}, "13"),
        ({"include_types": [HumanMessage, "system"]}, "013"),
        ({"exclude_types": "system"}, "123"),
        ({"include_names": ["ann"], "include_ids": ["2"]}, "12"),
        ({"exclude_names": ["ann"]}, "023"),
        ({"include_types": "human", "exclude_ids": ["3"]}, "1"),
    ],
)
def test_any_include_and_no_exclude(arguments, kept):
    assert [each.id for each in filter_messages(HISTORY, **arguments)] == list(kept)
    assert filter_messages(**arguments).invoke(HISTORY) == filter_messages(HISTORY, **arguments)


def test_unknown_types_are_refused():
    with pytest.raises(InvalidInput, match="did you mean 'human'"):
        filter_messages(HISTORY, include_types="humann")


def test_calls_and_results_are_left_out_together():
    both = AIMessage("", tool_calls=[tool_call(name="f", args={}, id=each) for each in "xy"])
    history = [both, ToolMessage("1", tool_call_id="x"), ToolMessage("2", tool_call_id="y"), AIMessage("end")]
    assert filter_messages(history, exclude_tool_calls=True) == [AIMessage("end")]
    first, answer, end = filter_messages(history, exclude_tool_calls=["x"])
    assert [call["id"] for call in first.tool_calls] == ["y"] and answer.content == "2" and end.content == "end"
    assert len(both.tool_calls) == 2


def test_what_was_said_besides_a_call_stays():
    message = AIMessage(
        [{"type": "text", "text": "hm"}, {"type": "tool_use", "name": "f", "input": {}, "id": "x"}], id="1"
    )
    (kept,) = filter_messages([message], exclude_tool_calls=["x"])
    assert kept == AIMessage([{"type": "text", "text": "hm"}], id="1")


def test_runs_of_one_type_become_one_message():
    merged = merge_message_runs(
        [
            HumanMessage("a", id="1"),
            HumanMessage([{"type": "text", "text": "b"}], id="2"),
            AIMessage("c", tool_calls=[tool_call(name="f", args={}, id="x")]),
            AIMessage("d", tool_calls=[tool_call(name="g", args={}, id="y")]),
        ]
    )
    assert merged[0] == HumanMessage(["a", {"type": "text", "text": "b"}], id="1")
    assert merged[1].content == "c\nd" and [call["id"] for call in merged[1].tool_calls] == ["x", "y"]
    assert merge_message_runs(["a", "b"], chunk_separator=" ") == [HumanMessage("a b")]


def test_results_names_and_roles_are_not_mixed():
    apart = [
        ToolMessage("1", tool_call_id="x"),
        ToolMessage("2", tool_call_id="y"),
        HumanMessage("a", name="ann"),
        HumanMessage("b", name="ben"),
        ChatMessage("c", role="x"),
        ChatMessage("d", role="y"),
    ]
    merged = merge_message_runs(apart)
    assert merged == apart and all(one is two for one, two in zip(merged, apart, strict=True))


def test_merging_does_not_change_what_is_given():
    given = [AIMessage("a", usage_metadata={"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}), AIMessage("b")]
    (merged,) = merge_message_runs(given)
    assert merged.usage_metadata["total_tokens"] == 2 and given[0].content == "a"
