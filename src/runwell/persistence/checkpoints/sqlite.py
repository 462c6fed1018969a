"""Checkpoints in an SQLite file."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal, Self

from runwell.errors import CheckpointCorrupt, InvalidConfig, StorageError
from runwell.persistence.checkpoints.rows import ChangeRow, CheckpointRow
from runwell.persistence.checkpoints.saver import BaseCheckpointSaver
from runwell.persistence.checkpoints.sqlite_schema import migrate

__all__ = ["AsyncSqliteSaver", "SqliteSaver"]

BUSY_S = 30.0
"""How long a write waits for another process's. Chosen, not measured."""

_SPACE = "(SELECT space FROM runwell_threads WHERE thread = ? AND ns = ?)"
_CHECKPOINT = """SELECT c.seq, c.id, p.id, c.parent_seq, c.branch, c.step, c.source, c.created_at, c.chains, c.meta
    FROM runwell_checkpoints c LEFT JOIN runwell_checkpoints p ON p.space = c.space AND p.seq = c.parent_seq"""


class SqliteSaver(BaseCheckpointSaver):
    """Keeps checkpoints in an SQLite file: embedded, and safe for several threads and processes at once.

    `path_or_connection` is a file (made when it does not exist), `":memory:"`, a `file:` URI, or an open
    `sqlite3.Connection`, which stays yours to close and needs `check_same_thread=False` for use in other threads.

    With `synchronous="normal"` a saved step survives the death of the process; with `"full"` also a power cut, for some
    milliseconds more per save. `allow` lists classes of yours that may be saved and loaded.

    Raises StorageError, naming the file, when it cannot be opened or is not an SQLite database; such a file is left as
    it is. Close it with `close()` or a `with` block; the file can be opened again by another saver at any time.
    """

    def __init__(
        self,
        path_or_connection: str | os.PathLike[str] | sqlite3.Connection,
        *,
        synchronous: Literal["normal", "full"] = "normal",
        allow: Iterable[type] = (),
    ) -> None:
        super().__init__(allow=allow)
        if synchronous not in ("normal", "full"):
            raise InvalidConfig(
                f"SqliteSaver got synchronous={synchronous!r}.", hint='Use "normal" (the default) or "full".'
            )
        if sqlite3.sqlite_version_info < (3, 35):
            raise StorageError(
                f"SqliteSaver needs SQLite 3.35 or newer; this Python has {sqlite3.sqlite_version}.",
                hint="Use a newer Python, or InMemorySaver.",
            )
        self._synchronous = synchronous
        self._lock = threading.RLock()
        self._owned = not isinstance(path_or_connection, sqlite3.Connection)
        self._connection: sqlite3.Connection | None = None
        if isinstance(path_or_connection, sqlite3.Connection):
            self.path = _path_of(path_or_connection)
            self._prepare(path_or_connection)
            self._connection = path_or_connection
        else:
            self.path = os.fspath(path_or_connection)
            if not self.path:
                raise InvalidConfig("SqliteSaver got an empty path.", hint='Give a file name, or ":memory:".')
            self._connection = self._open()
        self._process = os.getpid()

    @classmethod
    def from_conn_string(cls, conn_string: str, **settings: Any) -> Self:
        """A saver on the file, for use in a `with` (or `async with`) block."""
        return cls(conn_string, **settings)

    def close(self) -> None:
        """Close the file (not a connection that was given). Harmless when repeated; later calls raise StorageError."""
        super().close()
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None and self._owned:
                connection.close()

    # -- the connection

    def _open(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                self.path,
                timeout=BUSY_S,
                isolation_level=None,  # transactions are begun in so many words
                check_same_thread=False,  # the lock sees to that
                uri=self.path.startswith("file:"),
            )
        except sqlite3.Error as error:
            raise self._failed(error) from error
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if connection.in_transaction:
            raise StorageError(
                "SqliteSaver was given a connection with an open transaction.",
                hint="Commit or roll it back first; each save is a transaction of its own.",
            )
        try:
            connection.execute(f"PRAGMA busy_timeout = {int(BUSY_S * 1000)}")
            _use_wal(connection)
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute("PRAGMA foreign_keys = ON")
            migrate(connection, self.path)
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _connected(self) -> sqlite3.Connection:
        connection = self._connection
        if connection is None:
            raise StorageError(f"The saver on {self.path!r} is closed.", hint="Make a new SqliteSaver.")
        if self._process != os.getpid() and self._owned:
            # An SQLite connection must not be used across a fork: the child opens the file anew and leaves the
            # parent's connection alone (closing it would release the parent's locks).
            _abandoned.append(connection)
            self._connection, self._process = self._open(), os.getpid()
            return self._connection
        return connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                connection = self._connected()
                try:
                    connection.execute(begin)
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    connection.rollback()
                    raise
            except sqlite3.Error as error:
                raise self._failed(error) from error

    def _failed(self, error: sqlite3.Error) -> StorageError:
        """What SQLite reports, with the file and the next thing to do."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_NOTADB:
            return StorageError(
                f"{self.path!r} is not an SQLite database. It was left as it is.",
                hint="Give another path, or move the file away.",
            )
        if code == sqlite3.SQLITE_CORRUPT:
            return CheckpointCorrupt(
                f"The SQLite file {self.path!r} is damaged: {error}.",
                hint=f"Restore it from a backup, or save what is readable: sqlite3 {self.path} .recover",
            )
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            failed = StorageError(
                f"{self.path!r} was locked by another writer for {BUSY_S:g} s. Nothing was saved.",
                hint="Look for a process that keeps a transaction on the file open.",
            )
            failed.retryable = True
            return failed
        hints = {
            sqlite3.SQLITE_FULL: "Free some space on the disk, then run again: the thread is as it was.",
            sqlite3.SQLITE_CANTOPEN: "Does the directory exist, and may this user write to it?",
            sqlite3.SQLITE_READONLY: "Make the file and its directory writable for this user.",
        }
        if isinstance(error, sqlite3.ProgrammingError) and not self._owned:
            hints[code] = "Open the connection with sqlite3.connect(..., check_same_thread=False) and keep it open."
        return StorageError(f"{self.path!r}: {error}.", hint=hints.get(code))

    # -- reading

    def reading(self) -> AbstractContextManager[Any]:
        return self._transaction("BEGIN")

    def _rows(self, query: str, *values: Any) -> list[Any]:
        cursor = self._connected().cursor()
        cursor.row_factory = None  # a connection that was given may have another
        return cursor.execute(query, values).fetchall()

    def read_checkpoint(self, thread: str, ns: str, checkpoint_id: str | None) -> CheckpointRow | None:
        if checkpoint_id is None:
            which = "JOIN runwell_threads t ON t.space = c.space AND t.seq = c.seq WHERE t.thread = ? AND t.ns = ?"
            rows = self._rows(f"{_CHECKPOINT} {which}", thread, ns)
        else:
            rows = self._rows(f"{_CHECKPOINT} WHERE c.space = {_SPACE} AND c.id = ?", thread, ns, checkpoint_id)
        return CheckpointRow(*rows[0]) if rows else None

    def read_seq(self, thread: str, ns: str, seq: int) -> CheckpointRow | None:
        rows = self._rows(f"{_CHECKPOINT} WHERE c.space = {_SPACE} AND c.seq = ?", thread, ns, seq)
        return CheckpointRow(*rows[0]) if rows else None

    def read_checkpoints(self, thread: str, ns: str, before: int | None, limit: int | None) -> list[CheckpointRow]:
        rows = self._rows(
            f"{_CHECKPOINT} WHERE c.space = {_SPACE} AND c.seq < ? ORDER BY c.seq DESC LIMIT ?",
            thread,
            ns,
            2**62 if before is None else before,
            -1 if limit is None else limit,
        )
        return [CheckpointRow(*row) for row in rows]

    def read_changes(self, thread: str, ns: str, channel: str, first: int, last: int) -> list[ChangeRow]:
        query = f"""SELECT seq, branch, kind, data FROM runwell_changes
            WHERE space = {_SPACE} AND channel = ? AND seq BETWEEN ? AND ? ORDER BY seq"""
        return [ChangeRow(*row) for row in self._rows(query, thread, ns, channel, first, last)]

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

    def read_threads(self) -> list[str]:
        query = """SELECT t.thread FROM runwell_threads t JOIN runwell_checkpoints c USING (space, seq)
            GROUP BY t.thread ORDER BY max(c.created_at), max(t.space)"""
        return [thread for (thread,) in self._rows(query)]

    # -- writing

    def write_commit(
        self,
        thread: str,
        ns: str,
        expect_head: str | None,
        row: CheckpointRow,
        changes: Sequence[tuple[str, int, bytes]],
    ) -> None:
        with self._transaction("BEGIN IMMEDIATE"):
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
            for channel, kind, data in changes:
                query = "INSERT INTO runwell_changes VALUES (?, ?, ?, ?, ?, ?)"
                self._rows(query, space, channel, row.seq, row.branch, kind, data)

    def write_task(self, thread: str, ns: str, checkpoint_id: str, task_id: str, data: bytes) -> None:
        # `place` keeps the order in which tasks were first saved.
        query = f"""INSERT INTO runwell_tasks (space, seq, place, task, data)
            SELECT c.space, c.seq,
                (SELECT count(*) FROM runwell_tasks t WHERE t.space = c.space AND t.seq = c.seq), ?, ?
            FROM runwell_checkpoints c WHERE c.space = {_SPACE} AND c.id = ?
            ON CONFLICT (space, seq, task) DO UPDATE SET data = excluded.data RETURNING seq"""
        with self._transaction("BEGIN IMMEDIATE"):
            if not self._rows(query, task_id, data, thread, ns, checkpoint_id):
                raise self.no_checkpoint(thread, ns, checkpoint_id)

    def remove_thread(self, thread: str) -> None:
        with self._transaction("BEGIN IMMEDIATE"):
            for table in ("tasks", "changes", "checkpoints", "threads"):
                of_thread = "space IN (SELECT space FROM runwell_threads WHERE thread = ?)"
                self._rows(f"DELETE FROM runwell_{table} WHERE {of_thread}", thread)


AsyncSqliteSaver = SqliteSaver
"""The same: every saver works in both colours."""

_abandoned: list[sqlite3.Connection] = []


def _path_of(connection: sqlite3.Connection) -> str:
    try:
        return next((file for _, name, file in connection.execute("PRAGMA database_list") if name == "main"), "")
    except sqlite3.Error:
        return "the connection given"


def _use_wal(connection: sqlite3.Connection) -> None:
    """Turn write-ahead logging on, unless it is. SQLite does not wait for other users of the file here, so we do."""
    deadline = time.monotonic() + BUSY_S
    while connection.execute("PRAGMA journal_mode").fetchone()[0] not in ("wal", "memory"):
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            return
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
