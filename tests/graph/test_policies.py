"""Retries, timeouts and error handlers of nodes, the same under both drivers."""

from __future__ import annotations

import asyncio
import logging
import operator
import threading
import time
from datetime import timedelta
from typing import Annotated, Any, TypedDict

import pytest

from runwell.drivers.threads import _idle as IDLE
from runwell.errors import GraphError, InvalidUpdateError, NodeTimeoutError
from runwell.graph import (
    END,
    INTERRUPT,
    START,
    Command,
    RetryPolicy,
    Runtime,
    Send,
    StateGraph,
    TimeoutPolicy,
    get_runtime,
    interrupt,
)
from runwell.observe.decisions import DecisionLog
from runwell.observe.events import Retried
from runwell.persistence import InMemorySaver


class State(TypedDict):
    log: Annotated[list[Any], operator.add]


def boom(state: Any) -> Any:
    raise ValueError("boom")


def degraded(state: State, error: Exception) -> Any:
    return {"log": ["degraded"]}


def alone(node: Any, **policies: Any) -> Any:
    return StateGraph(State).add_node("a", node, **policies).add_edge(START, "a")


EMPTY: Any = {"log": []}
AT_ONCE = {"initial_interval": 0.0, "jitter": False}


# -- error handlers


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("subgraphs", [False, True])
def test_graph_06_a_handled_error_does_not_escape_when_siblings_run(run: Any, saved: bool, subgraphs: bool) -> None:
    graph = alone(boom, error_handler=degraded).add_node("ok", lambda s: {"log": ["ok"]}).add_edge(START, "ok")
    app = graph.compile(InMemorySaver() if saved else None)
    config = {"configurable": {"thread_id": "t"}}
    assert run.invoke(app, EMPTY, config)["log"] == ["degraded", "ok"]
    streamed = run.stream(app, EMPTY, {"configurable": {"thread_id": "u"}}, subgraphs=subgraphs)
    updates = [item[1] if subgraphs else item for item in streamed]
    assert sorted(map(str, updates)) == sorted(map(str, [{"a": {"log": ["degraded"]}}, {"ok": {"log": ["ok"]}}]))


@pytest.mark.parametrize("inner", [False, True])
def test_graph_07_a_handler_may_take_no_longer_than_its_node(run: Any, inner: bool) -> None:
    cancelled: list[bool] = []

    async def slow(state: State, error: Exception) -> Any:
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    began = time.monotonic()
    node = alone(boom).compile() if inner else boom
    with pytest.raises(NodeTimeoutError) as caught:
        run.invoke(alone(node, timeout=0.2, error_handler=slow).compile(), EMPTY)
    assert time.monotonic() - began < 10
    assert cancelled == [True]
    assert isinstance(caught.value.__cause__, ValueError)
    assert any("error handler of node 'a'" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("colour", ["plain", "async"])
def test_graph_07_a_timeout_is_an_error_that_the_handler_is_asked_about(run: Any, colour: str) -> None:
    ended = threading.Event()

    async def slow(state: State) -> Any:
        await asyncio.sleep(20)

    def stuck(state: State) -> Any:
        ended.wait(20)

    def handler(state: State, error: Exception) -> Any:
        return {"log": [type(error).__name__]}

    graph = alone(slow if colour == "async" else stuck, timeout=timedelta(seconds=0.05), error_handler=handler)
    assert run.invoke(graph.compile(), EMPTY)["log"] == ["NodeTimeoutError"]
    ended.set()


def test_a_handler_gets_the_state_the_error_and_what_it_declares_and_may_jump(run: Any) -> None:
    async def handler(state: State, error: ValueError, runtime: Runtime[Any], config: Any) -> Any:
        told = [state["log"], str(error), runtime.execution_info.node, config["configurable"]["who"]]
        return Command(update={"log": told}, goto="repair")

    graph = alone(boom, error_handler=handler, destinations=["repair"]).add_edge("a", "next")
    graph.add_node("repair", lambda s: {"log": ["repaired"]}).add_node("next", lambda s: {"log": ["next"]})
    config = {"configurable": {"who": "me"}}
    assert run.invoke(graph.compile(), {"log": [0]}, config)["log"] == [0, [0], "boom", "a", "me", "repaired"]


def test_without_a_jump_the_nodes_edges_lead_on(run: Any) -> None:
    graph = alone(boom, error_handler=degraded).add_node("next", lambda s: {"log": ["next"]})
    graph.add_conditional_edges("a", lambda s: "next" if s["log"] == ["degraded"] else END, ["next", END])
    assert run.invoke(graph.compile(), EMPTY)["log"] == ["degraded", "next"]


def test_a_handler_is_asked_once_no_attempt_is_left(run: Any) -> None:
    tries: list[int] = []

    def failing(state: State, runtime: Runtime[Any]) -> Any:
        tries.append(runtime.execution_info.attempt)
        raise ConnectionError

    policy = RetryPolicy(max_attempts=3, **AT_ONCE)
    app = alone(failing, retry_policy=policy, error_handler=degraded).compile()
    assert run.invoke(app, EMPTY)["log"] == ["degraded"]
    assert tries == [1, 2, 3]


def test_a_sends_handler_gets_what_was_sent(run: Any) -> None:
    graph = StateGraph(State).add_node("work", boom, error_handler=lambda n, error: {"log": [n]})
    graph.add_conditional_edges(START, lambda s: [Send("work", n) for n in range(3)], ["work"])
    assert run.invoke(graph.compile(), EMPTY)["log"] == [0, 1, 2]


def test_an_error_inside_a_nested_graph_is_handled_at_its_node(run: Any) -> None:
    app = alone(alone(boom).compile(), error_handler=degraded).compile()
    assert run.invoke(app, EMPTY)["log"] == ["degraded"]


def test_a_pause_is_no_error_and_a_handler_may_ask(run: Any, thread: Any) -> None:
    asked = alone(lambda s: {"log": [interrupt("go?")]}, error_handler=degraded).compile(InMemorySaver())
    assert run.invoke(asked, EMPTY, thread)[INTERRUPT][0].value == "go?"
    assert run.invoke(asked, Command(resume="yes"), thread)["log"] == ["yes"]
    asking = alone(boom, error_handler=lambda s, error: {"log": [interrupt(str(error))]}).compile(InMemorySaver())
    assert run.invoke(asking, EMPTY, thread)[INTERRUPT][0].value == "boom"
    assert run.invoke(asking, Command(resume="go on"), thread)["log"] == ["go on"]


def test_a_handler_that_fails_raises_with_what_it_was_asked_about(run: Any) -> None:
    def worse(state: State, error: Exception) -> Any:
        raise KeyError("worse")

    with pytest.raises(KeyError, match="worse") as caught:
        run.invoke(alone(boom, error_handler=worse).compile(), EMPTY)
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_handlers_wrong_key_is_told_as_the_nodes(run: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="'a' wrote to 'lgo'"):
        run.invoke(alone(boom, error_handler=lambda s, error: {"lgo": []}).compile(), EMPTY)


@pytest.mark.parametrize("wrong", ["handler", lambda state: None, lambda: None])
def test_a_handler_that_cannot_be_called_with_state_and_error_is_refused(wrong: Any) -> None:
    with pytest.raises(GraphError, match="error handler of node 'a'"):
        alone(boom, error_handler=wrong)


# -- retries


def test_of_several_retry_policies_the_first_that_takes_the_error_decides(run: Any) -> None:
    raised = [KeyError("k"), ValueError("v"), ValueError("v"), ValueError("v")]
    retries = [
        RetryPolicy(max_attempts=9, retry_on=KeyError, **AT_ONCE),
        RetryPolicy(max_attempts=3, retry_on=ValueError, **AT_ONCE),
    ]

    def failing(state: State) -> Any:
        raise raised.pop(0)

    with pytest.raises(ValueError, match="v"):
        run.invoke(alone(failing, retry_policy=retries).compile(), EMPTY)
    assert len(raised) == 1


def test_retries_are_told_to_who_watches(run: Any) -> None:
    seen: list[Any] = []

    class Watch:
        def handle(self, event: Any) -> None:
            if type(event) is Retried:
                seen.append((event.run.name, event.attempt, str(event.error)))

    def failing(state: State) -> Any:
        raise ConnectionError("gone")

    policy = RetryPolicy(max_attempts=3, **AT_ONCE)
    with pytest.raises(ConnectionError):
        run.invoke(alone(failing, retry_policy=policy).compile(), EMPTY, {"callbacks": [Watch()]})
    assert seen == [("a", 1, "gone"), ("a", 2, "gone")]


@pytest.mark.parametrize("wrong", [3, [3], "always"])
def test_what_is_no_retry_policy_is_refused(wrong: Any) -> None:
    with pytest.raises(GraphError, match="retry_policy"):
        alone(boom, retry_policy=wrong)


# -- timeouts


def test_async_work_past_its_timeout_is_cancelled_and_the_journal_says_so(run: Any) -> None:
    cancelled: list[bool] = []

    async def slow(state: State) -> Any:
        try:
            await asyncio.sleep(20)
        finally:
            cancelled.append(True)

    log = DecisionLog()
    with pytest.raises(NodeTimeoutError) as caught:
        run.invoke(alone(slow, timeout=0.05).compile(), EMPTY, {"callbacks": [log]})
    assert cancelled == [True]
    assert (caught.value.kind, caught.value.limit, caught.value.abandoned) == ("timeout", 0.05, False)
    assert [(each.seat, each.outcome) for each in log] == [("F2", "cancelled")]


def test_plain_work_past_its_timeout_is_abandoned_with_a_record(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    ended, seen = threading.Event(), threading.Event()

    def stuck(state: State) -> Any:
        ended.wait(20)
        seen.set()

    log = DecisionLog()
    with caplog.at_level(logging.WARNING), pytest.raises(NodeTimeoutError, match="goes on in an abandoned") as caught:
        run.invoke(alone(stuck, timeout=0.05).compile(), EMPTY, {"callbacks": [log]})
    assert caught.value.abandoned
    assert not seen.is_set()
    assert [(each.seat, each.outcome) for each in log] == [("F2", "abandoned")]
    assert "abandoned thread" in caplog.text
    ended.set()
    assert seen.wait(20)


def test_each_attempt_has_the_whole_time(run: Any) -> None:
    tries: list[int] = []

    async def slow_at_first(state: State) -> Any:
        tries.append(1)
        if len(tries) < 3:
            await asyncio.sleep(20)
        return {"log": [len(tries)]}

    policy = RetryPolicy(retry_on=NodeTimeoutError, **AT_ONCE)
    assert run.invoke(alone(slow_at_first, timeout=0.2, retry_policy=policy).compile(), EMPTY)["log"] == [3]


def test_a_nested_graph_past_its_timeout_ends_where_it_stands(run: Any) -> None:
    ran: list[str] = []

    async def slow(state: State) -> Any:
        ran.append("slow")
        await asyncio.sleep(20)

    inner = alone(slow).add_node("b", lambda s: ran.append("b")).add_edge("a", "b").compile()
    with pytest.raises(NodeTimeoutError):
        run.invoke(alone(inner, timeout=0.2).compile(), EMPTY)
    assert ran == ["slow"]


def test_a_nested_graph_within_its_timeout_gives_its_result_and_streams(run: Any) -> None:
    inner = alone(lambda s: {"log": ["inner"]}).compile()
    app = alone(inner, timeout=20).compile()
    items = run.stream(app, EMPTY, subgraphs=True, stream_mode="updates")
    assert [(len(path), update) for path, update in items] == [(1, {"a": {"log": ["inner"]}}), (0, items[0][1])]


class Counting(InMemorySaver):
    """Counts what it is given to save."""

    commits = 0

    def commit(self, *given: Any, **more: Any) -> None:
        self.commits += 1
        super().commit(*given, **more)


@pytest.mark.parametrize("called", [False, True], ids=["as a node", "called by a node"])
def test_a_nested_graph_that_was_given_up_saves_nothing_afterwards(run: Any, thread: Any, called: bool) -> None:
    released, ended, saver = threading.Event(), threading.Event(), Counting()

    def stuck(state: State) -> Any:
        released.wait(20)
        ended.set()
        return {"log": ["late"]}

    inner = alone(stuck).add_node("b", lambda s: {"log": ["b"]}).add_edge("a", "b").compile()
    node = (lambda state: inner.invoke(state)) if called else inner
    app = alone(node, timeout=0.2, error_handler=degraded).compile(saver)
    assert run.invoke(app, EMPTY, thread)["log"] == ["degraded"]
    before = saver.commits
    released.set()
    assert ended.wait(20)
    workers = [each for each in threading.enumerate() if each.name == "runwell-worker"]
    deadline = time.monotonic() + 20
    while any(each not in IDLE for each in workers) and time.monotonic() < deadline:
        time.sleep(0.001)  # until the thread that was given up has nothing more to do
    assert saver.commits == before
    assert run.state(app, thread).values == {"log": ["degraded"]}


@pytest.mark.parametrize("colour", ["plain", "async"])
def test_a_node_that_gives_no_sign_of_life_is_idle(run: Any, colour: str) -> None:
    ended = threading.Event()

    async def silent(state: State) -> Any:
        await asyncio.sleep(20)

    def stuck(state: State) -> Any:
        ended.wait(20)

    policy = TimeoutPolicy(run_timeout=30, idle_timeout=0.1)
    node = silent if colour == "async" else stuck
    with pytest.raises(NodeTimeoutError, match="no sign of life") as caught:
        run.invoke(alone(node, timeout=policy).compile(), EMPTY)
    assert (caught.value.kind, caught.value.limit) == ("idle", 0.1)
    ended.set()


@pytest.mark.parametrize(
    ("sign", "colour"), [("heartbeat", "plain"), ("ambient", "async"), ("writer", "plain"), ("run", "async")]
)
def test_signs_of_life_keep_a_node_going(run: Any, sign: str, colour: str) -> None:
    from runwell.runnables import RunnableLambda

    def beat(runtime: Runtime[Any]) -> None:
        if sign == "heartbeat":
            runtime.heartbeat()
        elif sign == "ambient":
            get_runtime().heartbeat()
        elif sign == "writer":
            runtime.stream_writer("at work")
        else:
            RunnableLambda(lambda x: x).invoke(1)

    def plain(state: State, runtime: Runtime[Any]) -> Any:
        for _ in range(3):
            threading.Event().wait(0.4)
            beat(runtime)
        return {"log": ["done"]}

    async def other(state: State, runtime: Runtime[Any]) -> Any:
        for _ in range(3):
            await asyncio.sleep(0.4)
            beat(runtime)
        return {"log": ["done"]}

    policy = TimeoutPolicy(idle_timeout=1.0)
    assert run.invoke(alone(plain if colour == "plain" else other, timeout=policy).compile(), EMPTY)["log"] == ["done"]


def test_signs_of_life_do_not_lengthen_the_whole_time(run: Any) -> None:
    async def busy(state: State, runtime: Runtime[Any]) -> Any:
        while True:
            await asyncio.sleep(0.01)
            runtime.heartbeat()

    policy = TimeoutPolicy(run_timeout=0.2, idle_timeout=10)
    with pytest.raises(NodeTimeoutError) as caught:
        run.invoke(alone(busy, timeout=policy).compile(), EMPTY)
    assert caught.value.kind == "timeout"


def test_a_heartbeat_without_an_idle_timeout_does_nothing(run: Any) -> None:
    def node(state: State, runtime: Runtime[Any]) -> Any:
        runtime.heartbeat()
        return {"log": ["x"]}

    assert run.invoke(alone(node).compile(), EMPTY)["log"] == ["x"]


@pytest.mark.parametrize("wrong", [0, -1, True, "1s", timedelta(0)])
def test_a_timeout_that_makes_no_sense_is_refused(wrong: Any) -> None:
    with pytest.raises(GraphError, match="timeout"):
        alone(boom, timeout=wrong)
    with pytest.raises(GraphError):
        TimeoutPolicy()
