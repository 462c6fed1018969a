"""`add_messages`: the algebra of histories."""

import copy
import json
import pickle
from typing import Annotated, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from runwell.errors import InvalidInput
from runwell.messages import (
    REMOVE_ALL_MESSAGES,
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    RemoveMessage,
    add_messages,
    fresh_reply_id,
)


def ids(messages):
    return [each.id for each in messages]


messages = st.builds(HumanMessage, st.text(max_size=3), id=st.none() | st.sampled_from("abcdef"))
updates = st.lists(messages, max_size=5)


def expected(left, right):
    """What the contract says, in the plainest code; ids that are given at random are left None."""
    result = list(left)
    for each in right:
        if isinstance(each, RemoveMessage):
            result = [] if each.id == REMOVE_ALL_MESSAGES else [one for one in result if one.id != each.id]
            continue
        for place, one in enumerate(result):
            if each.id is not None and one.id == each.id:
                result[place] = each
                break
        else:
            result.append(each)
    return result


@given(st.lists(updates, max_size=5))
@settings(max_examples=200)
def test_updates_applied_one_after_another(all_updates):
    history, model = [], []
    for update in all_updates:
        history, model = add_messages(history, update), expected(model, update)
    assert [each.content for each in history] == [each.content for each in model]
    assert [one.id or two.id for one, two in zip(model, history, strict=True)] == ids(history)
    assert len(set(ids(history))) == len(history)


@given(updates, updates)
def test_two_updates_equal_one_when_all_have_ids(first, second):
    first = [each for each in first if each.id]
    second = [each for each in second if each.id]
    assert add_messages(add_messages([], first), second) == add_messages([], first + second)


@given(updates, updates)
def test_the_sides_are_not_changed_and_what_stays_is_the_same_object(left, right):
    history = add_messages([], left)
    before, right_before = copy.deepcopy(list(history)), copy.deepcopy(right)
    result = add_messages(history, right)
    assert list(history) == before and right == right_before
    replaced = {each.id for each in right}
    for old, new in zip(history, result, strict=False):
        assert new is old or old.id in replaced
    assert result is not history


@given(updates, updates, updates)
def test_branches_of_one_history_do_not_see_each_other(base, left, right):
    history = add_messages([], base)
    one, two = add_messages(history, left), add_messages(history, right)
    one, two = add_messages(one, right), add_messages(two, left)
    assert [each.content for each in one] == [each.content for each in expected(expected(history, left), right)]
    assert [each.content for each in two] == [each.content for each in expected(expected(history, right), left)]


@given(updates, updates)
def test_nothing_added_is_the_same_history(left, right):
    history = add_messages([], left + right)
    again = add_messages(history, [])
    assert again == history and again is not history and add_messages([], history) == history


def test_missing_ids_are_given_to_copies():
    given_message = HumanMessage("hi")
    (added,) = add_messages([], [given_message])
    assert given_message.id is None
    assert len(added.id) == 32 and added.content == "hi"


def test_b3_a_message_with_a_known_id_takes_the_place():
    history = add_messages([], [HumanMessage("a", id="1"), AIMessage("b", id="2"), HumanMessage("c", id="3")])
    result = add_messages(history, AIMessage("B", id="2"))
    assert ids(result) == ["1", "2", "3"] and result[1].content == "B"
    assert result[0] is history[0] and result[2] is history[2]


def test_b3_removing():
    history = add_messages([], [HumanMessage("a", id="1"), AIMessage("b", id="2")])
    assert ids(add_messages(history, RemoveMessage(id="1"))) == ["2"]
    with pytest.raises(InvalidInput, match="no message with id '9'"):
        add_messages(history, [RemoveMessage(id="9")])
    assert ids(history) == ["1", "2"]


def test_b3_operations_are_applied_in_order():
    history = add_messages([], [HumanMessage("a", id="1"), AIMessage("b", id="2")])
    moved = add_messages(history, [RemoveMessage(id="1"), HumanMessage("again", id="1")])
    assert ids(moved) == ["2", "1"]
    assert ids(add_messages(history, [HumanMessage("x", id="3"), RemoveMessage(id="3")])) == ["1", "2"]
    with pytest.raises(InvalidInput):
        add_messages(history, [RemoveMessage(id="1"), RemoveMessage(id="1")])


def test_b3_removing_all_keeps_only_what_follows():
    history = add_messages([], [HumanMessage("a", id="1")])
    everything = RemoveMessage(id=REMOVE_ALL_MESSAGES)
    assert add_messages(history, everything) == []
    result = add_messages(history, [HumanMessage("lost"), everything, HumanMessage("kept", id="1"), "new"])
    assert [each.content for each in result] == ["kept", "new"]
    assert ids(add_messages(history, [everything, "x", everything, HumanMessage("y", id="7")])) == ["7"]


def test_texts_pairs_and_dicts_are_taken_on_both_sides():
    result = add_messages([("user", "a")], "b")
    result = add_messages(result, {"role": "assistant", "content": "c"})
    assert [(each.type, each.content) for each in result] == [("human", "a"), ("human", "b"), ("ai", "c")]
    assert all(ids(result))
    assert [each.content for each in add_messages(None, ("user", "x"))] == ["x"]


def test_chunks_become_messages():
    (added,) = add_messages([], AIMessageChunk("x", id="1"))
    assert added == AIMessage("x", id="1")


def test_a_history_cannot_hold_a_removal():
    with pytest.raises(InvalidInput, match="cannot hold"):
        add_messages([RemoveMessage(id="1")], "x")


def test_the_result_is_a_list_for_everyone_else():
    history = add_messages([], ["a", "b"])
    assert isinstance(history, list) and history == list(history)
    assert type(history[:1]) is list and type(history + history) is list
    assert copy.deepcopy(history) == history and copy.copy(history) == history
    assert pickle.loads(pickle.dumps(history)) == history
    assert json.loads(json.dumps([each.content for each in history])) == ["a", "b"]


@pytest.mark.parametrize(
    "change",
    [
        lambda it: it.append(HumanMessage("x", id="9")),
        lambda it: it.insert(0, HumanMessage("x", id="9")),
        lambda it: it.extend([HumanMessage("x", id="9")]),
        lambda it: it.__setitem__(0, HumanMessage("x", id="9")),
        lambda it: it.__iadd__([HumanMessage("x", id="9")]),
        lambda it: (it.pop(), it.append(HumanMessage("x", id="9"))),
        lambda it: (it.clear(), it.append(HumanMessage("x", id="9"))),
        lambda it: (it.reverse(), it.append(HumanMessage("x", id="9"))),
        lambda it: (it.__delitem__(0), it.append(HumanMessage("x", id="9"))),
    ],
)
def test_a_history_changed_in_place_is_seen_as_it_is(change):
    history = add_messages([], [HumanMessage("a", id="1"), HumanMessage("b", id="2")])
    change(history)
    count = len(history)
    result = add_messages(history, HumanMessage("new", id="9"))
    assert len(result) == count and [each.content for each in result if each.id == "9"] == ["new"]


def test_it_stands_as_a_reducer_in_a_state():
    class State(TypedDict):
        messages: Annotated[list, add_messages]

    assert get_type_hints(State, include_extras=True)["messages"].__metadata__ == (add_messages,)


def test_b3_a_reply_that_reuses_an_id_gets_a_fresh_one():
    history = add_messages([], [HumanMessage("a", id="1"), AIMessage("first", id="reply")])
    reply = AIMessage("second", id="reply")
    fresh = fresh_reply_id(history, reply)
    assert fresh.id not in ids(history) and fresh.content == "second" and reply.id == "reply"
    assert [each.content for each in add_messages(history, fresh)] == ["a", "first", "second"]
    assert fresh_reply_id(list(history), reply).id != "reply"
    new = AIMessage("x", id="other")
    assert fresh_reply_id(history, new) is new
