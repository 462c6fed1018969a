"""Checkpoints in this process's memory."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from datetime import timedelta
from operator import attrgetter, itemgetter
from typing import ClassVar, TypeVar

from runwell.persistence.checkpoints.holds import gone
from runwell.persistence.checkpoints.rows import SHARED, ChangeRow, CheckpointRow, QuestionRow, Tree
from runwell.persistence.checkpoints.saver import BaseCheckpointSaver
from runwell.persistence.serialization.encryption import Cipher

__all__ = ["InMemorySaver", "MemorySaver"]

T = TypeVar("T")
_seq = attrgetter("seq")
_change_seq = itemgetter(0)


class _Space:
    """The checkpoints of one namespace of a thread."""

    __slots__ = ("by_id", "changes", "rows", "shared", "tasks", "touched")

    def __init__(self) -> None:
        self.rows: list[CheckpointRow] = []  # in order of seq
        self.by_id: dict[str, CheckpointRow] = {}
        self.changes: dict[str, list[ChangeRow]] = {}
        self.shared: dict[bytes, bytes] = {}  # long values, each once
        self.tasks: dict[int, dict[str, tuple[bytes, int]]] = {}
        self.touched = 0

    def copied(self) -> _Space:
        """Another one with the same rows, which are never changed."""
        twin = copy(self)
        twin.rows, twin.by_id = list(self.rows), dict(self.by_id)
        twin.changes = {channel: list(rows) for channel, rows in self.changes.items()}
        twin.shared = dict(self.shared)
        twin.tasks = {seq: dict(tasks) for seq, tasks in self.tasks.items()}
        return twin

    def at(self, seq: int) -> CheckpointRow | None:
        place = bisect_left(self.rows, seq, key=_seq)
        return self.rows[place] if place < len(self.rows) and self.rows[place].seq == seq else None


class InMemorySaver(BaseCheckpointSaver):
    """Keeps checkpoints until the process ends: for tests, notebooks, and pauses that need not survive.

    It holds the same bytes as a saver with a database. So nothing is shared between a running graph and what was saved,
    and a type that a database would refuse is refused here too.
    """

    cheap: ClassVar[bool] = True

    def __init__(
        self,
        *,
        allow: Iterable[type] = (),
        ttl: float | timedelta | None = None,
        encryption: Cipher | None = None,
    ) -> None:
        super().__init__(allow=allow, ttl=ttl, encryption=encryption)
        self._spaces: dict[tuple[str, str], _Space] = {}
        self._attempts: dict[str, tuple[int, str, float, float]] = {}  # attempt, holder, hold, until
        self._lock = threading.RLock()
        self._clock = 0
        self._attempt = 0
        self._undo: dict[tuple[str, str], _Space | None] | None = None

    def read(self, work: Callable[[], T]) -> T:
        with self._lock:
            return work()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All writes within it, or none."""
        with self._lock:
            if self._undo is not None:
                yield
                return
            self._undo = {}
            try:
                yield
            except BaseException:
                for where, before in self._undo.items():
                    self._spaces.pop(where, None)
                    if before is not None:
                        self._spaces[where] = before
                self._heads.clear()
                raise
            finally:
                self._undo = None

    def _changing(self, where: tuple[str, str]) -> None:
        """Note how a namespace is before it changes, in case the transaction fails."""
        if self._undo is not None and where not in self._undo:
            space = self._spaces.get(where)
            self._undo[where] = space.copied() if space is not None else None

    def _of(self, thread: str) -> list[tuple[str, _Space]]:
        return sorted((ns, space) for (name, ns), space in self._spaces.items() if name == thread)

    # -- reading

    def read_checkpoint(self, thread: str, ns: str, checkpoint_id: str | None) -> CheckpointRow | None:
        space = self._spaces.get((thread, ns))
        if space is None:
            return None
        return space.rows[-1] if checkpoint_id is None else space.by_id.get(checkpoint_id)

    def read_seq(self, thread: str, ns: str, seq: int) -> CheckpointRow | None:
        space = self._spaces.get((thread, ns))
        return space.at(seq) if space else None

    def read_checkpoints(self, thread: str, ns: str, before: int | None, limit: int | None) -> list[CheckpointRow]:
        space = self._spaces.get((thread, ns))
        if space is None:
            return []
        end = len(space.rows) if before is None else bisect_left(space.rows, before, key=_seq)
        found: list[CheckpointRow] = []
        while end and (limit is None or len(found) < limit):
            end -= 1
            if space.rows[end].meta:
                found.append(space.rows[end])
        return found

    def read_changes(self, thread: str, ns: str, spans: Mapping[str, tuple[int, int]]) -> dict[str, list[ChangeRow]]:
        space = self._spaces.get((thread, ns))
        found: dict[str, list[ChangeRow]] = {}
        for channel, (first, last) in spans.items():
            rows = space.changes.get(channel, []) if space else []
            found[channel] = rows[bisect_left(rows, first, key=_change_seq) : bisect_right(rows, last, key=_change_seq)]
        return found

    def read_tasks(self, thread: str, ns: str, seqs: Sequence[int]) -> dict[int, list[tuple[str, bytes]]]:
        space = self._spaces.get((thread, ns))
        if space is None:
            return {}
        return {
            seq: [(task, data) for task, (data, _) in space.tasks[seq].items()] for seq in seqs if seq in space.tasks
        }

    def read_threads(self) -> list[str]:
        newest: dict[str, int] = {}
        for (thread, _), space in self._spaces.items():
            newest[thread] = max(newest.get(thread, 0), space.touched)
        return sorted(newest, key=newest.__getitem__)

    def read_namespaces(self, thread: str) -> list[str]:
        return [ns for ns, _ in self._of(thread)]

    def read_questions(self, limit: int | None) -> list[QuestionRow]:
        waiting = [
            QuestionRow(thread, space.rows[-1].id, space.rows[-1].created_at, task, data)
            for (thread, ns), space in self._spaces.items()
            if not ns
            for task, (data, asks) in space.tasks.get(space.rows[-1].seq, {}).items()
            if asks
        ]
        waiting.sort(key=lambda row: (row.created_at, row.thread))
        return waiting[:limit]

    def read_tree(self, thread: str, ns: str) -> Tree:
        space = self._spaces[thread, ns]
        keys = [(channel, seq, branch) for channel, rows in space.changes.items() for seq, branch, _, _ in rows]
        return Tree(list(space.rows), keys)

    # -- writing

    def write_commit(
        self,
        thread: str,
        ns: str,
        expect_head: str | None,
        row: CheckpointRow,
        changes: Sequence[tuple[str, int, bytes]],
        fence: int | None,
    ) -> None:
        with self._lock:
            self._check_fence(thread, fence)
            self._changing((thread, ns))
            space = self._spaces.get((thread, ns))
            head = space.rows[-1].id if space else None
            if head != expect_head:
                raise self.busy(thread, ns, expect_head, head)
            if space is None:
                space = self._spaces[thread, ns] = _Space()
            seq, name, branch = row.seq, row.id, row.branch
            if name in space.by_id:
                raise self.taken(thread, ns, name)
            space.rows.append(row)
            space.by_id[name] = row
            for channel, kind, data in changes:
                if kind == SHARED:
                    data = space.shared.setdefault(data, data)
                rows = space.changes.get(channel)
                if rows is None:
                    rows = space.changes[channel] = []
                rows.append((seq, branch, kind, data))
            self._clock = space.touched = self._clock + 1

    def write_task(
        self, thread: str, ns: str, checkpoint_id: str, task_id: str, data: bytes, asks: int, fence: int | None
    ) -> None:
        with self._lock:
            self._check_fence(thread, fence)
            self._changing((thread, ns))
            space = self._spaces.get((thread, ns))
            row = space.by_id.get(checkpoint_id) if space else None
            if space is None or row is None:
                raise self.no_checkpoint(thread, ns, checkpoint_id)
            space.tasks.setdefault(row.seq, {})[task_id] = data, asks

    def remove_thread(self, thread: str) -> None:
        with self._lock:
            for where in [where for where in self._spaces if where[0] == thread]:
                self._changing(where)
                del self._spaces[where]
            self._attempts.pop(thread, None)

    # -- who runs a thread

    def _check_fence(self, thread: str, fence: int | None) -> None:
        if fence is None:
            return
        attempt, holder, hold, _ = self._attempts.get(thread, (None, "", 0.0, 0.0))
        if attempt != fence:
            raise self.lost(thread, fence, attempt)
        self._attempts[thread] = fence, holder, hold, time.monotonic() + hold

    def write_take(self, thread: str, holder: str, hold_s: float, force: bool) -> int:
        with self._lock:
            _, before, _, until = self._attempts.get(thread, (0, "", 0.0, 0.0))
            left = until - time.monotonic()
            if left > 0 and not force and not gone(before):
                raise self.held(thread, left)
            self._attempt += 1
            self._attempts[thread] = self._attempt, holder, hold_s, time.monotonic() + hold_s
            return self._attempt

    def write_release(self, thread: str, attempt: int) -> None:
        with self._lock:
            now = self._attempts.get(thread)
            if now is not None and now[0] == attempt:
                self._attempts[thread] = attempt, "", 0.0, 0.0

    # -- whole threads

    def copy_rows(self, source: str, target: str) -> None:
        with self._lock:
            for ns, space in self._of(source):
                self._changing((target, ns))
                twin = self._spaces[target, ns] = space.copied()
                self._clock = twin.touched = self._clock + 1

    def remove_rows(
        self, thread: str, ns: str, drop: Sequence[int], hide: Sequence[int], changes: Sequence[tuple[str, int]]
    ) -> None:
        self._changing((thread, ns))
        space = self._spaces[thread, ns]
        dropped, hidden, gone_changes = set(drop), set(hide), set(changes)
        for row in space.rows:
            if row.seq in dropped or row.seq in hidden:
                space.by_id.pop(row.id, None)
                space.tasks.pop(row.seq, None)
        lost = {row.id for row in space.rows if row.seq in dropped or row.seq in hidden}
        kept = [row for row in space.rows if row.seq not in dropped]
        space.rows = [
            row._replace(
                parent_id=None if row.parent_id in lost else row.parent_id,
                meta=b"" if row.seq in hidden else row.meta,
            )
            for row in kept
        ]
        space.by_id = {row.id: row for row in space.rows if row.meta}
        for channel, rows in space.changes.items():
            rows[:] = [row for row in rows if (channel, row[0]) not in gone_changes]
        left = {data for rows in space.changes.values() for _, _, kind, data in rows if kind == SHARED}
        space.shared = {data: data for data in left}

    def remove_namespace(self, thread: str, ns: str) -> None:
        self._changing((thread, ns))
        self._spaces.pop((thread, ns), None)

    def remove_idle(self, before: float) -> list[str]:
        with self._lock:
            newest: dict[str, float] = {}
            for (thread, _), space in self._spaces.items():
                newest[thread] = max(newest.get(thread, 0.0), space.rows[-1].created_at)
            idle = [thread for thread, created_at in newest.items() if created_at < before]
            for thread in idle:
                self.remove_thread(thread)
            return idle


MemorySaver = InMemorySaver
