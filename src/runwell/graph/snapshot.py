"""A thread's state as a caller sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from runwell.graph.nesting import children_of
from runwell.ports.command import Interrupt
from runwell.ports.saver import Checkpoint, TaskRecord

__all__ = ["PregelTask", "StateSnapshot", "snapshot_of"]


@dataclass(slots=True)
class PregelTask:
    """A task of the step that comes next: its error or open questions, if it has been tried.

    `state` is how a graph inside it stands: its config, or with `get_state(..., subgraphs=True)` its `StateSnapshot`;
    None where there is none, or it has not begun.
    """

    id: str
    name: str
    error: str | None = None
    interrupts: tuple[Interrupt, ...] = ()
    state: StateSnapshot | dict[str, Any] | None = None


@dataclass(slots=True)
class StateSnapshot:
    """`values` as of a checkpoint, the names of the nodes that come `next` (none: finished), and open `interrupts`.

    `config` names this very checkpoint: pass it to `invoke`, `update_state` or `get_state` to go on from there.
    """

    values: dict[str, Any]
    next: tuple[str, ...]
    config: dict[str, Any]
    metadata: dict[str, Any] | None = None
    created_at: str | None = None
    parent_config: dict[str, Any] | None = None
    tasks: tuple[PregelTask, ...] = ()
    interrupts: tuple[Interrupt, ...] = field(default=())


class _SavedSnapshot(StateSnapshot):
    """Of a saved checkpoint: a field is worked out when it is first asked for, since a listing has many and uses few.

    What is not there yet is a slot without a value, which is when Python asks `__getattr__`.
    """

    __slots__ = ("_checkpoint", "_shown")
    _checkpoint: Checkpoint
    _shown: frozenset[str] | None
    __hash__ = None  # type: ignore[assignment]  # as of any snapshot

    def __getattr__(self, name: str) -> Any:
        work = _FIELDS.get(name)
        if work is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = work(self, self._checkpoint)
        setattr(self, name, value)
        return value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StateSnapshot):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _FIELDS)

    def __reduce__(self) -> Any:
        return StateSnapshot, tuple(getattr(self, name) for name in _FIELDS)


def config_of(thread_id: str, ns: str, checkpoint_id: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}}


def open_questions(record: TaskRecord) -> tuple[Interrupt, ...]:
    """A task's questions that nobody has answered."""
    return tuple(question for question in record.interrupts if f"answer/{question.id}" not in record.records)


def _inside(checkpoint: Checkpoint, record: TaskRecord | None) -> dict[str, Any] | None:
    """Where the graph that a task called stands; of several the last one called."""
    called = list(children_of(record).items()) if record is not None else []
    return config_of(checkpoint.thread_id, *called[-1]) if called else None


def snapshot_of(checkpoint: Checkpoint, output: frozenset[str] | None) -> StateSnapshot:
    """The snapshot of a saved checkpoint, with the channels named in `output` (None: all)."""
    snapshot = _bare(_SavedSnapshot)
    snapshot._checkpoint = checkpoint
    snapshot._shown = output
    return snapshot


def _values(snapshot: _SavedSnapshot, checkpoint: Checkpoint) -> dict[str, Any]:
    shown = snapshot._shown
    return {name: value for name, value in checkpoint.values.items() if shown is None or name in shown}


def _tasks(_: StateSnapshot, checkpoint: Checkpoint) -> tuple[PregelTask, ...]:
    records = {record.task_id: record for record in checkpoint.tasks}
    planned = {task.id: task.node for task in checkpoint.next}
    for record in checkpoint.tasks:  # a task behind steps that were not worth a checkpoint
        planned.setdefault(record.task_id, record.node)
    tasks = []
    for task_id, node in planned.items():
        known = records.get(task_id)
        if known is None:
            tasks.append(PregelTask(task_id, node))
        elif not known.done:
            inside = _inside(checkpoint, known)
            tasks.append(PregelTask(task_id, node, known.error, open_questions(known), inside))
    return tuple(tasks)


def _parent_config(_: StateSnapshot, checkpoint: Checkpoint) -> dict[str, Any] | None:
    parent = checkpoint.parent_id
    return config_of(checkpoint.thread_id, checkpoint.ns, parent) if parent else None


_bare = object.__new__
_SavedSnapshot.__qualname__ = StateSnapshot.__qualname__  # nobody needs to know, so it prints as any other
_FIELDS: dict[str, Callable[[_SavedSnapshot, Checkpoint], Any]] = {
    "values": _values,
    "next": lambda _, checkpoint: tuple(dict.fromkeys(task.node for task in checkpoint.next)),
    "config": lambda _, checkpoint: config_of(checkpoint.thread_id, checkpoint.ns, checkpoint.id),
    "metadata": lambda _, it: {**it.metadata, "source": it.source, "step": it.step},
    "created_at": lambda _, checkpoint: datetime.fromtimestamp(checkpoint.created_at, UTC).isoformat(),
    "parent_config": _parent_config,
    "tasks": _tasks,
    "interrupts": lambda snapshot, _: tuple(question for task in snapshot.tasks for question in task.interrupts),
}
