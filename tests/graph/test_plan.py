"""The planner alone: what follows from a step does not depend on who ended first, and nothing is applied twice."""

from __future__ import annotations

import asyncio
import copy
import operator
from collections import Counter
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runwell.errors import GraphRecursionError, InvalidUpdateError
from runwell.graph import END, START, Command, Overwrite, Send, StateGraph
from runwell.graph.plan import (
    JUMP,
    ROUTE,
    Blueprint,
    Join,
    apply_step,
    apply_writes,
    changed_values,
    plan_tasks,
    put_off,
)
from runwell.graph.schema import Channel
from runwell.persistence import InMemorySaver
from runwell.ports.saver import GONE, PlannedTask
from runwell.testing.colours import AsyncCalls, SyncCalls

NAMES = ["a", "b", "c", "d", "0 a"]
CHANNELS = {
    "log": Channel("log", list[Any], operator.add),
    "sum": Channel("sum", int, operator.add),
    "last": Channel("last", str),
}

targets = st.one_of(
    st.sampled_from([*NAMES, END]), st.builds(Send, st.sampled_from(NAMES), st.integers(min_value=0, max_value=99))
)
writes = st.lists(
    st.one_of(
        st.tuples(st.just("log"), st.lists(st.integers(), max_size=3)),
        st.tuples(st.just("sum"), st.integers(-5, 5)),
        st.tuples(st.just("log"), st.builds(Overwrite, st.lists(st.integers(), max_size=2))),
        st.tuples(st.just(ROUTE), targets),
        st.tuples(st.just(JUMP), targets),
    ),
    max_size=5,
)
steps = st.lists(st.tuples(st.sampled_from(NAMES), writes), max_size=6).map(
    lambda tasks: [
        # at most one task of a step replaces a value: two are an error of their own
        (node, [w for w in pairs if not (type(w[1]) is Overwrite and (at or pairs.index(w) != _first(pairs)))])
        for at, (node, pairs) in enumerate(tasks)
    ]
)


def _first(pairs: list[Any]) -> int:
    return next(at for at, (_, value) in enumerate(pairs) if type(value) is Overwrite)


@st.composite
def joins(draw: st.DrawFn) -> tuple[Join, ...]:
    made = []
    for at in range(draw(st.integers(0, 3))):
        sources = draw(st.frozensets(st.sampled_from(NAMES), min_size=2))
        made.append(Join(f"j{at}", sources, draw(st.sampled_from([*NAMES, END]))))
    return tuple(made)


blueprints = st.builds(
    Blueprint,
    st.just(CHANNELS),
    st.dictionaries(
        st.sampled_from(NAMES), st.lists(st.sampled_from([*NAMES, END]), unique=True, max_size=3).map(tuple)
    ),
    joins(),
    st.frozensets(st.sampled_from(NAMES), max_size=2),
)
values = st.fixed_dictionaries(
    {}, optional={"log": st.lists(st.integers(), max_size=3), "sum": st.integers(-5, 5), "last": st.text(max_size=3)}
)


# -- writes


@given(values, steps)
def test_applying_writes_changes_nothing_that_was_given_and_always_gives_the_same(before: Any, step: Any) -> None:
    kept, told = copy.deepcopy(before), copy.deepcopy(step)
    first = apply_writes(CHANNELS, before, step)
    assert apply_writes(CHANNELS, before, step) == first
    assert (before, step) == (kept, told)


@given(values, steps)
def test_every_write_is_applied_exactly_once_in_task_order(before: Any, step: Any) -> None:
    after = changed_values(before, apply_writes(CHANNELS, before, step))
    log, total = list(before.get("log", [])), before.get("sum", 0)
    for _, pairs in step:
        for name, value in pairs:
            if name == "log":
                log = list(value.value) if type(value) is Overwrite else log + value
            elif name == "sum":
                total += value
    written = {name for _, pairs in step for name, _ in pairs} & CHANNELS.keys()
    expected = dict(before)
    if "log" in written:
        expected["log"] = log
    if "sum" in written:
        expected["sum"] = total
    assert after == expected


@given(values, steps)
def test_changes_hold_the_old_and_the_new_of_written_channels_only(before: Any, step: Any) -> None:
    changes = apply_writes(CHANNELS, before, step)
    assert changes.keys() == {name for _, pairs in step for name, _ in pairs} & CHANNELS.keys()
    for name, (old, new) in changes.items():
        assert old is before.get(name, GONE)
        assert new is not GONE


@given(blueprints, values, steps, st.randoms(use_true_random=False))
def test_another_order_of_tasks_leads_to_the_same_nodes_joins_and_totals(
    blueprint: Any, before: Any, step: Any, random: Any
) -> None:
    """Task order settles how a list is put together and how Sends are numbered, and nothing else."""
    step = [(node, [(name, value) for name, value in pairs if type(value) is not Overwrite]) for node, pairs in step]
    other = random.sample(step, len(step))
    one, two = (changed_values(before, apply_writes(CHANNELS, before, each)) for each in (step, other))
    assert one.get("sum") == two.get("sum")
    assert sorted(one.get("log", [])) == sorted(two.get("log", []))
    (tasks, joins), (shuffled, others) = (plan_tasks(blueprint, 1, each, {}) for each in (step, other))
    assert Counter((t.node, t.sent, t.arg) for t in tasks) == Counter((t.node, t.sent, t.arg) for t in shuffled)
    assert {name: set(got) for name, got in joins.items()} == {name: set(got) for name, got in others.items()}


@given(values, steps, st.frozensets(st.sampled_from(sorted(CHANNELS))))
def test_a_fleeting_value_is_gone_after_the_step_that_follows_the_one_that_wrote_it(
    before: Any, step: Any, fleeting: Any
) -> None:
    kept = copy.deepcopy(before)
    after = changed_values(before, apply_step(Blueprint(CHANNELS, fleeting=fleeting), before, step))
    lasting = {name: value for name, value in before.items() if name not in fleeting}
    assert after == changed_values(lasting, apply_writes(CHANNELS, lasting, step))
    assert before == kept


def test_graph_two_writers_of_a_plain_key_are_both_named() -> None:
    with pytest.raises(InvalidUpdateError, match=r"'left' and 'right' both wrote 'last'.*(?s:.)*reducer"):
        apply_writes(CHANNELS, {}, [("left", [("last", "x")]), ("right", [("last", "y")])])


@pytest.mark.parametrize("key", ["last", "log"])
def test_two_replacements_of_one_value_in_a_step_are_refused(key: str) -> None:
    both = [("left", [(key, Overwrite(["x"]))]), ("right", [(key, Overwrite(["y"]))])]
    with pytest.raises(InvalidUpdateError, match=r"'left' and 'right'"):
        apply_writes(CHANNELS, {}, both)


def test_two_tasks_of_one_node_that_write_a_plain_key_are_refused() -> None:
    with pytest.raises(InvalidUpdateError, match="Two tasks of node 'w' wrote 'last'"):
        apply_writes(CHANNELS, {}, [("w", [("last", "x")]), ("w", [("last", "y")])])


def test_within_one_task_the_last_write_stands() -> None:
    """A node's list of updates, and an agent's hooks that share a step, follow each other."""
    written = [("w", [("last", "x"), ("last", "y"), ("log", Overwrite([1])), ("log", Overwrite([2])), ("log", [3])])]
    assert apply_writes(CHANNELS, {"log": [0]}, written) == {"last": (GONE, "y"), "log": ([0], [2, 3])}


# -- what comes next


@given(blueprints, steps)
def test_planning_is_deterministic_and_leaves_its_input_alone(blueprint: Any, step: Any) -> None:
    progress = {join.name: sorted(join.sources)[:1] for join in blueprint.joins[:1]}
    kept = copy.deepcopy((step, progress))
    first = plan_tasks(blueprint, 3, step, progress)
    assert plan_tasks(blueprint, 3, step, progress) == first
    assert (step, progress) == kept


@given(blueprints, steps)
def test_ids_are_unique_and_name_the_step_and_node(blueprint: Any, step: Any) -> None:
    tasks, _ = plan_tasks(blueprint, 7, step, {})
    assert len({task.id for task in tasks}) == len(tasks)
    assert all(task.id.split(":")[:2] == [task.node, "7"] for task in tasks)
    assert all(task.node != END for task in tasks)


@given(blueprints, st.sampled_from(NAMES), writes)
def test_the_short_way_of_a_lone_task_plans_what_the_long_way_does(blueprint: Any, node: str, pairs: Any) -> None:
    """A join whose sources never run changes nothing, but keeps the planner from its short way."""
    blueprint.joins = ()
    short = plan_tasks(blueprint, 4, [(node, pairs)], {})
    blueprint.joins = (Join("never", frozenset(("x", "y")), "a"),)
    assert plan_tasks(blueprint, 4, [(node, pairs)], {}) == short


def routes(blueprint: Blueprint, step: Any) -> tuple[set[str], list[Send]]:
    """Nodes and Sends a step leads to, joins aside: a jump replaces the edges of its task."""
    nodes: set[str] = set()
    sends: list[Send] = []
    for node, pairs in step:
        jumps = [value for name, value in pairs if name == JUMP]
        led = jumps or [*blueprint.edges.get(node, ()), *(value for name, value in pairs if name == ROUTE)]
        nodes |= {one for one in led if isinstance(one, str) and one != END}
        sends += [one for one in led if isinstance(one, Send)]
    return nodes, sends


@given(blueprints, steps)
def test_each_send_is_one_task_and_a_node_reached_twice_is_one(blueprint: Any, step: Any) -> None:
    tasks, _ = plan_tasks(blueprint, 1, step, {})
    nodes, sends = routes(blueprint, step)
    assert [(task.node, task.arg) for task in tasks if task.sent] == [(send.node, send.arg) for send in sends]
    plain = [task.node for task in tasks if not task.sent]
    assert len(plain) == len(set(plain))
    fired = {join.target for join in blueprint.joins} - {END}
    assert nodes <= set(plain) <= nodes | fired


@given(blueprints, steps)
def test_graph_01_a_jump_replaces_the_edges_of_its_task_and_feeds_no_join(blueprint: Any, step: Any) -> None:
    jumping = [(node, [*pairs, (JUMP, END)]) for node, pairs in step]
    tasks, progress = plan_tasks(blueprint, 1, jumping, {})
    wanted = Counter(
        (target.node if isinstance(target, Send) else target)
        for _, pairs in jumping
        for name, target in pairs
        if name == JUMP
    )
    assert {task.node for task in tasks} == wanted.keys() - {END}
    assert progress == {}


@given(blueprints, st.lists(st.lists(st.sampled_from(NAMES), max_size=4), max_size=6))
def test_a_join_fires_exactly_once_each_time_all_its_sources_have_ended(blueprint: Any, run: Any) -> None:
    blueprint.edges = {}
    progress: dict[str, list[str]] = {}
    seen: dict[str, set[str]] = {join.name: set() for join in blueprint.joins}
    for number, nodes in enumerate(run):
        tasks, progress = plan_tasks(blueprint, number, [(node, []) for node in nodes], progress)
        fired = set()
        for join in blueprint.joins:
            seen[join.name] |= join.sources & set(nodes)
            if seen[join.name] == join.sources:
                seen[join.name] = set()
                fired.add(join.target)
        assert [task.node for task in tasks if not task.sent] == list(dict.fromkeys(task.node for task in tasks))
        assert {task.node for task in tasks} == fired - {END}
        assert {name: set(got) for name, got in progress.items()} == {k: v for k, v in seen.items() if v}


@given(blueprints, steps)
def test_deferred_nodes_run_last_and_none_is_lost(blueprint: Any, step: Any) -> None:
    planned, _ = plan_tasks(blueprint, 1, step, {})
    now, waiting = put_off(blueprint, planned)
    assert sorted(task.id for task in [*now, *waiting]) == sorted(task.id for task in planned)
    assert not waiting or not any(task.node in blueprint.deferred for task in now)
    assert all(task.node in blueprint.deferred for task in waiting)
    again, _ = plan_tasks(blueprint, 2, [], {}, waiting)
    assert [(task.node, task.sent, task.arg) for task in again] == [(t.node, t.sent, t.arg) for t in waiting]
    assert put_off(blueprint, again) == (again, [])


def test_a_node_whose_name_looks_like_a_sends_key_is_not_taken_for_it() -> None:
    tasks, _ = plan_tasks(Blueprint(CHANNELS, {"d": ("0 a",)}), 1, [("d", [(ROUTE, Send("a", 5))])], {})
    assert [(task.node, task.arg) for task in tasks] == [("0 a", None), ("a", 5)]


def test_a_deferred_node_that_was_sent_an_argument_still_has_it_when_it_runs() -> None:
    blueprint = Blueprint(CHANNELS, deferred=frozenset("d"))
    waiting = [PlannedTask("1:d:0", "d", True, 5), PlannedTask("1:d:1", "d", True, 6), PlannedTask("1:d", "d")]
    again, _ = plan_tasks(blueprint, 2, [("a", [(ROUTE, Send("b", 7))])], {}, waiting)
    assert [(t.node, t.sent, t.arg) for t in again] == [
        ("b", True, 7),
        ("d", True, 5),
        ("d", True, 6),
        ("d", False, None),
    ]
    assert len({task.id for task in again}) == 4


# -- runs by the planner alone


def next_of(blueprint: Blueprint, number: int, at: Any, wishes: Any) -> Any:
    """One step from (values, tasks, joins): each task logs its own id once, and leads where it wishes."""
    values, planned, joins = at
    now, waiting = put_off(blueprint, planned)
    done = [(task.node, [("log", [task.id]), ("sum", 1), *wishes.get((task.node, number % 3), ())]) for task in now]
    after = changed_values(values, apply_step(blueprint, values, done))
    return (after, *plan_tasks(blueprint, number + 1, done, joins, waiting)), now, waiting


wishes_of_runs = st.dictionaries(
    st.tuples(st.sampled_from(NAMES), st.integers(0, 2)),
    st.lists(st.tuples(st.sampled_from([ROUTE, JUMP]), targets), max_size=2),
)


@given(blueprints, wishes_of_runs, steps)
def test_every_task_of_a_run_is_applied_exactly_once_and_any_step_leads_on_alike(
    blueprint: Any, wishes: Any, first: Any
) -> None:
    at: Any = ({}, *plan_tasks(blueprint, 1, first, {}))
    ran: list[str] = []
    owed = Counter((task.node, task.sent, task.arg) for task in at[1])
    for number in range(1, 8):
        kept = copy.deepcopy(at)
        following, now, waiting = next_of(blueprint, number, at, wishes)
        assert at == kept, "what stands on record is left alone"
        again, *_ = next_of(blueprint, number, copy.deepcopy(at), wishes)
        assert again == following, "taken up from the record it goes on alike"
        assert Counter((t.node, t.sent, t.arg) for t in [*now, *waiting]) == owed, "planned is run or put off"
        ran += [task.id for task in now]
        assert following[0].get("log", []) == ran
        assert following[0].get("sum", 0) == len(ran)
        assert len(set(ran)) == len(ran)
        planned = Counter((task.node, task.sent, task.arg) for task in following[1])
        assert not Counter((t.node, t.sent, t.arg) for t in waiting) - planned, "what was put off is not lost"
        at, owed = following, planned
        if not following[1] or len(following[1]) > 60:
            break


# -- whole graphs, in both colours


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    sum: Annotated[int, operator.add]


class Shape(TypedDict):
    """How a random graph's node behaves: what it leads to, by how much has happened so far."""

    colour: str
    edges: list[str]
    choices: list[Any]
    jump: bool
    defer: bool


shapes = st.fixed_dictionaries(
    {
        "colour": st.sampled_from(["plain", "async"]),
        "edges": st.lists(st.sampled_from(["n0", "n1", "n2", "n3", END]), unique=True, max_size=1),
        "choices": st.lists(
            st.lists(
                st.one_of(
                    st.sampled_from(["n0", "n1", "n2", "n3", END]),
                    st.tuples(st.sampled_from(["n0", "n1", "n2", "n3"]), st.integers(0, 9)),
                ),
                min_size=1,
                max_size=2,
            ),
            max_size=3,
        ),
        "jump": st.booleans(),
        "defer": st.booleans(),
    }
)


def chosen(choices: list[Any], amount: int) -> list[Any]:
    """What to do next: for ever the last choice once the others are used up."""
    led = choices[min(amount, len(choices) - 1)]
    return [Send(one[0], {"sum": one[1]}) if isinstance(one, tuple) else one for one in led]


def built(made: list[Shape], join: Any) -> Any:
    graph = StateGraph(State)
    for at, shape in enumerate(made):
        name = f"n{at}"

        def plain(state: State, name: str = name, shape: Shape = shape) -> Any:
            update = {"log": [f"{name} of {state.get('sum')}"], "sum": 1}
            if shape["jump"] and shape["choices"]:
                return Command(update=update, goto=chosen(shape["choices"], state.get("sum", 0)))
            return update

        async def later(state: State, plain: Any = plain) -> Any:
            return plain(state)

        graph.add_node(name, later if shape["colour"] == "async" else plain, defer=shape["defer"])
        for end in shape["edges"]:
            graph.add_edge(name, end)
        if shape["choices"] and not shape["jump"]:
            graph.add_conditional_edges(name, lambda s, c=shape["choices"]: chosen(c, s.get("sum", 0)))
    graph.add_edge(START, "n0").add_edge(START, "n1")
    if join is not None:
        graph.add_edge(*join)
    return graph


async def read(app: Any, config: Any, colour: str) -> list[Any]:
    """What a run streams up to its end or its step limit."""
    items: list[Any] = []
    try:
        if colour == "async":
            async for item in app.astream(dict(INPUT), config, stream_mode=["updates", "values"]):
                items.append(item)
        else:
            for item in app.stream(dict(INPUT), config, stream_mode=["updates", "values"]):
                items.append(item)
    except GraphRecursionError as error:
        items.append(("error", str(error)))
    return items


INPUT: State = {"log": [], "sum": 0}


def outcome(run: Any, graph: Any) -> Any:
    """All that a caller can see of a run: its end, its history, its streams with each step's updates as a set."""
    app = graph.compile(InMemorySaver())
    config = {"configurable": {"thread_id": "t"}, "recursion_limit": 7}
    try:
        end: Any = run.invoke(app, dict(INPUT), config)
    except GraphRecursionError as error:
        end = str(error)
    history = [(s.values, s.next, s.metadata["step"], s.metadata["source"]) for s in run.history(app, config)]
    streamed: list[Any] = [[]]
    for item in asyncio.run(read(app, {"configurable": {"thread_id": "u"}, "recursion_limit": 7}, run.name)):
        if item[0] == "updates":  # of one step they come as its tasks end
            streamed[-1] = sorted([*streamed[-1], repr(item[1])])
        else:
            streamed += [item, []]
    return end, history, streamed


@settings(max_examples=60, deadline=None)
@given(
    st.lists(shapes, min_size=4, max_size=4),
    st.one_of(st.none(), st.tuples(st.sampled_from([["n0", "n1"], ["n1", "n2", "n3"]]), st.sampled_from(["n2", "n3"]))),
)
def test_random_graphs_do_the_same_in_both_colours_every_time(made: Any, join: Any) -> None:
    for at, shape in enumerate(made):  # every node can be reached; what is reached is up to the choices
        if at < 3 and f"n{at + 1}" not in shape["edges"]:
            shape["edges"] = [*shape["edges"], f"n{at + 1}"]
    first = outcome(SyncCalls(), built(made, join))
    assert outcome(AsyncCalls(), built(made, join)) == first
    assert outcome(SyncCalls(), built(made, join)) == first
