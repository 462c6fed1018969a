"""What the graph engine asks of persistence: threads of checkpoints, saved as what changed.

A *thread* is a conversation or a job. It has one tree of checkpoints per *namespace*: `""` for the graph
itself, `"node:task"` paths for its subgraphs. A checkpoint says what the state is after a step and which tasks
come next; together with the results of those tasks that have already ended (`TaskRecord`) it is all a resume needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

__all__ = ["GONE", "Checkpoint", "CheckpointSaver", "Commit", "PlannedTask", "TaskRecord"]


@dataclass(slots=True)
class PlannedTask:
    """A task of the next step. `id` is stable: the same plan gives the same ids.

    `arg` is the input of a `Send`; otherwise the task reads the state (`sent` is False).
    """

    id: str
    node: str
    sent: bool = False
    arg: Any = None


@dataclass(slots=True)
class TaskRecord:
    """What is kept of a task of an unfinished step.

    `done` with `writes`: its result, never to be computed again. Otherwise the open `interrupts`, the `answers` given
    so far (in the order asked, with the `actors` who gave them), the `records` of finished parts inside the task, and
    `error`, the text of a failure.
    """

    task_id: str
    node: str
    done: bool = False
    writes: list[tuple[str, Any]] = field(default_factory=list)
    interrupts: list[Any] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    actors: list[str | None] = field(default_factory=list)
    records: dict[str, Any] = field(default_factory=dict)
    error: str | None = None


@dataclass(slots=True)
class Checkpoint:
    """A state as it was saved, whole.

    `values` holds every channel that has a value. `next` are the planned tasks, `joins` the predecessors that have
    ended for each waiting join. `created_at` is seconds since the epoch, UTC. `source` is what made it.
    """

    id: str
    thread_id: str
    ns: str
    parent_id: str | None
    step: int
    created_at: float
    source: Literal["input", "loop", "update", "fork"]
    values: dict[str, Any]
    next: list[PlannedTask]
    joins: dict[str, list[str]] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    tasks: list[TaskRecord] = field(default_factory=list)


@dataclass(slots=True)
class Commit:
    """A checkpoint about to be saved: the same facts, but only the channels that changed.

    `changes` maps a channel to its (old, new) value; `GONE` stands for no value on either side.
    The saver works out how to store a change: a list that grew stores the new items only.
    `expect_head` is the id of the thread's newest checkpoint as this run knows it (None: the thread is new); when the
    thread has moved on meanwhile the saver raises `ThreadBusy` and stores nothing. A fork (`parent_id` differs from
    `expect_head`) is fine: the new checkpoint becomes the head. `fence` is the attempt that `take` gave this run, if it
    took the thread: once another run has taken it, the saver raises `ThreadBusy` and stores nothing.
    """

    id: str
    thread_id: str
    ns: str
    parent_id: str | None
    expect_head: str | None
    step: int
    created_at: float
    source: Literal["input", "loop", "update", "fork"]
    changes: dict[str, tuple[Any, Any]]
    next: list[PlannedTask]
    joins: Mapping[str, Sequence[str]] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    fence: int | None = None


GONE: Any = type("Gone", (), {"__repr__": lambda self: "GONE", "__slots__": ()})()
"""No value: in `Commit.changes`, for a channel that had none before or has none after."""


@runtime_checkable
class CheckpointSaver(Protocol):
    """The port. Every method may be a plain function or `async`; a saver has each once.

    A saver may also have `take(thread_id, *, hold_s, force) -> int` and `release(thread_id, attempt)`; it then heeds
    `Commit.fence`, and `save_task` takes `fence=`. Runwell's own have.

    A saver of plain functions that seldom wait may have `at_once(method, *args, **kwargs)`, by which an event loop asks
    for a call of one of its methods: it gives the result, or, with nothing done, `effects.Later(work)` where that may
    take more than a moment; then `work()` is called in a thread. Without it every call goes to a thread.

    `types` is the graph's own allow-list (classes reachable from its schemas), added to the saver's.
    """

    def commit(self, commit: Commit, types: frozenset[type] = frozenset()) -> None:
        """Save one checkpoint in one transaction, or raise and save nothing."""
        ...

    def save_task(
        self, thread_id: str, ns: str, checkpoint_id: str, record: TaskRecord, types: frozenset[type] = frozenset()
    ) -> None:
        """Keep a task's result beside its checkpoint; a second record for the same task replaces the first."""
        ...

    def load(
        self, thread_id: str, ns: str = "", checkpoint_id: str | None = None, types: frozenset[type] = frozenset()
    ) -> Checkpoint | None:
        """The newest checkpoint, or the one named; None when there is none."""
        ...

    def history(
        self,
        thread_id: str,
        ns: str = "",
        *,
        before: str | None = None,
        limit: int | None = None,
        filter: dict[str, Any] | None = None,
        types: frozenset[type] = frozenset(),
    ) -> list[Checkpoint] | Iterator[Checkpoint]:
        """Checkpoints, newest first. `filter` matches metadata (and `source`, `step`) exactly."""
        ...

    def delete_thread(self, thread_id: str) -> None:
        """Forget the thread, its subgraphs included."""
        ...
