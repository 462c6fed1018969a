"""The tables of `SqliteSaver`, and how a file of any earlier version is brought up to date."""

from __future__ import annotations

import sqlite3
from typing import Final

from runwell.errors import StorageError

__all__ = ["MIGRATIONS", "migrate"]

ROOM: Final = "checkpoints"

# Append only: a released step is never changed, since files that have taken it exist. Each is one transaction.
MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        # One row for each namespace of a thread; `head` is compared and set by every commit.
        """CREATE TABLE runwell_threads (
            space INTEGER PRIMARY KEY AUTOINCREMENT,
            thread TEXT NOT NULL,
            ns TEXT NOT NULL,
            head TEXT NOT NULL,
            seq INTEGER NOT NULL,
            UNIQUE (thread, ns)
        )""",
        """CREATE TABLE runwell_checkpoints (
            space INTEGER NOT NULL REFERENCES runwell_threads ON DELETE CASCADE,
            seq INTEGER NOT NULL,
            id TEXT NOT NULL,
            parent_seq INTEGER NOT NULL,
            branch INTEGER NOT NULL,
            step INTEGER NOT NULL,
            source TEXT NOT NULL,
            created_at REAL NOT NULL,
            chains BLOB NOT NULL,
            meta BLOB NOT NULL,
            PRIMARY KEY (space, seq),
            UNIQUE (space, id)
        ) WITHOUT ROWID""",
        # A channel's changes lie together in order, so a value is one range scan.
        """CREATE TABLE runwell_changes (
            space INTEGER NOT NULL REFERENCES runwell_threads ON DELETE CASCADE,
            channel TEXT NOT NULL,
            seq INTEGER NOT NULL,
            branch INTEGER NOT NULL,
            kind INTEGER NOT NULL,
            data BLOB NOT NULL,
            PRIMARY KEY (space, channel, seq)
        ) WITHOUT ROWID""",
        """CREATE TABLE runwell_tasks (
            space INTEGER NOT NULL REFERENCES runwell_threads ON DELETE CASCADE,
            seq INTEGER NOT NULL,
            place INTEGER NOT NULL,
            task TEXT NOT NULL,
            data BLOB NOT NULL,
            PRIMARY KEY (space, seq, task)
        ) WITHOUT ROWID""",
    ),
)


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Take the steps that the file has not taken. Several processes may do so at once."""
    if _version(connection) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS runwell_schema (room TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID"
        )
        version = _version(connection)  # again, now that no other process can be at it
        if version > len(MIGRATIONS):
            raise StorageError(
                f"{path!r} holds checkpoints of version {version}; this runwell knows up to {len(MIGRATIONS)}.",
                hint="It was written by a newer runwell: upgrade this one. The file is as it was.",
            )
        for steps in MIGRATIONS[version:]:
            for step in steps:
                connection.execute(step)
        connection.execute(
            "INSERT INTO runwell_schema VALUES (?, ?) ON CONFLICT (room) DO UPDATE SET version = excluded.version",
            (ROOM, len(MIGRATIONS)),
        )
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def _version(connection: sqlite3.Connection) -> int:
    """How many steps the file has taken."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'runwell_schema'").fetchone():
        return 0
    row = connection.execute("SELECT version FROM runwell_schema WHERE room = ?", (ROOM,)).fetchone()
    return row[0] if row else 0
