"""Checkpoints in this process's memory."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from operator import attrgetter
from typing import Any, ClassVar

from runwell.persistence.checkpoints.rows import ChangeRow, CheckpointRow
from runwell.persistence.checkpoints.saver import BaseCheckpointSaver

__all__ = ["InMemorySaver", "MemorySaver"]

_seq = attrgetter("seq")


class _Space:
    """The checkpoints of one namespace of a thread."""

    __slots__ = ("by_id", "changes", "rows", "tasks", "touched")

    def __init__(self) -> None:
        self.rows: list[CheckpointRow] = []  # the one with seq n at n - 1
        self.by_id: dict[str, CheckpointRow] = {}
        self.changes: dict[str, list[ChangeRow]] = {}
        self.tasks: dict[int, dict[str, bytes]] = {}
        self.touched = 0


class InMemorySaver(BaseCheckpointSaver):
    """Keeps checkpoints until the process ends: for tests, notebooks, and pauses that need not survive.

    It holds the same bytes as a saver with a database. So nothing is shared between a running graph and what was saved,
    and a type that a database would refuse is refused here too.
    """

    cheap: ClassVar[bool] = True

    def __init__(self, *, allow: Iterable[type] = ()) -> None:
        super().__init__(allow=allow)
        self._spaces: dict[tuple[str, str], _Space] = {}
        self._lock = threading.RLock()
        self._clock = 0

    def reading(self) -> AbstractContextManager[Any]:
        return self._lock

    def read_checkpoint(self, thread: str, ns: str, checkpoint_id: str | None) -> CheckpointRow | None:
        space = self._spaces.get((thread, ns))
        if space is None:
            return None
        return space.rows[-1] if checkpoint_id is None else space.by_id.get(checkpoint_id)

    def read_seq(self, thread: str, ns: str, seq: int) -> CheckpointRow | None:
        space = self._spaces.get((thread, ns))
        return space.rows[seq - 1] if space and 0 < seq <= len(space.rows) else None

    def read_checkpoints(self, thread: str, ns: str, before: int | None, limit: int | None) -> list[CheckpointRow]:
        space = self._spaces.get((thread, ns))
        if space is None:
            return []
        end = len(space.rows) if before is None else before - 1
        start = 0 if limit is None else max(0, end - limit)
        return space.rows[start:end][::-1]

    def read_changes(self, thread: str, ns: str, channel: str, first: int, last: int) -> list[ChangeRow]:
        space = self._spaces.get((thread, ns))
        rows = space.changes.get(channel, []) if space else []
        return rows[bisect_left(rows, first, key=_seq) : bisect_right(rows, last, key=_seq)]

    def read_tasks(self, thread: str, ns: str, seqs: Sequence[int]) -> dict[int, list[tuple[str, bytes]]]:
        space = self._spaces.get((thread, ns))
        return {seq: list(space.tasks[seq].items()) for seq in seqs if seq in space.tasks} if space else {}

    def read_threads(self) -> list[str]:
        newest: dict[str, int] = {}
        for (thread, _), space in self._spaces.items():
            newest[thread] = max(newest.get(thread, 0), space.touched)
        return sorted(newest, key=newest.__getitem__)

    def write_commit(
        self,
        thread: str,
        ns: str,
        expect_head: str | None,
        row: CheckpointRow,
        changes: Sequence[tuple[str, int, bytes]],
    ) -> None:
        with self._lock:
            space = self._spaces.get((thread, ns))
            head = space.rows[-1].id if space else None
            if head != expect_head:
                raise self.busy(thread, ns, expect_head, head)
            if space is None:
                space = self._spaces[thread, ns] = _Space()
            if row.id in space.by_id:
                raise self.taken(thread, ns, row.id)
            space.rows.append(row)
            space.by_id[row.id] = row
            for channel, kind, data in changes:
                space.changes.setdefault(channel, []).append(ChangeRow(row.seq, row.branch, kind, data))
            self._clock = space.touched = self._clock + 1

    def write_task(self, thread: str, ns: str, checkpoint_id: str, task_id: str, data: bytes) -> None:
        with self._lock:
            space = self._spaces.get((thread, ns))
            row = space.by_id.get(checkpoint_id) if space else None
            if space is None or row is None:
                raise self.no_checkpoint(thread, ns, checkpoint_id)
            space.tasks.setdefault(row.seq, {})[task_id] = data

    def remove_thread(self, thread: str) -> None:
        with self._lock:
            for where in [where for where in self._spaces if where[0] == thread]:
                del self._spaces[where]


MemorySaver = InMemorySaver
