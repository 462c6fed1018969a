"""What a saver's storage holds: rows of plain columns and opaque bytes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

from runwell.errors import StorageError, ThreadBusy

__all__ = ["ChangeRow", "CheckpointRow", "Rows", "place"]


@dataclass(slots=True)
class CheckpointRow:
    """A checkpoint without its values.

    `seq` counts the commits of a namespace from 1. A `branch` is called after the seq it begins at; a commit on
    anything but the newest checkpoint begins one. `parent_seq` is 0 for a root. Opaque: `chains` says where each
    channel's value is found, `meta` holds planned tasks, joins and metadata.
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


class ChangeRow(NamedTuple):
    """A change of one channel, made by commit `seq`."""

    seq: int
    branch: int
    kind: int
    data: bytes


class Rows:
    """What a database implements for `BaseCheckpointSaver`. Every method may be called from any thread."""

    def reading(self) -> AbstractContextManager[Any]:
        """Within it, all reads see one state of the database."""
        return nullcontext()

    def read_checkpoint(self, thread: str, ns: str, checkpoint_id: str | None) -> CheckpointRow | None:
        """The one named, or with None the newest."""
        raise NotImplementedError

    def read_seq(self, thread: str, ns: str, seq: int) -> CheckpointRow | None:
        """The one with this seq."""
        raise NotImplementedError

    def read_checkpoints(self, thread: str, ns: str, before: int | None, limit: int | None) -> list[CheckpointRow]:
        """The newest `limit` (None: all) with a seq below `before` (None: any), newest first."""
        raise NotImplementedError

    def read_changes(self, thread: str, ns: str, channel: str, first: int, last: int) -> list[ChangeRow]:
        """The channel's changes from seq `first` to `last`, both included, in order."""
        raise NotImplementedError

    def read_tasks(self, thread: str, ns: str, seqs: Sequence[int]) -> dict[int, list[tuple[str, bytes]]]:
        """By seq of the checkpoint: each task's id and data, in the order first saved."""
        raise NotImplementedError

    def read_threads(self) -> list[str]:
        """The ids of all threads, the most recently written last."""
        raise NotImplementedError

    def write_commit(
        self,
        thread: str,
        ns: str,
        expect_head: str | None,
        row: CheckpointRow,
        changes: Sequence[tuple[str, int, bytes]],
    ) -> None:
        """Store a checkpoint and its changes (channel, kind, data) in one transaction, as the new head.

        When the head is not `expect_head` (None: there is none) raise `self.busy(...)` and store nothing.
        """
        raise NotImplementedError

    def write_task(self, thread: str, ns: str, checkpoint_id: str, task_id: str, data: bytes) -> None:
        """Store or replace a task's data; raise StorageError when there is no such checkpoint."""
        raise NotImplementedError

    def remove_thread(self, thread: str) -> None:
        """Remove everything of the thread, of all its namespaces."""
        raise NotImplementedError

    # -- errors for it to raise

    def busy(self, thread: str, ns: str, expected: str | None, found: str | None) -> ThreadBusy:
        """The error for a commit that came too late."""
        return ThreadBusy(
            f"{place(thread, ns)} has moved on: its newest checkpoint is {found!r}, and this run continued from "
            f"{expected!r}. Nothing was saved.",
            hint="Another run is writing to the same thread. Let it end, then run again from the newest state.",
        )

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


def place(thread: str, ns: str, checkpoint_id: str | None = None) -> str:
    """How errors name where something is."""
    parts = [f"thread {thread!r}"] + [f"subgraph {ns!r}"] * bool(ns)
    return ", ".join(parts + [f"checkpoint {checkpoint_id!r}"] * (checkpoint_id is not None))
