"""Changing a thread's state by hand, and looking through its history."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest

from runwell.errors import InvalidInput, InvalidUpdateError, NoCheckpointer
from runwell.graph import END, START, Command, StateGraph, StateUpdate, interrupt
from runwell.persistence import InMemorySaver


class Log(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    topic: str


def say(text: str) -> Any:
    return lambda state: {"log": [text]}


def chain_of(*names: str) -> StateGraph[Log]:
    graph = StateGraph(Log)
    graph.add_sequence([(name, say(name)) for name in names])
    return graph.add_edge(START, names[0])


def test_bulk_update_state_makes_a_history_of_one_checkpoint_a_superstep(run: Any, thread: Any) -> None:
    app = chain_of("a", "b", "c").compile(checkpointer=InMemorySaver())
    place = run.bulk(
        app,
        thread,
        [[StateUpdate({"log": ["in"]}, START)], [StateUpdate({"log": ["A"]}, "a")], [StateUpdate({"log": ["B"]}, "b")]],
    )
    assert place == run.state(app, thread).config
    history = [(one.values["log"], one.next, one.metadata["source"]) for one in run.history(app, thread)]
    assert history == [
        (["in", "A", "B"], ("c",), "update"),
        (["in", "A"], ("b",), "update"),
        (["in"], ("a",), "update"),
    ]
    assert run.invoke(app, None, thread)["log"] == ["in", "A", "B", "c"]


def test_the_updates_of_a_superstep_count_as_one_step(run: Any, thread: Any) -> None:
    graph = StateGraph(Log).add_node("a", say("a")).add_node("b", say("b")).add_node("z", say("z"))
    app = (
        graph.add_edge(START, "a").add_edge(START, "b").add_edge(["a", "b"], "z").compile(checkpointer=InMemorySaver())
    )
    run.bulk(app, thread, [[StateUpdate({"log": ["A"]}, "a"), StateUpdate({"log": ["B"]}, "b")]])
    assert run.state(app, thread).next == ("z",)
    assert run.invoke(app, None, thread)["log"] == ["A", "B", "z"]
    with pytest.raises(InvalidUpdateError, match=r"'a' and 'b' both wrote 'topic'"):
        run.bulk(app, thread, [[StateUpdate({"topic": "x"}, "a"), StateUpdate({"topic": "y"}, "b")]])


@pytest.mark.parametrize(
    ("supersteps", "said"),
    [
        ([], "list of lists"),
        ([StateUpdate({"log": ["x"]}, "a")], "list of lists"),
        ([[StateUpdate({"log": ["x"]}, "a")], []], "Superstep 1"),
        ([[StateUpdate({"log": ["x"]}, "a"), StateUpdate({"log": ["y"]})]], "not all say which node's"),
        ([[StateUpdate({"log": ["x"]}, "aa")]], "'aa' is not a node"),
    ],
)
def test_supersteps_of_another_shape_are_refused_before_anything_is_saved(
    run: Any, thread: Any, supersteps: Any, said: str
) -> None:
    app = chain_of("a", "b").compile(checkpointer=InMemorySaver())
    with pytest.raises(InvalidInput, match=said):
        run.bulk(app, thread, supersteps)
    assert run.history(app, thread) == []


def test_as_node_end_ends_the_run(run: Any, thread: Any) -> None:
    app = chain_of("a", "b").compile(checkpointer=InMemorySaver(), interrupt_before=["b"])
    run.invoke(app, {"log": []}, thread)
    run.update(app, thread, {"log": ["enough"]}, as_node=END)
    assert run.state(app, thread).next == ()
    assert run.invoke(app, None, thread)["log"] == ["a", "enough"]


def test_a_checkpoint_that_is_not_there_cannot_be_changed(run: Any, thread: Any) -> None:
    app = chain_of("a").compile(checkpointer=InMemorySaver())
    run.invoke(app, {"log": []}, thread)
    with pytest.raises(InvalidInput, match="no checkpoint 'gone'"):
        run.update(app, {"configurable": {"thread_id": "t", "checkpoint_id": "gone"}}, {"log": ["x"]})


def test_history_by_filter_before_and_limit(run: Any, thread: Any) -> None:
    app = chain_of("a", "b").compile(checkpointer=InMemorySaver())
    for tag in ("one", "two"):
        run.invoke(app, {"log": []}, {**thread, "metadata": {"tag": tag}})
    every = run.history(app, thread)
    assert [one.metadata["step"] for one in every] == sorted((one.metadata["step"] for one in every), reverse=True)
    assert run.history(app, thread, limit=2) == every[:2]
    assert run.history(app, thread, before=every[1].config) == every[2:]
    assert run.history(app, thread, before=every[1].config, limit=1) == every[2:3]
    assert run.history(app, thread, filter={"tag": "one"}) == every[3:]
    assert run.history(app, thread, filter={"source": "input"}) == [every[2], every[5]]
    assert run.history(app, thread, filter={"source": "loop", "tag": "two"}, limit=1) == every[:1]


def test_a_graph_lists_the_open_questions_of_all_threads(run: Any) -> None:
    def ask(state: Log) -> Any:
        return {"log": [interrupt(f"about {state['topic']}?")]}

    app = StateGraph(Log).add_node("ask", ask).add_edge(START, "ask").compile(checkpointer=InMemorySaver())
    for name in ("one", "two", "three"):
        run.invoke(app, {"log": [], "topic": name}, {"configurable": {"thread_id": name}})
    assert [(each.thread_id, each.interrupt.value) for each in run.questions(app)] == [
        ("one", "about one?"),
        ("two", "about two?"),
        ("three", "about three?"),
    ]
    [first] = run.questions(app, limit=1)
    assert run.invoke(app, Command(resume={first.interrupt.id: "yes"}), first.config)["log"] == ["yes"]
    assert [each.thread_id for each in run.questions(app)] == ["two", "three"]
    with pytest.raises(NoCheckpointer):
        run.questions(chain_of("a").compile())


def test_a_graph_with_a_config_bound_to_it_looks_at_the_thread_that_is_bound(run: Any, thread: Any) -> None:
    saver = InMemorySaver()
    graph = chain_of("a", "b").compile(checkpointer=saver, interrupt_before=["b"])
    app = graph.with_config(thread, tags=["x"]).with_config(metadata={"m": 1})
    assert run.invoke(app, {"log": []})["log"] == ["a"]
    assert run.state(app, None).next == ("b",)
    assert run.update(app, None, {"log": ["by hand"]}) == run.state(graph, thread).config
    assert run.invoke(app, None)["log"] == ["a", "by hand", "b"]
    assert [one.values["log"] for one in run.history(app, None, limit=1)] == [["a", "by hand", "b"]]
    assert run.state(app, thread).metadata["m"] == 1
    run.bulk(app, {"configurable": {"thread_id": "other"}}, [[StateUpdate({"log": ["x"]}, "a")]])
    assert run.state(app, {"configurable": {"thread_id": "other"}}).values == {"log": ["x"]}
    assert run.questions(app) == []
    assert list(app.get_subgraphs()) == []
