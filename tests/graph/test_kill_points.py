"""A run cut off between any two things it does goes on later as if nothing had happened.

Each graph is killed before its first effect, before its second, and so on to its last; then someone resumes it who
knows the thread and no more. The state must end as it would have, and no node whose result was saved may run again.
"""

from __future__ import annotations

import operator
from itertools import count
from typing import Annotated, Any, TypedDict

import pytest

from runwell.effects import Call
from runwell.graph import END, START, Command, Send, StateGraph, interrupt
from runwell.persistence import InMemorySaver
from runwell.testing.effects import EnumeratingDriver, Killed

CONFIG = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    n: int
    log: Annotated[list[str], operator.add]


class World:
    """A graph over a new saver, and the nodes that have come to their end so far."""

    def __init__(self, build):
        self.ran: list[str] = []
        self.saver = InMemorySaver()
        self.graph = build(self).compile(checkpointer=self.saver)

    def node(self, name):
        def step(state):
            self.ran.append(name)
            return {"n": state.get("n", 0) + 1, "log": [name]}

        return step

    def drive(self, given: Any, driver: EnumeratingDriver, **options: Any) -> Any:
        """`graph.invoke`, carried out by that driver."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("runwell.graph.compiled.run_sync", lambda flow, emit=None: driver.run(flow))
            return self.graph.invoke(given, CONFIG, **options)

    def saved(self) -> bool:
        return "checkpoint_id" in self.graph.get_state(CONFIG).config["configurable"]


def chain(world):
    graph = StateGraph(State)
    graph.add_sequence([(name, world.node(name)) for name in "abc"])
    graph.add_edge(START, "a")
    return graph


def loop(world):
    graph = StateGraph(State)
    graph.add_node("a", world.node("a"))
    graph.add_node("b", world.node("b"))
    graph.add_edge(START, "a")
    graph.add_edge("a", "b")
    graph.add_conditional_edges("b", lambda state: "a" if state["n"] < 6 else END)
    return graph


def fan_out(world):
    def work(given):
        world.ran.append(f"work {given['n']}")
        return {"log": [f"work {given['n']}"]}

    graph = StateGraph(State)
    graph.add_node("plan", world.node("plan"))
    graph.add_node("work", work)
    graph.add_node("join", world.node("join"))
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", lambda state: [Send("work", {"n": n}) for n in range(3)], ["work"])
    graph.add_edge("work", "join")
    return graph


def diamond(world):
    graph = StateGraph(State)
    for name in "ad":
        graph.add_node(name, world.node(name))
    for name in "bc":
        graph.add_node(name, lambda state, name=name: world.ran.append(name) or {"log": [name]})
    graph.add_edge(START, "a")
    graph.add_edge("a", "b")
    graph.add_edge("a", "c")
    graph.add_edge(["b", "c"], "d")
    return graph


def nested(world):
    inner = StateGraph(State)
    inner.add_sequence([(name, world.node(name)) for name in ("in 1", "in 2")])
    inner.add_edge(START, "in 1")
    graph = StateGraph(State)
    graph.add_node("before", world.node("before"))
    graph.add_node("inner", inner.compile())
    graph.add_node("after", world.node("after"))
    graph.add_edge(START, "before")
    graph.add_edge("before", "inner")
    graph.add_edge("inner", "after")
    return graph


def asking(world):
    def ask(state):
        answer = interrupt("go on?")
        world.ran.append(f"asked: {answer}")
        return {"log": [f"asked: {answer}"]}

    graph = StateGraph(State)
    graph.add_node("before", world.node("before"))
    graph.add_node("ask", ask)
    graph.add_node("after", world.node("after"))
    graph.add_edge(START, "before")
    graph.add_edge("before", "ask")
    graph.add_edge("ask", "after")
    return graph


def asking_twice_inside(world):
    def ask(state):
        first = interrupt("first?")
        second = interrupt("second?")
        world.ran.append(f"asked: {first} {second}")
        return {"log": [f"asked: {first} {second}"]}

    inner = StateGraph(State)
    inner.add_node("in 1", world.node("in 1"))
    inner.add_node("ask", ask)
    inner.add_edge(START, "in 1")
    inner.add_edge("in 1", "ask")
    graph = StateGraph(State)
    graph.add_node("inner", inner.compile())
    graph.add_node("beside", lambda state: world.ran.append("beside") or {"log": ["beside"]})
    graph.add_node("after", world.node("after"))
    graph.add_edge(START, "inner")
    graph.add_edge(START, "beside")
    graph.add_edge(["inner", "beside"], "after")
    return graph


def to_the_end(world: World, given: Any) -> Any:
    """Run, answering every question."""
    result = world.graph.invoke(given, CONFIG, on_busy="take")  # the killed run's process is ours, and lives
    for _ in range(5):
        if "__interrupt__" not in result:
            return result
        result = world.graph.invoke(Command(resume="yes"), CONFIG)
    raise AssertionError(f"still asking: {result}")


def is_save(effect: Any) -> bool:
    return isinstance(effect, Call) and getattr(effect.callee.sync, "__name__", "") in ("commit", "save_task")


def kept(driver: EnumeratingDriver, ran_before: list[str], ran: list[str]) -> list[str]:
    """The nodes that had ended when the run last saved something: these results must be on record."""
    saves = [index for index, effect in enumerate(driver.effects) if is_save(effect)]
    return [*ran_before, *(name for at, name in zip(driver.ends, ran, strict=True) if saves and at < saves[-1])]


class Watching(EnumeratingDriver):
    """Also notes at which effect each node came to its end."""

    __slots__ = ("ends", "world")

    def __init__(self, world: World, kill_before: int | None) -> None:
        super().__init__(kill_before)
        self.world = world
        self.ends: list[int] = []

    def _carry_out(self, effect: Any, coroutine: Any) -> Any:
        before = len(self.world.ran)
        result = super()._carry_out(effect, coroutine)
        if isinstance(effect, Call) and len(self.world.ran) > before:
            self.ends.append(len(self.effects) - 1)
        return result


GRAPHS = [chain, loop, fan_out, diamond, nested, asking, asking_twice_inside]


@pytest.mark.parametrize("build", GRAPHS)
def test_killed_before_any_effect_a_run_goes_on_where_it_was(build):
    whole = World(build)
    expected = to_the_end(whole, {"n": 0})
    for before in count():
        world = World(build)
        driver = Watching(world, before)
        try:
            world.drive({"n": 0}, driver)
        except Killed:
            pass
        else:
            assert before > 5
            break
        safe, so_far = kept(driver, [], world.ran), len(world.ran)
        del world.ran[:]
        result = to_the_end(world, None if world.saved() else {"n": 0})
        assert result == expected, driver.names()
        assert sorted([*safe, *world.ran]) == sorted(whole.ran), (safe, world.ran, driver.names())
        assert so_far + len(world.ran) <= len(whole.ran) + 1, "only what was under way may run again"


@pytest.mark.parametrize(("build", "answered"), [(asking, 0), (asking_twice_inside, 0), (asking_twice_inside, 1)])
def test_killed_while_an_answer_is_taken_in_nothing_is_lost(build, answered):
    whole = World(build)
    expected = to_the_end(whole, {"n": 0})
    for before in count():
        world = World(build)
        result = world.graph.invoke({"n": 0}, CONFIG)
        for _ in range(answered):
            result = world.graph.invoke(Command(resume="yes"), CONFIG)
        question = result["__interrupt__"][0].value
        ran_before = list(world.ran)
        del world.ran[:]
        driver = Watching(world, before)
        try:
            world.drive(Command(resume="yes"), driver)
        except Killed:
            pass
        else:
            assert before > 3
            break
        safe, so_far = kept(driver, ran_before, world.ran), len(ran_before) + len(world.ran)
        del world.ran[:]
        if any(is_save(effect) for effect in driver.effects):
            resumed = world.graph.invoke(None, CONFIG, on_busy="take")
            asked = [open_.value for open_ in resumed.get("__interrupt__", ())]
            assert question not in asked, "an answer is on record before anything runs on it"
        result = to_the_end(world, None)
        assert result == expected, driver.names()
        assert sorted([*safe, *world.ran]) == sorted(whole.ran), (safe, world.ran, driver.names())
        assert so_far + len(world.ran) <= len(whole.ran) + 1, "only what was under way may run again"


@pytest.mark.parametrize("build", [chain, fan_out, nested])
def test_killed_twice_in_a_row(build):
    whole = World(build)
    expected = to_the_end(whole, {"n": 0})
    total = EnumeratingDriver()
    World(build).drive({"n": 0}, total)
    for first in range(1, len(total.effects), 2):
        for second in range(0, len(total.effects) - first, 2):
            world = World(build)
            with pytest.raises(Killed):
                world.drive({"n": 0}, EnumeratingDriver(first))
            given = None if world.saved() else {"n": 0}
            try:
                world.drive(given, EnumeratingDriver(second), on_busy="take")
            except Killed:
                given = None if world.saved() else {"n": 0}
                assert to_the_end(world, given) == expected
            else:
                assert world.graph.get_state(CONFIG).values == expected


@pytest.mark.parametrize("durability", ["async", "exit"])
@pytest.mark.parametrize("build", GRAPHS)
def test_saved_later_a_run_may_repeat_work_but_ends_the_same(build, durability):
    """With these a kill may cost finished steps; what stands on record is still a state to go on from."""
    expected = to_the_end(World(build), {"n": 0})
    for before in count():
        world = World(build)
        try:
            world.drive({"n": 0}, EnumeratingDriver(before), durability=durability)
        except Killed:
            pass
        else:
            break
        assert to_the_end(world, None if world.saved() else {"n": 0}) == expected, before
