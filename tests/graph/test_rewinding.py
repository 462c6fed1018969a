"""Going back in a thread takes the memories of the graphs inside along: INT-13, INT-17, INT-18."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from runwell.errors import InvalidConfig
from runwell.graph import INTERRUPT, START, Command, StateGraph, interrupt
from runwell.persistence import InMemorySaver, SqliteSaver


class Memory(TypedDict, total=False):
    calls: int
    log: Annotated[list[str], operator.add]


class Seen(TypedDict):
    seen: Annotated[list[Any], operator.add]


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memory":
        yield InMemorySaver()
    else:
        with SqliteSaver(tmp_path / "threads.sqlite") as made:
            yield made


def line(schema: Any, *nodes: Any, **options: Any) -> Any:
    graph = StateGraph(schema).add_sequence(list(nodes))
    return graph.add_edge(START, next(iter(graph.nodes))).compile(**options)


def counter(checkpointer: Any, name: str = "counter") -> Any:
    return line(Memory, ("count", lambda s: {"calls": s.get("calls", 0) + 1}), checkpointer=checkpointer, name=name)


def calling(graph: Any) -> Any:
    return lambda state: {"seen": [graph.invoke({})["calls"]]}


MODES = pytest.mark.parametrize(
    "mode", [pytest.param(lambda: True, id="thread"), pytest.param(InMemorySaver, id="own")]
)


def before(run: Any, app: Any, thread: Any, seen: list[Any], node: str) -> Any:
    """The config of the state that had seen this and was about to run that node."""
    return next(s for s in run.history(app, thread) if s.values["seen"] == seen and s.next == (node,)).config


@MODES
def test_int_18_going_back_rewinds_a_memory_per_thread(run: Any, saver: Any, thread: Any, mode: Any) -> None:
    app = line(Seen, ("call", calling(counter(mode()))), ("after", lambda s: {}), checkpointer=saver)
    for _ in range(3):
        run.invoke(app, {"seen": []}, thread)
    assert run.state(app, thread).values == {"seen": [1, 2, 3]}
    second = before(run, app, thread, [1], "call")
    assert run.invoke(app, None, second) == {"seen": [1, 2]}
    assert run.invoke(app, {"seen": []}, thread) == {"seen": [1, 2, 3]}, "it goes on from the branch"
    first = before(run, app, thread, [], "call")
    assert run.invoke(app, None, first) == {"seen": [1]}, "before its first call it had no memory"
    assert run.invoke(app, {"seen": []}, thread) == {"seen": [1, 2]}
    assert run.invoke(app, None, second) == {"seen": [1, 2]}, "every branch keeps its own memory"
    after = next(s for s in run.history(app, thread) if s.values["seen"] == [1, 2, 3] and not s.next).config
    assert run.invoke(app, {"seen": []}, after) == {"seen": [1, 2, 3, 4]}


@MODES
def test_int_18_a_branch_by_hand_rewinds_it_too(run: Any, saver: Any, thread: Any, mode: Any) -> None:
    app = line(Seen, ("call", calling(counter(mode()))), ("after", lambda s: {}), checkpointer=saver)
    for _ in range(3):
        run.invoke(app, {"seen": []}, thread)
    place = run.update(app, before(run, app, thread, [1], "call"), {"seen": ["edit"]}, as_node=START)
    assert run.invoke(app, None, place) == {"seen": [1, "edit", 2]}


@MODES
def test_int_18_a_pause_and_a_new_process_do_not_lose_the_branch(run: Any, saver: Any, thread: Any, mode: Any) -> None:
    def ask(state: Seen) -> Any:
        return {"seen": [interrupt("?")]}

    own = mode()
    app = line(Seen, ("ask", ask), ("call", calling(counter(own))), checkpointer=saver)
    for answer in "ab":
        run.invoke(app, {"seen": []}, thread)
        run.invoke(app, Command(resume=answer), thread)
    assert run.state(app, thread).values["seen"] == ["a", 1, "b", 2]
    assert run.invoke(app, None, before(run, app, thread, ["a", 1], "ask"))[INTERRUPT]
    again = line(Seen, ("ask", ask), ("call", calling(counter(own))), checkpointer=saver)
    assert run.invoke(again, Command(resume="c"), thread) == {"seen": ["a", 1, "c", 2]}


def test_int_18_memories_inside_memories_are_rewound(run: Any, saver: Any, thread: Any) -> None:
    middle = line(Seen, ("deep", calling(counter(True, "deep"))), checkpointer=True, name="middle")
    app = line(Seen, ("mid", lambda s: {"seen": [middle.invoke({"seen": []})["seen"]]}), checkpointer=saver)
    for _ in range(3):
        run.invoke(app, {"seen": []}, thread)
    assert run.state(app, thread).values["seen"][-1] == [1, 2, 3]
    assert run.invoke(app, None, before(run, app, thread, [[1]], "mid"))["seen"] == [[1], [1, 2]]
    assert run.invoke(app, None, before(run, app, thread, [], "mid"))["seen"] == [[1]]
    assert run.invoke(app, {"seen": []}, thread)["seen"] == [[1], [1, 2]]


def test_int_17_a_thread_of_its_own_is_nobodys_to_rewind(run: Any, saver: Any, thread: Any) -> None:
    child, own = counter(InMemorySaver()), {"configurable": {"thread_id": "fixed"}}
    app = line(Seen, ("call", lambda s: {"seen": [child.invoke({}, own)["calls"]]}), checkpointer=saver)
    for _ in range(2):
        run.invoke(app, {"seen": []}, thread)
    assert run.invoke(app, None, before(run, app, thread, [1], "call")) == {"seen": [1, 3]}


def test_int_13_a_jump_in_a_child_follows_what_was_edited(run: Any, saver: Any, thread: Any) -> None:
    class Topic(TypedDict, total=False):
        topic: int
        log: Annotated[list[str], operator.add]

    def a(state: Topic) -> Any:
        return Command(update={"topic": 1, "log": ["a"]}, goto="b")

    def b(state: Topic) -> Any:
        return Command(update={"log": [f"b{state['topic']}"]}, goto="c" if state["topic"] == 1 else "__end__")

    inner = StateGraph(Topic).add_node("a", a).add_node("b", b).add_node("c", lambda s: {"log": ["c"]})
    child = inner.add_edge(START, "a").compile(interrupt_before=["b"], checkpointer=True)
    app = line(Topic, ("child", child), checkpointer=saver)
    run.invoke(app, {"log": []}, thread)
    [task] = run.state(app, thread).tasks
    run.update(app, task.state, {"topic": 2})
    assert run.invoke(app, None, thread)["log"] == ["a", "b2"]


# -- INT-11 for a child with a saver of its own


def reviewed(checkpointer: Any, ran: list[str]) -> Any:
    def step(name: str) -> Any:
        def node(state: Any) -> Any:
            ran.append(name)
            return {"log": [name]}

        return name, node

    def review(state: Any) -> Any:
        ran.append("review")
        return {"log": [interrupt("ok?")]}

    return line(Memory, step("a"), step("b"), step("c"), ("review", review), checkpointer=checkpointer, name="child")


@pytest.mark.parametrize("when", ["paused", "finished"])
def test_int_11_a_replay_inside_a_child_with_its_own_saver_goes_on_in_place(
    run: Any, saver: Any, thread: Any, when: str
) -> None:
    ran: list[str] = []
    app = line(Memory, ("child", reviewed(InMemorySaver(), ran)), ("z", lambda s: {"log": ["z"]}), checkpointer=saver)
    run.invoke(app, {"log": []}, thread)
    [task] = run.state(app, thread).tasks
    before_c = next(s for s in run.history(app, task.state) if s.next == ("c",)).config
    if when == "finished":
        run.invoke(app, Command(resume="1"), thread)
    ran.clear()
    assert run.invoke(app, None, before_c)[INTERRUPT][0].value == "ok?"
    assert ran == ["c", "review"]
    assert run.invoke(app, Command(resume="2"), thread)["log"] == ["a", "b", "c", "2", "z"]


def test_int_11_the_state_of_a_child_with_its_own_saver_can_be_edited(run: Any, saver: Any, thread: Any) -> None:
    app = line(Memory, ("child", reviewed(InMemorySaver(), [])), checkpointer=saver)
    run.invoke(app, {"log": []}, thread)
    [task] = run.state(app, thread).tasks
    run.update(app, task.state, {"log": ["by hand"]}, as_node="review")
    assert run.invoke(app, None, thread)["log"] == ["a", "b", "c", "by hand"]


def test_int_11_a_child_with_its_own_saver_that_a_function_calls_says_why_not(
    run: Any, saver: Any, thread: Any
) -> None:
    child = reviewed(InMemorySaver(), [])
    app = line(Memory, ("call", lambda s: {"log": child.invoke({"log": []})["log"]}), checkpointer=saver)
    run.invoke(app, {"log": []}, thread)
    [task] = run.state(app, thread).tasks
    with pytest.raises(InvalidConfig, match=r"a saver of its own(.|\n)*make it a node"):
        run.invoke(app, None, task.state)
