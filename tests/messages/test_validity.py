"""Histories that no model would take."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runwell.errors import InvalidHistory
from runwell.messages import (
    AIMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
    invalid_tool_call,
    repair_history,
    require_valid_history,
    tool_call,
    validate_history,
)


def calling(*call_ids):
    return AIMessage("", tool_calls=[tool_call(name="f", args={}, id=each) for each in call_ids])


def result(call_id):
    return ToolMessage("r", tool_call_id=call_id)


def kinds(messages):
    return [(each.kind, each.place, each.call_id) for each in validate_history(messages)]


def test_a_whole_history_has_no_problems():
    whole = [HumanMessage("a"), calling("1", "2"), result("2"), result("1"), AIMessage("x"), calling("1"), result("1")]
    assert kinds(whole) == []
    require_valid_history(whole)
    assert repair_history(whole) == whole


def test_msg_03_a_call_whose_result_was_dropped_is_named_before_any_model_is_called():
    second_turn = [HumanMessage("weather?"), calling("abc"), AIMessage("sunny"), HumanMessage("and tomorrow?")]
    assert kinds(second_turn) == [("unanswered_call", 1, "abc")]
    with pytest.raises(InvalidHistory, match="'abc'"):
        require_valid_history(second_turn)


def test_msg_03_repairing_answers_the_call_with_an_error():
    repaired = repair_history([HumanMessage("a"), calling("abc"), HumanMessage("b")], missing="gone")
    assert [each.type for each in repaired] == ["human", "ai", "tool", "human"]
    assert (repaired[2].tool_call_id, repaired[2].content, repaired[2].status) == ("abc", "gone", "error")
    require_valid_history(repaired)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([result("1")], [("orphan_result", 0, "1")]),
        ([calling("1"), result("1"), result("1")], [("duplicate_result", 2, "1")]),
        ([calling("1"), HumanMessage("x"), result("1")], [("misplaced_result", 2, "1")]),
        ([calling("1", "1"), result("1")], [("duplicate_call", 0, "1")]),
        ([calling("1"), calling("1"), result("1")], [("unanswered_call", 0, "1")]),
        ([calling("1", "2"), result("1")], [("unanswered_call", 0, "2")]),
        ([result("1"), calling("1")], [("orphan_result", 0, "1"), ("unanswered_call", 1, "1")]),
        ([HumanMessage("x"), RemoveMessage(id="1")], [("not_a_message", 1, None)]),
    ],
)
def test_every_problem_is_named_with_its_place(messages, expected):
    assert kinds(messages) == expected
    assert all(str(each) for each in validate_history(messages))


def test_broken_calls_want_an_answer_too():
    broken = AIMessage("", invalid_tool_calls=[invalid_tool_call(name="f", args="{", id="1")])
    assert kinds([broken]) == [("unanswered_call", 0, "1")]
    assert kinds([broken, result("1")]) == []
    assert kinds(repair_history([broken, HumanMessage("x")])) == []


def test_a_late_result_moves_to_its_call():
    late = result("1")
    repaired = repair_history([calling("1"), HumanMessage("x"), late])
    assert [each.type for each in repaired] == ["ai", "tool", "human"] and repaired[1] is late


names = st.sampled_from("123")
histories = st.lists(
    st.one_of(
        st.builds(HumanMessage, st.just("h")),
        st.lists(names, max_size=2, unique=True).map(lambda some: calling(*some)),
        names.map(result),
    ),
    max_size=10,
)


@given(histories)
@settings(max_examples=300)
def test_repaired_histories_are_whole_and_keep_what_was_said(history):
    repaired = repair_history(history)
    assert validate_history(repaired) == []
    said = [each for each in history if not isinstance(each, ToolMessage)]
    assert [each for each in repaired if not isinstance(each, ToolMessage)] == said
    assert repair_history(repaired) == repaired


@given(histories)
@settings(max_examples=300)
def test_a_history_is_judged_alike_whatever_holds_it_and_of_whatever_class(history):
    class Answer(AIMessage):
        """A user's own."""

    problems = validate_history(history)
    assert validate_history(iter(history)) == problems
    own = [Answer(each.content, tool_calls=each.tool_calls) if type(each) is AIMessage else each for each in history]
    assert validate_history(own) == problems
