"""Checkpoints in an SQLite file."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache, partial
from typing import Any, Literal, Self, TypeVar

from runwell.effects import Later
from runwell.persistence.checkpoints import tables
from runwell.persistence.checkpoints.delta import items
from runwell.persistence.checkpoints.holds import gone
from runwell.persistence.checkpoints.rows import ChangeRow, CheckpointRow, QuestionRow, Tree, addressed
from runwell.persistence.checkpoints.saver import BaseCheckpointSaver
from runwell.persistence.databases.sqlite import SqliteFile
from runwell.persistence.serialization.encryption import Cipher
from runwell.ports.saver import Commit

__all__ = ["AsyncSqliteSaver", "SqliteSaver"]

T = TypeVar("T")

MANY = 200
"""Items that a change may add for `at_once`: to encode so many messages takes about 0.5 ms. Chosen."""

_DATA = """CASE c.kind WHEN 3 THEN coalesce(
    (SELECT b.data FROM runwell_blobs b WHERE b.space = c.space AND b.digest = c.data), x'') ELSE c.data END"""
_SPACE = "(SELECT space FROM runwell_threads WHERE thread = ? AND ns = ?)"
_CHECKPOINT = """SELECT c.seq, c.id, p.id, c.parent_seq, c.branch, c.step, c.source, c.created_at, c.chains, c.meta
    FROM runwell_checkpoints c
    LEFT JOIN runwell_checkpoints p ON p.space = c.space AND p.seq = c.parent_seq AND p.meta <> x''"""


class SqliteSaver(BaseCheckpointSaver):
    """Keeps checkpoints in an SQLite file: embedded, and safe for several threads and processes at once.

    `path_or_connection` is a file (made when it does not exist), `":memory:"`, a `file:` URI, or an open
    `sqlite3.Connection`, which stays yours to close and needs `check_same_thread=False` for use in other threads.

    With `synchronous="normal"` a saved step survives the death of the process; with `"full"` also a power cut, for some
    milliseconds more per save. `allow` lists classes of yours that may be saved and loaded, `ttl` forgets threads not
    written for so long (seconds or a timedelta), `encryption` encrypts what is stored of their values.

    Raises StorageError, naming the file, when it cannot be opened or is not an SQLite database; such a file is left as
    it is. Close it with `close()` or a `with` block; the file can be opened again by another saver at any time.
    """

    def __init__(
        self,
        path_or_connection: str | os.PathLike[str] | sqlite3.Connection,
        *,
        synchronous: Literal["normal", "full"] = "normal",
        allow: Iterable[type] = (),
        ttl: float | timedelta | None = None,
        encryption: Cipher | None = None,
    ) -> None:
        super().__init__(allow=allow, ttl=ttl, encryption=encryption)
        self.file = SqliteFile(
            path_or_connection,
            room=tables.ROOM,
            migrations=tables.SQLITE,
            owner=type(self).__name__,
            synchronous=synchronous,
        )
        self._own_writes = all(getattr(type(self), name) is getattr(SqliteSaver, name) for name in _WRITES)

    @property
    def path(self) -> str:
        return self.file.path

    @classmethod
    def from_conn_string(cls, conn_string: str, **settings: Any) -> Self:
        """A saver on the file, for use in a `with` (or `async with`) block."""
        return cls(conn_string, **settings)

    def close(self) -> None:
        """Close the file (not a connection that was given). Harmless when repeated; later calls raise StorageError."""
        super().close()
        self.file.close()

    def at_once(self, method: Callable[..., T], *args: Any, **kwargs: Any) -> T | Later[T]:
        """`method(*args)`, one of this saver's, where an event loop may do that itself: it takes tens of microseconds.

        Gives `Later`, with nothing done, where it may take longer: see `SqliteFile.at_once`. So do methods that are not
        the saver's own but a subclass's, and states that take long to encode.
        """
        work = partial(method, *args, **kwargs)
        if getattr(method, "__func__", None) not in _BRIEF or not self._own_writes or self._sweep_is_due():
            return Later(work)
        if args and type(args[0]) is Commit and _adds_many(args[0]):
            return Later(work)
        return self.file.at_once(work)

    def read(self, work: Callable[[], T]) -> T:
        return self.file.read(work)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All writes of this thread within it, or none; gives the connection for statements of your own."""
        try:
            with self.file.transaction() as connection:
                yield connection
        except BaseException:
            self._heads.clear()
            raise

    def _rows(self, query: str, *values: Any) -> list[Any]:
        return self.file.rows(query, *values)

    # -- reading

    def read_checkpoint(self, thread: str, ns: str, checkpoint_id: str | None) -> CheckpointRow | None:
        if checkpoint_id is None:
            which = "JOIN runwell_threads t ON t.space = c.space AND t.seq = c.seq WHERE t.thread = ? AND t.ns = ?"
            rows = self._rows(f"{_CHECKPOINT} {which}", thread, ns)
        else:
            which = f"WHERE c.space = {_SPACE} AND c.id = ? AND c.meta <> x''"
            rows = self._rows(f"{_CHECKPOINT} {which}", thread, ns, checkpoint_id)
        return CheckpointRow(*rows[0]) if rows else None

    def read_seq(self, thread: str, ns: str, seq: int) -> CheckpointRow | None:
        rows = self._rows(f"{_CHECKPOINT} WHERE c.space = {_SPACE} AND c.seq = ?", thread, ns, seq)
        return CheckpointRow(*rows[0]) if rows else None

    def read_checkpoints(self, thread: str, ns: str, before: int | None, limit: int | None) -> list[CheckpointRow]:
        found = self._rows(
            f"""SELECT seq, id, parent_seq, branch, step, source, created_at, chains, meta FROM runwell_checkpoints
            WHERE space = {_SPACE} AND seq < ? AND meta <> x'' ORDER BY seq DESC LIMIT ?""",
            thread,
            ns,
            2**62 if before is None else before,
            -1 if limit is None else limit,
        )
        # Nearly every parent is among them: looking those up here costs half of what joining them does.
        ids = {row[0]: row[1] for row in found}
        for parent in {row[2] for row in found} - ids.keys() - {0}:
            query = f"SELECT seq, id FROM runwell_checkpoints WHERE space = {_SPACE} AND seq = ? AND meta <> x''"
            ids.update(self._rows(query, thread, ns, parent))
        new, parent_of = tuple.__new__, ids.get  # `CheckpointRow(...)` in half the time
        return [
            new(CheckpointRow, (seq, name, parent_of(parent), parent, branch, step, source, created_at, chains, meta))
            for seq, name, parent, branch, step, source, created_at, chains, meta in found
        ]

    def read_changes(self, thread: str, ns: str, spans: Mapping[str, tuple[int, int]]) -> dict[str, list[ChangeRow]]:
        query = f"""SELECT seq, branch, kind, {_DATA} FROM runwell_changes c
            WHERE space = {_SPACE} AND channel = ? AND seq BETWEEN ? AND ? ORDER BY seq"""
        return {
            channel: self._rows(query, thread, ns, channel, first, last) for channel, (first, last) in spans.items()
        }

    def read_tasks(self, thread: str, ns: str, seqs: Sequence[int]) -> dict[int, list[tuple[str, bytes]]]:
        if not seqs:
            return {}
        query = f"""SELECT seq, task, data FROM runwell_tasks
            WHERE space = {_SPACE} AND seq BETWEEN ? AND ? ORDER BY seq, place"""
        wanted = set(seqs)
        found: dict[int, list[tuple[str, bytes]]] = {}
        for seq, task, data in self._rows(query, thread, ns, min(wanted), max(wanted)):
            if seq in wanted:
                found.setdefault(seq, []).append((task, data))
        return found

    def read_parts(
        self, thread: str, ns: str, spans: Mapping[str, tuple[int, int]], seqs: Sequence[int]
    ) -> tuple[dict[str, list[ChangeRow]], dict[int, list[tuple[str, bytes]]]]:
        if len(seqs) != 1 or not 0 < len(spans) <= 100:  # many rows, or too many parts for one statement
            return super().read_parts(thread, ns, spans, seqs)
        values: list[Any] = [thread, ns, seqs[0]]
        for channel, (first, last) in spans.items():
            values += channel, first, last
        changes: dict[str, list[ChangeRow]] = {}
        tasks: list[tuple[int, str, bytes]] = []
        for kind, name, seq, branch, data in self._rows(_parts(len(spans)), *values):
            if kind < 0:
                tasks.append((branch, name, data))
            else:
                changes.setdefault(name, []).append((seq, branch, kind, data))
        for rows in changes.values():
            rows.sort()
        return changes, {seqs[0]: [(task, data) for _, task, data in sorted(tasks)]} if tasks else {}

    def read_threads(self) -> list[str]:
        query = """SELECT t.thread FROM runwell_threads t JOIN runwell_checkpoints c USING (space, seq)
            GROUP BY t.thread ORDER BY max(c.created_at), max(t.space)"""
        return [thread for (thread,) in self._rows(query)]

    def read_namespaces(self, thread: str) -> list[str]:
        query = "SELECT ns FROM runwell_threads WHERE thread = ? ORDER BY ns"
        return [ns for (ns,) in self._rows(query, thread)]

    def read_questions(self, limit: int | None) -> list[QuestionRow]:
        query = """SELECT t.thread, c.id, c.created_at, k.task, k.data FROM runwell_tasks k
            JOIN runwell_threads t ON t.space = k.space AND t.seq = k.seq
            JOIN runwell_checkpoints c ON c.space = k.space AND c.seq = k.seq
            WHERE k.asks > 0 AND t.ns = '' ORDER BY c.created_at, t.thread, k.place LIMIT ?"""
        return [QuestionRow(*row) for row in self._rows(query, -1 if limit is None else limit)]

    def read_tree(self, thread: str, ns: str) -> Tree:
        rows = self._rows(f"{_CHECKPOINT} WHERE c.space = {_SPACE} ORDER BY c.seq", thread, ns)
        query = f"SELECT channel, seq, branch FROM runwell_changes WHERE space = {_SPACE}"
        return Tree(list(map(CheckpointRow._make, rows)), self._rows(query, thread, ns))

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
        self.file.allow(sum([len(data) for _, _, data in changes], len(row.meta)))
        with self.file.transaction():
            self._check_fence(thread, fence)
            if expect_head is None:
                move = "INSERT INTO runwell_threads (head, seq, thread, ns) VALUES (?, ?, ?, ?)"
                moved = self._rows(f"{move} ON CONFLICT DO NOTHING RETURNING space", row.id, row.seq, thread, ns)
            else:
                move = "UPDATE runwell_threads SET head = ?, seq = ? WHERE thread = ? AND ns = ? AND head = ?"
                moved = self._rows(f"{move} RETURNING space", row.id, row.seq, thread, ns, expect_head)
            if not moved:
                head = self._rows("SELECT head FROM runwell_threads WHERE thread = ? AND ns = ?", thread, ns)
                raise self.busy(thread, ns, expect_head, head[0][0] if head else None)
            space = moved[0][0]
            try:
                self._rows(
                    "INSERT INTO runwell_checkpoints VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    *(space, row.seq, row.id, row.parent_seq, row.branch, row.step),
                    *(row.source, row.created_at, row.chains, row.meta),
                )
            except sqlite3.IntegrityError as error:
                raise self.taken(thread, ns, row.id) from error
            rows, blobs = addressed(changes)
            for channel, kind, data in rows:
                query = "INSERT INTO runwell_changes VALUES (?, ?, ?, ?, ?, ?)"
                self._rows(query, space, channel, row.seq, row.branch, kind, data)
            for digest, data in blobs.items():
                self._rows("INSERT INTO runwell_blobs VALUES (?, ?, ?) ON CONFLICT DO NOTHING", space, digest, data)

    def write_task(
        self, thread: str, ns: str, checkpoint_id: str, task_id: str, data: bytes, asks: int, fence: int | None
    ) -> None:
        # `place` keeps the order in which tasks were first saved.
        query = f"""INSERT INTO runwell_tasks (space, seq, place, task, data, asks)
            SELECT c.space, c.seq,
                (SELECT count(*) FROM runwell_tasks t WHERE t.space = c.space AND t.seq = c.seq), ?, ?, ?
            FROM runwell_checkpoints c WHERE c.space = {_SPACE} AND c.id = ?
            ON CONFLICT (space, seq, task) DO UPDATE SET data = excluded.data, asks = excluded.asks RETURNING seq"""
        self.file.allow(len(data))
        with self.file.transaction():
            self._check_fence(thread, fence)
            if not self._rows(query, task_id, data, asks, thread, ns, checkpoint_id):
                raise self.no_checkpoint(thread, ns, checkpoint_id)

    def remove_thread(self, thread: str) -> None:
        with self.file.transaction():
            self._remove("thread = ?", thread)
            self._rows("DELETE FROM runwell_attempts WHERE thread = ?", thread)

    def _remove(self, which: str, *values: Any) -> None:
        for table in ("tasks", "changes", "blobs", "checkpoints", "threads"):
            of_thread = f"space IN (SELECT space FROM runwell_threads WHERE {which})"
            self._rows(f"DELETE FROM runwell_{table} WHERE {of_thread}", *values)

    # -- who runs a thread

    def _check_fence(self, thread: str, fence: int | None) -> None:
        if fence is None:
            return
        # one that was let go (until = 0) may still save, as a cancelled run's last save does, and is not held anew
        query = """UPDATE runwell_attempts SET until = CASE WHEN until > 0 THEN hold + ? ELSE 0 END
            WHERE thread = ? AND attempt = ? RETURNING attempt"""
        if not self._rows(query, time.time(), thread, fence):
            found = self._rows("SELECT attempt FROM runwell_attempts WHERE thread = ?", thread)
            raise self.lost(thread, fence, found[0][0] if found else None)

    def write_take(self, thread: str, holder: str, hold_s: float, force: bool) -> int:
        with self.file.transaction():
            found = self._rows("SELECT holder, until FROM runwell_attempts WHERE thread = ?", thread)
            left = found[0][1] - time.time() if found else 0.0
            if left > 0 and not force and not gone(found[0][0]):
                raise self.held(thread, left)
            query = "REPLACE INTO runwell_attempts (thread, holder, hold, until) VALUES (?, ?, ?, ?) RETURNING attempt"
            attempt: int = self._rows(query, thread, holder, hold_s, time.time() + hold_s)[0][0]
            return attempt

    def write_release(self, thread: str, attempt: int) -> None:
        with self.file.transaction():
            query = "UPDATE runwell_attempts SET until = 0 WHERE thread = ? AND attempt = ?"
            self._rows(query, thread, attempt)

    # -- whole threads

    def copy_rows(self, source: str, target: str) -> None:
        with self.file.transaction():
            spaces = self._rows("SELECT space, ns, head, seq FROM runwell_threads WHERE thread = ?", source)
            for space, ns, head, seq in spaces:
                query = "INSERT INTO runwell_threads (thread, ns, head, seq) VALUES (?, ?, ?, ?) RETURNING space"
                new = self._rows(query, target, ns, head, seq)[0][0]
                for table, columns in _COPIED.items():
                    query = f"INSERT INTO runwell_{table} (space, {columns}) SELECT ?, {columns} FROM runwell_{table}"
                    self._rows(f"{query} WHERE space = ?", new, space)

    def remove_rows(
        self, thread: str, ns: str, drop: Sequence[int], hide: Sequence[int], changes: Sequence[tuple[str, int]]
    ) -> None:
        with self.file.transaction() as connection:
            space = self._rows("SELECT space FROM runwell_threads WHERE thread = ? AND ns = ?", thread, ns)[0][0]
            delete = "DELETE FROM runwell_{} WHERE space = ? AND seq = ?"
            connection.executemany(delete.format("tasks"), [(space, seq) for seq in (*drop, *hide)])
            connection.executemany(delete.format("checkpoints"), [(space, seq) for seq in drop])
            empty = "UPDATE runwell_checkpoints SET meta = x'', chains = x'' WHERE space = ? AND seq = ?"
            connection.executemany(empty, [(space, seq) for seq in hide])
            query = "DELETE FROM runwell_changes WHERE space = ? AND channel = ? AND seq = ?"
            connection.executemany(query, [(space, *each) for each in changes])
            named = "SELECT data FROM runwell_changes WHERE space = ? AND kind = 3"
            self._rows(f"DELETE FROM runwell_blobs WHERE space = ? AND digest NOT IN ({named})", space, space)

    def remove_namespace(self, thread: str, ns: str) -> None:
        with self.file.transaction():
            self._remove("thread = ? AND ns = ?", thread, ns)

    def remove_idle(self, before: float) -> list[str]:
        query = """SELECT t.thread FROM runwell_threads t JOIN runwell_checkpoints c USING (space, seq)
            GROUP BY t.thread HAVING max(c.created_at) < ?"""
        with self.file.transaction():
            idle = [thread for (thread,) in self._rows(query, before)]
            for thread in idle:
                self.remove_thread(thread)
            return idle


def _adds_many(commit: Commit) -> bool:
    """Whether to encode it alone would take longer than an event loop is to be held up."""
    return any(items(new) > items(old) + MANY for old, new in commit.changes.values())


@lru_cache
def _parts(channels: int) -> str:
    """The tasks of one checkpoint, and spans of so many channels' changes."""
    space = "(SELECT space FROM runwell_threads WHERE thread = ?1 AND ns = ?2)"
    parts = [f"SELECT -1, task, seq, place, data FROM runwell_tasks WHERE space = {space} AND seq = ?3"]
    for at in range(4, 4 + 3 * channels, 3):
        which = f"channel = ?{at} AND seq BETWEEN ?{at + 1} AND ?{at + 2}"
        parts.append(
            f"SELECT kind, channel, seq, branch, {_DATA} FROM runwell_changes c WHERE space = {space} AND {which}"
        )
    return " UNION ALL ".join(parts)


_BRIEF = frozenset({SqliteSaver.commit, SqliteSaver.save_task, SqliteSaver.take, SqliteSaver.release})
"""What `at_once` may do in place."""
_WRITES = ("read", "read_checkpoint", "write_commit", "write_task", "write_take", "write_release")

_COPIED = {
    "checkpoints": "seq, id, parent_seq, branch, step, source, created_at, chains, meta",
    "changes": "channel, seq, branch, kind, data",
    "blobs": "digest, data",
    "tasks": "seq, place, task, data, asks",
}

AsyncSqliteSaver = SqliteSaver
"""The same: every saver works in both colours."""
