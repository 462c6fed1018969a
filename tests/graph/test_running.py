"""Steps, limits, errors, streams: the same under both drivers."""

from __future__ import annotations

import asyncio
import operator
import threading
import traceback
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

import runwell
from runwell.errors import GraphRecursionError, InvalidInput, NodeError, NodeTimeoutError
from runwell.graph import END, START, RetryPolicy, StateGraph, get_config, get_stream_writer
from runwell.persistence import InMemorySaver


class Count(TypedDict):
    count: int


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


def loop(until: int) -> Any:
    graph = StateGraph(Count).add_node("bump", lambda state: {"count": state["count"] + 1}).add_edge(START, "bump")
    return graph.add_conditional_edges(
        "bump", lambda s: END if s["count"] >= until else "bump", ["bump", END]
    ).compile()


def test_f1_finishing_on_the_last_permitted_step_succeeds(run: Any) -> None:
    assert run.invoke(loop(5), {"count": 0}, {"recursion_limit": 5}) == {"count": 5}


def test_f1_one_step_more_raises_with_numbers(run: Any) -> None:
    with pytest.raises(GraphRecursionError) as caught:
        run.invoke(loop(6), {"count": 0}, {"recursion_limit": 5})
    assert (caught.value.value, caught.value.limit) == (5, 5)
    assert "'bump'" in str(caught.value)


def test_f1_graphs_may_take_a_thousand_steps_by_default(run: Any) -> None:
    assert run.invoke(loop(1000), {"count": 0}) == {"count": 1000}
    with pytest.raises(GraphRecursionError):
        run.invoke(loop(1001), {"count": 0})


def test_graph_11_an_explicit_limit_equal_to_the_default_counts_as_set() -> None:
    child = loop(1000)
    parent = StateGraph(Count).add_node("child", lambda state: child.invoke(state)).add_edge(START, "child").compile()
    assert parent.invoke({"count": 0}, {"recursion_limit": 1000}) == {"count": 1000}
    with pytest.raises(GraphRecursionError):
        parent.invoke({"count": 0}, {"recursion_limit": 900})


@pytest.mark.parametrize("colour", ["plain", "async"])
def test_nodes_of_either_colour_work_in_both_kinds_of_run(run: Any, colour: str) -> None:
    async def anode(state: Log) -> Any:
        await asyncio.sleep(0)
        return {"log": ["async"]}

    node = anode if colour == "async" else lambda state: {"log": ["plain"]}
    graph = StateGraph(Log).add_node("a", node).add_edge(START, "a").compile()
    assert run.invoke(graph, {"log": []}) == {"log": [colour]}


def test_parallel_results_merge_in_the_order_of_the_tasks_not_of_their_ends(run: Any) -> None:
    second_done = threading.Event()

    def first(state: Log) -> Any:
        assert second_done.wait(5)
        return {"log": ["first"]}

    def second(state: Log) -> Any:
        second_done.set()
        return {"log": ["second"]}

    graph = StateGraph(Log).add_node(first).add_node(second).add_edge(START, "first").add_edge(START, "second")
    assert run.invoke(graph.compile(), {"log": []}) == {"log": ["first", "second"]}


def test_an_error_keeps_its_type_and_says_where(run: Any) -> None:
    def boom(state: Log) -> Any:
        raise ValueError("boom")

    graph = StateGraph(Log).add_node(boom).add_edge(START, "boom").compile(name="g")
    with pytest.raises(ValueError, match="boom") as caught:
        run.invoke(graph, {"log": []})
    assert any("node 'boom'" in note and "'g'" in note and "step 1" in note for note in caught.value.__notes__)


def test_at_most_ten_of_our_frames_stand_between_invoke_and_a_node() -> None:
    def depth(state: Count) -> Any:
        frames = traceback.extract_stack()
        ours = str(Path(runwell.__file__).parent)
        return {"count": sum(frame.filename.startswith(ours) for frame in frames)}

    graph = StateGraph(Count).add_node(depth).add_edge(START, "depth").compile()
    assert graph.invoke({"count": 0})["count"] <= 10


def test_stop_iteration_from_a_node_does_not_end_the_run_silently(run: Any) -> None:
    graph = StateGraph(Log).add_node("a", lambda state: next(iter(()))).add_edge(START, "a").compile()
    with pytest.raises(NodeError, match="StopIteration"):
        run.invoke(graph, {"log": []})


def test_a_failed_sibling_costs_nobody_their_work(run: Any, thread: Any) -> None:
    calls: list[str] = []
    broken = True

    def ok(state: Log) -> Any:
        calls.append("ok")
        return {"log": ["ok"]}

    def bad(state: Log) -> Any:
        calls.append("bad")
        if broken:
            raise RuntimeError("not yet")
        return {"log": ["bad"]}

    graph = StateGraph(Log).add_node(ok).add_node(bad).add_edge(START, "ok").add_edge(START, "bad")
    app = graph.compile(InMemorySaver())
    with pytest.raises(RuntimeError):
        run.invoke(app, {"log": []}, thread)
    assert run.state(app, thread).tasks[0].error == "RuntimeError: not yet"
    broken = False
    assert run.invoke(app, None, thread) == {"log": ["ok", "bad"]}
    assert sorted(calls) == ["bad", "bad", "ok"]


def test_a_node_timeout_is_an_error_with_its_number(run: Any) -> None:
    async def forever(state: Log) -> Any:
        await asyncio.Event().wait()

    graph = StateGraph(Log).add_node("forever", forever, timeout=0.05).add_edge(START, "forever").compile()
    with pytest.raises(NodeTimeoutError) as caught:
        run.invoke(graph, {"log": []})
    assert caught.value.limit == 0.05


def test_a_retry_policy_tries_again_what_may_pass(run: Any) -> None:
    tries: list[int] = []

    def flaky(state: Log) -> Any:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("down")
        return {"log": ["up"]}

    policy = RetryPolicy(max_attempts=3, initial_interval=0, jitter=False)
    graph = StateGraph(Log).add_node("flaky", flaky, retry_policy=policy).add_edge(START, "flaky").compile()
    assert run.invoke(graph, {"log": []}) == {"log": ["up"]}
    assert len(tries) == 3


def test_a_retry_policy_leaves_programming_errors_alone(run: Any) -> None:
    tries: list[int] = []

    def wrong(state: Log) -> Any:
        tries.append(1)
        raise KeyError("typo")

    graph = (
        StateGraph(Log).add_node("wrong", wrong, retry_policy=RetryPolicy(initial_interval=0)).add_edge(START, "wrong")
    )
    with pytest.raises(KeyError):
        run.invoke(graph.compile(), {"log": []})
    assert len(tries) == 1


# -- streams


def chain() -> Any:
    graph = StateGraph(Log).add_node("a", lambda s: {"log": ["a"]}).add_node("b", lambda s: {"log": ["b"]})
    return graph.add_edge(START, "a").add_edge("a", "b").compile()


def test_stream_of_updates_gives_each_nodes_change(run: Any) -> None:
    assert run.stream(chain(), {"log": []}) == [{"a": {"log": ["a"]}}, {"b": {"log": ["b"]}}]


def test_stream_of_values_gives_the_state_after_each_step(run: Any) -> None:
    assert run.stream(chain(), {"log": ["0"]}, stream_mode="values") == [
        {"log": ["0"]},
        {"log": ["0", "a"]},
        {"log": ["0", "a", "b"]},
    ]


def test_several_modes_come_with_their_names(run: Any) -> None:
    items = run.stream(chain(), {"log": []}, stream_mode=["updates", "values"])
    assert [mode for mode, _ in items] == ["values", "updates", "values", "updates", "values"]


def test_custom_items_arrive_while_the_node_runs(run: Any) -> None:
    def node(state: Log) -> Any:
        write = get_stream_writer()
        for n in range(3):
            write({"progress": n})
        return {"log": ["done"]}

    graph = StateGraph(Log).add_node(node).add_edge(START, "node").compile()
    items = run.stream(graph, {"log": []}, stream_mode=["custom", "updates"])
    assert items == [*(("custom", {"progress": n}) for n in range(3)), ("updates", {"node": {"log": ["done"]}})]


def test_an_unknown_stream_mode_is_refused(run: Any) -> None:
    with pytest.raises(InvalidInput, match=r"'update'.*did you mean 'updates'"):
        run.stream(chain(), {"log": []}, stream_mode="update")


def test_closing_a_stream_stops_the_run_before_its_next_step() -> None:
    ran: list[str] = []
    graph = StateGraph(Log).add_node("a", lambda s: ran.append("a")).add_node("b", lambda s: ran.append("b"))
    app = graph.add_edge(START, "a").add_edge("a", "b").compile()
    stream = app.stream({"log": []})
    next(stream)
    stream.close()
    assert ran == ["a"]
    assert list(stream) == []


def test_breaking_out_of_an_async_stream_stops_the_run() -> None:
    ended: list[str] = []

    async def slow(state: Log) -> Any:
        try:
            get_stream_writer()("started")
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up")

    graph = StateGraph(Log).add_node("slow", slow).add_edge(START, "slow").compile()

    async def read() -> None:
        stream = graph.astream({"log": []}, stream_mode="custom")
        async for item in stream:
            assert item == "started"
            break
        await stream.aclose()

    asyncio.run(read())
    assert ended == ["cleaned up"]


def test_an_error_reaches_the_reader_of_a_stream(run: Any) -> None:
    def boom(state: Log) -> Any:
        raise ValueError("boom")

    graph = StateGraph(Log).add_node(boom).add_edge(START, "boom").compile()
    for mode in ("updates", "custom"):
        with pytest.raises(ValueError, match="boom"):
            run.stream(graph, {"log": []}, stream_mode=mode)


# -- nested graphs


def child() -> Any:
    graph = StateGraph(Log).add_node("c1", lambda s: {"log": ["c1"]}).add_node("c2", lambda s: {"log": ["c2"]})
    return graph.add_edge(START, "c1").add_edge("c1", "c2").compile(name="child")


def test_strm_04_a_nested_graph_reports_only_what_it_changed(run: Any) -> None:
    class Wide(TypedDict):
        log: Annotated[list[str], operator.add]
        other: str

    inner = StateGraph(Wide).add_node("c", lambda s: {"log": ["c"]}).add_edge(START, "c").compile()
    outer = StateGraph(Wide).add_node("inner", inner).add_edge(START, "inner").compile()
    assert run.stream(outer, {"log": ["0"], "other": "x"}) == [{"inner": {"log": ["c"]}}]
    assert run.invoke(outer, {"log": ["0"], "other": "x"}) == {"log": ["0", "c"], "other": "x"}


def test_graph_04_parallel_nested_graphs_write_only_their_own_keys(run: Any) -> None:
    class Shared(TypedDict):
        a: str
        s1: str
        s2: str

    def sub(key: str) -> Any:
        return StateGraph(Shared).add_node("n", lambda s: {key: key}).add_edge(START, "n").compile()

    graph = (
        StateGraph(Shared).add_node("x", sub("s1")).add_node("y", sub("s2")).add_edge(START, "x").add_edge(START, "y")
    )
    assert run.invoke(graph.compile(), {"a": "a", "s1": "", "s2": ""}) == {"a": "a", "s1": "s1", "s2": "s2"}


def test_subgraphs_true_gives_the_path_of_each_item(run: Any) -> None:
    outer = StateGraph(Log).add_node("inner", child()).add_edge(START, "inner").compile()
    items = run.stream(outer, {"log": []}, subgraphs=True)
    assert [item for path, item in items if path] == [{"c1": {"log": ["c1"]}}, {"c2": {"log": ["c2"]}}]
    assert [item for path, item in items if not path] == [{"inner": {"log": ["c1", "c2"]}}]


def test_graph_12_a_bound_config_is_merged_with_the_calls_and_never_changed(run: Any) -> None:
    seen: list[Any] = []

    def node(state: Log) -> None:
        config = get_config()
        seen.append(
            (config["tags"], config["metadata"]["a"], config["configurable"]["k"], config["configurable"]["thread_id"])
        )

    bound_with = {"tags": ["t1"], "metadata": {"a": 1}, "configurable": {"k": 1}}
    graph = StateGraph(Log).add_node(node).add_edge(START, "node").compile(InMemorySaver()).with_config(bound_with)
    for n in range(2):
        run.invoke(graph, {"log": []}, {"configurable": {"thread_id": f"x{n}"}, "tags": ["t2"]})
    assert seen == [(["t1", "t2"], 1, 1, "x0"), (["t1", "t2"], 1, 1, "x1")]
    assert bound_with == {"tags": ["t1"], "metadata": {"a": 1}, "configurable": {"k": 1}}
