"""RUN-19: one run at a time on a thread. The second is told before anything runs, waits, or takes the thread over."""

from __future__ import annotations

import gc
import operator
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from runwell.errors import InvalidInput, ThreadBusy
from runwell.graph import INTERRUPT, START, Command, StateGraph, interrupt
from runwell.persistence import InMemorySaver, PostgresSaver, SqliteSaver


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.integration)])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memory":
        yield InMemorySaver()
    elif request.param == "postgres":
        with PostgresSaver(request.getfixturevalue("postgres_url")) as made:
            yield made
    else:
        with SqliteSaver(tmp_path / "threads.sqlite") as made:
            yield made


class Gate:
    """A node that says that it has begun, and ends when it is let."""

    def __init__(self) -> None:
        self.begun, self.open, self.calls = threading.Event(), threading.Event(), 0

    def __call__(self, state: Log) -> Any:
        self.calls += 1
        self.begun.set()
        assert self.open.wait(20)
        return {"log": ["slow"]}


def build(saver: Any, gate: Gate, ran: list[str]) -> Any:
    def quick(state: Log) -> Any:
        ran.append(state["log"][0])
        return {"log": ["quick"]}

    graph = StateGraph(Log).add_node("quick", quick).add_node("slow", gate)
    return graph.add_edge(START, "quick").add_edge("quick", "slow").compile(saver)


@contextmanager
def running(app: Any, gate: Gate, thread: Any, *, ends: type[BaseException] | None = None) -> Iterator[list[Any]]:
    """A run of `app` in another thread that stands in its second node; its outcome is in the list afterwards."""
    outcome: list[Any] = []

    def go() -> None:
        try:
            outcome.append(app.invoke({"log": ["first"]}, thread))
        except ThreadBusy as error:
            outcome.append(error)

    worker = threading.Thread(target=go)
    worker.start()
    try:
        assert gate.begun.wait(20)
        yield outcome
    finally:
        gate.open.set()
        worker.join(20)


def test_run_19_a_second_run_is_told_before_anything_runs(run: Any, saver: Any, thread: Any) -> None:
    gate, ran = Gate(), []
    app = build(saver, gate, ran)
    with running(app, gate, thread) as first:
        with pytest.raises(ThreadBusy, match="thread 't' is being run by another run") as caught:
            run.invoke(app, {"log": ["second"]}, thread)
        assert caught.value.retryable
        assert ran == ["first"]
        with pytest.raises(ThreadBusy):
            run.update(app, thread, {"log": ["by hand"]})
    assert first == [{"log": ["first", "quick", "slow"]}]
    assert run.invoke(app, {"log": ["third"]}, thread)["log"][3:] == ["third", "quick", "slow"]


def test_run_19_a_second_run_waits_when_asked_to(run: Any, saver: Any, thread: Any) -> None:
    gate, ran = Gate(), []
    app = build(saver, gate, ran)
    with running(app, gate, thread) as first:
        timer = threading.Timer(0.4, gate.open.set)  # longer than a busy thread is asked for again by itself
        timer.start()
        result = run.invoke(app, {"log": ["second"]}, thread, on_busy="wait")
    assert first == [{"log": ["first", "quick", "slow"]}]
    assert result == {"log": ["first", "quick", "slow", "second", "quick", "slow"]}


def test_run_19_a_run_that_was_given_up_stops_at_its_next_save(run: Any, saver: Any, thread: Any) -> None:
    gate, ran = Gate(), []
    app = build(saver, gate, ran)
    with running(app, gate, thread) as first:

        def takes_over(state: Log) -> Any:
            return {"log": ["taken"]}

        other = StateGraph(Log).add_node(takes_over).add_edge(START, "takes_over").compile(saver)
        result = run.invoke(other, {"log": ["second"]}, thread, on_busy="take")
    assert result == {"log": ["first", "quick", "second", "taken"]}
    assert len(first) == 1
    assert isinstance(first[0], ThreadBusy)
    assert "Nothing was saved" in str(first[0])
    assert not first[0].retryable
    assert run.state(app, thread).values == result


def test_run_19_a_nested_graph_is_given_up_with_the_run_around_it(run: Any, saver: Any, thread: Any) -> None:
    gate, ran = Gate(), []
    inner = build(None, gate, ran)
    outer = StateGraph(Log).add_node("inner", inner).add_edge(START, "inner").compile(saver)
    with running(outer, gate, thread) as first:
        attempt = saver.take("t", force=True)
    assert isinstance(first[0], ThreadBusy)
    saver.release("t", attempt)
    assert run.invoke(outer, None, thread) == {"log": ["first", "quick", "slow"]}
    assert ran == ["first"], "what it had saved before is kept"


def test_run_19_a_run_inside_another_cannot_use_its_thread(run: Any, saver: Any, thread: Any) -> None:
    def node(state: Log) -> Any:
        return {"log": ["inner"]}

    inner = StateGraph(Log).add_node(node).add_edge(START, "node").compile(saver)

    def meanwhile(state: Log) -> Any:
        with pytest.raises(ThreadBusy):
            inner.invoke({"log": ["other"]}, {"configurable": {"thread_id": "t"}})
        return {"log": ["mine"]}

    app = StateGraph(Log).add_node(meanwhile).add_edge(START, "meanwhile").compile(saver)
    assert run.invoke(app, {"log": ["0"]}, thread) == {"log": ["0", "mine"]}
    assert saver.load("t").values == {"log": ["0", "mine"]}


def test_a_stream_that_is_dropped_lets_its_thread_go(saver: Any, thread: Any) -> None:
    def ask(state: Log) -> Any:
        return {"log": [interrupt("who?")]}

    app = StateGraph(Log).add_node(ask).add_edge(START, "ask").compile(saver)
    for number in range(20):
        for mode in ("updates", ["updates", "custom"]):
            config = {"configurable": {"thread_id": f"{number} {mode}"}}
            for _, chunk in app.stream({"log": []}, config, stream_mode=[mode] if mode == "updates" else mode):
                if INTERRUPT in chunk:
                    break
            assert app.invoke(Command(resume="me"), config) == {"log": ["me"]}


@pytest.mark.parametrize("how", ["closed", "dropped"])
def test_a_stream_that_ends_while_a_node_is_stuck_gives_its_thread_up(saver: Any, thread: Any, how: str) -> None:
    gate, ran = Gate(), []
    app = build(saver, gate, ran)
    stream = app.stream({"log": ["first"]}, thread, stream_mode=["updates", "custom"])
    assert next(stream) == ("updates", {"quick": {"log": ["quick"]}})
    assert gate.begun.wait(20)
    producer = stream._producer
    if how == "closed":
        stream.close()
    del stream
    gc.collect()

    def instead(state: Log) -> Any:
        return {"log": ["instead"]}

    other = StateGraph(Log).add_node(instead).add_edge(START, "instead").compile(saver)
    result = other.invoke({"log": ["second"]}, thread, on_busy="wait")
    gate.open.set()
    assert producer.ended.wait(20)
    assert saver.load("t").values == result == {"log": ["first", "quick", "second", "instead"]}


def test_a_failed_run_lets_its_thread_go(run: Any, saver: Any, thread: Any) -> None:
    broken = [True]

    def node(state: Log) -> Any:
        if broken:
            raise ValueError(broken.pop())
        return {"log": ["done"]}

    app = StateGraph(Log).add_node(node).add_edge(START, "node").compile(saver)
    with pytest.raises(ValueError):
        run.invoke(app, {"log": []}, thread)
    assert run.invoke(app, None, thread, on_busy="raise") == {"log": ["done"]}


def test_on_busy_is_one_of_three(run: Any, saver: Any, thread: Any) -> None:
    with pytest.raises(InvalidInput, match=r"on_busy is 'later'[\s\S]*'wait'"):
        run.invoke(build(saver, Gate(), []), {"log": []}, thread, on_busy="later")
