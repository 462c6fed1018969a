"""Statements that may only read: who sees to it, in each kind of database."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from runwell.errors import InvalidInput

__all__ = ["check_enforceable", "reading"]

_READS = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE))
_FORBIDDEN_FUNCTIONS = frozenset(("load_extension", "fts3_tokenizer", "writefile", "edit"))
_MOST_BYTES = 20_000_000
"""Of one value: building a text of a gigabyte is a single instruction, in which SQLite looks at no clock."""
GRACE_S = 1.0
"""How long the database has to end a statement by itself."""
_BUFFERED = 20
"""Rows that are fetched from PostgreSQL at once: each may be large."""
_INSTRUCTIONS = 10_000
"""SQLite looks at the clock after so many of its instructions: well under a millisecond."""


def check_enforceable(engine: Any) -> None:
    """Raises InvalidInput for a database that cannot be held to reading."""
    kind = engine.dialect.name
    if kind == "sqlite" or (kind == "postgresql" and engine.dialect.driver == "psycopg"):
        return
    raise InvalidInput(
        f"Nothing can hold a {kind!r} database reached by {engine.dialect.driver!r} to reading.",
        hint="SQLite and postgresql+psycopg can. For others: a user who may only read, and read_only=False.",
    )


@contextmanager
def reading(connection: Any, seconds: float) -> Iterator[Any]:
    """A connection whose statements may read and nothing else, each at most `seconds`; what it began is rolled back."""
    if connection.dialect.name == "sqlite":
        with _sqlite(connection.connection.dbapi_connection, seconds):
            yield connection.execution_options(no_parameters=True)
        return
    # The transaction is read-only, and can no longer be made another once it has read. The query goes out as the body
    # of a cursor, by the protocol that takes one statement: what follows a semicolon is refused, not run.
    limited = connection.execution_options(
        postgresql_readonly=True, no_parameters=True, stream_results=True, max_row_buffer=_BUFFERED
    )
    limited.exec_driver_sql(
        f"SELECT set_config('statement_timeout', '{int(seconds * 1000)}', true)",
        execution_options={"stream_results": False},
    )
    # A statement can lift its own limit of time, for what is fetched of it later.
    ended = threading.Timer(seconds + GRACE_S, connection.connection.dbapi_connection.cancel)
    ended.daemon = True
    ended.start()
    try:
        yield limited
    finally:
        ended.cancel()


@contextmanager
def _sqlite(raw: Any, seconds: float) -> Iterator[None]:
    deadline = time.monotonic() + seconds
    length = raw.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES)
    raw.set_authorizer(_authorize)  # asked for every action of every statement, those prepared before included
    raw.set_progress_handler(lambda: time.monotonic() > deadline, _INSTRUCTIONS)
    try:
        yield
    finally:
        raw.set_progress_handler(None, 0)
        raw.set_authorizer(None)
        raw.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, length)


def _authorize(action: int, first: str | None, second: str | None, schema: str | None, inner: str | None) -> int:
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FORBIDDEN_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in _READS else sqlite3.SQLITE_DENY
