"""Whatever is committed, forked, shared and pruned: every checkpoint that is kept comes back as it was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runwell.messages import HumanMessage
from runwell.persistence import InMemorySaver, SqliteSaver
from runwell.persistence.checkpoints.saver import BaseCheckpointSaver
from runwell.ports.saver import GONE
from runwell.testing.savers import CheckpointSaverSuite, Thread

# What a step makes of a channel's value: appended to, edited, cut, set anew (to something long that was there before,
# among others), or gone.
LONG = ["x" * 600, "y" * 600, ["z" * 600, 1]]
values = st.one_of(st.integers(), st.text(max_size=5), st.sampled_from(LONG), st.lists(st.integers(), max_size=3))
edits = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 3)),
    st.tuples(st.just("edit"), st.integers(0, 9)),
    st.tuples(st.just("cut"), st.integers(0, 9)),
    st.tuples(st.just("put"), st.sampled_from("abc")),
    st.tuples(st.just("set"), values),
    st.tuples(st.just("gone"), st.none()),
)
steps = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(["messages", "facts", "other"]), edits, max_size=3),
        st.one_of(st.none(), st.integers(0, 20)),  # back to that checkpoint, or on
        st.booleans(),  # through another saver, which knows nothing of what this one remembers
    ),
    min_size=1,
    max_size=14,
)


def edited(old: Any, edit: tuple[str, Any], number: int) -> Any:
    kind, detail = edit
    if kind == "gone":
        return GONE
    if kind == "set":
        return detail
    if kind == "put":
        return {**(old if isinstance(old, dict) else {}), detail: number}
    items = list(old) if isinstance(old, list) else []
    if kind == "append":
        return [*items, *(HumanMessage(f"{number}.{n}", id=f"{number}.{n}") for n in range(detail))]
    if kind == "edit" and items:
        items[detail % len(items)] = HumanMessage(f"edit {number}", id=f"{number}")
    return items[: detail % (len(items) + 1)] if kind == "cut" else items


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plan=steps, keep=st.integers(1, 5))
def test_every_checkpoint_that_is_kept_comes_back_as_it_was(kind: str, plan: list[Any], keep: int) -> None:
    saver: BaseCheckpointSaver = InMemorySaver() if kind == "memory" else SqliteSaver(":memory:")
    with saver:
        thread = Thread(CheckpointSaverSuite(), saver)
        for number, (changes, back, forgetful) in enumerate(plan):
            parent = thread.order[back % len(thread.order)] if back is not None and thread.order else thread.head
            old = thread.values.get(parent or "", {})
            update = {key: edited(old.get(key, GONE), edit, number) for key, edit in changes.items()}
            if forgetful:
                saver._heads.clear()
            thread.commit(f"c{number}", update, parent=parent)
        thread.check()
        at = len(thread.order) // 2
        assert [each.id for each in saver.history("t", before=thread.order[at], limit=3)] == thread.order[:at][::-1][:3]
        saver.prune("t", keep=keep)
        thread.order = thread.order[-keep:]
        thread.values = {each: thread.values[each] for each in thread.order}
        thread.check()
        thread.commit("on", {"messages": LONG[0]}, parent=thread.order[0])
        thread.check()
