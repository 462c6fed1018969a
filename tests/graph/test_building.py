"""What a definition may be, and what compile() says of one that cannot work."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel, field_validator

from runwell.errors import GraphError, InvalidConfig, InvalidInput, InvalidUpdateError
from runwell.graph import END, START, Command, Overwrite, Send, StateGraph
from runwell.persistence import InMemorySaver, InMemoryStore


class State(TypedDict):
    value: int
    seen: Annotated[list[str], operator.add]


def note(name: str) -> Any:
    def node(state: State) -> dict[str, Any]:
        return {"seen": [name]}

    return node


def test_every_problem_of_a_definition_is_listed_at_once() -> None:
    graph = StateGraph(State)
    graph.add_node("search", note("search"))
    graph.add_node("lonely", note("lonely"))
    graph.add_edge("serch", "search")
    graph.add_edge("search", "answer")
    graph.add_conditional_edges("search", lambda state: "a", {"a": "nowhere"})
    with pytest.raises(GraphError) as caught:
        graph.compile(interrupt_before=["tols"])
    problems = "\n".join(caught.value.problems)
    assert "'serch'" in problems and "did you mean 'search'" in problems
    assert "'answer'" in problems and "'nowhere'" in problems and "'tols'" in problems
    assert "nothing leads from START" in problems


def test_an_unreachable_node_is_a_problem() -> None:
    graph = StateGraph(State).add_node("a", note("a")).add_node("b", note("b")).add_edge(START, "a")
    with pytest.raises(GraphError, match="'b' cannot be reached"):
        graph.compile()


@pytest.mark.parametrize("name", [START, END, "a|b", "a:b", ""])
def test_reserved_names_are_refused(name: str) -> None:
    with pytest.raises(GraphError):
        StateGraph(State).add_node(name, note("x"))


def test_a_second_node_of_the_same_name_is_refused() -> None:
    graph = StateGraph(State).add_node("a", note("a"))
    with pytest.raises(GraphError, match="already a node 'a'"):
        graph.add_node("a", note("a"))


def test_a_class_that_is_no_schema_is_refused() -> None:
    with pytest.raises(GraphError, match="cannot be a state schema"):
        StateGraph(dict)


def test_something_that_cannot_be_called_is_no_node() -> None:
    with pytest.raises(GraphError, match="cannot be called"):
        StateGraph(State).add_node("a", 3)


def test_a_checkpointer_that_cannot_save_is_refused() -> None:
    graph = StateGraph(State).add_node("a", note("a")).add_edge(START, "a")
    with pytest.raises(GraphError, match="cannot save"):
        graph.compile(checkpointer="memory")


# -- input (seat A5)


def build(node: Any = None, schema: Any = State, **options: Any) -> Any:
    graph = StateGraph(schema).add_node("a", node or (lambda state: None)).add_edge(START, "a")
    return graph.compile(**options)


def test_a5_an_unknown_key_is_refused_naming_the_nearest(run: Any) -> None:
    with pytest.raises(InvalidInput, match=r"'vlaue'.*did you mean 'value'"):
        run.invoke(build(), {"vlaue": 1})


def test_a5_extra_ignore_drops_unknown_keys(run: Any) -> None:
    assert run.invoke(build(extra="ignore"), {"value": 1, "other": 2}) == {"value": 1}


def test_a5_a_typeddict_may_start_with_some_of_its_keys(run: Any) -> None:
    assert run.invoke(build(), {"value": 1}) == {"value": 1}


@dataclass
class Data:
    name: str
    tags: list[str] = field(default_factory=list)


class Model(BaseModel):
    name: str
    size: float = 1.0

    @field_validator("name")
    @classmethod
    def capitalised(cls, value: str) -> str:
        return value.capitalize()


@pytest.mark.parametrize("schema", [Data, Model])
def test_a5_a_field_without_default_must_be_given(run: Any, schema: Any) -> None:
    with pytest.raises(InvalidInput, match="name"):
        run.invoke(build(schema=schema), {})


def test_a5_what_is_no_mapping_is_refused(run: Any) -> None:
    with pytest.raises(InvalidInput, match="of type 'int'"):
        run.invoke(build(), 3)


def test_nodes_see_an_object_of_the_schema(run: Any) -> None:
    def node(state: Data) -> Data:
        return Data(state.name + "!", ["seen"])

    assert run.invoke(build(node, Data), Data("Ann")) == {"name": "Ann!", "tags": ["seen"]}


def test_ckpt_13_a_validators_change_reaches_the_nodes(run: Any) -> None:
    def greet(state: Model) -> dict[str, Any]:
        return {"name": f"hello {state.name}"}

    assert run.invoke(build(greet, Model), {"name": "bob"})["name"] == "Hello bob"
    seen: list[str] = []
    run.invoke(build(lambda state: seen.append(state.name), Model), {"name": "bob"})
    assert seen == ["Bob"]


def test_ckpt_12_an_output_that_breaks_the_state_model_fails_at_its_node(run: Any, thread: Any) -> None:
    graph = build(lambda state: {"size": "large"}, Model, checkpointer=InMemorySaver())
    with pytest.raises(InvalidUpdateError, match=r"(?s)'a'.*'size'"):
        run.invoke(graph, {"name": "x"}, thread)
    assert run.state(graph, thread).values == {"name": "X", "size": 1.0}


def test_graph_13_the_state_type_is_the_graphs_whatever_the_annotations_say() -> None:
    class Config(TypedDict):
        depth: int

    def f(state, config: Config) -> State:  # type: ignore[no-untyped-def]
        return {"value": 2, "seen": []}

    def g(state, config) -> State:  # type: ignore[no-untyped-def]
        return {"value": 3, "seen": []}

    graph = StateGraph(State).add_node(f).add_node(g).add_edge(START, "f").add_edge("f", "g")
    assert graph.compile().nodes["f"].schema.type is State
    assert graph.compile().nodes["g"].schema.type is State
    assert graph.compile().invoke({"value": 1})["value"] == 3


# -- updates


def test_an_unknown_key_in_an_update_names_node_and_nearest(run: Any) -> None:
    with pytest.raises(InvalidUpdateError, match=r"'a'.*'valu'.*did you mean 'value'"):
        run.invoke(build(lambda state: {"valu": 1}), {"value": 1})


def test_an_update_of_the_wrong_kind_is_refused(run: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="'a' returned 'text'"):
        run.invoke(build(lambda state: "text"), {"value": 1})


def test_two_writers_of_one_key_in_one_step_are_both_named(run: Any) -> None:
    graph = StateGraph(State)
    for name in ("left", "right"):
        graph.add_node(name, lambda state: {"value": 1}).add_edge(START, name)
    with pytest.raises(InvalidUpdateError, match="'left' and 'right' both wrote 'value'"):
        run.invoke(graph.compile(), {"value": 0})


def test_overwrite_replaces_what_a_reducer_would_merge(run: Any) -> None:
    graph = build(lambda state: {"seen": Overwrite(["only"])})
    assert run.invoke(graph, {"value": 0, "seen": ["a", "b"]})["seen"] == ["only"]


def test_a_node_may_return_a_list_of_updates_and_commands(run: Any) -> None:
    graph = StateGraph(State)
    graph.add_node("a", lambda state: [{"seen": ["1"]}, Command(update={"seen": ["2"]}, goto="b")], destinations=["b"])
    graph.add_node("b", note("b")).add_edge(START, "a")
    assert run.invoke(graph.compile(), {"value": 0})["seen"] == ["1", "2", "b"]


def test_a_jump_to_an_unknown_node_names_the_nearest(run: Any) -> None:
    graph = StateGraph(State).add_node("a", lambda state: Command(goto="serch")).add_node("search", note("s"))
    graph.add_edge(START, "a")
    with pytest.raises(InvalidUpdateError, match=r"'serch'.*did you mean 'search'"):
        run.invoke(graph.compile(), {"value": 0})


def test_a_conditional_edge_that_chooses_nothing_known_is_refused(run: Any) -> None:
    graph = StateGraph(State).add_node("a", note("a")).add_edge(START, "a")
    graph.add_conditional_edges("a", lambda state: "left", {"right": END})
    with pytest.raises(InvalidUpdateError, match=r"'left'.*path map"):
        run.invoke(graph.compile(), {"value": 0})


def test_an_unknown_config_key_is_refused(run: Any) -> None:
    with pytest.raises(InvalidConfig, match="recursion_limi"):
        run.invoke(build(), {"value": 1}, {"recursion_limi": 3})


def test_nodes_take_what_they_declare_by_name(run: Any) -> None:
    got: dict[str, Any] = {}

    def node(state: State, runtime: Any, config: Any, store: Any) -> None:
        got.update(context=runtime.context, tags=config["tags"], store=store)

    memory = InMemoryStore()
    graph = StateGraph(State, context_schema=Data).add_node("a", node).add_edge(START, "a").compile(store=memory)
    run.invoke(graph, {"value": 1}, {"tags": ["x"]}, context={"name": "ctx"})
    assert got == {"context": Data("ctx"), "tags": ["x"], "store": memory}


def test_sends_each_run_with_their_own_argument_in_order(run: Any) -> None:
    graph = StateGraph(State).add_node("one", lambda number: {"seen": [str(number)]})
    graph.add_conditional_edges(START, lambda state: [Send("one", n) for n in range(5)], ["one"])
    assert run.invoke(graph.compile(), {"value": 0})["seen"] == list("01234")


def test_a_join_runs_once_when_all_its_sources_have_ended(run: Any) -> None:
    graph = StateGraph(State)
    for name in ("a", "b", "slow", "slower", "join"):
        graph.add_node(name, note(name))
    graph.add_edge(START, "a").add_edge(START, "b").add_edge("b", "slow").add_edge("slow", "slower")
    graph.add_edge(["a", "slower"], "join")
    assert run.invoke(graph.compile(), {"value": 0})["seen"] == ["a", "b", "slow", "slower", "join"]


def test_a_deferred_node_runs_when_nothing_else_is_left(run: Any) -> None:
    graph = StateGraph(State)
    for name in ("a", "b", "c"):
        graph.add_node(name, note(name))
    graph.add_node("last", note("last"), defer=True)
    graph.add_edge(START, "a").add_edge(START, "b").add_edge("b", "c").add_edge("a", "last").add_edge("c", "last")
    assert run.invoke(graph.compile(), {"value": 0})["seen"] == ["a", "b", "c", "last"]


def test_graph_01_a_jump_replaces_the_nodes_edges(run: Any) -> None:
    graph = StateGraph(State).add_node("start", lambda state: Command(goto="x"))
    graph.add_node("x", note("x")).add_node("y", note("y")).add_edge(START, "start").add_edge("start", "y")
    assert run.invoke(graph.compile(), {"value": 0})["seen"] == ["x"]
