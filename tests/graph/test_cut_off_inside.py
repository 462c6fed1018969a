"""A nested graph whose run was cut off before the task around it could be recorded: seen, edited and gone on with."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any, TypedDict

import pytest

from runwell.errors import InvalidConfig
from runwell.graph import START, StateGraph
from runwell.persistence import InMemorySaver


class State(TypedDict):
    log: Annotated[list[str], operator.add]


MEMORIES = {"per call": lambda: None, "per thread": lambda: True, "a saver of its own": InMemorySaver}


def nested(memory: Any, ran: list[str], let_go: list[bool]) -> Any:
    def first(state: State) -> Any:
        ran.append("first")
        return {"log": ["first"]}

    async def second(state: State) -> Any:
        if not let_go:
            ran.append("waits")
            await asyncio.Event().wait()
        return {"log": ["second"]}

    child = StateGraph(State).add_sequence([("first", first), ("second", second)]).add_edge(START, "first")
    middle = StateGraph(State).add_node("child", child.compile(memory)).add_edge(START, "child")
    return StateGraph(State).add_node("middle", middle.compile()).add_edge(START, "middle").compile(InMemorySaver())


async def cut_off(app: Any, thread: Any, ran: list[str]) -> None:
    running = asyncio.create_task(app.ainvoke({"log": []}, thread))
    while "waits" not in ran:
        await asyncio.sleep(0.001)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.parametrize("memory", MEMORIES.values(), ids=MEMORIES)
def test_it_is_seen_where_it_stands_and_goes_on_from_there(run: Any, thread: Any, memory: Any, edited: bool) -> None:
    ran: list[str] = []
    let_go: list[bool] = []
    app = nested(memory(), ran, let_go)
    asyncio.run(cut_off(app, thread, ran))

    [middle] = run.state(app, thread, subgraphs=True).tasks
    [child] = middle.state.tasks
    assert (child.state.values, child.state.next) == ({"log": ["first"]}, ("second",))
    if edited:
        run.update(app, child.state.config, {"log": ["edited"]})
    let_go.append(True)
    assert run.invoke(app, None, thread)["log"] == ["first", *(["edited"] if edited else []), "second"]
    assert ran == ["first", "waits"]


def test_a_graph_that_has_not_begun_has_no_state(run: Any, thread: Any) -> None:
    for memory in MEMORIES.values():
        child = StateGraph(State).add_node("say", lambda state: {"log": ["x"]}).add_edge(START, "say")
        graph = StateGraph(State).add_node("child", child.compile(memory())).add_edge(START, "child")
        app = graph.add_edge("child", "child").compile(InMemorySaver(), interrupt_after=["child"])
        run.invoke(app, {"log": []}, thread)
        [waiting] = run.state(app, thread, subgraphs=True).tasks
        assert (waiting.name, waiting.state) == ("child", None)  # what an earlier call left is another's


@pytest.mark.parametrize("place", ["child", "child:1@x", "|child:1@x"])
def test_a_place_inside_that_is_not_named_whole_is_refused(run: Any, thread: Any, place: str) -> None:
    child = StateGraph(State).add_node("say", lambda state: {"log": ["x"]}).add_edge(START, "say").compile()
    app = StateGraph(State).add_node("child", child).add_edge(START, "child").compile(InMemorySaver())
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": place}}
    with pytest.raises(InvalidConfig, match="checkpoint_ns"):
        run.invoke(app, {"log": []}, config)
    assert run.state(app, thread).values == {}


@pytest.mark.parametrize("wrong", [None, 5, "t", {"configurable": "t"}])
def test_what_is_no_config_is_refused(run: Any, wrong: Any) -> None:
    app = StateGraph(State).add_node("a", lambda state: None).add_edge(START, "a").compile(InMemorySaver())
    for call in (run.state, run.history):
        with pytest.raises(InvalidConfig, match="The config is"):
            call(app, wrong)
    with pytest.raises(InvalidConfig, match="The config is"):
        run.update(app, wrong, {"log": []})
