"""Graphs inside graphs: which memory they have, jumping out of them, looking into them, going on inside them."""

from __future__ import annotations

import operator
import threading
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from runwell.errors import InvalidConfig, InvalidInput, InvalidUpdateError, NoCheckpointer, UsageError
from runwell.graph import INTERRUPT, START, Command, Send, StateGraph, StateSnapshot, interrupt
from runwell.persistence import InMemorySaver, SqliteSaver


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


class Memory(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    calls: int


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
    """A graph of nodes that follow each other, given as functions or (name, node)."""
    graph = StateGraph(schema).add_sequence(list(nodes))
    return graph.add_edge(START, next(iter(graph.nodes))).compile(**options)


def counter(checkpointer: Any = None, name: str = "counter") -> Any:
    """A graph that counts its calls as far as it remembers them."""
    return line(
        Memory,
        ("count", lambda s: {"calls": s.get("calls", 0) + 1, "log": ["c"]}),
        checkpointer=checkpointer,
        name=name,
    )


def asking(graph: Any, colour: str = "plain", times: int = 1, *, given: Any = None, key: str = "calls") -> Any:
    """A node that calls a graph so many times and notes what it counted."""

    def plain(state: Any) -> Any:
        return {"seen": [graph.invoke(dict(given or {}))[key] for _ in range(times)]}

    async def later(state: Any) -> Any:
        return {"seen": [(await graph.ainvoke(dict(given or {})))[key] for _ in range(times)]}

    return later if colour == "async" else plain


# -- INT-17, INT-18: memory


@pytest.mark.parametrize("colour", ["plain", "async"])
def test_int_17_a_child_with_its_own_saver_and_thread_keeps_its_memory(run: Any, thread: Any, colour: str) -> None:
    child = counter(InMemorySaver())
    own = {"configurable": {"thread_id": "fixed"}}

    def plain(state: Seen) -> Any:
        return {"seen": [child.invoke({}, own)["calls"]]}

    async def later(state: Seen) -> Any:
        return {"seen": [(await child.ainvoke({}, own))["calls"]]}

    app = line(Seen, ("call", later if colour == "async" else plain), checkpointer=InMemorySaver())
    run.invoke(app, {"seen": []}, thread)
    assert run.invoke(app, {"seen": []}, thread) == {"seen": [1, 2]}
    assert run.state(child, own).values["calls"] == 2


def test_int_17_a_config_handed_on_does_not_take_the_parents_checkpoint_along(run: Any, thread: Any) -> None:
    child = counter(InMemorySaver())

    def call(state: Seen, config: Any) -> Any:
        own = {**config, "configurable": {**config["configurable"], "thread_id": "fixed"}}
        return {"seen": [child.invoke({}, own)["calls"]]}

    app = line(Seen, call, checkpointer=InMemorySaver())
    run.invoke(app, {"seen": []}, thread)
    before = run.history(app, thread)[-1].config
    assert run.invoke(app, None, before) == {"seen": [2]}


MODES = {"none": False, "per call": None, "per thread": True}


@pytest.mark.parametrize("colour", ["plain", "async"])
@pytest.mark.parametrize(("mode", "expected"), [("none", [1, 1]), ("per call", [1, 1]), ("per thread", [1, 2])])
def test_int_18_a_called_graph_remembers_as_its_mode_says(
    run: Any, saver: Any, thread: Any, mode: str, expected: list[int], colour: str
) -> None:
    app = line(Seen, ("call", asking(counter(MODES[mode]), colour)), checkpointer=saver)
    run.invoke(app, {"seen": []}, thread)
    assert run.invoke(app, {"seen": []}, thread) == {"seen": expected}
    assert run.invoke(app, {"seen": []}, {"configurable": {"thread_id": "other"}}) == {"seen": [1]}


@pytest.mark.parametrize(("mode", "expected"), [("none", 1), ("per call", 1), ("per thread", 2)])
def test_int_18_a_graph_as_a_node_remembers_what_is_its_own(
    run: Any, saver: Any, thread: Any, mode: str, expected: int
) -> None:
    child = counter(MODES[mode])

    class Calls(Log, total=False):
        calls: int

    app = line(Log, ("child", child), checkpointer=saver)
    run.invoke(app, {"log": ["1"]}, thread)
    assert run.invoke(app, {"log": ["2"]}, thread) == {"log": ["1", "c", "2", "c"]}, "each entry once"
    wide = line(Calls, ("child", counter(MODES[mode])), checkpointer=InMemorySaver())
    run.invoke(wide, {"log": []}, thread)
    given_back = run.invoke(wide, {"log": []}, thread)
    assert given_back["calls"] == 2, "a shared key is the parent's, whatever the child remembers"
    if mode == "per thread":
        place = {"configurable": {**thread["configurable"], "checkpoint_ns": "|child+counter"}}
        assert run.state(app, place).values == {"log": ["1", "c", "2", "c"], "calls": expected}


@pytest.mark.parametrize("colour", ["plain", "async"])
@pytest.mark.parametrize(("mode", "expected"), [("none", [1, 1]), ("per call", [1, 1]), ("per thread", [1, 2])])
def test_int_18_called_twice_in_one_node(
    run: Any, saver: Any, thread: Any, mode: str, expected: list[int], colour: str
) -> None:
    app = line(Seen, ("call", asking(counter(MODES[mode]), colour, times=2)), checkpointer=saver)
    assert run.invoke(app, {"seen": []}, thread) == {"seen": expected}


def test_int_18_two_nodes_have_two_memories(run: Any, saver: Any, thread: Any) -> None:
    child = counter(True)
    app = line(Seen, ("one", asking(child)), ("two", asking(child, times=2)), checkpointer=saver)
    assert run.invoke(app, {"seen": []}, thread) == {"seen": [1, 1, 2]}
    assert run.invoke(app, {"seen": []}, thread)["seen"][3:] == [2, 3, 4]


def twice_at_once(child: Any, saver: Any) -> Any:
    graph = StateGraph(Seen).add_node("call", asking(child)).add_node("start", lambda s: None).add_edge(START, "start")
    graph.add_conditional_edges("start", lambda s: [Send("call", s), Send("call", s)], ["call"])
    return graph.compile(saver)


def test_int_18_two_tasks_of_a_step_cannot_share_a_memory(run: Any, saver: Any, thread: Any) -> None:
    app = twice_at_once(counter(True), saver)
    with pytest.raises(UsageError, match="keeps its memory per thread"):
        run.invoke(app, {"seen": []}, thread)
    with pytest.raises(UsageError, match="keeps its memory per thread"):
        run.invoke(app, {"seen": []}, {"configurable": {"thread_id": "serial"}, "max_concurrency": 1})
    with pytest.raises(UsageError, match="keeps its memory per thread"):
        run.invoke(app, None, thread)  # trying again, with one of them finished, is no way round it
    for mode in (None, False):
        other = {"configurable": {"thread_id": str(mode)}}
        assert run.invoke(twice_at_once(counter(mode), saver), {"seen": []}, other) == {"seen": [1, 1]}


def test_int_18_two_threads_of_one_node_cannot_share_a_memory(saver: Any, thread: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from runwell import copy_context

    inside, go_on = threading.Event(), threading.Event()

    def hold(state: Memory) -> Any:
        inside.set()
        assert go_on.wait(5)
        return {"calls": 1}

    child = line(Memory, hold, checkpointer=True, name="holder")

    def call(state: Seen) -> Any:
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(copy_context(child.invoke), {})
            assert inside.wait(5)
            try:
                with pytest.raises(UsageError, match="'holder' keeps its memory per thread"):
                    child.invoke({})
            finally:
                go_on.set()
            return {"seen": [first.result()["calls"]]}

    assert line(Seen, call, checkpointer=saver).invoke({"seen": []}, thread) == {"seen": [1]}


def test_int_18_a_memory_per_thread_needs_somebodys_saver(run: Any, thread: Any) -> None:
    with pytest.raises(NoCheckpointer, match="by itself"):
        run.invoke(counter(True), {}, thread)
    with pytest.raises(NoCheckpointer, match="saves nothing"):
        run.invoke(line(Log, ("child", counter(True))), {"log": []})


def test_a_node_with_a_saver_of_its_own_remembers_there(run: Any, saver: Any, thread: Any) -> None:
    own = InMemorySaver()
    app = line(Seen, ("call", asking(counter(own))), checkpointer=saver)
    run.invoke(app, {"seen": []}, thread)
    assert run.invoke(app, {"seen": []}, thread) == {"seen": [1, 2]}
    assert own.load("t", "|call+counter").values["calls"] == 2
    assert saver.load("t", "|call+counter") is None
    bare = line(Log, ("child", counter(own, "bare")))
    assert run.invoke(bare, {"log": []}, thread) == {"log": ["c"]}
    with pytest.raises(InvalidConfig, match="names no thread"):
        run.invoke(bare, {"log": []})


def test_int_18_a_pause_between_two_calls_repeats_neither(run: Any, saver: Any, thread: Any) -> None:
    ran: list[str] = []

    def work(state: Memory) -> Any:
        ran.append("work")
        return {"calls": state.get("calls", 0) + 1}

    def confirm(state: Memory) -> Any:
        return {"log": [interrupt(f"{state['calls']}?")]}

    child = line(Memory, work, confirm, checkpointer=True)

    def call(state: Seen) -> Any:
        return {"seen": [child.invoke({})["log"][-1], child.invoke({})["log"][-1]]}

    app = line(Seen, call, checkpointer=saver)
    assert run.invoke(app, {"seen": []}, thread)[INTERRUPT][0].value == "1?"
    assert run.invoke(app, Command(resume="a"), thread)[INTERRUPT][0].value == "2?"
    assert run.invoke(app, Command(resume="b"), thread) == {"seen": ["a", "b"]}
    assert ran == ["work", "work"]
    assert run.invoke(app, {"seen": []}, thread)[INTERRUPT][0].value == "3?"


# -- GRAPH-09: jumping out


def jumper(mode: Any, where: str = "z") -> Any:
    def b(state: Any) -> Any:
        return Command(graph=Command.PARENT, goto=where, update={"log": ["b"]})

    return line(Memory, ("a", lambda s: {"log": ["a"], "calls": s.get("calls", 0) + 1}), b, checkpointer=mode)


def z(state: Log) -> Any:
    return {"log": ["z"]}


@pytest.mark.parametrize("mode", [None, False, True])
@pytest.mark.parametrize("how", ["node", "plain", "async"])
def test_graph_09_a_jump_to_the_parent_works_with_and_without_memory(
    run: Any, saver: Any, thread: Any, mode: Any, how: str
) -> None:
    child = jumper(mode)

    def plain(state: Log) -> Any:
        return child.invoke({"log": []})

    async def later(state: Log) -> Any:
        return await child.ainvoke({"log": []})

    node = {"node": child, "plain": plain, "async": later}[how]
    graph = StateGraph(Log).add_node("child", node, destinations=["z"]).add_node(z).add_edge(START, "child")
    app = graph.compile(saver)
    assert run.invoke(app, {"log": ["1"]}, thread) == {"log": ["1", "b", "z"]}
    assert run.invoke(app, {"log": ["2"]}, thread) == {"log": ["1", "b", "z", "2", "b", "z"]}
    if mode is True:
        place = {"configurable": {"thread_id": "t", "checkpoint_ns": "|child+graph"}}
        assert run.state(app, place).values["calls"] == 2


def test_graph_09_two_levels_up_goes_one_level_at_a_time(run: Any, saver: Any, thread: Any) -> None:
    middle = StateGraph(Log).add_node("child", jumper(True)).add_node(z).add_edge(START, "child").compile(True)
    app = line(Log, ("middle", middle), checkpointer=saver)
    assert run.invoke(app, {"log": ["1"]}, thread) == {"log": ["1", "b", "z"]}


def test_graph_09_a_jump_to_nowhere_is_an_error_not_a_signal(run: Any, saver: Any, thread: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="no graph is around"):
        run.invoke(jumper(InMemorySaver()), {"log": []}, thread)
    with pytest.raises(InvalidUpdateError, match="'nowhere', no node"):
        run.invoke(line(Log, ("child", jumper(None, "nowhere")), checkpointer=saver), {"log": []}, thread)


# -- looking inside, INT-11: going on inside


def reviewed(mode: Any, ran: list[str]) -> Any:
    def step(name: str) -> Any:
        def node(state: Log) -> Any:
            ran.append(name)
            return {"log": [name]}

        return name, node

    def review(state: Log) -> Any:
        ran.append("review")
        return {"log": [interrupt("ok?")]}

    return line(Log, step("a"), step("b"), step("c"), review, checkpointer=mode, name="child")


def outer_of(child: Any, how: str, saver: Any) -> Any:
    def plain(state: Log) -> Any:
        return {"log": child.invoke({"log": []})["log"]}

    node = {"node": child, "plain": plain}[how]
    return line(Log, ("first", lambda s: {"log": ["first"]}), ("child", node), z, checkpointer=saver)


@pytest.mark.parametrize("mode", [None, True])
@pytest.mark.parametrize("how", ["node", "plain"])
def test_a_paused_childs_state_is_in_its_task(run: Any, saver: Any, thread: Any, mode: Any, how: str) -> None:
    app = outer_of(reviewed(mode, []), how, saver)
    run.invoke(app, {"log": []}, thread)
    [task] = run.state(app, thread).tasks
    assert isinstance(task.state, dict)
    assert run.state(app, task.state).next == ("review",)
    snapshot = app.get_state(thread, subgraphs=True)
    inside = snapshot.tasks[0].state
    assert isinstance(inside, StateSnapshot)
    assert inside.next == ("review",)
    assert inside.values["log"][-3:] == ["a", "b", "c"]
    assert [question.value for question in inside.interrupts] == ["ok?"]
    assert [question.id for question in inside.interrupts] == [question.id for question in snapshot.interrupts]
    assert [s.next for s in run.history(app, inside.config)] == [("review",), ("c",), ("b",), ("a",)]


def test_states_are_seen_at_every_depth(run: Any, saver: Any, thread: Any) -> None:
    middle = line(Log, ("inner", reviewed(None, [])))
    app = line(Log, ("middle", middle), checkpointer=saver)
    run.invoke(app, {"log": []}, thread)
    top = app.get_state(thread, subgraphs=True)
    assert (top.next, top.tasks[0].state.next, top.tasks[0].state.tasks[0].state.next) == (
        ("middle",),
        ("inner",),
        ("review",),
    )


def test_a_childs_state_can_be_edited_while_it_waits(run: Any, saver: Any, thread: Any) -> None:
    ran: list[str] = []
    app = outer_of(reviewed(None, ran), "node", saver)
    run.invoke(app, {"log": []}, thread)
    [task] = run.state(app, thread).tasks
    run.update(app, task.state, {"log": ["edited"]}, as_node="c")
    assert [each.value for each in run.state(app, thread).interrupts] == ["ok?"]
    assert run.invoke(app, None, thread)[INTERRUPT][0].value == "ok?"
    assert run.invoke(app, Command(resume="yes"), thread) == {"log": ["first", "a", "b", "c", "edited", "yes", "z"]}
    assert ran == ["a", "b", "c", "review", "review", "review"]


def test_a_state_inside_a_function_can_be_read_and_not_edited(run: Any, saver: Any, thread: Any) -> None:
    app = outer_of(reviewed(None, []), "plain", saver)
    run.invoke(app, {"log": []}, thread)
    [task] = run.state(app, thread).tasks
    with pytest.raises(InvalidInput, match="function calls"):
        run.update(app, task.state, {"log": ["edited"]})


@pytest.mark.parametrize("mode", [None, True])
@pytest.mark.parametrize("how", ["node", "plain"])
@pytest.mark.parametrize("when", ["paused", "finished"])
def test_int_11_a_replay_inside_a_child_goes_on_in_place(
    run: Any, saver: Any, thread: Any, mode: Any, how: str, when: str
) -> None:
    ran: list[str] = []
    app = outer_of(reviewed(mode, ran), how, saver)
    run.invoke(app, {"log": []}, thread)
    [task] = run.state(app, thread).tasks
    before_c = next(s for s in run.history(app, task.state) if s.next == ("c",)).config
    if when == "finished":
        assert run.invoke(app, Command(resume="1"), thread)["log"] == ["first", "a", "b", "c", "1", "z"]
    ran.clear()
    assert run.invoke(app, None, before_c)[INTERRUPT][0].value == "ok?"
    assert ran == ["c", "review"]
    assert run.invoke(app, Command(resume="2"), thread)["log"] == ["first", "a", "b", "c", "2", "z"]
    assert ran == ["c", "review", "review"]


def test_int_11_at_depth(run: Any, saver: Any, thread: Any) -> None:
    ran: list[str] = []
    middle = line(Log, ("before", lambda s: {"log": ["before"]}), ("inner", reviewed(None, ran)))
    app = line(Log, ("middle", middle), checkpointer=saver)
    run.invoke(app, {"log": []}, thread)
    inside = app.get_state(thread, subgraphs=True).tasks[0].state.tasks[0].state
    before_c = next(s for s in run.history(app, inside.config) if s.next == ("c",)).config
    ran.clear()
    assert run.invoke(app, None, before_c)[INTERRUPT][0].value == "ok?"
    assert run.invoke(app, Command(resume="2"), thread)["log"] == ["before", "a", "b", "c", "2"]
    assert ran == ["c", "review", "review"]


def test_int_11_a_config_that_names_nothing_inside_is_refused(run: Any, saver: Any, thread: Any) -> None:
    app = outer_of(reviewed(None, []), "node", saver)
    run.invoke(app, {"log": []}, thread)
    for ns in ("|nonsense", "|2:child@nonsense"):
        place = {"configurable": {"thread_id": "t", "checkpoint_ns": ns, "checkpoint_id": "x"}}
        with pytest.raises((InvalidConfig, InvalidInput)):
            run.invoke(app, None, place)


@pytest.mark.parametrize("mode", [None, True])
@pytest.mark.parametrize("how", ["node", "plain"])
def test_int_09_a_childs_pause_answered_twice_gives_two_outcomes(
    run: Any, saver: Any, thread: Any, mode: Any, how: str
) -> None:
    ran: list[str] = []
    app = outer_of(reviewed(mode, ran), how, saver)
    run.invoke(app, {"log": []}, thread)
    paused = run.state(app, thread).config
    assert run.invoke(app, Command(resume="1"), paused)["log"][-2:] == ["1", "z"]
    assert run.invoke(app, Command(resume="2"), paused)["log"][-2:] == ["2", "z"]
    assert ran == ["a", "b", "c", "review", "review", "review"]


def test_a_retried_node_finds_the_graph_it_had_called(run: Any, saver: Any, thread: Any) -> None:
    from runwell.graph import RetryPolicy

    ran: list[str] = []
    tries: list[int] = []

    def unsure(state: Log) -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("again")
        return {"log": ["sure"]}

    child = line(Log, ("a", lambda s: ran.append("a") or {"log": ["a"]}), unsure)
    graph = StateGraph(Log).add_node(
        "call", lambda s: {"log": child.invoke({"log": []})["log"]}, retry_policy=RetryPolicy(initial_interval=0)
    )
    app = graph.add_edge(START, "call").compile(saver)
    assert run.invoke(app, {"log": []}, thread) == {"log": ["a", "sure"]}
    assert ran == ["a"]


@pytest.mark.parametrize("mode", [None, True])
@pytest.mark.parametrize("how", ["node", "plain"])
@pytest.mark.parametrize("where", ["interrupt_before", "interrupt_after"])
def test_a_breakpoint_inside_pauses_the_whole_run(
    run: Any, saver: Any, thread: Any, mode: Any, how: str, where: str
) -> None:
    ran: list[str] = []

    def step(name: str) -> Any:
        return name, lambda state: ran.append(name) or {"log": [name]}

    child = line(Log, step("a"), step("b"), checkpointer=mode, **{where: ["b" if where == "interrupt_before" else "a"]})
    app = outer_of(child, how, saver)
    assert INTERRUPT not in run.invoke(app, {"log": []}, thread)
    assert ran == ["a"]
    assert run.state(app, thread).next == ("child",)
    [task] = run.state(app, thread).tasks
    assert run.state(app, task.state).next == ("b",)
    assert run.invoke(app, None, thread)["log"] == ["first", "a", "b", "z"]
    assert ran == ["a", "b"]
    deep = run.stream(app, {"log": []}, {"configurable": {"thread_id": "u"}}, subgraphs=True)
    assert [item for _, item in deep][-2:] == [{INTERRUPT: ()}, {INTERRUPT: ()}]


@pytest.mark.parametrize("calls", [1, 2])
def test_int18_a_call_of_a_memory_per_thread_costs_the_same_however_long_the_memory_is(
    run: Any, thread: Any, calls: int
) -> None:
    looked: list[int] = []

    class Counting(InMemorySaver):
        def history(self, *args: Any, **options: Any) -> Any:
            found = list(super().history(*args, **options))
            looked.append(len(found))
            return found

    class State(TypedDict):
        log: Annotated[list[str], operator.add]

    child = StateGraph(State).add_node("say", lambda state: {"log": ["child"]}).add_edge(START, "say")
    memory = child.compile(checkpointer=True)

    async def call(state: State) -> Any:
        return {"log": [str(len((await memory.ainvoke({"log": ["turn"]}))["log"])) for _ in range(calls)]}

    app = StateGraph(State).add_node("call", call).add_edge(START, "call").compile(Counting())
    for turn in range(1, 31):
        looked.clear()
        last = run.invoke(app, {"log": []}, thread)["log"][-1]
        assert last == str(2 * turn * calls)  # what it said before is there
        assert sum(looked) <= 45, looked  # a page at most, not the 120 checkpoints it has in the end
