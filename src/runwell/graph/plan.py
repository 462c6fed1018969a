"""The planner: pure functions from a checkpoint and its tasks' results to the next checkpoint's values and tasks.

No I/O, no user code but reducers. The engine (`engine.py`) runs tasks and saves; what follows from what is decided
here, the same whatever the order in which tasks ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from runwell.errors import InvalidUpdateError, nearest
from runwell.graph.schema import Channel
from runwell.graph.spent import USED
from runwell.ports.command import END, Overwrite, Send
from runwell.ports.saver import GONE, PlannedTask

__all__ = [
    "BESIDE_STATE",
    "JUMP",
    "NO_JOINS",
    "ROUTE",
    "Blueprint",
    "Join",
    "Write",
    "apply_step",
    "apply_writes",
    "changed_values",
    "plan_tasks",
    "put_off",
    "routes_of",
    "tasks_to",
]

NO_JOINS: Final[Mapping[str, Sequence[str]]] = {}
"""The progress of the joins of a graph that has none: one for all runs."""

Write = tuple[str, Any]
"""A channel and what is written to it; or `ROUTE` and a target."""

ROUTE = "__route__"
"""Instead of a channel: a target that a conditional edge chose."""
JUMP = "__goto__"
"""Instead of a channel: a target of `Command(goto=...)`, which replaces the node's edges."""
LEADS = frozenset({ROUTE, JUMP})
BESIDE_STATE = LEADS | {USED}
"""What a write may go to that is no key of the state."""


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
    fleeting: frozenset[str] = frozenset()
    """Channels whose values are gone after the step that follows the one that wrote them."""


def apply_writes(
    channels: Mapping[str, Channel], values: dict[str, Any], writes: Sequence[tuple[str, Sequence[Write]]]
) -> dict[str, tuple[Any, Any]]:
    """What changes when tasks' writes, given as (node, writes) in task order, meet `values`.

    Gives channel -> (old, new), `GONE` for none; `values` itself is left alone. Two tasks that replace one value in a
    step raise `InvalidUpdateError` naming both nodes, as does an unknown channel. Within one task the last one stands.
    """
    changes: dict[str, tuple[Any, Any]] = {}
    writer: dict[str, tuple[int, str]] | None = {} if len(writes) > 1 else None
    for task, (node, pairs) in enumerate(writes):
        for name, value in pairs:
            channel = channels.get(name)
            if channel is None:
                if name in LEADS or name == USED:
                    continue
                raise InvalidUpdateError(
                    f"Node {node!r} wrote to {name!r}, which is not a key of the state{nearest(name, channels)}.",
                    hint=f"The state has {sorted(channels)}; add the key to the schema or correct the name.",
                )
            if name in changes:
                old, now = changes[name]
            else:
                old = now = values.get(name, GONE)
            if channel.reducer is not None and type(value) is not Overwrite:
                try:
                    changes[name] = (old, channel.reducer(now, value) if now is not GONE else channel.begun(value))
                except Exception as error:
                    error.add_note(f"in the reducer of {name!r}, which node {node!r} wrote")
                    raise
                continue
            if writer is not None and (first := writer.setdefault(name, (task, node)))[0] != task:
                raise _two_writers(name, first[1], node, channel)
            changes[name] = (old, value.value if type(value) is Overwrite else value)
    return changes


def apply_step(
    blueprint: Blueprint, values: dict[str, Any], writes: Sequence[tuple[str, Sequence[Write]]]
) -> dict[str, tuple[Any, Any]]:
    """`apply_writes` for a whole step, after which fleeting values that were there before it are gone."""
    if not blueprint.fleeting:
        return apply_writes(blueprint.channels, values, writes)
    old = {name: values[name] for name in blueprint.fleeting if name in values}
    kept = {name: value for name, value in values.items() if name not in old}
    changes = apply_writes(blueprint.channels, kept, writes)
    for name, value in old.items():
        changes[name] = (value, changes[name][1] if name in changes else GONE)
    return changes


def _two_writers(name: str, first: str, second: str, channel: Channel) -> InvalidUpdateError:
    who = f"Nodes {first!r} and {second!r} both" if first != second else f"Two tasks of node {first!r}"
    if channel.reducer is None:
        hint = f"Give {name!r} a reducer (Annotated[..., reducer]), or let only one of them write it."
    else:
        hint = f"Let only one of them Overwrite {name!r} in a step."
    return InvalidUpdateError(f"{who} wrote {name!r} in one step.", hint=hint)


def changed_values(values: dict[str, Any], changes: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    """`values` with `changes` made: a new dict."""
    after = dict(values)
    for name, (_, new) in changes.items():
        after[name] = new
        if new is GONE:
            del after[name]
    return after


def routes_of(blueprint: Blueprint, node: str, writes: Sequence[Write]) -> tuple[Sequence[str | Send], bool]:
    """Where a task leads, and whether by its edges: a jump replaces them."""
    edges = blueprint.edges.get(node, ())
    for name, _ in writes:
        if name in LEADS:
            break
    else:
        return edges, True
    jumps = [target for name, target in writes if name == JUMP]
    if jumps:
        return jumps, False
    return [*edges, *(target for name, target in writes if name == ROUTE)], True


def tasks_to(step: int, targets: Sequence[str | Send]) -> list[PlannedTask]:
    """The tasks that targets make of step `step`: a node named several times runs once, every `Send` is its own."""
    if len(targets) == 1:  # the usual case, in short
        target = targets[0]
        if type(target) is str:
            return [PlannedTask(f"{target}:{step}", target)] if target != END else []
        assert isinstance(target, Send)
        return [PlannedTask(f"{target.node}:{step}:0", target.node, True, target.arg)]
    tasks: dict[str | int, PlannedTask] = {}
    _add(tasks, step, targets)
    return list(tasks.values())


def _add(tasks: dict[str | int, PlannedTask], step: int, targets: Sequence[str | Send]) -> None:
    """Add to `tasks`, where a node's own task is under its name, and Sends are under their numbers."""
    for target in targets:
        if isinstance(target, Send):
            number, node = len(tasks), target.node
            tasks[number] = PlannedTask(f"{node}:{step}:{number}", node, True, target.arg)
        elif target not in tasks and target != END:
            tasks[target] = PlannedTask(f"{target}:{step}", target)


def plan_tasks(
    blueprint: Blueprint,
    step: int,
    ended: Sequence[tuple[str, Sequence[Write]]],
    joins: Mapping[str, Sequence[str]],
    waiting: Sequence[PlannedTask] = (),
) -> tuple[list[PlannedTask], Mapping[str, Sequence[str]]]:
    """The tasks of step `step`, and the joins' progress, after tasks `ended` as (node, writes) in task order.

    A node reached by several tasks runs once; every `Send` is a task of its own. `waiting` are deferred tasks put
    off so far; they run once nothing else is left.
    """
    if len(ended) == 1 and not blueprint.joins and not waiting:  # the usual case, in short
        return tasks_to(step, routes_of(blueprint, *ended[0])[0]), NO_JOINS
    tasks: dict[str | int, PlannedTask] = {}
    progress = {name: list(sources) for name, sources in joins.items()}
    left: list[str] = []  # a node that ended in several tasks counts once for a join, in whatever order they stand

    for node, writes in ended:
        targets, by_edges = routes_of(blueprint, node, writes)
        _add(tasks, step, targets)
        if by_edges and blueprint.joins and node not in left:
            left.append(node)
    for join in blueprint.joins:
        seen = progress.get(join.name, [])
        seen = [*seen, *(node for node in left if node in join.sources and node not in seen)]
        if len(seen) == len(join.sources):
            progress.pop(join.name, None)
            _add(tasks, step, (join.target,))
        elif seen:
            progress[join.name] = seen
    _add(tasks, step, [Send(task.node, task.arg) if task.sent else task.node for task in waiting])
    return list(tasks.values()), progress


def put_off(blueprint: Blueprint, tasks: list[PlannedTask]) -> tuple[list[PlannedTask], list[PlannedTask]]:
    """Split into (run now, wait): deferred nodes wait while anything else is planned."""
    if not blueprint.deferred:
        return tasks, []
    now = [task for task in tasks if task.node not in blueprint.deferred]
    return (now, [task for task in tasks if task.node in blueprint.deferred]) if now else (tasks, [])
