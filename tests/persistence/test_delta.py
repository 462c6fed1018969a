"""What changed between two values: folding the changes gives the value back, and chains stay short and cheap."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwell.messages import AIMessage, HumanMessage, add_messages
from runwell.persistence.checkpoints.delta import (
    ROW,
    SLACK,
    Chain,
    Patch,
    Replace,
    Splice,
    apply,
    difference,
    from_stored,
    to_stored,
)
from runwell.persistence.serialization import Serializer
from runwell.ports.saver import GONE

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
)


def exact(value: object) -> str:
    """Equal only for values of the same types in the same order: 1, True and 1.0 differ."""
    return repr(value)


@st.composite
def next_value(draw: st.DrawFn, old: object) -> object:
    """A value that shares items with the one before, as an update of a state does."""
    if isinstance(old, list) and draw(st.booleans()):
        new = list(old)
        for _ in range(draw(st.integers(0, 3))):
            start = draw(st.integers(0, len(new)))
            end = draw(st.integers(start, len(new)))
            new[start:end] = draw(st.lists(plain, max_size=3))
        return new
    if isinstance(old, dict) and draw(st.booleans()):
        new_dict = dict(old)
        for key in draw(st.lists(st.sampled_from([*old, "x", "y"]), max_size=3)):
            if draw(st.booleans()):
                new_dict[key] = draw(plain)
            else:
                new_dict.pop(key, None)
        return new_dict
    return draw(plain)


@given(st.data())
def test_applying_the_difference_gives_the_new_value(data: st.DataObject) -> None:
    old = data.draw(plain)
    new = data.draw(next_value(old))
    change = difference(old, new)
    assert exact(old if change is None else apply(copy.deepcopy(old), change)) == exact(new)


@given(st.data())
def test_folding_stored_changes_gives_every_value_on_every_fork(data: st.DataObject) -> None:
    serializer = Serializer()
    tree: list[tuple[Any, list[bytes]]] = [(data.draw(plain), [])]  # (value, stored changes from the first value to it)
    tree[0][1].append(serializer.dumps([0, tree[0][0]]))
    for _ in range(data.draw(st.integers(1, 8))):
        parent = data.draw(st.integers(0, len(tree) - 1))
        old, stored = tree[parent]
        new = data.draw(next_value(old))
        change = difference(old, new)
        more = [] if change is None else [serializer.dumps(list(to_stored(change)))]
        tree.append((new, stored + more))
    for value, stored in tree:
        found = None
        for row in stored:
            found = apply(found, from_stored(*serializer.loads(row)))
        assert exact(found) == exact(value)


def test_an_appended_item_is_all_that_is_stored() -> None:
    old = [object() for _ in range(1000)]
    change = difference(old, [*old, "new"])
    assert change == Splice(1000, 0, ["new"])


def test_an_item_replaced_in_the_middle_is_all_that_is_stored() -> None:
    old = [object() for _ in range(1000)]
    new = [*old[:500], "new", *old[501:]]
    assert difference(old, new) == Splice(500, 1, ["new"])


def test_a_dict_stores_only_changed_entries() -> None:
    old = {"a": [1], "b": [2], "c": [3]}
    assert difference(old, {"a": old["a"], "b": [9], "d": [4]}) == Patch({"b": [9], "d": [4]}, ["c"])


def test_a_dict_in_another_order_is_replaced() -> None:
    old = {"a": [1], "b": [2]}
    new = {"b": old["b"], "a": old["a"]}
    assert difference(old, new) == Replace(new)


def test_a_class_that_calls_different_values_equal_hides_no_change() -> None:
    @dataclass
    class Item:
        name: str
        status: str = field(compare=False)

    old, new = Item("a", "open"), Item("a", "done")
    assert old == new
    change = difference([old], [new, old])
    assert isinstance(change, Splice)
    assert change.items[0].status == "done"


@pytest.mark.parametrize("twin", [True, 1.0])
def test_equal_values_of_another_type_are_a_change(twin: object) -> None:
    assert difference(["x", 1], ["x", twin]) == Splice(1, 1, [twin])
    assert type(difference(["x", 1], ["x", twin]).items[0]) is type(twin)  # type: ignore[union-attr]


def test_the_same_list_on_both_sides_was_changed_in_place_and_is_stored_whole() -> None:
    messages = ["a"]
    assert difference(messages, messages) == Replace(messages)
    assert difference("text", "text") is None


def test_a_first_value_is_stored_whole() -> None:
    assert difference(GONE, [1]) == Replace([1])


@pytest.mark.parametrize(
    ("value", "change"),
    [
        ([1], Splice(2, 0, [1])),
        ([1], Splice(0, 2, [])),
        ({"a": 1}, Patch({}, ["b"])),
        ("text", Splice(0, 0, [])),
    ],
)
def test_a_change_that_does_not_fit_is_refused(value: object, change: Splice | Patch) -> None:
    with pytest.raises((ValueError, KeyError)):
        apply(value, change)


@given(st.lists(st.tuples(st.integers(1, 500), st.booleans()), min_size=1, max_size=400))
def test_reading_costs_at_most_about_twice_the_value_and_writing_stays_linear(steps: list[tuple[int, bool]]) -> None:
    """Each step appends an item of some bytes, or edits the last item in place."""
    value, written, snapshots = [100], 100, 0
    chain = Chain.start(1, value, 100)
    for seq, (size, append) in enumerate(steps, start=2):
        change = Splice(len(value) - (not append), int(not append), [size])
        value = [*value[: change.start], size]
        extended = chain.extended(change, value, size)
        written += size
        if extended is None:
            extended = Chain.start(seq, value, sum(value))
            written += sum(value)
            snapshots += 1
        chain = extended
        assert chain.cost <= 2 * chain.size + SLACK + ROW
        assert chain.length == len(value)
    appended = 100 + sum(size for size, _ in steps)
    assert written <= 8 * (appended + ROW * len(steps))


def test_a_conversation_that_only_grows_is_never_written_twice() -> None:
    value: list[int] = [0]
    chain = Chain.start(1, value, 300)
    for _ in range(5000):
        value = [*value, 0]
        extended = chain.extended(Splice(len(value) - 1, 0, [0]), value, 300)
        assert extended is not None
        chain = extended


def test_a_value_edited_in_place_for_ever_is_cut_short_again_and_again() -> None:
    value = [0] * 10  # of 100 bytes each
    chain, cuts = Chain.start(1, value, 1000), 0
    for seq in range(2, 2002):
        extended = chain.extended(Splice(9, 1, [0]), value, 100)
        if extended is None:
            extended, cuts = Chain.start(seq, value, 1000), cuts + 1
        chain = extended
        assert chain.rows <= (2 * 1000 + SLACK) / ROW
    assert 20 < cuts < 200


# -- histories that know what they were made of


def told(*texts: str) -> list[HumanMessage]:
    return [HumanMessage(text, id=text) for text in texts]


def test_a_history_that_grew_stores_what_was_added() -> None:
    old = add_messages(add_messages([], told("a")), told("b"))
    new = add_messages(old, told("c", "d"))
    assert difference(old, new) == Splice(2, 0, [new[2], new[3]])
    assert difference(old, add_messages(old, [])) is None


def test_a_history_with_one_in_the_place_of_another_stores_that_one() -> None:
    old = add_messages([], told("a", "b", "c"))
    other = HumanMessage("changed", id="b")
    assert difference(old, add_messages(old, [other])) == Splice(1, 1, [other])
    assert difference(old, add_messages(old, [other, *told("d")])) == Splice(1, 2, [other, old[2], *told("d")])


def test_a_history_that_grew_and_was_then_changed_in_place_is_compared() -> None:
    old = add_messages([], told("a", "b", "c"))
    new = add_messages(old, told("d"))
    new[1] = other = HumanMessage("changed")
    assert difference(old, new) == Splice(1, 2, [other, new[2], new[3]])


@pytest.mark.parametrize(
    "change",
    [
        lambda history: list.reverse(history),
        lambda history: list.sort(history, key=lambda message: message.text, reverse=True),
        lambda history: list.__setitem__(history, 1, AIMessage("other", id="b")),
        lambda history: list.insert(history, 0, HumanMessage("first", id="z")),
        lambda history: list.pop(history, 1),
    ],
    ids=["reverse", "sort", "setitem", "insert", "pop"],
)
def test_a_history_that_grew_and_was_then_changed_behind_its_back_is_compared(change: Any) -> None:
    old = add_messages([], [HumanMessage("a", id="a"), AIMessage("b", id="b"), HumanMessage("c", id="c")])
    new = add_messages(old, [AIMessage("d", id="d")])
    change(new)
    found = difference(old, new)
    assert found is not None
    assert apply(list(old), found) == list(new)


def test_of_two_that_grew_from_one_history_each_stores_its_own() -> None:
    old = add_messages([], told("a", "b"))
    one, two = add_messages(old, told("c")), add_messages(old, told("d"))
    assert difference(old, one) == Splice(2, 0, [one[2]])
    assert difference(old, two) == Splice(2, 0, [two[2]])
    assert difference(one, two) == Splice(2, 1, [two[2]])


def test_a_history_keeps_only_the_one_before_it() -> None:
    newest: Any = add_messages([], told("0"))
    for number in range(1, 5):
        newest = add_messages(newest, told(str(number)))
    assert newest.left == newest[:-1]
    assert newest.left.left is None


def test_numbers_by_name_are_stored_whole() -> None:
    old = {"model_calls": 1000, "tokens": 2000}
    assert difference(old, {**old, "tokens": 2500}) == Replace({"model_calls": 1000, "tokens": 2500})
    assert difference(old, dict(old)) is None
    assert difference(old, {"tokens": old["tokens"], "model_calls": old["model_calls"]}) is not None
    assert difference({"a": 1}, {"a": True}) == Replace({"a": True})
