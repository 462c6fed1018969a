"""Items in SQL tables, as SQLite and PostgreSQL both have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from runwell.persistence.databases.sqlite import Migrations
from runwell.persistence.stores.facts import Dialect, narrowed
from runwell.persistence.stores.namespaces import above
from runwell.persistence.stores.store import Filter, ItemRow, RowStore

__all__ = ["POSTGRES", "ROOM", "SQLITE", "SqlStore"]

ROOM: Final = "stores"

SQLITE: Final[Migrations] = (
    (
        """CREATE TABLE runwell_items (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            ns TEXT NOT NULL,
            key TEXT NOT NULL,
            value BLOB NOT NULL,
            created_at REAL NOT NULL,
            updated_at REAL NOT NULL,
            ttl REAL,
            expires_at REAL,
            written INTEGER NOT NULL,
            UNIQUE (ns, key)
        )""",
        "CREATE UNIQUE INDEX runwell_items_written ON runwell_items (written)",
        "CREATE INDEX runwell_items_expiring ON runwell_items (expires_at) WHERE expires_at IS NOT NULL",
        """CREATE TABLE runwell_vectors (
            item INTEGER NOT NULL REFERENCES runwell_items ON DELETE CASCADE,
            place INTEGER NOT NULL,
            vector BLOB NOT NULL,
            PRIMARY KEY (item, place)
        ) WITHOUT ROWID""",
    ),
    ("ALTER TABLE runwell_items ADD COLUMN facts TEXT",),
)

POSTGRES: Final[Migrations] = (
    (
        "CREATE SEQUENCE runwell_written",
        """CREATE TABLE runwell_items (
            id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            ns TEXT COLLATE "C" NOT NULL,
            key TEXT COLLATE "C" NOT NULL,
            value BYTEA NOT NULL,
            created_at DOUBLE PRECISION NOT NULL,
            updated_at DOUBLE PRECISION NOT NULL,
            ttl DOUBLE PRECISION,
            expires_at DOUBLE PRECISION,
            written BIGINT NOT NULL,
            UNIQUE (ns, key)
        )""",
        "CREATE UNIQUE INDEX runwell_items_written ON runwell_items (written)",
        "CREATE INDEX runwell_items_expiring ON runwell_items (expires_at) WHERE expires_at IS NOT NULL",
        """CREATE TABLE runwell_vectors (
            item BIGINT NOT NULL REFERENCES runwell_items ON DELETE CASCADE,
            place INTEGER NOT NULL,
            vector BYTEA NOT NULL,
            PRIMARY KEY (item, place)
        )""",
    ),
    ("ALTER TABLE runwell_items ADD COLUMN facts JSONB",),
)

_COLUMNS = "i.id, i.ns, i.key, i.value, i.created_at, i.updated_at, i.ttl, i.expires_at, i.written"
_LIVES = "(i.expires_at IS NULL OR i.expires_at > ?)"


class SqlStore(RowStore):
    """Queries with `?` for values, that both databases understand; what differs is in `rows` and `next_written`."""

    next_written: ClassVar[str]
    """The expression for a number above every `written`."""

    judges: ClassVar[bool] = True
    dialect: ClassVar[Dialect]
    facts_mark: ClassVar[str] = "?"
    """The placeholder for facts in an INSERT."""

    def rows(self, query: str, *values: Any) -> list[Any]:
        """What a statement gives, within what `run` has begun."""
        raise NotImplementedError

    def below(self, prefix: str) -> tuple[str, list[str]]:
        return (" AND i.ns >= ? AND i.ns < ?", [prefix, above(prefix)]) if prefix else ("", [])

    def read_item(self, ns: str, key: str, now: float) -> ItemRow | None:
        query = f"SELECT {_COLUMNS} FROM runwell_items i WHERE i.ns = ? AND i.key = ? AND {_LIVES}"
        rows = self.rows(query, ns, key, now)
        return ItemRow(*rows[0]) if rows else None

    def narrowed(self, filter: Filter) -> tuple[str, list[Any]]:
        """Conditions for what a filter means, as far as the database can tell."""
        return narrowed(filter, self.dialect) if filter and self.keeps_facts else ("", [])

    def read_items(
        self, prefix: str, now: float, before: int | None, limit: int, filter: Filter = None
    ) -> list[ItemRow]:
        below, values = self.below(prefix)
        meant, wanted = self.narrowed(filter)
        query = f"""SELECT {_COLUMNS} FROM runwell_items i WHERE {_LIVES}{below} AND i.written < ?{meant}
            ORDER BY i.written DESC LIMIT ?"""
        last = 2**62 if before is None else before
        return [ItemRow(*row) for row in self.rows(query, now, *values, last, *wanted, limit)]

    def read_ids(self, ids: Sequence[int]) -> list[ItemRow]:
        rows: list[ItemRow] = []
        for some in _parts(ids):
            query = f"SELECT {_COLUMNS} FROM runwell_items i WHERE i.id IN ({_marks(some)})"
            rows += [ItemRow(*row) for row in self.rows(query, *some)]
        return rows

    def read_vectors(self, prefix: str, now: float, filter: Filter = None) -> list[tuple[int, bytes]]:
        below, values = self.below(prefix)
        meant, wanted = self.narrowed(filter)
        query = f"""SELECT v.item, v.vector FROM runwell_vectors v JOIN runwell_items i ON i.id = v.item
            WHERE {_LIVES}{below}{meant}"""
        return self.rows(query, now, *values, *wanted)

    def read_namespaces(self, prefix: str, now: float) -> list[str]:
        below, values = self.below(prefix)
        query = f"SELECT DISTINCT i.ns FROM runwell_items i WHERE {_LIVES}{below}"
        return [ns for (ns,) in self.rows(query, now, *values)]

    def write_item(
        self,
        ns: str,
        key: str,
        value: bytes,
        now: float,
        ttl: float | None,
        vectors: Sequence[bytes],
        facts: str | None = None,
    ) -> None:
        query = f"""INSERT INTO runwell_items AS i
            (ns, key, value, facts, created_at, updated_at, ttl, expires_at, written)
            VALUES (?, ?, ?, {self.facts_mark}, ?, ?, ?, ?, {self.next_written})
            ON CONFLICT (ns, key) DO UPDATE SET value = excluded.value, facts = excluded.facts,
                updated_at = excluded.updated_at,
                created_at = CASE WHEN i.expires_at <= excluded.updated_at THEN excluded.created_at
                    ELSE i.created_at END,
                ttl = excluded.ttl, expires_at = excluded.expires_at, written = excluded.written
            RETURNING id"""
        expires_at = None if ttl is None else now + ttl
        ((item,),) = self.rows(query, ns, key, value, facts, now, now, ttl, expires_at)
        self.rows("DELETE FROM runwell_vectors WHERE item = ?", item)  # what it said before is not found any more
        self.write_vectors(item, vectors)

    def write_vectors(self, item: int, vectors: Sequence[bytes]) -> None:
        """Store the vectors of an item that has none."""
        for place, vector in enumerate(vectors):
            self.rows("INSERT INTO runwell_vectors (item, place, vector) VALUES (?, ?, ?)", item, place, vector)

    def write_expiry(self, ids: Sequence[int], now: float) -> None:
        for some in _parts(ids):
            query = f"UPDATE runwell_items SET expires_at = ttl + ? WHERE ttl IS NOT NULL AND id IN ({_marks(some)})"
            self.rows(query, now, *some)

    def remove_item(self, ns: str, key: str) -> None:
        self.rows("DELETE FROM runwell_items WHERE ns = ? AND key = ?", ns, key)

    def remove_expired(self, now: float) -> int:
        return len(self.rows("DELETE FROM runwell_items WHERE expires_at <= ? RETURNING id", now))


def _parts(ids: Sequence[int]) -> list[Sequence[int]]:
    return [ids[at : at + 500] for at in range(0, len(ids), 500)]


def _marks(values: Sequence[int]) -> str:
    return ", ".join("?" * len(values))
