"""A cache in an SQLite file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final

from runwell.persistence.caches.cache import RowCache
from runwell.persistence.databases.sqlite import Migrations, SqliteFile
from runwell.persistence.serialization.encryption import Cipher

__all__ = ["SqliteCache"]

ROOM: Final = "caches"
MIGRATIONS: Final[Migrations] = (
    (
        """CREATE TABLE runwell_cache (
            written INTEGER PRIMARY KEY AUTOINCREMENT,
            ns TEXT NOT NULL,
            key TEXT NOT NULL,
            value BLOB NOT NULL,
            expires_at REAL,
            UNIQUE (ns, key)
        )""",
        "CREATE INDEX runwell_cache_expiring ON runwell_cache (expires_at) WHERE expires_at IS NOT NULL",
    ),
)


class SqliteCache(RowCache):
    """Keeps results in an SQLite file, for nodes and models of any number of processes; savers and stores may share it.

    `path_or_connection` is as in `SqliteSaver`. What is kept survives the process, so a key must say all that decides
    the result: clear the cache when the code behind it changes.
    """

    def __init__(
        self,
        path_or_connection: str | os.PathLike[str] | sqlite3.Connection,
        *,
        maxsize: int | None = None,
        allow: Iterable[type] = (),
        encryption: Cipher | None = None,
    ) -> None:
        super().__init__(maxsize=maxsize, allow=allow, encryption=encryption)
        self.file = SqliteFile(path_or_connection, room=ROOM, migrations=MIGRATIONS, owner=type(self).__name__)

    def close(self) -> None:
        """Close the file (not a connection that was given). Harmless when repeated; later calls raise StorageError."""
        super().close()
        self.file.close()

    def read_values(self, keys: Sequence[tuple[str, str]], now: float) -> dict[tuple[str, str], bytes]:
        query = """SELECT value FROM runwell_cache
            WHERE ns = ? AND key = ? AND (expires_at IS NULL OR expires_at > ?)"""
        found: dict[tuple[str, str], bytes] = {}
        with self.file.transaction("BEGIN"):
            for where in keys:
                for (value,) in self.file.rows(query, *where, now):
                    found[where] = value
        return found

    def write_values(self, rows: Sequence[tuple[str, str, bytes, float | None]], now: float) -> None:
        with self.file.transaction() as connection:
            query = "REPLACE INTO runwell_cache (ns, key, value, expires_at) VALUES (?, ?, ?, ?)"
            connection.executemany(query, rows)
            connection.execute("DELETE FROM runwell_cache WHERE expires_at <= ?", (now,))
            if self.maxsize is not None:
                query = """DELETE FROM runwell_cache WHERE written NOT IN
                    (SELECT written FROM runwell_cache ORDER BY written DESC LIMIT ?)"""
                (count,) = self.file.rows("SELECT count(*) FROM runwell_cache")[0]
                if count > self.maxsize:
                    connection.execute(query, (self.maxsize,))

    def remove_values(self, keys: Sequence[tuple[str, str]]) -> None:
        with self.file.transaction() as connection:
            connection.executemany("DELETE FROM runwell_cache WHERE ns = ? AND key = ?", keys)

    def remove_namespaces(self, namespaces: Sequence[str] | None) -> None:
        with self.file.transaction() as connection:
            if namespaces is None:
                connection.execute("DELETE FROM runwell_cache")
            else:
                connection.executemany("DELETE FROM runwell_cache WHERE ns = ?", [(ns,) for ns in namespaces])
