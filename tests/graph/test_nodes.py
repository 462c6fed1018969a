"""What a node may be told to do, what it is given, and what is said of a definition that is wrong."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import pytest

from runwell.errors import GraphError, InvalidInput, NodeTimeoutError
from runwell.graph import (
    END,
    START,
    Command,
    Principal,
    RetryPolicy,
    Runtime,
    Send,
    StateGraph,
    get_config,
    get_runtime,
    get_store,
    get_stream_writer,
)
from runwell.messages import AIMessage
from runwell.persistence import InMemorySaver, InMemoryStore


class State(TypedDict):
    log: Annotated[list[Any], operator.add]


EMPTY: Any = {"log": []}


def one(node: Any, **settings: Any) -> Any:
    return StateGraph(State).add_node("a", node, **settings).add_edge(START, "a")


# -- what a node is given


@dataclass
class Context:
    tenant: str


def test_the_runtime_has_all_that_a_node_may_ask_for(run: Any) -> None:
    seen: list[Runtime[Context]] = []

    def node(state: State, config: Any, runtime: Runtime[Context]) -> Any:
        seen.append(runtime)
        runtime.stream_writer("written")
        runtime.heartbeat()
        assert config["configurable"]["x"] == 1

    store = InMemoryStore()
    graph = StateGraph(State, context_schema=Context).add_node("a", node).add_edge(START, "a")
    app = graph.compile(InMemorySaver(), store=store)
    me = Principal("me", tenant="acme", roles=("admin",))
    config = {"configurable": {"thread_id": "t", "x": 1}}
    options: Any = {"context": {"tenant": "acme"}, "principal": me}
    assert run.stream(app, EMPTY, config, stream_mode="custom", **options) == ["written"]
    [runtime] = seen
    assert runtime.context == Context("acme")
    assert runtime.principal is me
    assert runtime.store is store
    assert runtime.previous is None
    assert runtime.budget is None
    assert runtime.control is None
    info = runtime.execution_info
    assert (info.thread_id, info.node, info.step, info.attempt, info.checkpoint_ns) == ("t", "a", 1, 1, "")
    assert info.checkpoint_id is not None
    assert info.run_id


@pytest.mark.parametrize(
    "node",
    [
        lambda runtime, state: {"log": [state["log"], runtime.execution_info.node]},
        lambda config, runtime, state: {"log": [state["log"], runtime.execution_info.node]},
        lambda state, *, runtime: {"log": [state["log"], runtime.execution_info.node]},
        lambda runtime: {"log": [[1], runtime.execution_info.node]},
        lambda anything, runtime: {"log": [anything["log"], runtime.execution_info.node]},
    ],
)
def test_parameters_are_told_by_their_names_in_any_order(run: Any, node: Any) -> None:
    assert run.invoke(one(node).compile(), {"log": [1]})["log"] == [1, [1], "a"]


def test_async_nodes_take_their_parameters_by_name_too(run: Any) -> None:
    async def node(runtime: Runtime[Any], state: State) -> Any:
        return {"log": [state["log"], runtime.execution_info.node]}

    assert run.invoke(one(node).compile(), {"log": [1]})["log"] == [1, [1], "a"]


def test_a_node_that_can_be_given_nothing_is_refused() -> None:
    with pytest.raises(GraphError, match="takes no parameter"):
        one(lambda: None)


def test_what_is_around_a_node_can_be_asked_for_without_parameters(run: Any) -> None:
    store = InMemoryStore()

    def node(state: State) -> Any:
        get_stream_writer()("told")
        assert get_store() is store
        return {"log": [get_runtime().execution_info.node, get_config()["configurable"]["x"]]}

    app = one(node).compile(store=store)
    items = run.stream(app, EMPTY, {"configurable": {"x": 7}}, stream_mode=["custom", "updates"])
    assert items == [("custom", "told"), ("updates", {"a": {"log": ["a", 7]}})]


def test_the_principal_reaches_inner_graphs(run: Any) -> None:
    inner = one(lambda state, runtime: {"log": [runtime.principal.id]}).compile()
    called = one(lambda state: {"log": inner.invoke({"log": []})["log"]}).compile()
    for app in (one(inner).compile(), called):
        assert run.invoke(app, EMPTY, principal=Principal("me"))["log"] == ["me"]
    with pytest.raises(InvalidInput, match="Pass a Principal"):
        run.invoke(inner, EMPTY, principal="me")


# -- idempotency keys


def keys(seen: list[str], fail: list[Exception]) -> Any:
    def node(n: Any, runtime: Runtime[Any]) -> Any:
        seen.append(runtime.idempotency_key)
        if fail:
            raise fail.pop()
        return {"log": []}

    return node


def test_the_key_is_the_same_in_every_attempt_and_after_a_crash(run: Any, thread: Any) -> None:
    seen: list[str] = []
    node = keys(seen, [ValueError("crash"), ConnectionError("again")])
    app = one(node, retry_policy=RetryPolicy(initial_interval=0)).compile(InMemorySaver())
    with pytest.raises(ValueError, match="crash"):
        run.invoke(app, EMPTY, thread)
    run.invoke(app, None, thread)
    assert len(seen) == 3
    assert len(set(seen)) == 1


def test_every_task_step_thread_and_run_has_a_key_of_its_own(run: Any) -> None:
    seen: list[str] = []
    graph = StateGraph(State).add_node("work", keys(seen, [])).add_node("after", keys(seen, []))
    graph.add_conditional_edges(START, lambda s: [Send("work", n) for n in range(3)], ["work"])
    graph.add_edge("work", "after")
    for thread in ("t", "u"):
        run.invoke(graph.compile(InMemorySaver()), EMPTY, {"configurable": {"thread_id": thread}})
    for _ in range(2):  # nothing saves these
        run.invoke(graph.compile(), EMPTY)
    inner = one(keys(seen, [])).compile(checkpointer=False)
    outer = StateGraph(State).add_node("x", inner).add_node("y", inner).add_edge(START, "x").add_edge(START, "y")
    run.invoke(outer.compile(), EMPTY)
    assert len(seen) == len(set(seen)) == 18


def test_in_an_inner_graph_that_nothing_saves_the_key_is_its_callers(run: Any, thread: Any) -> None:
    seen: list[str] = []
    inner = one(keys(seen, [ValueError("crash")])).compile(checkpointer=False)
    app = one(inner).compile(InMemorySaver())
    with pytest.raises(ValueError, match="crash"):
        run.invoke(app, EMPTY, thread)
    run.invoke(app, None, thread)
    assert len(seen) == 2
    assert len(set(seen)) == 1


# -- what a node may be told to do


def test_a_nodes_metadata_goes_with_what_is_streamed_and_observed(run: Any) -> None:
    seen: list[Any] = []

    class Watch:
        def handle(self, event: Any) -> None:
            if event.run.kind == "node":
                seen.append(event.run.metadata["owner"])

    class Said(TypedDict):
        messages: Annotated[list[Any], operator.add]

    graph = StateGraph(Said).add_node("a", lambda s: {"messages": [AIMessage("hi")]}, metadata={"owner": "billing"})
    app = graph.add_edge(START, "a").compile()
    [(message, facts)] = run.stream(app, {"messages": []}, {"callbacks": [Watch()]}, stream_mode="messages")
    assert (message.text, facts["owner"], facts["node"]) == ("hi", "billing", "a")
    assert seen == ["billing", "billing"]


def test_destinations_are_drawn_with_their_labels() -> None:
    graph = one(lambda s: Command(goto="b"), destinations={"b": "go on", END: "enough"}).add_node("b", lambda s: None)
    edges = {(edge.source, edge.target, edge.data) for edge in graph.compile().get_graph().edges}
    assert {("a", "b", "go on"), ("a", END, "enough")} <= edges


def test_defaults_hold_for_nodes_that_have_no_policy_of_their_own(run: Any) -> None:
    tries: list[str] = []

    def failing(name: str) -> Any:
        def node(state: State) -> Any:
            tries.append(name)
            raise ConnectionError

        return node

    graph = StateGraph(State).add_node("a", failing("a"))
    graph.set_node_defaults(retry_policy=RetryPolicy(max_attempts=2, initial_interval=0))
    graph.set_node_defaults(error_handler=lambda s, error: {"log": ["default"]})
    graph.add_node("b", failing("b"), retry_policy=RetryPolicy(max_attempts=3, initial_interval=0))
    graph.add_node("c", failing("c"), error_handler=lambda s, error: {"log": ["own"]})
    for name in "abc":
        graph.add_edge(START, name)
    assert run.invoke(graph.compile(), EMPTY)["log"] == ["default", "default", "own"]
    assert sorted(tries) == ["a", "a", "b", "b", "b", "c", "c"]


def test_graph_07_a_default_timeout_bounds_the_error_handler(run: Any) -> None:
    import asyncio

    async def slow(state: State, error: Exception) -> Any:
        await asyncio.sleep(20)

    def boom(state: State) -> Any:
        raise ValueError

    graph = one(boom, error_handler=slow).set_node_defaults(timeout=0.2)
    with pytest.raises(NodeTimeoutError):
        run.invoke(graph.compile(), EMPTY)


# -- a definition that is wrong


def test_all_problems_are_in_one_error() -> None:
    class Odd(TypedDict):
        log: Annotated[list[Any], operator.add]
        __interrupt__: int

    def choose(state: Any) -> Literal["b", "nowhere"]:
        return "b"

    def jump(state: Any) -> Command[Literal["bb"]]:
        return Command(goto="b")

    graph = StateGraph(Odd).add_node("a", lambda s: None).add_node("b", lambda s: None)
    graph.add_node("lonely", lambda s: None).add_node("jump", jump)
    graph.add_edge(START, "a").add_edge("a", "jmp").add_edge("x", "b").add_edge([], "b")
    graph.add_conditional_edges("a", choose).add_conditional_edges("b", lambda s: "a", {})
    graph.add_conditional_edges("z", lambda s: "a", ["a", "c"])
    with pytest.raises(GraphError) as caught:
        graph.compile(interrupt_after="d", extra="maybe")
    told = "\n".join(caught.value.problems)
    for part in (
        "the state has a key '__interrupt__', a name that is reserved",
        "the edge 'a' → 'jmp' leads to an unknown node; did you mean 'jump'?",
        "the edge 'x' → 'b' starts at an unknown node",
        "the edge to 'b' starts at an empty list of nodes",
        "from 'a' may lead to 'nowhere', an unknown node",
        "from 'b' has an empty path map, so it can lead nowhere",
        "a conditional edge starts at 'z', an unknown node",
        "from 'z' may lead to 'c', an unknown node",
        "node 'jump' may jump to 'bb', an unknown node; did you mean 'b'?",
        "node 'lonely' cannot be reached from START",
        "a breakpoint names 'd', which is not a node",
        "extra is 'maybe'",
    ):
        assert part in told
    assert len(caught.value.problems) == len(set(caught.value.problems))
    assert str(caught.value).count("\n  - ") == len(caught.value.problems)


def test_a_node_reached_only_as_code_says_is_reached() -> None:
    def choose(state: Any) -> Literal["b", "__end__"]:
        return "b"

    def jump(state: Any) -> Command[Literal["c"]]:
        return Command(goto="c")

    graph = one(lambda s: None).add_conditional_edges("a", choose).add_node("b", jump).add_node("c", lambda s: None)
    graph.compile()
    graph.add_node("d", lambda s: None)
    with pytest.raises(GraphError, match="node 'd' cannot be reached") as caught:
        graph.compile()
    assert len(caught.value.problems) == 1
