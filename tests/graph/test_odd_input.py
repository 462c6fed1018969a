"""Whatever cannot be meant is refused at the earliest moment, in words of the caller's own."""

from __future__ import annotations

import dataclasses
import operator
from types import SimpleNamespace
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel

from runwell.errors import GraphError, InvalidConfig, InvalidInput, InvalidUpdateError
from runwell.graph import END, INTERRUPT, START, Command, RetryPolicy, Send, StateGraph, interrupt
from runwell.persistence import InMemorySaver, InMemoryStore


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def node(state: Any) -> Any:
    return {"log": ["a"]}


def ask(state: Any) -> Any:
    return {"log": [interrupt("sure?")]}


def graph(action: Any = node, **options: Any) -> StateGraph[State]:
    return StateGraph(State, **options).add_node("a", action).add_edge(START, "a")


BUILDING = {
    "an edge of numbers": lambda: graph().add_edge(1, 2),  # type: ignore[arg-type]
    "an edge to None": lambda: graph().add_edge("a", None),  # type: ignore[arg-type]
    "a join of numbers": lambda: graph().add_edge([1, 2], "a"),  # type: ignore[list-item]
    "a path that is a name": lambda: graph().add_conditional_edges("a", "b"),
    "a path map that is a number": lambda: graph().add_conditional_edges("a", node, 3),  # type: ignore[arg-type]
    "a path map that is a name": lambda: graph().add_conditional_edges("a", node, "a"),
    "a name that is a number": lambda: graph().add_node(3, node),  # type: ignore[arg-type]
    "metadata": lambda: graph().add_node("b", node, metadata=3),  # type: ignore[arg-type]
    "destinations": lambda: graph().add_node("b", node, destinations=3),  # type: ignore[arg-type]
    "destinations of numbers": lambda: graph().add_node("b", node, destinations=[3]),  # type: ignore[list-item]
    "defer": lambda: graph().add_node("b", node, defer="no"),  # type: ignore[arg-type]
    "a store that is a dict": lambda: graph().compile(store={}),
    "a store that is a path": lambda: graph().compile(store="memory.sqlite"),
    "a graph's name": lambda: graph().compile(name=3),  # type: ignore[arg-type]
    "no attempt": lambda: RetryPolicy(max_attempts=0),
    "half an attempt": lambda: RetryPolicy(max_attempts=1.5),  # type: ignore[arg-type]
    "an interval": lambda: RetryPolicy(initial_interval=-1),
    "a factor": lambda: RetryPolicy(backoff_factor="2"),  # type: ignore[arg-type]
    "retry_on": lambda: RetryPolicy(retry_on="ValueError"),  # type: ignore[arg-type]
    "retry_on a class of another kind": lambda: RetryPolicy(retry_on=int),  # type: ignore[arg-type]
    "retry_on of names": lambda: RetryPolicy(retry_on=("ValueError",)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("build", BUILDING.values(), ids=BUILDING)
def test_a_definition_that_cannot_be_meant_is_refused(build: Any) -> None:
    with pytest.raises(GraphError):
        build()


def test_what_looks_odd_and_can_be_meant_works(run: Any) -> None:
    made = graph().add_node("b", lambda state: Command(goto="c"), destinations="c").add_node("c", node)
    app = made.add_edge(("a",), "b").compile(store=InMemoryStore())  # type: ignore[arg-type]
    assert run.invoke(app, {"log": []})["log"] == ["a", "a"]
    assert RetryPolicy(retry_on=[ValueError, KeyError]).retries(KeyError())
    assert RetryPolicy(retry_on=[]).retries(KeyError()) is False
    assert RetryPolicy(max_attempts=1, initial_interval=0).wait_s(1, 0.5) == 0


@pytest.mark.parametrize("target", [END, START, "nowhere"])
def test_a_send_to_what_is_no_node_is_refused(run: Any, target: str) -> None:
    by_edge = graph().add_conditional_edges("a", lambda state: [Send(target, {})]).compile()
    by_jump = graph(lambda state: Command(goto=Send(target, {}))).compile()
    for app in (by_edge, by_jump):
        with pytest.raises(InvalidUpdateError, match=f"sends to '{target}', which is not a node"):
            run.invoke(app, {"log": []})
    with pytest.raises(InvalidUpdateError, match="sends to"):
        run.invoke(graph().compile(), Command(goto=[Send(target, {})]))


def test_a_path_that_names_nothing_says_so(run: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="chose None"):
        run.invoke(graph().add_conditional_edges("a", lambda state: None).compile(), {"log": []})
    ends = graph().add_conditional_edges("a", lambda state: None, {None: END}).compile()
    assert run.invoke(ends, {"log": []})["log"] == ["a"]


@dataclasses.dataclass
class Data:
    user: str


class Model(BaseModel):
    user: str


class Typed(TypedDict):
    user: str


@pytest.mark.parametrize("kind", [Data, Model, Typed])
@pytest.mark.parametrize("wrong", [{"usr": "ann"}, 5, "ann", ["ann"], object()])
def test_a_context_that_does_not_fit_is_refused_when_the_run_starts(run: Any, kind: Any, wrong: Any) -> None:
    ran: list[Any] = []
    app = graph(ran.append, context_schema=kind).compile()
    with pytest.raises(InvalidInput, match="context"):
        run.invoke(app, {"log": []}, context=wrong)
    assert ran == []


def test_a_pydantic_context_says_what_does_not_fit(run: Any) -> None:
    with pytest.raises(InvalidInput, match="user: Input should be a valid string"):
        run.invoke(graph(context_schema=Model).compile(), {"log": []}, context={"user": 5})


@pytest.mark.parametrize("kind", [Data, Model, Typed])
def test_a_context_is_what_the_schema_says_or_has_all_of_it(run: Any, kind: Any) -> None:
    got: list[Any] = []
    app = graph(lambda state, runtime: got.append(runtime.context), context_schema=kind).compile()
    run.invoke(app, {"log": []}, context={"user": "ann"})
    run.invoke(app, {"log": []}, context=kind(user="ann"))
    assert got == [kind(user="ann"), kind(user="ann")]
    if kind is not Typed:
        stand_in = SimpleNamespace(user="bob")
        run.invoke(app, {"log": []}, context=stand_in)
        assert got[-1] is stand_in


@pytest.mark.parametrize("wrong", ["", [], ["t"], {"t": 1}, True, 1.5, b"t"])
def test_a_thread_id_that_many_would_share_is_refused(run: Any, wrong: Any) -> None:
    app = graph().compile(InMemorySaver())
    for call in (lambda c: run.invoke(app, {"log": []}, c), lambda c: run.state(app, c)):
        with pytest.raises(InvalidConfig, match="thread_id"):
            call({"configurable": {"thread_id": wrong}})


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (Command(), "says nothing"),
        (Command(resume=None), "says nothing"),
        (Command(update={"log": ["x"]}, graph=Command.PARENT), "graph='__parent__'"),
        (Command(resume="yes", actor=3), "actor is 3"),  # type: ignore[arg-type]
    ],
)
def test_a_command_that_a_caller_cannot_give_is_refused_and_leaves_the_pause(
    run: Any, thread: Any, command: Any, said: str
) -> None:
    app = graph(ask).compile(InMemorySaver())
    run.invoke(app, {"log": []}, thread)
    with pytest.raises(InvalidInput, match=said):
        run.invoke(app, command, thread)
    [question] = run.state(app, thread).interrupts
    assert run.invoke(app, Command(resume={question.id: None}), thread)["log"] == [None]


@pytest.mark.parametrize("schema", [{"type": "whole number"}, {"type": 3}, {"required": "name"}])
def test_a_question_whose_schema_is_none_is_not_asked(run: Any, thread: Any, schema: Any) -> None:
    app = graph(lambda state: {"log": [interrupt("?", response_schema=schema)]}).compile(InMemorySaver())
    with pytest.raises(InvalidInput, match="is no JSON schema"):
        run.invoke(app, {"log": []}, thread)
    assert run.state(app, thread).interrupts == ()


@pytest.mark.parametrize("options", [{"filter": "loop"}, {"filter": 3}, {"before": "id"}, {"before": {}}])
def test_a_history_asked_for_in_another_shape_is_refused(run: Any, thread: Any, options: Any) -> None:
    app = graph().compile(InMemorySaver())
    run.invoke(app, {"log": []}, thread)
    with pytest.raises(InvalidInput, match="history"):
        run.history(app, thread, **options)


def test_an_answer_and_a_jump_in_one_both_count(run: Any, thread: Any) -> None:
    made = graph(ask).add_node("b", lambda state: {"log": ["b"]}).add_node("c", lambda state: {"log": [state["at"]]})
    app = made.add_conditional_edges("a", lambda state: END, ["b", "c", END]).compile(InMemorySaver())
    assert INTERRUPT in run.invoke(app, {"log": []}, thread)
    sends = [Send("c", {"at": 1}), Send("c", {"at": 2})]
    result = run.invoke(app, Command(resume="yes", goto=["b", *sends, END], update={"log": ["said"]}), thread)
    assert result["log"] == ["said", "yes", "b", 1, 2]
    assert run.state(app, thread).next == ()


def test_d8_the_checkpoint_after_an_answer_says_who_gave_it(run: Any, thread: Any) -> None:
    inner = graph(ask).compile()
    app = graph(ask).add_node("inner", inner).add_edge("a", "inner").compile(InMemorySaver())
    [first] = run.invoke(app, {"log": []}, thread)[INTERRUPT]
    [second] = run.invoke(app, Command(resume="1", actor="ann"), thread)[INTERRUPT]
    run.invoke(app, Command(resume="2", actor="bob"), thread)
    said = [(one.metadata["step"], one.metadata.get("actors")) for one in run.history(app, thread)]
    assert said == [(2, {second.id: "bob"}), (1, {first.id: "ann"}), (0, None)]


@pytest.mark.parametrize("given", [None, Command(resume="yes"), Command(resume="yes", update={"log": ["x"]})])
def test_a_thread_that_waits_at_a_node_the_graph_has_no_more_says_so(run: Any, thread: Any, given: Any) -> None:
    saver = InMemorySaver()
    before = StateGraph(State).add_sequence([("a", node), ("asks", ask)]).add_edge(START, "a").compile(saver)
    run.invoke(before, {"log": []}, thread)
    later = StateGraph(State).add_sequence([("a", node), ("ask", ask)]).add_edge(START, "a").compile(saver)
    with pytest.raises(InvalidInput, match=r"no node 'asks'.*thread 't'.*did you mean 'ask'"):
        run.invoke(later, given, thread)
    run.update(later, thread, {"log": ["by hand"]}, as_node="a")
    assert run.invoke(later, None, thread)[INTERRUPT]
    assert run.invoke(later, Command(resume="yes"), thread)["log"][-2:] == ["by hand", "yes"]
    assert run.invoke(later, {"log": ["new"]}, thread)[INTERRUPT]


def test_xray_is_a_depth() -> None:
    with pytest.raises(InvalidInput, match="xray"):
        graph().compile().get_graph(xray="all")  # type: ignore[arg-type]


@pytest.mark.parametrize("index", [3, "text", ["text"]])
def test_a_stores_index_is_a_dict(index: Any) -> None:
    with pytest.raises(InvalidConfig, match="index"):
        InMemoryStore(index=index)
