"""An SQLite file: opened right, safe for several threads and processes, its tables brought up to date."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, TypeVar
from weakref import finalize

from runwell.effects import Later
from runwell.errors import CheckpointCorrupt, InvalidConfig, StorageError
from runwell.persistence.databases.pace import Pace
from runwell.persistence.databases.text import half_character

__all__ = ["Migrations", "SqliteFile", "too_new"]

T = TypeVar("T")

BUSY_S = 30.0
"""How long a write waits for another process's. Chosen, not measured."""
PAGES = 1000
"""In its log, past which SQLite brings them into the file after a write. As it does by itself."""
SMALL = 65_536
"""Bytes that a write in place may have. Their pages take about 0.1 ms. Chosen."""

Migrations = Sequence[Sequence[str]]
"""Append only: a released step is never changed, since files that have taken it exist. Each is one transaction."""

Synchronous = Literal["normal", "full"]


class SqliteFile:
    """One connection for all threads, behind a lock; opened anew in a forked child.

    `path_or_connection` is a file (made when it does not exist), `":memory:"`, a `file:` URI, or an open connection,
    which stays its owner's to close. `room` and `migrations` name the tables of one user of the file (several may share
    it); `owner` is the class that errors speak of.
    """

    def __init__(
        self,
        path_or_connection: str | os.PathLike[str] | sqlite3.Connection,
        *,
        room: str,
        migrations: Migrations,
        owner: str,
        synchronous: Synchronous = "normal",
    ) -> None:
        if synchronous not in ("normal", "full"):
            raise InvalidConfig(
                f"{owner} got synchronous={synchronous!r}.", hint='Use "normal" (the default) or "full".'
            )
        if sqlite3.sqlite_version_info < (3, 35):
            raise StorageError(
                f"{owner} needs SQLite 3.35 or newer; this Python has {sqlite3.sqlite_version}.",
                hint="Use a newer Python, or keep the data in memory.",
            )
        self.room, self.migrations, self.owner = room, migrations, owner
        self._synchronous = synchronous
        self._lock = threading.RLock()
        self._depth = 0
        self._pace = Pace()
        self._hurried = False
        """Whether the connection is set to wait for nothing: no other writer, no checkpoint of the log."""
        self.in_place = False
        """Whether what is done now is `at_once`, which does not wait."""
        self.owned = not isinstance(path_or_connection, sqlite3.Connection)
        self.connection: sqlite3.Connection | None = None
        if isinstance(path_or_connection, sqlite3.Connection):
            self.path = _path_of(path_or_connection)
            self._prepare(path_or_connection)
            self.connection = path_or_connection
        else:
            self.path = os.fspath(path_or_connection)
            if not self.path:
                raise InvalidConfig(f"{owner} got an empty path.", hint='Give a file name, or ":memory:".')
            self.connection = self._open()
        self._process = os.getpid()

    def close(self) -> None:
        """Close the file (not a connection that was given). Harmless when repeated; later calls raise StorageError."""
        with self._lock:
            connection, self.connection = self.connection, None
            if connection is not None and self.owned:
                connection.close()

    @contextmanager
    def transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """All or nothing. Within another transaction of the same thread it is a part of that one."""
        with self._lock:
            try:
                connection = self._connected()
                if self._depth:  # a part of the outer one: undone alone, kept together
                    connection.execute("SAVEPOINT runwell")
                    self._depth += 1
                    try:
                        yield connection
                    except BaseException:
                        if connection.in_transaction:  # a full disk has ended all of it
                            connection.execute("ROLLBACK TO runwell")
                            connection.execute("RELEASE runwell")
                        raise
                    finally:
                        self._depth -= 1
                    connection.execute("RELEASE runwell")
                    return
                try:
                    connection.execute(begin)
                    self._depth = 1
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    connection.rollback()
                    raise
                finally:
                    self._depth = 0
            except sqlite3.Error as error:
                raise self.failed(error) from error

    def read(self, work: Callable[[], T]) -> T:
        """What `work` gives; all that it reads is of one moment."""
        with self._lock:
            if self._depth:
                return work()
            try:
                connection = self._connected()
                connection.execute("BEGIN")
                self._depth = 1
                try:
                    return work()
                finally:
                    self._depth = 0
                    connection.rollback()  # there is nothing to keep
            except sqlite3.Error as error:
                raise self.failed(error) from error

    def at_once(self, work: Callable[[], T]) -> T | Later[T]:
        """What `work` gives, a small write or two, or `Later` where that may take longer than handing it to a thread.

        For event loops, which it holds up for tens of microseconds: it waits for no other writer and for no sync of the
        disk. SQLite in WAL mode with synchronous=NORMAL syncs only to bring its log into the file, so that is left to
        the writes that go to a thread. After one that was slow all the same the next ones go there. Some always do:
        with "full", on a connection that was given, within a transaction, in a forked child's first.
        """
        connection = self.connection
        if (
            connection is None
            or not self.owned
            or self._synchronous != "normal"
            or self._process != os.getpid()
            or not self._lock.acquire(blocking=False)
        ):
            return Later(work)
        try:
            if self._depth or self.in_place or not self._pace.in_place():
                return Later(work)
            self._hurry(connection, True)
            self.in_place = True
            start = time.perf_counter()
            try:
                return work()
            except NotAtOnce:
                return Later(work)
            except StorageError as error:
                if not _busy(error.__cause__):
                    raise
                return Later(work)  # undone
            finally:
                self.in_place = False
                self._pace.took(time.perf_counter() - start)
        finally:
            self._lock.release()

    def allow(self, size: int) -> None:
        """Before so many bytes are written. Too many for `at_once`: raises what that takes for `Later`."""
        if self.in_place and size > SMALL:
            raise NotAtOnce

    def rows(self, query: str, *values: Any) -> list[Any]:
        """What a statement gives, as plain tuples; inside a transaction, or alone."""
        with self._lock:
            connection = self._connected()
            try:
                if connection.row_factory is None:
                    return connection.execute(query, values).fetchall()
                cursor = connection.cursor()
                cursor.row_factory = None  # a connection that was given may have another
                return cursor.execute(query, values).fetchall()
            except UnicodeEncodeError as error:
                raise half_character(error) from None
            except sqlite3.Error as error:
                if self._depth:
                    raise  # the transaction is undone first
                raise self.failed(error) from error

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
            raise self.failed(error) from error
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        # From Python 3.13 on a connection that is dropped while it is open warns of itself.
        finalize(self, _close_dropped, connection, os.getpid()).atexit = False
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if connection.in_transaction:
            raise StorageError(
                f"{self.owner} was given a connection with an open transaction.",
                hint="Commit or roll it back first; each save is a transaction of its own.",
            )
        try:
            self._hurry(connection, False)
            _use_wal(connection)
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute("PRAGMA foreign_keys = ON")
            self._migrate(connection)
        except sqlite3.Error as error:
            raise self.failed(error) from error

    def _connected(self) -> sqlite3.Connection:
        connection = self.connection
        if connection is None:
            raise StorageError(f"The {self.owner} on {self.path!r} is closed.", hint=f"Make a new {self.owner}.")
        if self._process != os.getpid() and self.owned:
            # An SQLite connection must not be used across a fork: the child opens the file anew and leaves the
            # parent's connection alone (closing it would release the parent's locks).
            _abandoned.append(connection)
            self.connection, self._process = self._open(), os.getpid()
            return self.connection
        if self._hurried and not self.in_place:
            self._hurry(connection, False)
        return connection

    def _hurry(self, connection: sqlite3.Connection, hurried: bool) -> None:
        """Set whether a write waits, for another writer and for the disk. It stays, as most that follow are alike."""
        if hurried is not self._hurried or not hurried:
            connection.execute(f"PRAGMA busy_timeout = {0 if hurried else int(BUSY_S * 1000)}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {0 if hurried else PAGES}")
            self._hurried = hurried

    # -- migrations

    def _migrate(self, connection: sqlite3.Connection) -> None:
        """Take the steps that the file has not taken. Several processes may do so at once."""
        if self._version(connection) == len(self.migrations):
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS runwell_schema (room TEXT PRIMARY KEY, version INTEGER NOT NULL) "
                "WITHOUT ROWID"
            )
            version = self._version(connection)  # again, now that no other process can be at it
            if version > len(self.migrations):
                raise too_new(self.path, self.room, version, len(self.migrations))
            for steps in self.migrations[version:]:
                for step in steps:
                    connection.execute(step)
            connection.execute(
                "INSERT INTO runwell_schema VALUES (?, ?) ON CONFLICT (room) DO UPDATE SET version = excluded.version",
                (self.room, len(self.migrations)),
            )
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise

    def _version(self, connection: sqlite3.Connection) -> int:
        """How many steps the file has taken."""
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'runwell_schema'").fetchone():
            return 0
        row = connection.execute("SELECT version FROM runwell_schema WHERE room = ?", (self.room,)).fetchone()
        return row[0] if row else 0

    # -- errors

    def failed(self, error: sqlite3.Error) -> StorageError:
        """What SQLite reports, with the file and the next thing to do."""
        code = _code(error)
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
        if _busy(error):
            failed = StorageError(
                f"{self.path!r} was locked by another writer for {BUSY_S:g} s. Nothing was saved.",
                hint="Look for a process that keeps a transaction on the file open.",
            )
            failed.retryable = True
            return failed
        hints = {
            sqlite3.SQLITE_FULL: "Free some space on the disk, then run again: nothing was changed.",
            sqlite3.SQLITE_CANTOPEN: "Does the directory exist, and may this user write to it?",
            sqlite3.SQLITE_READONLY: "Make the file and its directory writable for this user.",
        }
        if code == sqlite3.SQLITE_IOERR:
            hints[code] = "Does the disk work, and may the file still grow? Nothing was changed."
        if "no such table: runwell_" in str(error) or "no such column" in str(error):
            hints[code] = (
                "Tables of runwell were dropped or changed by hand. Restore the file from a backup; to begin anew, "
                f"drop what is left of its {self.room}, and their row in runwell_schema."
            )
        if isinstance(error, sqlite3.ProgrammingError) and not self.owned:
            hints[code] = "Open the connection with sqlite3.connect(..., check_same_thread=False) and keep it open."
        return StorageError(f"{self.path!r}: {error}.", hint=hints.get(code))


class NotAtOnce(Exception):
    """What was begun by `at_once` is too much for it. It is undone."""


def _code(error: BaseException | None) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _busy(error: BaseException | None) -> bool:
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def too_new(place: str, room: str, version: int, known: int) -> StorageError:
    """The error for tables that a newer runwell has made."""
    return StorageError(
        f"{place!r} holds {room} of version {version}; this runwell knows up to {known}.",
        hint="They were written by a newer runwell: upgrade this one. Nothing was changed.",
    )


_abandoned: Final[list[sqlite3.Connection]] = []


def _close_dropped(connection: sqlite3.Connection, process: int) -> None:
    if process == os.getpid():
        connection.close()
    else:
        _abandoned.append(connection)


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
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
