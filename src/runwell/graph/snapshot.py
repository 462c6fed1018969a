"""A thread's state as a caller sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from runwell.graph.nesting import children_of
from runwell.ports.command import Interrupt
from runwell.ports.saver import Checkpoint, TaskRecord
from runwell.ports.worked_out import WorkedOut

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


def config_of(thread_id: str, ns: str, checkpoint_id: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}}


def open_questions(record: TaskRecord) -> tuple[Interrupt, ...]:
    """A task's questions that nobody has answered."""
    return tuple(question for question in record.interrupts if f"answer/{question.id}" not in record.records)


def _inside(checkpoint: Checkpoint, record: TaskRecord | None) -> dict[str, Any] | None:
    """Where the graph that a task called stands; of several the last one called."""
    called = list(children_of(record).items()) if record is not None else []
    return config_of(checkpoint.thread_id, *called[-1]) if called else None


class _SavedSnapshot(WorkedOut, StateSnapshot):
    """Of a saved checkpoint."""

    __slots__ = ("_checkpoint", "_shown")
    _plain = StateSnapshot
    _checkpoint: Checkpoint
    _shown: frozenset[str] | None

    def _values(self) -> dict[str, Any]:
        shown = self._shown
        return {name: value for name, value in self._checkpoint.values.items() if shown is None or name in shown}

    def _next(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(task.node for task in self._checkpoint.next))

    def _config(self) -> dict[str, Any]:
        return config_of(self._checkpoint.thread_id, self._checkpoint.ns, self._checkpoint.id)

    def _metadata(self) -> dict[str, Any]:
        return {**self._checkpoint.metadata, "source": self._checkpoint.source, "step": self._checkpoint.step}

    def _created_at(self) -> str:
        return datetime.fromtimestamp(self._checkpoint.created_at, UTC).isoformat()

    def _parent_config(self) -> dict[str, Any] | None:
        parent = self._checkpoint.parent_id
        return config_of(self._checkpoint.thread_id, self._checkpoint.ns, parent) if parent else None

    def _tasks(self) -> tuple[PregelTask, ...]:
        checkpoint = self._checkpoint
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

    def _interrupts(self) -> tuple[Interrupt, ...]:
        return tuple(question for task in self.tasks for question in task.interrupts)

    _work = {
        "values": _values,
        "next": _next,
        "config": _config,
        "metadata": _metadata,
        "created_at": _created_at,
        "parent_config": _parent_config,
        "tasks": _tasks,
        "interrupts": _interrupts,
    }


_bare = object.__new__


def snapshot_of(checkpoint: Checkpoint, output: frozenset[str] | None) -> StateSnapshot:
    """The snapshot of a saved checkpoint, with the channels named in `output` (None: all)."""
    snapshot = _bare(_SavedSnapshot)
    snapshot._checkpoint = checkpoint
    snapshot._shown = output
    return snapshot
