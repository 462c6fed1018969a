"""Nodes whose results are kept: when they run again, and when they must."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import numpy
import pytest

from runwell.errors import GraphError, InvalidInput, UnserializableType
from runwell.graph import INTERRUPT, START, CachePolicy, Command, Principal, Runtime, Send, StateGraph, interrupt
from runwell.observe.run import observing
from runwell.persistence import InMemorySaver
from runwell.persistence.caches import InMemoryCache, SqliteCache


class State(TypedDict):
    given: Any
    log: Annotated[list[Any], operator.add]


class Ran(list[Any]):
    """A node that notes what it was given."""

    def node(self, state: State) -> Any:
        self.append(state["given"])
        return {"log": [("ran", len(self))]}


@pytest.fixture(params=["memory", "sqlite"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with InMemoryCache() if request.param == "memory" else SqliteCache(tmp_path / "cache.sqlite") as made:
        yield made


def app(node: Any, cache: Any, policy: CachePolicy = CachePolicy(), **options: Any) -> Any:
    return (
        StateGraph(State).add_node("a", node, cache_policy=policy).add_edge(START, "a").compile(cache=cache, **options)
    )


def start(given: Any) -> dict[str, Any]:
    return {"given": given, "log": []}


def test_the_same_input_is_answered_from_the_cache_and_another_is_not(run: Any, cache: Any) -> None:
    ran: list[Any] = []

    def node(state: State) -> Any:
        ran.append(state["given"])
        return {"log": [state["given"] * 2]}

    graph = app(lambda state: node(state), cache)
    assert [run.invoke(graph, start(n))["log"] for n in (2, 3, 2, 3)] == [[4], [6], [4], [6]]
    assert ran == [2, 3]


def test_a_hit_is_visible_in_the_stream_and_as_an_event(run: Any, cache: Any) -> None:
    graph = app(lambda state: {"log": ["x"]}, cache)
    seen: list[Any] = []

    class Watch:
        def handle(self, event: Any) -> None:
            if getattr(event, "data", None) is not None:
                seen.append((event.name, event.data["node"]))

    first = run.stream(graph, start(1))
    with observing(Watch()):
        second = run.stream(graph, start(1))
    assert first == [{"a": {"log": ["x"]}}]
    assert second == [{"a": {"log": ["x"]}, "__metadata__": {"cached": True}}]
    assert seen == [("node_cached", "a")]
    *_, ended = run.stream(graph, start(1), stream_mode="tasks")
    assert (ended["result"], ended["cached"]) == ({"log": ["x"]}, True)


def test_clearing_forgets_the_nodes_named_or_all(run: Any, cache: Any) -> None:
    ran: list[str] = []

    def noted(name: str) -> Any:
        return lambda state: ran.append(name)

    graph = StateGraph(State)
    for name in "ab":
        graph.add_node(name, noted(name), cache_policy=CachePolicy(key_func=lambda state: state["given"]))
        graph.add_edge(START, name)
    compiled = graph.compile(cache=cache)

    def once() -> list[str]:
        ran.clear()
        run.invoke(compiled, start(1))
        return sorted(ran)

    assert [once(), once()] == [["a", "b"], []]
    compiled.clear_cache(["a"])
    assert once() == ["a"]
    compiled.clear_cache()
    assert once() == ["a", "b"]
    with pytest.raises(InvalidInput, match="'c' is not a node"):
        compiled.clear_cache(["c"])


def test_graph_10_arguments_of_the_same_bytes_and_another_type_are_another_call(run: Any, cache: Any) -> None:
    graph = app(lambda state: {"log": [int(state["given"].sum())]}, cache)
    unsigned = numpy.array([200], dtype=numpy.uint8)
    logs = [run.invoke(graph, start(arr))["log"] for arr in (unsigned, unsigned.view(numpy.int8), unsigned)]
    assert logs == [[200], [-56], [200]]


@pytest.mark.parametrize(
    ("one", "other"), [(1, True), (1, 1.0), ([1], (1,)), ("1", 1), (0.0, -0.0), ({"a": 1}, {"a": "1"})]
)
def test_graph_10_values_that_are_equal_or_look_alike_are_told_apart(run: Any, one: Any, other: Any) -> None:
    graph = app(lambda state: {"log": [repr(state["given"])]}, InMemoryCache())
    assert [run.invoke(graph, start(v))["log"] for v in (one, other)] == [[repr(one)], [repr(other)]]


def times(factor: int) -> Any:
    def node(state: State) -> Any:
        return {"log": [state["given"] * factor]}

    return node


class Times:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, state: State) -> Any:
        return self.node(state)

    def node(self, state: State) -> Any:
        return {"log": [state["given"] * self.factor]}


@pytest.mark.parametrize("make", [times, Times, lambda factor: Times(factor).node], ids=["closure", "object", "method"])
def test_graph_10_two_nodes_of_one_name_do_not_share_results_unless_they_are_the_same_code(
    run: Any, cache: Any, make: Any
) -> None:
    assert run.invoke(app(make(2), cache), start(5))["log"] == [10]
    assert run.invoke(app(make(3), cache), start(5))["log"] == [15]


def test_the_same_code_compiled_again_finds_what_was_kept(run: Any, cache: Any) -> None:
    run.invoke(app(times(2), cache), start(5))
    assert "__metadata__" in run.stream(app(times(2), cache), start(5))[0]


def test_results_are_not_shared_between_contexts_and_principals(run: Any) -> None:
    def node(state: State, runtime: Runtime[Any]) -> Any:
        return {"log": [runtime.context, runtime.principal and runtime.principal.id]}

    graph = app(node, InMemoryCache())
    ann, bob = Principal("ann"), Principal("bob")
    assert run.invoke(graph, start(1), context="c1", principal=ann)["log"] == ["c1", "ann"]
    assert run.invoke(graph, start(1), context="c2", principal=ann)["log"] == ["c2", "ann"]
    assert run.invoke(graph, start(1), context="c1", principal=bob)["log"] == ["c1", "bob"]
    keyed = app(node, InMemoryCache(), CachePolicy(key_func=lambda state: 0))
    assert run.invoke(keyed, start(1), principal=ann)["log"] == [None, "ann"]
    assert run.invoke(keyed, start(1), principal=bob)["log"] == [None, "bob"]


def test_configurable_values_count_for_a_node_that_takes_the_config_and_the_thread_does_not(run: Any) -> None:
    def node(state: State, config: Any) -> Any:
        return {"log": [config["configurable"]["tone"]]}

    graph = app(node, InMemoryCache(), checkpointer=InMemorySaver())
    tones = [("1", "dry"), ("2", "warm"), ("3", "dry")]
    configs: list[Any] = [{"configurable": {"thread_id": thread, "tone": tone}} for thread, tone in tones]
    assert [run.invoke(graph, start(1), config)["log"] for config in configs] == [["dry"], ["warm"], ["dry"]]
    assert "__metadata__" in run.stream(graph, start(1), {"configurable": {"thread_id": "4", "tone": "dry"}})[0]


def test_sends_are_kept_each_by_its_own_argument(run: Any, cache: Any) -> None:
    ran: list[int] = []

    def work(n: int) -> Any:
        ran.append(n)
        return {"log": [n * n]}

    graph = StateGraph(State).add_node("work", lambda n: work(n), cache_policy=CachePolicy())
    graph.add_conditional_edges(START, lambda state: [Send("work", n) for n in state["given"]], ["work"])
    compiled = graph.compile(cache=cache)
    assert run.invoke(compiled, start([1, 2, 3]))["log"] == [1, 4, 9]
    assert run.invoke(compiled, start([3, 4, 1]))["log"] == [9, 16, 1]
    assert sorted(ran) == [1, 2, 3, 4]


def test_a_jump_is_kept_and_a_conditional_edge_looks_at_the_state_anew(run: Any, cache: Any) -> None:
    graph = StateGraph(State)
    graph.add_node(
        "jump", lambda s: Command(goto=[Send("end", 7)]), cache_policy=CachePolicy(lambda s: 0), destinations=["end"]
    )
    graph.add_node("same", lambda s: {"log": ["same"]}, cache_policy=CachePolicy(lambda s: 0))
    graph.add_node("end", lambda n: {"log": [n]}).add_node("other", lambda s: {"log": ["other"]})
    graph.add_edge(START, "jump").add_edge(START, "same")
    graph.add_conditional_edges("same", lambda s: s["given"], ["jump", "other", "end"])
    compiled = graph.compile(cache=cache)
    assert run.invoke(compiled, start("other"))["log"] == ["same", 7, "other"]
    assert run.invoke(compiled, start(Send("end", 1)))["log"] == ["same", 7, 1]


def test_ckpt_09_what_cannot_be_kept_exactly_is_not_kept_and_nothing_is_pickled(
    run: Any, cache: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd:
        def __reduce__(self) -> Any:
            raise AssertionError("pickled")

    ran: list[int] = []

    def node(state: State) -> Any:
        ran.append(1)
        return {"log": [Odd()]}

    graph = app(lambda state: node(state), cache)
    for _ in range(2):
        run.invoke(graph, start(1))
    assert len(ran) == 2
    assert "is not cached" in caplog.text
    assert "Odd" in caplog.text


def test_ckpt_09_an_input_no_key_can_be_made_of_is_refused_with_the_way_out(run: Any) -> None:
    graph = app(lambda state: {"log": ["x"]}, InMemoryCache())
    with pytest.raises(UnserializableType, match="key_func") as caught:
        run.invoke(graph, start(object()))
    assert any("node 'a'" in note for note in caught.value.__notes__)
    keyed = app(lambda state: {"log": ["x"]}, InMemoryCache(), CachePolicy(key_func=lambda state: "always"))
    assert run.invoke(keyed, start(object()))["log"] == ["x"]


def test_what_was_kept_for_so_many_seconds_is_forgotten_after(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr("runwell.persistence.caches.cache.time.time", lambda: clock[0])
    graph = app(lambda state: {"log": ["x"]}, InMemoryCache(), CachePolicy(ttl=60))
    hits = []
    for now in (1000.0, 1059.0, 1061.0):
        clock[0] = now
        hits.append("__metadata__" in run.stream(graph, start(1))[0])
    assert hits == [False, True, False]


def test_a_persons_answer_is_not_given_again_in_another_run(run: Any) -> None:
    graph = app(lambda state: {"log": [interrupt("sure?")]}, InMemoryCache(), checkpointer=InMemorySaver())
    for number, answer in enumerate(["yes", "no"]):
        config = {"configurable": {"thread_id": str(number)}}
        assert run.invoke(graph, start(1), config)[INTERRUPT][0].value == "sure?"
        assert run.invoke(graph, Command(resume=answer), config)["log"] == [answer]


def test_an_inner_graph_uses_the_cache_of_the_graph_around_it_unless_told_otherwise(run: Any) -> None:
    ran: list[int] = []

    def node(state: State) -> Any:
        ran.append(1)
        return {"log": ["inner"]}

    for own, expected in ((None, 1), (False, 2), (InMemoryCache(), 1)):
        ran.clear()
        inner = app(lambda state: node(state), own)
        outer = StateGraph(State).add_node("in", inner).add_edge(START, "in").compile(cache=InMemoryCache())
        for _ in range(2):
            assert run.invoke(outer, start(1))["log"] == ["inner"]
        assert len(ran) == expected
        if own is None:
            outer.clear_cache()
            run.invoke(outer, start(1))
            assert len(ran) == 2


def test_a_policy_without_a_cache_is_refused_before_anything_runs(run: Any) -> None:
    ran: list[int] = []
    with pytest.raises(InvalidInput, match="no cache to keep results in"):
        run.invoke(app(lambda state: ran.append(1), None), start(1))
    assert ran == []
    assert run.invoke(app(lambda state: {"log": ["x"]}, False), start(1))["log"] == ["x"]


def test_a_cache_that_fails_costs_a_warning_and_not_the_run(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Down:
        def get(self, keys: Any, types: Any = ()) -> Any:
            raise ConnectionError("down")

        set = clear = get

    assert run.invoke(app(lambda state: {"log": ["x"]}, Down()), start(1))["log"] == ["x"]
    assert "could not be read" in caplog.text
    assert "could not be written" in caplog.text


@pytest.mark.parametrize("wrong", [InMemoryCache, object(), True])
def test_what_is_no_cache_is_refused_when_compiled(wrong: Any) -> None:
    with pytest.raises(GraphError, match="cache"):
        app(lambda state: None, wrong)


def test_policies_that_make_no_sense_are_refused() -> None:
    with pytest.raises(GraphError, match="ttl=0"):
        CachePolicy(ttl=0)
    with pytest.raises(GraphError, match="key_func"):
        CachePolicy(key_func="x")  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="cache_policy"):
        StateGraph(State).add_node("a", lambda s: None, cache_policy=60)  # type: ignore[arg-type]
