"""Stopping a run after the step under way, and going on from there."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from runwell.errors import InvalidInput
from runwell.graph import (
    INTERRUPT,
    START,
    STOPPED,
    Command,
    RunControl,
    Runtime,
    Send,
    StateGraph,
    interrupt,
    record,
)
from runwell.persistence import InMemorySaver, SqliteSaver


class State(TypedDict):
    log: Annotated[list[Any], operator.add]


EMPTY: Any = {"log": []}


def stopping(control: RunControl, name: str = "a", reason: str = "redeploy") -> Any:
    def node(state: State) -> Any:
        control.stop(reason)
        return {"log": [name]}

    return node


def chain(control: RunControl, checkpointer: Any = None) -> Any:
    graph = StateGraph(State).add_node("a", stopping(control)).add_node("b", lambda s: {"log": ["b"]})
    return graph.add_edge(START, "a").add_edge("a", "b").compile(checkpointer)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_stopped_run_ends_after_its_step_says_so_and_goes_on_later(
    run: Any, thread: Any, tmp_path: Path, durability: str
) -> None:
    control = RunControl()
    with SqliteSaver(tmp_path / "threads.sqlite") as saver:
        stopped = run.invoke(chain(control, saver), EMPTY, thread, control=control, durability=durability)
        assert stopped == {"log": ["a"], STOPPED: {"reason": "redeploy", "next": ["b"]}}
    with SqliteSaver(tmp_path / "threads.sqlite") as saver:
        app = chain(RunControl(), saver)
        assert run.state(app, thread).next == ("b",)
        assert run.invoke(app, None, thread) == {"log": ["a", "b"]}


def test_a_stream_ends_with_the_mark(run: Any, thread: Any) -> None:
    control = RunControl()
    items = run.stream(chain(control, InMemorySaver()), EMPTY, thread, control=control)
    assert items == [{"a": {"log": ["a"]}}, {STOPPED: {"reason": "redeploy", "next": ["b"]}}]


def test_a_run_that_ends_with_the_step_is_not_marked(run: Any) -> None:
    control = RunControl()
    app = StateGraph(State).add_node("a", stopping(control)).add_edge(START, "a").compile()
    assert run.invoke(app, EMPTY, control=control) == {"log": ["a"]}


def test_a_stop_before_the_first_step_saves_the_input_and_runs_nothing(run: Any, thread: Any) -> None:
    control = RunControl()
    control.stop()
    app = chain(RunControl(), InMemorySaver())
    assert run.invoke(app, {"log": [0]}, thread, control=control) == {
        "log": [0],
        STOPPED: {"reason": "", "next": ["a"]},
    }
    assert run.invoke(app, None, thread) == {"log": [0, "a", "b"]}


def test_without_a_checkpointer_a_run_stops_too(run: Any) -> None:
    control = RunControl()
    assert run.invoke(chain(control), EMPTY, control=control)[STOPPED]["next"] == ["b"]


def test_all_tasks_of_the_step_end_before_it_stops(run: Any, thread: Any) -> None:
    control = RunControl()

    def work(n: int) -> Any:
        control.stop()
        return {"log": [n]}

    graph = StateGraph(State).add_node("work", work).add_node("end", lambda s: {"log": ["end"]}).add_edge("work", "end")
    graph.add_conditional_edges(START, lambda s: [Send("work", n) for n in range(5)], ["work"])
    assert run.invoke(graph.compile(), EMPTY, control=control)["log"] == [0, 1, 2, 3, 4]


def nested(control: RunControl, ran: list[str], called: bool, saver: Any) -> Any:
    def count(state: State) -> Any:
        ran.append("count")
        return {"log": [record("count", lambda: len(ran))]}

    inner = chain(control)
    graph = StateGraph(State)
    graph.add_node("in", (lambda s: {"log": inner.invoke({"log": []})["log"]}) if called else inner)
    graph.add_node("beside", count).add_node("end", lambda s: {"log": ["end"]})
    return graph.add_edge(START, "in").add_edge(START, "beside").add_edge(["in", "beside"], "end").compile(saver)


@pytest.mark.parametrize("called", [False, True], ids=["as a node", "called by a node"])
def test_an_inner_graph_stops_after_its_own_step_and_nothing_finished_runs_again(
    run: Any, thread: Any, called: bool
) -> None:
    control, ran, saver = RunControl(), list[str](), InMemorySaver()
    app = nested(control, ran, called, saver)
    stopped = run.invoke(app, EMPTY, thread, control=control)
    assert stopped == {"log": [], STOPPED: {"reason": "redeploy", "next": ["in", "beside"]}}
    assert run.invoke(app, None, thread) == {"log": ["a", "b", 1, "end"]}
    assert ran == ["count"]


@pytest.mark.parametrize("called", [False, True], ids=["as a node", "called by a node"])
def test_an_inner_graph_that_nothing_saves_ends_with_the_step_around_it(run: Any, called: bool) -> None:
    control = RunControl()
    stopped = run.invoke(nested(control, [], called, None), EMPTY, control=control)
    assert stopped == {"log": ["a", "b", 1], STOPPED: {"reason": "redeploy", "next": ["end"]}}


def test_a_question_asked_in_the_last_step_goes_before_the_stop(run: Any, thread: Any) -> None:
    control = RunControl()

    def ask(state: State) -> Any:
        control.stop()
        return {"log": [interrupt("go?")]}

    graph = StateGraph(State).add_node("ask", ask).add_node("b", lambda s: {"log": ["b"]})
    app = graph.add_edge(START, "ask").add_edge("ask", "b").compile(InMemorySaver())
    paused = run.invoke(app, EMPTY, thread, control=control)
    assert paused[INTERRUPT][0].value == "go?"
    assert STOPPED not in paused
    assert run.invoke(app, Command(resume="yes"), thread)["log"] == ["yes", "b"]


def test_a_node_may_look_whether_a_stop_was_asked_for(run: Any) -> None:
    control = RunControl()

    def long(state: State, runtime: Runtime[Any]) -> Any:
        done = 0
        while runtime.control is None or not runtime.control.stopped:
            done += 1
            if done == 3:
                control.request_drain("enough")
        return {"log": [done]}

    app = StateGraph(State).add_node("long", long).add_edge(START, "long").compile()
    assert run.invoke(app, EMPTY, control=control) == {"log": [3]}
    assert (control.drain_requested, control.drain_reason) == (True, "enough")


def test_the_first_reason_stands() -> None:
    control = RunControl()
    assert (control.stopped, control.reason, control.drain_reason) == (False, "", None)
    control.stop("first")
    control.stop("second")
    assert repr(control) == "RunControl(stopped=True, reason='first')"


def test_what_is_no_control_is_refused(run: Any) -> None:
    with pytest.raises(InvalidInput, match="Pass a RunControl"):
        run.invoke(chain(RunControl()), EMPTY, control=True)


def test_the_second_form_of_a_result_has_the_stop_beside_the_state(run: Any) -> None:
    control = RunControl()
    output = run.invoke(chain(control), EMPTY, control=control, version="v2")
    assert (output.value, output.interrupts) == ({"log": ["a"]}, ())
    assert output.stopped == {"reason": "redeploy", "next": ["b"]}
    assert run.invoke(chain(RunControl()), EMPTY, version="v2").stopped is None
