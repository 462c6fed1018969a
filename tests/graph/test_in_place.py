"""What a node changes in place is saved or refused, never seen by one run and lost to the next (INT-15)."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest

from runwell.errors import InvalidUpdateError
from runwell.graph import END, START, StateGraph
from runwell.persistence import InMemorySaver


class State(TypedDict, total=False):
    items: list[Any]
    facts: dict[str, Any]
    log: Annotated[list[str], operator.add]


def given() -> dict[str, Any]:
    return {"items": [1], "facts": {"deep": {"n": 1}, "other": 2}, "log": ["begun"]}


def app(node: Any, **settings: Any) -> Any:
    graph = StateGraph(State).add_node("node", node).add_edge(START, "node").add_edge("node", END)
    return graph.compile(**settings)


def append(state: State) -> State:
    state["items"].append(2)
    return {}


def add_fact(state: State) -> State:
    state["facts"]["new"] = 1
    return {"log": ["done"]}


def edit_deep(state: State) -> State:
    state["facts"]["deep"]["n"] = 2
    return {}


def edit_in_a_copy(state: State) -> State:
    facts = dict(state["facts"])
    facts["deep"]["n"] = 2
    return {"facts": facts}


def replace_item(state: State) -> State:
    state["items"][0] = 99
    return {}


@pytest.mark.parametrize(("node", "key"), [(append, "items"), (add_fact, "facts")])
def test_int_15_a_value_that_grew_in_place_and_was_not_returned_is_refused(
    run: Any, thread: Any, node: Any, key: str
) -> None:
    with pytest.raises(InvalidUpdateError, match=f"'node' changed '{key}' in place") as caught:
        run.invoke(app(node, checkpointer=InMemorySaver()), given(), thread)
    assert key in caught.value.hint


@pytest.mark.parametrize("node", [append, add_fact, edit_deep, edit_in_a_copy, replace_item])
def test_int_15_debug_refuses_whatever_was_changed_in_place_and_not_returned(run: Any, thread: Any, node: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="in place"):
        run.invoke(app(node, checkpointer=InMemorySaver(), debug=True), given(), thread)


@pytest.mark.parametrize("debug", [False, True])
def test_int_15_a_value_changed_in_place_and_returned_is_saved(run: Any, thread: Any, debug: bool) -> None:
    def node(state: State) -> State:
        state["items"].append(2)
        state["facts"]["deep"]["n"] = 2
        return {"items": state["items"], "facts": state["facts"], "log": ["done"]}

    graph = app(node, checkpointer=InMemorySaver(), debug=debug)
    seen = run.invoke(graph, given(), thread)
    assert seen == {"items": [1, 2], "facts": {"deep": {"n": 2}, "other": 2}, "log": ["begun", "done"]}
    assert run.state(graph, thread).values == seen


def test_a_list_that_grew_in_place_and_is_returned_as_another_is_saved(run: Any, thread: Any) -> None:
    def node(state: State) -> State:
        state["items"].append(2)
        return {"items": list(state["items"])}

    graph = app(node, checkpointer=InMemorySaver())
    run.invoke(graph, given(), thread)
    assert run.state(graph, thread).values["items"] == [1, 2]


@pytest.mark.parametrize("debug", [False, True])
def test_new_values_are_fine(run: Any, thread: Any, debug: bool) -> None:
    def node(state: State) -> State:
        return {"items": [*state["items"], 2], "facts": {**state["facts"], "new": 1}, "log": ["done"]}

    graph = app(node, checkpointer=InMemorySaver(), debug=debug)
    seen = run.invoke(graph, given(), thread)
    assert run.state(graph, thread).values == seen


def test_without_a_saver_nothing_is_lost_and_nothing_refused(run: Any) -> None:
    assert run.invoke(app(append), given())["items"] == [1, 2]
