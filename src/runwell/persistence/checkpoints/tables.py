"""The tables of the savers, as steps that any earlier version is brought up to date by.

Append only: a released step is never changed, since databases that have taken it exist.
"""

from __future__ import annotations

from typing import Final

from runwell.persistence.databases.sqlite import Migrations

__all__ = ["POSTGRES", "ROOM", "SQLITE"]

ROOM: Final = "checkpoints"

SQLITE: Final[Migrations] = (
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
    (
        # Who runs a thread. The number never comes back, not even after the row was deleted.
        """CREATE TABLE runwell_attempts (
            attempt INTEGER PRIMARY KEY AUTOINCREMENT,
            thread TEXT NOT NULL UNIQUE,
            holder TEXT NOT NULL,
            hold REAL NOT NULL,
            until REAL NOT NULL
        )""",
        # How many questions a task waits with; for rows of before, 1 says that it must be looked at.
        "ALTER TABLE runwell_tasks ADD COLUMN asks INTEGER NOT NULL DEFAULT 1",
        "CREATE INDEX runwell_tasks_asking ON runwell_tasks (space, seq) WHERE asks > 0",
    ),
    (
        # Long values that changes of kind 3 name by digest, so that an equal one is there once.
        """CREATE TABLE runwell_blobs (
            space INTEGER NOT NULL REFERENCES runwell_threads ON DELETE CASCADE,
            digest BLOB NOT NULL,
            data BLOB NOT NULL,
            PRIMARY KEY (space, digest)
        ) WITHOUT ROWID""",
    ),
)

# Text is compared byte by byte ("C"), as SQLite does: quick, and no order of a language applies to ids.
POSTGRES: Final[Migrations] = (
    (
        """CREATE TABLE runwell_threads (
            space BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            thread TEXT COLLATE "C" NOT NULL,
            ns TEXT COLLATE "C" NOT NULL,
            head TEXT COLLATE "C" NOT NULL,
            seq INTEGER NOT NULL,
            UNIQUE (thread, ns)
        )""",
        """CREATE TABLE runwell_checkpoints (
            space BIGINT NOT NULL REFERENCES runwell_threads ON DELETE CASCADE,
            seq INTEGER NOT NULL,
            id TEXT COLLATE "C" NOT NULL,
            parent_seq INTEGER NOT NULL,
            branch INTEGER NOT NULL,
            step INTEGER NOT NULL,
            source TEXT NOT NULL,
            created_at DOUBLE PRECISION NOT NULL,
            chains BYTEA NOT NULL,
            meta BYTEA NOT NULL,
            PRIMARY KEY (space, seq),
            UNIQUE (space, id)
        )""",
        """CREATE TABLE runwell_changes (
            space BIGINT NOT NULL REFERENCES runwell_threads ON DELETE CASCADE,
            channel TEXT COLLATE "C" NOT NULL,
            seq INTEGER NOT NULL,
            branch INTEGER NOT NULL,
            kind INTEGER NOT NULL,
            data BYTEA NOT NULL,
            PRIMARY KEY (space, channel, seq)
        )""",
        """CREATE TABLE runwell_tasks (
            space BIGINT NOT NULL REFERENCES runwell_threads ON DELETE CASCADE,
            seq INTEGER NOT NULL,
            place BIGINT GENERATED ALWAYS AS IDENTITY,
            task TEXT COLLATE "C" NOT NULL,
            data BYTEA NOT NULL,
            asks INTEGER NOT NULL,
            PRIMARY KEY (space, seq, task)
        )""",
        "CREATE INDEX runwell_tasks_asking ON runwell_tasks (space, seq) WHERE asks > 0",
        "CREATE SEQUENCE runwell_attempt",
        """CREATE TABLE runwell_attempts (
            thread TEXT COLLATE "C" PRIMARY KEY,
            attempt BIGINT NOT NULL,
            holder TEXT NOT NULL,
            hold DOUBLE PRECISION NOT NULL,
            until DOUBLE PRECISION NOT NULL
        )""",
    ),
    (
        """CREATE TABLE runwell_blobs (
            space BIGINT NOT NULL REFERENCES runwell_threads ON DELETE CASCADE,
            digest BYTEA NOT NULL,
            data BYTEA NOT NULL,
            PRIMARY KEY (space, digest)
        )""",
    ),
)
