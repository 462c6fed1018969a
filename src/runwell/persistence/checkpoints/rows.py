"""What a saver's storage holds: rows of plain columns and opaque bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from runwell.errors import StorageError, ThreadBusy, UnsupportedByProvider

__all__ = ["ChangeRow", "CheckpointRow", "QuestionRow", "SHARED", "Rows", "Tree", "addressed", "place"]

T = TypeVar("T")


class CheckpointRow(NamedTuple):
    """A checkpoint without its values.

    `seq` counts the commits of a namespace from 1. A `branch` is called after the seq it begins at; a commit on
    anything but the newest checkpoint begins one. `parent_seq` is 0 for a root. Opaque: `chains` says where each
    channel's value is found, `meta` holds planned tasks, joins and metadata.

    A row with an empty `meta` is what pruning leaves of a checkpoint that others descend from: only `read_seq` and
    `read_tree` give it.
    """

    seq: int
    id: str
    parent_id: str | None
    parent_seq: int
    branch: int
    step: int
    source: str
    created_at: float
    chains: bytes
    meta: bytes


ChangeRow: TypeAlias = tuple[int, int, int, bytes]
"""A change of one channel: the seq of the commit that made it, its branch, kind, and data. Plain, as databases give it.

Data of kind `SHARED` may be stored once in a namespace, however often an equal value was set; it is read as it was.
"""


class QuestionRow(NamedTuple):
    """A task that waits with questions, at the newest checkpoint of a thread."""

    thread: str
    checkpoint_id: str
    created_at: float
    task_id: str
    data: bytes


class Tree(NamedTuple):
    """A namespace without values: every checkpoint in order of seq, and (channel, seq, branch) of every change."""

    rows: list[CheckpointRow]
    changes: list[tuple[str, int, int]]


class Rows:
    """What a database implements for `BaseCheckpointSaver`. Every method may be called from any thread.

    The first part is what a graph needs. The rest serves what is done with whole threads; a saver without it says so
    when asked.
    """

    def read(self, work: Callable[[], T]) -> T:
        """What `work` gives. All reads within it see one state of the database. It may be called a second time."""
        return work()

    def transaction(self) -> AbstractContextManager[Any]:
        """Within it, all writes of this thread of execution are kept together, or none; gives the connection.

        A program's own statements on the connection belong to it. It is for a few quick writes: others wait.
        """
        return nullcontext()

    def locked(self, thread: str, ns: str, work: Callable[[], T]) -> T:
        """What `work` gives; in one transaction, while nobody else writes to this namespace."""
        with self.transaction():
            return work()

    def read_checkpoint(self, thread: str, ns: str, checkpoint_id: str | None) -> CheckpointRow | None:
        """The one named, or with None the newest."""
        raise NotImplementedError

    def read_seq(self, thread: str, ns: str, seq: int) -> CheckpointRow | None:
        """The one with this seq."""
        raise NotImplementedError

    def read_checkpoints(self, thread: str, ns: str, before: int | None, limit: int | None) -> list[CheckpointRow]:
        """The newest `limit` (None: all) with a seq below `before` (None: any), newest first."""
        raise NotImplementedError

    def read_changes(self, thread: str, ns: str, spans: Mapping[str, tuple[int, int]]) -> dict[str, list[ChangeRow]]:
        """For each channel its changes from the first to the last seq given, both included, in order."""
        raise NotImplementedError

    def read_tasks(self, thread: str, ns: str, seqs: Sequence[int]) -> dict[int, list[tuple[str, bytes]]]:
        """By seq of the checkpoint: each task's id and data, in the order first saved."""
        raise NotImplementedError

    def write_commit(
        self,
        thread: str,
        ns: str,
        expect_head: str | None,
        row: CheckpointRow,
        changes: Sequence[tuple[str, int, bytes]],
        fence: int | None,
    ) -> None:
        """Store a checkpoint and its changes (channel, kind, data) in one transaction, as the new head.

        When the head is not `expect_head` (None: there is none) raise `self.busy(...)`, when `fence` is not None and
        not the thread's attempt raise `self.lost(...)`, and store nothing.
        """
        raise NotImplementedError

    def write_task(
        self, thread: str, ns: str, checkpoint_id: str, task_id: str, data: bytes, asks: int, fence: int | None
    ) -> None:
        """Store or replace a task's data; raise StorageError when there is no such checkpoint.

        `asks` is how many questions it waits with, `fence` as above.
        """
        raise NotImplementedError

    def remove_thread(self, thread: str) -> None:
        """Remove everything of the thread, of all its namespaces."""
        raise NotImplementedError

    # -- who runs a thread

    def write_take(self, thread: str, holder: str, hold_s: float, force: bool) -> int:
        """Note `holder` as the one who runs the thread, for `hold_s` from now; gives a number higher than any before.

        When another holds it (its time is not over, and its process not `gone`) raise `self.held(...)`, unless `force`.
        """
        raise self._unable("say who runs a thread")

    def write_release(self, thread: str, attempt: int) -> None:
        """End the hold, if the attempt is still the thread's."""
        raise self._unable("say who runs a thread")

    # -- whole threads

    def read_parts(
        self, thread: str, ns: str, spans: Mapping[str, tuple[int, int]], seqs: Sequence[int]
    ) -> tuple[dict[str, list[ChangeRow]], dict[int, list[tuple[str, bytes]]]]:
        """What `read_changes` and `read_tasks` give; a database may do both at once."""
        return self.read_changes(thread, ns, spans) if spans else {}, self.read_tasks(thread, ns, seqs)

    def read_threads(self) -> list[str]:
        """The ids of all threads, the most recently written last."""
        raise self._unable("list threads")

    def read_namespaces(self, thread: str) -> list[str]:
        """The namespaces of a thread, in order of name."""
        raise self._unable("list namespaces")

    def read_questions(self, limit: int | None) -> list[QuestionRow]:
        """Tasks of namespace "" that wait with questions, those of the longest unchanged threads first."""
        raise self._unable("list questions")

    def read_tree(self, thread: str, ns: str) -> Tree:
        """The whole namespace, without values."""
        raise self._unable("prune a thread")

    def copy_rows(self, source: str, target: str) -> None:
        """Copy everything of a thread to a thread of another id, which is new."""
        raise self._unable("copy a thread")

    def remove_rows(
        self, thread: str, ns: str, drop: Sequence[int], hide: Sequence[int], changes: Sequence[tuple[str, int]]
    ) -> None:
        """Remove the checkpoints with a seq in `drop`, empty those in `hide`, remove the tasks of both, and changes."""
        raise self._unable("prune a thread")

    def remove_namespace(self, thread: str, ns: str) -> None:
        """Remove one namespace."""
        raise self._unable("prune a thread")

    def remove_idle(self, before: float) -> list[str]:
        """Remove the threads whose newest checkpoint, of any namespace, was created before; gives their ids."""
        raise self._unable("forget threads by age")

    def _unable(self, what: str) -> UnsupportedByProvider:
        return UnsupportedByProvider(
            f"{type(self).__name__} cannot {what}.", hint="Use one of runwell's savers, or write that method of `Rows`."
        )

    # -- errors for it to raise

    def busy(self, thread: str, ns: str, expected: str | None, found: str | None) -> ThreadBusy:
        """The error for a commit that came too late."""
        return ThreadBusy(
            f"{place(thread, ns)} has moved on: its newest checkpoint is {found!r}, and this run continued from "
            f"{expected!r}. Nothing was saved.",
            hint="Another run is writing to the same thread. Let it end, then run again from the newest state.",
        )

    def lost(self, thread: str, fence: int, found: int | None) -> ThreadBusy:
        """The error for a run that another one has taken the thread from."""
        now = "the thread was deleted" if found is None else f"attempt {found} has taken it over"
        return ThreadBusy(
            f"{place(thread, '')} is no longer this run's (attempt {fence}): {now}. Nothing was saved.",
            hint="What this run had saved before is kept, and the other run continues from it.",
        )

    def held(self, thread: str, seconds: float) -> ThreadBusy:
        """The error for taking a thread that another run holds."""
        busy = ThreadBusy(
            f"{place(thread, '')} is being run by another run (its hold ends in {seconds:.0f} s unless it goes on).",
            hint="Wait for it to end, or use another thread_id.",
        )
        busy.retryable = True
        return busy

    def no_checkpoint(self, thread: str, ns: str, checkpoint_id: str) -> StorageError:
        """The error for a task's result whose checkpoint is not there."""
        return StorageError(
            f"{place(thread, ns, checkpoint_id)} is not stored, so the result of its task cannot be.",
            hint="Was the thread deleted while it was running?",
        )

    def taken(self, thread: str, ns: str, checkpoint_id: str) -> StorageError:
        """The error for a second checkpoint of the same id."""
        return StorageError(
            f"{place(thread, ns, checkpoint_id)} is stored already. Nothing was saved.",
            hint="Give every checkpoint an id of its own.",
        )


SHARED: Final = 3


def addressed(
    changes: Sequence[tuple[str, int, bytes]],
) -> tuple[list[tuple[str, int, bytes]], dict[bytes, bytes]]:
    """The changes with a digest in place of data of kind `SHARED`, and that data by digest."""
    rows: list[tuple[str, int, bytes]] = []
    blobs: dict[bytes, bytes] = {}
    for channel, kind, data in changes:
        if kind == SHARED:
            digest = blake2b(data, digest_size=20).digest()
            blobs[digest] = data
            rows.append((channel, kind, digest))
        else:
            rows.append((channel, kind, data))
    return rows, blobs


def place(thread: str, ns: str, checkpoint_id: str | None = None) -> str:
    """How errors name where something is."""
    parts = [f"thread {thread!r}"] + [f"subgraph {ns!r}"] * bool(ns)
    return ", ".join(parts + [f"checkpoint {checkpoint_id!r}"] * (checkpoint_id is not None))
