"""What a node changes in place is saved or refused, never seen by one run and lost to the next (INT-15)."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest

from runwell.errors import InvalidUpdateError
from runwell.graph import END, START, StateGraph, UntrackedValue, add_messages
from runwell.messages import AIMessage, HumanMessage
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


def replace_fact(state: State) -> State:
    state["facts"]["other"] = 3
    return {"log": ["done"]}


def tick_a_step_off(state: State) -> State:
    state["items"][0]["done"] = True
    return {"items": [*state["items"]]}


def take_out_and_put_in(state: State) -> State:
    state["items"].remove(1)
    state["items"].append(5)
    return {}


@pytest.mark.parametrize(
    ("node", "key", "what"),
    [
        (edit_deep, "facts", r"inside it \{'n': 1\} became \{'n': 2\}"),
        (edit_in_a_copy, "facts", "inside it"),
        (replace_item, "items", "item 0, which was 1"),
        (replace_fact, "facts", "'other', which was 2"),
        (take_out_and_put_in, "items", "item 0, which was 1"),
    ],
)
def test_int_15_an_item_replaced_in_place_is_refused_and_nothing_of_it_saved(
    run: Any, thread: Any, node: Any, key: str, what: str
) -> None:
    graph = app(node, checkpointer=InMemorySaver())
    with pytest.raises(InvalidUpdateError, match=f"'node' changed '{key}' in place.*{what}"):
        run.invoke(graph, given(), thread)
    assert run.state(graph, thread).values == given()


def test_int_15_a_dict_in_a_list_is_told_where_a_copy_of_the_list_is_returned(run: Any, thread: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="'items' in place"):
        start = {"items": [{"step": "look", "done": False}]}
        run.invoke(app(tick_a_step_off, checkpointer=InMemorySaver()), start, thread)


def test_int_15_the_last_of_many_items_are_told(run: Any, thread: Any) -> None:
    def node(state: State) -> State:
        state["items"][-1] = 0
        return {}

    with pytest.raises(InvalidUpdateError, match="item 999, which was 999"):
        run.invoke(app(node, checkpointer=InMemorySaver()), {"items": list(range(1000))}, thread)


class Chat(TypedDict):
    messages: Annotated[list[Any], add_messages]
    seen: set[str]


@pytest.mark.parametrize("what", ["content", "tool_calls", "replaced"])
def test_int_15_the_newest_message_and_those_replaced_are_told(run: Any, thread: Any, what: str) -> None:
    def node(state: Chat) -> Any:
        if what == "replaced":
            state["messages"][0] = HumanMessage("other", id="1")
        else:
            setattr(state["messages"][-1], what, "changed" if what == "content" else [])
        return {"seen": {"node"}}

    graph = StateGraph(Chat).add_node("node", node).add_edge(START, "node").compile(InMemorySaver())
    said = [HumanMessage("go", id="1"), AIMessage("well", id="2")]
    with pytest.raises(InvalidUpdateError, match="'messages' in place"):
        run.invoke(graph, {"messages": said}, thread)


@pytest.mark.parametrize("returned", [False, True])
@pytest.mark.parametrize("newest", [HumanMessage("go", id="1"), AIMessage("go", id="1")], ids=["human", "ai"])
def test_int_15_a_message_edited_in_place_is_told_returned_or_not(
    run: Any, thread: Any, newest: Any, returned: bool
) -> None:
    """A saver that keeps what changed takes the same object for the same message."""

    def node(state: Chat) -> Any:
        message = state["messages"][-1]
        message.content = "edited"
        return {"messages": [message]} if returned else {}

    def copying(state: Chat) -> Any:
        return {"messages": [state["messages"][-1].model_copy(update={"content": "edited"})]}

    def app_of(node: Any) -> Any:
        return StateGraph(Chat).add_node("node", node).add_edge(START, "node").compile(InMemorySaver())

    with pytest.raises(InvalidUpdateError, match="what message '1' says") as caught:
        run.invoke(app_of(node), {"messages": [newest.model_copy()]}, thread)
    assert "model_copy" in caught.value.hint
    graph = app_of(copying)
    run.invoke(graph, {"messages": [newest.model_copy()]}, thread)
    assert [message.text for message in run.state(graph, thread).values["messages"]] == ["edited"]


def test_int_15_a_set_is_told(run: Any, thread: Any) -> None:
    def node(state: Chat) -> Any:
        state["seen"].remove("a")
        state["seen"].add("b")
        return {}

    graph = StateGraph(Chat).add_node("node", node).add_edge(START, "node").compile(InMemorySaver())
    with pytest.raises(InvalidUpdateError, match="'seen' in place"):
        run.invoke(graph, {"messages": [], "seen": {"a"}}, thread)


class Unsure:
    """Says of no two whether they are equal, as arrays do."""

    def __eq__(self, other: object) -> Any:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]


def test_int_15_values_that_cannot_be_compared_are_told_by_what_they_are(run: Any, thread: Any) -> None:
    class Free(TypedDict):
        items: Annotated[list[Any], UntrackedValue]
        facts: dict[str, Any]

    kept: list[Any] = []

    def node(state: Any) -> Any:
        state["items"][0] = Unsure()
        kept.append(1)
        return {}

    graph = StateGraph(Free).add_node("node", node).add_edge(START, "node").compile(InMemorySaver())
    run.invoke(graph, {"items": [Unsure(), Unsure()], "facts": {"a": 1}}, thread)  # not saved, so not refused
    assert kept == [1]


def test_equal_values_in_place_of_others_are_no_change(run: Any, thread: Any) -> None:
    def node(state: State) -> State:
        state["facts"]["deep"] = {"n": 1}
        state["items"][0] = 1
        return {"log": ["done"]}

    graph = app(node, checkpointer=InMemorySaver())
    assert run.invoke(graph, given(), thread) == {**given(), "log": ["begun", "done"]}


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
