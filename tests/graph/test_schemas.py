"""What schemas say: what nodes see, what comes in and goes out, and what of it is told."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel

from runwell.errors import InvalidInput
from runwell.graph import START, StateGraph
from runwell.persistence import InMemorySaver


class State(TypedDict, total=False):
    question: str
    answer: str
    log: Annotated[list[str], operator.add]


class Secret(TypedDict):
    secret: str


class Form(BaseModel):
    name: str
    age: int = 1


@dataclass
class Part:
    question: str
    log: Annotated[list[str], operator.add] = field(default_factory=list)


def ask(state: State) -> dict[str, Any]:
    return {"secret": f"about {state['question']}"}


def answer(state: Secret) -> dict[str, Any]:
    return {"answer": f"{state['secret']}: {sorted(state)}"}


def test_a_node_sees_what_its_state_is_annotated_with_and_its_own_keys_are_private(run: Any, thread: Any) -> None:
    graph = StateGraph(State).add_node(ask).add_node(answer).add_edge(START, "ask").add_edge("ask", "answer")
    app = graph.compile(checkpointer=InMemorySaver())
    assert run.invoke(app, {"question": "tea"}, thread) == {"question": "tea", "answer": "about tea: ['secret']"}
    with pytest.raises(InvalidInput, match="unknown key 'secret'"):
        run.invoke(app, {"secret": "x"}, {"configurable": {"thread_id": "u"}})


def test_a_node_of_a_dataclass_in_a_graph_of_a_dict_is_given_one(run: Any) -> None:
    def node(state: Part) -> dict[str, Any]:
        assert type(state) is Part
        return {"log": [state.question]}

    app = StateGraph(State).add_node(node).add_edge(START, "node").compile()
    assert run.invoke(app, {"question": "tea", "log": ["a"]})["log"] == ["a", "tea"]


def test_graph_13_a_state_that_is_not_annotated_is_the_graphs(run: Any) -> None:
    def node(state, config: Form) -> Secret:  # type: ignore[no-untyped-def]
        return {"answer": ",".join(sorted(state))}  # type: ignore[typeddict-item]

    app = StateGraph(State).add_node(node).add_edge(START, "node").compile()
    assert run.invoke(app, {"question": "tea"})["answer"] == "question"


def test_input_of_a_later_turn_that_does_not_fit_is_told_of_as_input(run: Any, thread: Any) -> None:
    app = StateGraph(Form).add_node("n", lambda state: {}).add_edge(START, "n").compile(checkpointer=InMemorySaver())
    run.invoke(app, {"name": "Ann"}, thread)
    assert run.invoke(app, {"age": "7"}, thread) == {"name": "Ann", "age": 7}
    with pytest.raises(InvalidInput, match=r"The input does not fit 'Form': age"):
        run.invoke(app, {"age": "old"}, thread)
    assert run.state(app, thread).values == {"name": "Ann", "age": 7}


def test_strm_04_a_graph_with_settings_bound_to_it_writes_only_what_it_changed(run: Any) -> None:
    class Other(TypedDict, total=False):
        log: Annotated[list[str], operator.add]

    inner = StateGraph(Other).add_node("i", lambda state: {"log": ["inner"]}).add_edge(START, "i").compile()
    for child in (inner.with_config(tags=["t"], recursion_limit=5), inner.with_retry(), inner):
        app = StateGraph(State).add_node("child", child).add_edge(START, "child").compile()
        given = {"question": "tea", "log": ["before"]}
        assert run.stream(app, given, stream_mode="updates") == [{"child": {"log": ["inner"]}}]
        assert run.invoke(app, given) == {"question": "tea", "log": ["before", "inner"]}
        assert [name for name, _ in app.get_subgraphs()] == ["child"]


def test_get_subgraphs_finds_them_at_every_depth() -> None:
    deep = StateGraph(State).add_node("x", ask).add_edge(START, "x").compile(name="deep")
    middle = StateGraph(State).add_node("b", deep).add_edge(START, "b").compile(name="middle")
    app = StateGraph(State).add_node("a", middle).add_edge(START, "a").compile()
    assert [(name, graph.name) for name, graph in app.get_subgraphs()] == [("a", "middle")]
    assert [(name, graph.name) for name, graph in app.get_subgraphs(recurse=True)] == [("a", "middle"), ("a|b", "deep")]


def test_a_graph_tells_the_schemas_of_its_input_and_output() -> None:
    class Given(TypedDict):
        question: str

    def of(schema: Any, **schemas: Any) -> Any:
        return StateGraph(schema, **schemas).add_node("n", lambda state: {}).add_edge(START, "n").compile()

    app = of(State, input_schema=Given, output_schema=Form)
    assert list(app.get_input_jsonschema()["properties"]) == ["question"]
    assert app.get_output_schema() is Form
    assert app.get_input_schema()(question="tea").question == "tea"
    assert of(Part).get_input_jsonschema()["required"] == ["question"]
    assert list(of(Form).get_input_jsonschema()["properties"]) == ["name", "age"]
