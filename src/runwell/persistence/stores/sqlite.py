"""A store in an SQLite file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal, Self, TypeVar

from runwell.errors import StorageError
from runwell.persistence.databases.sqlite import SqliteFile
from runwell.persistence.serialization.encryption import Cipher
from runwell.persistence.stores import sql
from runwell.persistence.stores.facts import Dialect, SqliteFacts
from runwell.ports.store import IndexConfig, TTLConfig

__all__ = ["AsyncSqliteStore", "SqliteStore"]

T = TypeVar("T")


class SqliteStore(sql.SqlStore):
    """Keeps items in an SQLite file, which savers and caches may share; safe for several threads and processes at once.

    `path_or_connection` and `synchronous` are as in `SqliteSaver`. `index` turns semantic search on, `ttl` sets how
    long items live; `allow` lists classes of yours that values may hold, `encryption` encrypts values (not namespaces,
    keys and vectors).
    """

    dialect: ClassVar[Dialect] = SqliteFacts()
    next_written: ClassVar[str] = "(SELECT coalesce(max(written), 0) + 1 FROM runwell_items)"

    def __init__(
        self,
        path_or_connection: str | os.PathLike[str] | sqlite3.Connection,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        synchronous: Literal["normal", "full"] = "normal",
        allow: Iterable[type] = (),
        encryption: Cipher | None = None,
    ) -> None:
        super().__init__(index=index, ttl=ttl, allow=allow, encryption=encryption)
        self.file = SqliteFile(
            path_or_connection,
            room=sql.ROOM,
            migrations=sql.SQLITE,
            owner=type(self).__name__,
            synchronous=synchronous,
        )
        try:
            self.file.rows("SELECT json_type('1')")
        except StorageError:  # an SQLite built without
            self.keeps_facts = False

    @classmethod
    def from_conn_string(cls, conn_string: str, **settings: Any) -> Self:
        """A store on the file, for use in a `with` (or `async with`) block."""
        return cls(conn_string, **settings)

    def close(self) -> None:
        """Close the file (not a connection that was given). Harmless when repeated; later calls raise StorageError."""
        super().close()
        self.file.close()

    def setup(self) -> None:
        """Nothing: the tables were made when the store was. Here so that stores can be swapped."""

    def run(self, work: Callable[[], T], *, writes: bool) -> T:
        with self.file.transaction("BEGIN IMMEDIATE" if writes else "BEGIN"):
            return work()

    def rows(self, query: str, *values: Any) -> list[Any]:
        return self.file.rows(query, *values)


AsyncSqliteStore = SqliteStore
"""The same: every store works in both colours."""
