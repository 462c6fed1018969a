"""Random graphs, killed at random points: whatever a graph is made of, a run goes on as if nothing had happened.

A session is a run and the answers to all that it asks. It is cut off before any one effect of any of its runs, and
somebody who knows the thread and no more takes it to its end, over the same saver or, with SQLite, over a new
connection. RUNWELL_TEST_KILLS=all tries many more graphs, and every point of each.
"""

from __future__ import annotations

import operator
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from runwell.effects import Call
from runwell.graph import END, START, Command, RetryPolicy, Runtime, Send, StateGraph, interrupt, task
from runwell.persistence import InMemorySaver, SqliteSaver
from runwell.testing.effects import EnumeratingDriver, Killed

ALL = os.environ.get("RUNWELL_TEST_KILLS") == "all"
CONFIG: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 60}
INPUT = {"n": 0, "log": []}
LOOPS_UNTIL = 9
"""A way back is taken while fewer nodes than this have ended."""


class State(TypedDict, total=False):
    n: Annotated[int, operator.add]
    log: Annotated[list[str], operator.add]


# -- what is drawn


@dataclass
class Part:
    """A node, and how it is reached: from which earlier ones, in which way."""

    acts: tuple[str, ...]
    """What it does, in order: "ask" a person, "call" a `@task`, "two" of them side by side, "fail" the first time."""
    way: str
    """ "edge", "choice", "send", "join"."""
    sources: tuple[int, ...]
    back: int | None = None
    defer: bool = False
    inner: list[Part] = field(default_factory=list)
    """The nodes of the graph that it is, if it is one."""


def acts() -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(["ask", "call", "two", "fail"]), max_size=3).map(tuple)


@st.composite
def graphs(draw: st.DrawFn, most: int = 5, depth: int = 1) -> list[Part]:
    parts: list[Part] = []
    for at in range(draw(st.integers(1, most))):
        way = draw(st.sampled_from(["edge", "choice", "send", "join"] if at > 1 else ["edge", "choice", "send"]))
        sources = draw(
            st.lists(
                st.integers(-1 if way != "join" else 0, at - 1), min_size=1 + (way == "join"), max_size=2, unique=True
            )
        )
        if at == 0 and depth == 0:
            way, sources = "edge", [-1]  # a graph inside another does something, or a way back to it had no end
        part = Part(draw(acts()), way, tuple(sources), defer=draw(st.integers(0, 4)) == 0)
        if draw(st.integers(0, 3)) == 0:
            part.back = draw(st.integers(0, at))
        if depth and draw(st.integers(0, 3)) == 0:
            part.inner = draw(graphs(most=2, depth=depth - 1))
        parts.append(part)
    return parts


# -- what is made of it


class World:
    """What has come to an end so far, in order, and how many effects had been carried out by then."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, int]] = []
        self.answered: list[tuple[set[str], int]] = []
        """The ids of questions that were answered together, and how many effects had been carried out by then."""
        self.driver = EnumeratingDriver()

    def mark(self, name: str) -> None:
        self.ended.append((name, len(self.driver.effects)))

    def names(self) -> list[str]:
        return [name for name, _ in self.ended]

    def node(self, name: str, part: Part) -> Callable[..., Any]:
        @task
        def call(what: str) -> str:
            self.mark(f"call {what}")
            return what.upper()

        def node(state: State, runtime: Runtime[Any]) -> Any:
            said = [f"{name} at {state.get('n', 0)}"]
            for number, act in enumerate(part.acts):
                what = f"{said[0]} {number}"
                if act == "ask":
                    said.append(interrupt(f"{what}?"))
                elif act == "call":
                    said.append(call(what).result())
                elif act == "two":
                    both = [call(f"{what} {side}") for side in ("left", "right")]
                    said += [one.result() for one in both]
                elif runtime.execution_info.attempt == 1:
                    raise ConnectionError("not the first time")
            self.mark(said[0])
            return {"n": 1, "log": [" / ".join(said)]}

        return node

    def graph(self, parts: list[Part], prefix: str = "n") -> StateGraph[Any]:
        graph = StateGraph(State)
        for at, part in enumerate(parts):
            name = f"{prefix}{at}"
            if part.inner:
                graph.add_node(name, self.graph(part.inner, f"{name}_").compile(), defer=part.defer)
            else:
                retry = RetryPolicy(max_attempts=2, retry_on=ConnectionError)
                graph.add_node(name, self.node(name, part), defer=part.defer, retry_policy=retry)
            sources = [START if one < 0 else f"{prefix}{one}" for one in part.sources]
            if part.way == "join":
                graph.add_edge(sources, name)
            for source in sources if part.way != "join" else ():
                if part.way == "edge":
                    graph.add_edge(source, name)
                else:
                    graph.add_conditional_edges(source, chooser(part.way, name), [name, END])
            if part.back is not None:
                back = f"{prefix}{part.back}"
                graph.add_conditional_edges(name, loop_to(back), [back, END])
        return graph


def chooser(way: str, name: str) -> Callable[[State], Any]:
    def choose(state: State) -> Any:
        if way == "choice":
            return name if state["n"] % 3 < 2 else END
        return [Send(name, {"n": 100 + number}) for number in range(1 + state["n"] % 2)]

    choose.__name__ = f"{way}_{name}"
    return choose


def loop_to(name: str) -> Callable[[State], Any]:
    def back(state: State) -> Any:
        return name if state["n"] < LOOPS_UNTIL else END

    return back


# -- how it is run


@contextmanager
def driven(driver: EnumeratingDriver) -> Iterator[None]:
    """Graphs, and tasks called in their nodes, are carried out by this driver, in this thread."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runwell.graph.compiled.run_sync", lambda flow, emit=None: driver.run(flow))
        patch.setattr("runwell.graph.future.run_sync", driver.run)
        patch.setattr("runwell.graph.future.spawn", lambda work: work())
        yield


def session(graph: Any, world: World, **options: Any) -> Any:
    """Begin or go on, and answer everything that is asked, to the end; gives the values."""
    for _ in range(60):
        state = graph.get_state(CONFIG)
        if "checkpoint_id" not in state.config["configurable"]:
            what: Any = dict(INPUT)
        elif state.interrupts:
            what = Command(resume={one.id: f"re {one.value}" for one in state.interrupts})
            world.answered.append((set(what.resume), len(world.driver.effects)))
        elif state.next:
            what = None
        else:
            return state.values
        with driven(world.driver):
            graph.invoke(what, CONFIG, **options)
    raise AssertionError("it does not come to its end")


def past(graph: Any) -> list[Any]:
    return [(one.metadata["step"], one.next, one.values) for one in graph.get_state_history(CONFIG)]


class Savers:
    """New savers of a kind, and for each another one on the same data, as the next process has it."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder, self.made = kind, folder, 0
        self.open: list[Any] = []

    def new(self) -> Any:
        if self.kind == "memory":
            return InMemorySaver()
        self.made += 1
        self.open.append(SqliteSaver(self.folder / f"{self.made}.db"))
        return self.open[-1]

    def next(self, saver: Any) -> Any:
        if self.kind == "memory":
            return saver
        self.open.append(SqliteSaver(self.folder / f"{self.made}.db"))
        return self.open[-1]

    def close(self) -> None:
        for saver in self.open:
            saver.close()
        self.open.clear()


@pytest.fixture(params=["memory", "sqlite"])
def savers(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return Savers(request.param, tmp_path)


def is_save(effect: Any) -> bool:
    return isinstance(effect, Call) and getattr(effect.callee.sync, "__name__", "") in ("commit", "save_task")


def shuffled(seed: int) -> Callable[[int], list[int]]:
    """In which order a step's tasks run, one after the other: each time another."""
    dice = random.Random(seed)
    return lambda many: dice.sample(range(many), many)


def check(parts: list[Part], where: list[float], seed: int, savers: Savers, durability: str) -> None:
    whole = World()
    graph = whole.graph(parts).compile(savers.new())
    expected = session(graph, whole, durability=durability)
    history, total = past(graph), len(whole.driver.effects)
    other = World()
    other.driver = EnumeratingDriver(order=shuffled(seed))
    assert session(other.graph(parts).compile(InMemorySaver()), other) == expected, "whichever task ends first"
    assert Counter(other.names()) == Counter(whole.names())
    points = range(total) if ALL else sorted({int(share * total) for share in where})
    for before in points:
        world, saver = World(), savers.new()
        world.driver = EnumeratingDriver(before, order=shuffled(seed))
        with pytest.raises(Killed):
            session(world.graph(parts).compile(saver), world, durability=durability)
        after = World()
        again = after.graph(parts).compile(savers.next(saver))
        after.driver = EnumeratingDriver(order=shuffled(seed + 1))
        assert session(again, after, on_busy="take") == expected, after.driver.names()
        if durability == "sync":
            saves = [at for at, effect in enumerate(world.driver.effects) if is_save(effect)]
            kept = [name for name, at in world.ended if saves and at <= saves[-1]]
            assert Counter([*kept, *after.names()]) == Counter(whole.names()), "nothing is lost or done twice"
            assert len(world.ended) - len(kept) <= 1, "only what was under way may run again"
            taken_in = [ids for ids, at in world.answered if sum(save >= at for save in saves) >= len(ids)]
            asked_again = set().union(*taken_in) & set().union(*(ids for ids, _ in after.answered))
            assert not asked_again, "an answer is on record before anything runs on it"
            assert past(again) == history, "each step was saved once"


everything = [
    Part(("call", "ask", "fail", "two"), "edge", (-1,)),
    Part(("ask",), "edge", (-1,)),
    Part((), "join", (0, 1), inner=[Part(("call", "ask"), "edge", (-1,)), Part(("two",), "send", (0,))]),
    Part(("fail", "ask"), "send", (2,), back=1),
    Part((), "choice", (1,), defer=True),
]
"""One of all there is, which is tried every time."""


@settings(max_examples=100 if ALL else 15, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(), st.lists(st.floats(0, 1, exclude_max=True), min_size=3, max_size=3), st.integers(0, 99))
@example(everything, [0.1 * n for n in range(10)], 1)
def test_run_20_random_graphs_killed_anywhere_go_on_as_if_nothing_had_happened(
    savers: Savers, parts: list[Part], where: list[float], seed: int
) -> None:
    try:
        check(parts, where, seed, savers, "sync")
    finally:
        savers.close()


@pytest.mark.parametrize("durability", ["async", "exit"])
@settings(max_examples=50 if ALL else 6, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(), st.lists(st.floats(0, 1, exclude_max=True), min_size=2, max_size=2), st.integers(0, 99))
@example(everything, [0.1 * n for n in range(10)], 1)
def test_random_graphs_saved_later_may_repeat_work_but_end_the_same(
    savers: Savers, durability: str, parts: list[Part], where: list[float], seed: int
) -> None:
    try:
        check(parts, where, seed, savers, durability)
    finally:
        savers.close()
