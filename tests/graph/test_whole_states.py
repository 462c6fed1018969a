"""A node may return an object of the state's class: what it left as it was given is no change."""

from __future__ import annotations

import copy
import dataclasses
import operator
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from runwell.errors import InvalidUpdateError
from runwell.graph import END, START, Command, Send, StateGraph
from runwell.messages import AIMessage, HumanMessage, add_messages
from runwell.persistence import InMemorySaver


@dataclasses.dataclass
class Data:
    log: Annotated[list[str], operator.add] = dataclasses.field(default_factory=list)
    total: Annotated[int, operator.add] = 0
    messages: Annotated[list[Any], add_messages] = dataclasses.field(default_factory=list)
    n: int = 0
    name: str = ""


@dataclasses.dataclass(slots=True)
class Slotted:
    log: Annotated[list[str], operator.add] = dataclasses.field(default_factory=list)
    total: Annotated[int, operator.add] = 0
    messages: Annotated[list[Any], add_messages] = dataclasses.field(default_factory=list)
    n: int = 0
    name: str = ""


class Model(BaseModel):
    log: Annotated[list[str], operator.add] = []
    total: Annotated[int, operator.add] = 0
    messages: Annotated[list[Any], add_messages] = []
    n: int = 0
    name: str = ""


def copied(state: Any, **changes: Any) -> Any:
    """A copy of the whole state with other values, as one writes it for that kind of class."""
    return state.model_copy(update=changes) if isinstance(state, Model) else dataclasses.replace(state, **changes)


def assigned(state: Any) -> Any:
    state.n = state.n + 1
    return state


FIELDS = ("log", "total", "messages", "n", "name")
WHOLE = {
    "the very object, changed": assigned,
    "a copy": lambda state: copied(state, n=state.n + 1),
    "in a Command": lambda state: Command(update=copied(state, n=state.n + 1)),
    "in a list": lambda state: [copied(state, n=state.n + 1)],
}


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("node", WHOLE.values(), ids=WHOLE)
@pytest.mark.parametrize("kind", [Data, Slotted, Model])
def test_what_a_whole_state_has_unchanged_is_not_merged_again(
    run: Any, thread: Any, kind: Any, node: Any, saved: bool
) -> None:
    app = StateGraph(kind).add_sequence([("a", node), ("b", node)]).add_edge(START, "a")
    given = {"log": ["x"], "total": 5, "messages": [HumanMessage("hi")], "name": "ann"}
    result = run.invoke(app.compile(InMemorySaver() if saved else None), given, thread)
    assert (result["log"], result["total"], result["n"], result["name"]) == (["x"], 5, 2, "ann")
    assert [message.text for message in result["messages"]] == ["hi"]


def deep(state: Any) -> Any:
    return copy.deepcopy(state)


def appended(state: Any) -> Any:
    made = copy.deepcopy(state)
    made.messages.append(AIMessage("new"))
    made.total += 1
    return made


@pytest.mark.parametrize(
    "node", [deep, appended, lambda s: type(s)(**{f: getattr(s, f) + type(getattr(s, f))() for f in FIELDS})]
)
@pytest.mark.parametrize("kind", [Data, Slotted, Model])
def test_a_copy_that_shares_nothing_could_be_an_update_and_is_refused(run: Any, kind: Any, node: Any) -> None:
    app = StateGraph(kind).add_node("a", node).add_edge(START, "a").compile()
    with pytest.raises(InvalidUpdateError, match=r"'a' returned .* in which 'log'.* equals what the state has"):
        run.invoke(app, {"log": ["x"], "total": 5, "n": 3, "name": "ann", "messages": [HumanMessage("hi")]})


@pytest.mark.parametrize("kind", [Data, Slotted, Model])
def test_an_update_that_happens_to_equal_the_state_is_merged_all_the_same(run: Any, kind: Any) -> None:
    def tick(state: Any) -> Any:
        return kind(log=["tick"], total=1, n=state.n + 1)

    app = StateGraph(kind).add_node("tick", tick).add_edge(START, "tick")
    app.add_conditional_edges("tick", lambda state: END if state.n >= 4 else "tick", ["tick", END])
    result = run.invoke(app.compile(), {"name": "ann"})
    assert (result["log"], result["total"], result["n"]) == (["tick"] * 4, 4, 4)


def test_a_number_that_happens_to_be_equal_is_merged_beside_one_that_is_not(run: Any) -> None:
    @dataclasses.dataclass
    class Counts:
        hits: Annotated[int, operator.add] = 0
        misses: Annotated[int, operator.add] = 0

    nodes = [("a", lambda s: Counts(hits=1, misses=2)), ("b", lambda s: Counts(hits=1, misses=5))]
    app = StateGraph(Counts).add_sequence(nodes).add_edge(START, "a").compile()
    assert run.invoke(app, {}) == {"hits": 2, "misses": 7}


@pytest.mark.parametrize("node", [lambda s: dataclasses.replace(s, n=s.n + 1), lambda s: type(s)(hits=1, n=2)])
def test_where_nothing_tells_a_copy_from_an_update_it_is_refused(run: Any, node: Any) -> None:
    @dataclasses.dataclass
    class Counts:
        hits: Annotated[int, operator.add] = 0
        n: int = 0

    app = StateGraph(Counts).add_node("a", node).add_edge(START, "a").compile()
    with pytest.raises(InvalidUpdateError, match="'hits' equals what the state has"):
        run.invoke(app, {"hits": 1, "n": 1})


def test_a_state_of_one_key_has_only_updates(run: Any) -> None:
    @dataclasses.dataclass
    class Counts:
        hits: Annotated[int, operator.add] = 0

    app = StateGraph(Counts).add_node("a", lambda s: Counts(1)).add_edge(START, "a").compile()
    assert run.invoke(app, {"hits": 1}) == {"hits": 2}


@pytest.mark.parametrize("kind", [Data, Slotted, Model])
def test_an_object_with_some_fields_is_an_update_of_these(run: Any, kind: Any) -> None:
    steps = [("a", lambda s: kind(log=["new"], n=7)), ("b", lambda s: kind(messages=[AIMessage("yes")], name="bob"))]
    app = StateGraph(kind).add_sequence(steps).add_edge(START, "a").compile()
    result = run.invoke(app, {"log": ["x"], "total": 5, "name": "ann"})
    assert (result["log"], result["total"], result["n"], result["name"]) == (["x", "new"], 5, 7, "bob")


@pytest.mark.parametrize("kind", [Data, Slotted, Model])
def test_the_very_object_can_set_a_field_back_to_its_default(run: Any, kind: Any) -> None:
    def reset(state: Any) -> Any:
        state.n = 0
        return state

    app = StateGraph(kind).add_node("a", reset).add_edge(START, "a").compile()
    assert run.invoke(app, {"n": 9})["n"] == 0


@pytest.mark.parametrize("kind", [Data, Model])
def test_nodes_side_by_side_that_return_whole_states_collide_only_where_both_changed(run: Any, kind: Any) -> None:
    def graph(**second: Any) -> Any:
        made = StateGraph(kind).add_node("a", lambda s: copied(s, n=1)).add_node("b", lambda s: copied(s, **second))
        return made.add_edge(START, "a").add_edge(START, "b").compile()

    result = run.invoke(graph(name="bob"), {"log": ["x"], "n": 4, "name": "ann"})
    assert (result["log"], result["n"], result["name"]) == (["x"], 1, "bob")
    with pytest.raises(InvalidUpdateError, match=r"'a' and 'b' both wrote 'n'"):
        run.invoke(graph(n=2), {"n": 4})


@pytest.mark.parametrize("kind", [Data, Model])
def test_what_a_send_brought_is_compared_with_the_state(run: Any, kind: Any) -> None:
    graph = StateGraph(kind).add_node("a", assigned)
    graph.add_conditional_edges(START, lambda s: [Send("a", copied(s, log=["sent"], n=10))], ["a"])
    result = run.invoke(graph.compile(), {"log": ["x"], "n": 4})
    assert (result["log"], result["n"]) == (["x", "sent"], 11)


def test_an_object_of_a_class_that_has_no_key_of_the_state_is_refused(run: Any) -> None:
    @dataclasses.dataclass
    class Other:
        unknown: int = 0

    class OtherModel(BaseModel):
        unknown: int = 0

    for other in (Other(), Other(3), OtherModel(), OtherModel(unknown=3)):
        app = StateGraph(Data).add_node("a", lambda state, other=other: other).add_edge(START, "a").compile()
        with pytest.raises(InvalidUpdateError, match="returned"):
            run.invoke(app, {})


@pytest.mark.parametrize("kind", [Data, Model])
def test_an_error_handler_may_return_a_whole_state_too(run: Any, kind: Any) -> None:
    def fails(state: Any) -> Any:
        raise ValueError("boom")

    graph = StateGraph(kind).add_node("a", fails, error_handler=lambda state, error: copied(state, name=str(error)))
    result = run.invoke(graph.add_edge(START, "a").compile(), {"log": ["x"]})
    assert (result["log"], result["name"]) == (["x"], "boom")
