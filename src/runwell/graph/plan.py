"""The planner: pure functions from a checkpoint and its tasks' results to the next checkpoint's values and tasks.

No I/O, no user code but reducers. The engine (`engine.py`) runs tasks and saves; what follows from what is decided
here, the same whatever the order in which tasks ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runwell.errors import InvalidUpdateError, nearest
from runwell.graph.schema import Channel
from runwell.ports.command import END, Overwrite, Send
from runwell.ports.saver import GONE, PlannedTask

__all__ = [
    "JUMP",
    "ROUTE",
    "Blueprint",
    "Join",
    "Write",
    "apply_writes",
    "changed_values",
    "plan_tasks",
    "put_off",
    "routes_of",
]

Write = tuple[str, Any]
"""A channel and what is written to it; or `ROUTE` and a target."""

ROUTE = "__route__"
"""Instead of a channel: a target that a conditional edge chose."""
JUMP = "__goto__"
"""Instead of a channel: a target of `Command(goto=...)`, which replaces the node's edges."""


@dataclass(slots=True, frozen=True)
class Join:
    """`target` runs once all of `sources` have ended."""

    name: str
    sources: frozenset[str]
    target: str


@dataclass(slots=True)
class Blueprint:
    """What the planner needs of a compiled graph."""

    channels: dict[str, Channel]
    edges: dict[str, tuple[str, ...]] = field(default_factory=dict)
    joins: tuple[Join, ...] = ()
    deferred: frozenset[str] = frozenset()


def apply_writes(
    channels: Mapping[str, Channel], values: dict[str, Any], writes: Iterable[tuple[str, Sequence[Write]]]
) -> dict[str, tuple[Any, Any]]:
    """What changes when tasks' writes, given as (node, writes) in task order, meet `values`.

    Gives channel -> (old, new), `GONE` for none; `values` itself is left alone. Two writes to a channel without reducer
    in one step raise `InvalidUpdateError` naming both nodes, as does an unknown channel.
    """
    changes: dict[str, tuple[Any, Any]] = {}
    writer: dict[str, str] = {}
    for node, pairs in writes:
        for name, value in pairs:
            channel = channels.get(name)
            if channel is None:
                if name in (ROUTE, JUMP):
                    continue
                raise InvalidUpdateError(
                    f"Node {node!r} wrote to {name!r}, which is not a key of the state{nearest(name, channels)}.",
                    hint=f"The state has {sorted(channels)}; add the key to the schema or correct the name.",
                )
            old = changes[name][0] if name in changes else values.get(name, GONE)
            if type(value) is Overwrite:
                changes[name] = (old, value.value)
            elif channel.reducer is not None:
                changes[name] = (old, _reduced(channel, changes[name][1] if name in changes else old, value))
            else:
                if name in writer:
                    raise InvalidUpdateError(
                        f"Nodes {writer[name]!r} and {node!r} both wrote {name!r} in one step.",
                        hint=f"Give {name!r} a reducer (Annotated[..., reducer]), or let only one of them write it.",
                    )
                changes[name] = (old, value)
            writer[name] = node
    return changes


def changed_values(values: dict[str, Any], changes: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    """`values` with `changes` made: a new dict."""
    after = dict(values)
    for name, (_, new) in changes.items():
        if new is GONE:
            after.pop(name, None)
        else:
            after[name] = new
    return after


def _reduced(channel: Channel, current: Any, value: Any) -> Any:
    reducer = channel.reducer
    assert reducer is not None
    if current is GONE:
        try:
            current = channel.empty()
        except TypeError:  # a type without an empty value: the first write is the value
            return value
    return reducer(current, value)


def routes_of(blueprint: Blueprint, node: str, writes: Sequence[Write]) -> tuple[list[str | Send], bool]:
    """Where a task leads, and whether by its edges: a jump replaces them."""
    jumps = [target for name, target in writes if name == JUMP]
    if jumps:
        return jumps, False
    return [*blueprint.edges.get(node, ()), *(target for name, target in writes if name == ROUTE)], True


def plan_tasks(
    blueprint: Blueprint,
    step: int,
    ended: Iterable[tuple[str, Sequence[Write]]],
    joins: Mapping[str, Sequence[str]],
    waiting: Sequence[PlannedTask] = (),
) -> tuple[list[PlannedTask], dict[str, list[str]]]:
    """The tasks of step `step`, and the joins' progress, after tasks `ended` as (node, writes) in task order.

    A node reached by several tasks runs once; every `Send` is a task of its own. `waiting` are deferred tasks put
    off so far; they run once nothing else is left.
    """
    tasks: dict[str, PlannedTask] = {}
    progress = {name: list(sources) for name, sources in joins.items()}

    def add(node: str) -> None:
        if node != END:
            tasks.setdefault(node, PlannedTask(f"{step}:{node}", node))

    sends = 0
    for node, writes in ended:
        targets, by_edges = routes_of(blueprint, node, writes)
        for target in targets:
            if isinstance(target, Send):
                tasks[f"{sends} {target.node}"] = PlannedTask(
                    f"{step}:{target.node}:{sends}", target.node, True, target.arg
                )
                sends += 1
            else:
                add(target)
        if by_edges:
            for join in blueprint.joins:
                if node in join.sources:
                    seen = progress.setdefault(join.name, [])
                    if node not in seen:
                        seen.append(node)
                    if len(seen) == len(join.sources):
                        del progress[join.name]
                        add(join.target)
    for task in waiting:
        tasks.setdefault(task.node, PlannedTask(f"{step}:{task.node}", task.node))
    return list(tasks.values()), progress


def put_off(blueprint: Blueprint, tasks: list[PlannedTask]) -> tuple[list[PlannedTask], list[PlannedTask]]:
    """Split into (run now, wait): deferred nodes wait while anything else is planned."""
    if not blueprint.deferred:
        return tasks, []
    now = [task for task in tasks if task.node not in blueprint.deferred]
    return (now, [task for task in tasks if task.node in blueprint.deferred]) if now else (tasks, [])
