"""A PostgreSQL database: a pool of connections that is mended when they die, transactions, errors, migrations."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar
from weakref import finalize

from runwell.errors import InvalidConfig, InvalidInput, MissingExtra, StorageError
from runwell.persistence.databases.sqlite import Migrations, too_new
from runwell.persistence.databases.text import half_character

if TYPE_CHECKING:
    import psycopg
    from psycopg_pool import ConnectionPool

__all__ = ["PostgresDatabase"]

T = TypeVar("T")
Mode = Literal["single", "snapshot", "together"]

WAIT_S = 30.0
"""How long a call waits for a connection, and for a server that is starting again. Chosen, not measured."""
_PAUSES: Final = (0.0, 0.02, 0.1, 0.3)
"""How long to wait before each further try. A server that stops ends its connections one after the other, so the next
one that is tried may be about to die like the first; a new one there is only from the server that has started again."""
_COLLIDED: Final = ("40P01", "40001")
"""Two transactions waited for each other, or could not have run one after the other: nothing was done."""
_LOCK: Final = 7310579871154
"""Names the lock under which tables are made; any number that other programs do not use."""


class PostgresDatabase:
    """Where statements run: a pool made from a URL, a pool that was given, or one connection that was given.

    Work that dies with its connection, or of a deadlock, is done again, so it must not mind being done twice. A
    pool is opened when it is first needed, and anew in a forked child. Safe to share between threads.
    """

    def __init__(
        self,
        target: str | ConnectionPool[Any] | psycopg.Connection[Any],
        *,
        room: str,
        migrations: Migrations,
        owner: str,
        max_connections: int = 8,
    ) -> None:
        try:
            import psycopg
            import psycopg_pool
        except ImportError as error:
            raise MissingExtra(owner, "postgres") from error
        self._psycopg, self._psycopg_pool = psycopg, psycopg_pool
        self.room, self.migrations, self.owner = room, migrations, owner
        self._max = max_connections
        self._lock = threading.RLock()
        self._local = threading.local()  # the connection of the transaction this thread is in
        self._ready = self._closed = False
        self._url: str | None = None
        self._pool: ConnectionPool[Any] | None = None
        self._connection: psycopg.Connection[Any] | None = None
        if isinstance(target, str):
            try:
                psycopg.conninfo.conninfo_to_dict(target)
            except psycopg.ProgrammingError as error:
                raise InvalidConfig(
                    f"{owner} got a connection string that PostgreSQL cannot read: {error}",
                    hint='It looks like "postgresql://user:password@host:5432/database".',
                ) from None  # the error may hold the password
            self._url = target
        elif isinstance(target, psycopg_pool.ConnectionPool):
            self._pool = target
        elif isinstance(target, psycopg.Connection):
            self._connection = target
        else:
            raise InvalidConfig(
                f"{owner} got a {type(target).__name__}.",
                hint="Give a connection string, a psycopg_pool.ConnectionPool or a psycopg.Connection (not async ones: "
                "the async forms use the same).",
            )
        self._process = os.getpid()

    def close(self) -> None:
        """Close the pool, unless it was given. Harmless when repeated; later calls raise StorageError."""
        with self._lock:
            self._closed = True
            if self._url is not None and self._pool is not None:
                pool, self._pool = self._pool, None
                pool.close()

    # -- running

    def run(self, work: Callable[[psycopg.Connection[Any], bool], T], mode: Mode = "single") -> T:
        """What `work(connection, again)` gives.

        "single": each statement stands for itself. "snapshot": all that it reads is of one moment. "together": all that
        it writes is kept, or nothing. `again` says that it may have been done already, and the connection died before
        that was known. Within `transaction`, work belongs to that.
        """
        current = getattr(self._local, "connection", None)
        if current is not None:
            return work(current, False)
        self.setup()
        try:
            if self._connection is not None:
                with self._lock:
                    return self._within(self._connection, work, mode, False)
            again = False
            for pause in _PAUSES:
                with self._borrowed() as connection:
                    try:
                        return self._within(connection, work, mode, again)
                    except (self._psycopg.OperationalError, self._psycopg.InterfaceError) as error:
                        if not connection.closed and error.sqlstate not in _COLLIDED:
                            raise
                again = True
                time.sleep(pause)
                self._mend()
            with self._borrowed() as connection:
                return self._within(connection, work, mode, again)
        except UnicodeEncodeError as error:
            raise half_character(error) from None
        except self._psycopg.Error as error:
            raise self.failed(error) from error

    def _within(
        self,
        connection: psycopg.Connection[Any],
        work: Callable[[psycopg.Connection[Any], bool], T],
        mode: Mode,
        again: bool,
    ) -> T:
        if mode == "single":
            if connection.autocommit:
                return work(connection, again)
            with connection.transaction():
                return work(connection, again)
        idle = connection.info.transaction_status == self._psycopg.pq.TransactionStatus.IDLE
        if idle and mode == "snapshot":
            connection.isolation_level = self._psycopg.IsolationLevel.REPEATABLE_READ
        try:
            with connection.transaction(), self._joined(connection):
                return work(connection, again)
        finally:
            if idle and not connection.closed:
                connection.isolation_level = None

    @contextmanager
    def _joined(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """What this thread runs meanwhile belongs to the transaction of this connection."""
        self._local.connection = connection
        try:
            yield
        finally:
            self._local.connection = None

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """All or nothing; within another transaction of this thread, a part of that one. Not done again by itself."""
        current = getattr(self._local, "connection", None)
        try:
            if current is not None:
                with current.transaction():
                    yield current
                return
            self.setup()
            if self._connection is not None:
                with self._lock, self._connection.transaction(), self._joined(self._connection):
                    yield self._connection
                return
            with self._borrowed() as connection, connection.transaction(), self._joined(connection):
                yield connection
        except self._psycopg.Error as error:
            raise self.failed(error) from error

    def rows(self, query: str, *values: Any) -> list[Any]:
        """What a statement gives, as tuples; alone, or within what this thread has begun."""
        return self.run(lambda connection, again: fetch(connection, query, values))

    # -- connections

    @contextmanager
    def _borrowed(self) -> Iterator[psycopg.Connection[Any]]:
        pool = self._opened()
        connection = pool.getconn()
        try:
            yield connection
        finally:
            if not connection.closed and not connection.autocommit and self._url is None:
                connection.rollback()  # a pool that was given may have connections that begin by themselves
            pool.putconn(connection)

    def _opened(self) -> ConnectionPool[Any]:
        with self._lock:
            if self._closed:
                raise StorageError(f"This {self.owner} is closed.", hint=f"Make a new {self.owner}.")
            if self._process != os.getpid():
                # Connections cannot be used across a fork. The parent's are left alone.
                if self._url is None:
                    raise StorageError(
                        f"A {self.owner} on a pool or connection of yours was used in a forked process.",
                        hint="Give it a connection string, or make it in the process that uses it.",
                    )
                _abandoned.append(self._pool)
                self._pool, self._process = None, os.getpid()
            if self._pool is None:
                assert self._url is not None
                self._pool = self._psycopg_pool.ConnectionPool(
                    self._url,
                    kwargs={"autocommit": True, "fallback_application_name": "runwell"},
                    min_size=0,
                    max_size=self._max,
                    timeout=WAIT_S,
                    name=f"runwell-{self.room}",
                    open=False,
                )
                self._pool.open()
                finalize(
                    self, _close_dropped, self._pool, os.getpid()
                )  # also before the program's end, for its threads
            return self._pool

    def _mend(self) -> None:
        """Replace what else has died, so that the second try does not meet the next dead connection."""
        self._opened().check()

    # -- migrations

    def setup(self) -> None:
        """Make the tables, or bring them up to date; nothing happens when they are. Called by itself at first use.

        Plain statements in one transaction: on a connection that was given and has one open they belong to that one,
        and go when it is rolled back.
        """
        if self._ready and self._process == os.getpid():
            return
        try:
            if self._connection is not None:
                with self._lock:
                    outer = self._connection.info.transaction_status
                    with self._connection.transaction():
                        self._migrate(self._connection)
                    self._ready = outer == self._psycopg.pq.TransactionStatus.IDLE
                return
            with self._borrowed() as connection, connection.transaction():
                self._migrate(connection)
            self._ready = True
        except self._psycopg.Error as error:
            raise self.failed(error) from error

    @property
    def ready(self) -> bool:
        """Whether the tables are there for good, and not only in a transaction that may yet be rolled back."""
        return self._ready

    def _migrate(self, connection: psycopg.Connection[Any]) -> None:
        version = self._version(connection)
        if version == len(self.migrations):
            return
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))  # several processes may be at it
        connection.execute(
            "CREATE TABLE IF NOT EXISTS runwell_schema (room TEXT PRIMARY KEY, version INTEGER NOT NULL)"
        )
        version = self._version(connection)
        if version > len(self.migrations):
            raise too_new(connection.info.dbname, self.room, version, len(self.migrations))
        for steps in self.migrations[version:]:
            for step in steps:
                connection.execute(step)
        connection.execute(
            "INSERT INTO runwell_schema VALUES (%s, %s) ON CONFLICT (room) DO UPDATE SET version = excluded.version",
            (self.room, len(self.migrations)),
        )

    def _version(self, connection: psycopg.Connection[Any]) -> int:
        if fetch(connection, "SELECT to_regclass('runwell_schema')", ())[0][0] is None:
            return 0
        rows = fetch(connection, "SELECT version FROM runwell_schema WHERE room = %s", (self.room,))
        return rows[0][0] if rows else 0

    # -- errors

    def failed(self, error: psycopg.Error) -> StorageError | InvalidInput:
        """What PostgreSQL or psycopg reports, with the next thing to do."""
        text = str(error).strip() or type(error).__name__
        if isinstance(error, self._psycopg.DataError) and "NUL" in text:
            return InvalidInput(
                "PostgreSQL cannot hold a zero character in an id, a name or a key.", hint="Use an id without it."
            )
        if isinstance(error, self._psycopg_pool.PoolTimeout):
            failed = StorageError(
                f"No connection to PostgreSQL within {WAIT_S:g} s: {text}.",
                hint="Is the server up and reachable, and are its max_connections enough?",
            )
            failed.retryable = True
            return failed
        hints = {
            "53100": "Free some space on the server's disk, then run again: nothing was changed.",
            "42P01": "Tables of runwell were dropped by hand. Restore them from a backup; to begin anew, drop what is "
            f"left of its {self.room}, and their row in runwell_schema.",
            "42501": "Give the database user the right to create tables, or have an administrator call setup() once.",
        }
        failed = StorageError(f"PostgreSQL: {text}.", hint=hints.get(error.sqlstate or ""))
        failed.retryable = isinstance(error, self._psycopg.OperationalError)
        return failed


_abandoned: Final[list[Any]] = []


def _close_dropped(pool: ConnectionPool[Any], process: int) -> None:
    if process == os.getpid():
        pool.close()
    else:
        _abandoned.append(pool)


def fetch(connection: psycopg.Connection[Any], query: str, values: Any) -> list[Any]:
    """What a statement gives, as tuples whatever the connection's own kind of row is."""
    from psycopg.rows import tuple_row

    with connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(query, values)
        return cursor.fetchall() if cursor.description is not None else []
