"""A store in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from runwell.persistence.databases.postgres import PostgresDatabase
from runwell.persistence.serialization.encryption import Cipher
from runwell.persistence.stores import sql
from runwell.ports.store import IndexConfig, TTLConfig

if TYPE_CHECKING:
    import psycopg
    from psycopg_pool import ConnectionPool

__all__ = ["AsyncPostgresStore", "PostgresStore"]

T = TypeVar("T")


class PostgresStore(sql.SqlStore):
    """Keeps items in a PostgreSQL database, for any number of threads, processes and machines.

    `target`, `max_connections`, `setup()` and what happens when connections die are as in `PostgresSaver`. `index`
    turns semantic search on, `ttl` sets how long items live; `allow` lists classes of yours that values may hold,
    `encryption` encrypts values (not namespaces, keys and vectors).
    """

    next_written: ClassVar[str] = "nextval('runwell_written')"

    def __init__(
        self,
        target: str | ConnectionPool[Any] | psycopg.Connection[Any],
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        max_connections: int = 8,
        allow: Iterable[type] = (),
        encryption: Cipher | None = None,
    ) -> None:
        super().__init__(index=index, ttl=ttl, allow=allow, encryption=encryption, workers=max_connections)
        self.database = PostgresDatabase(
            target,
            room=sql.ROOM,
            migrations=sql.POSTGRES,
            owner=type(self).__name__,
            max_connections=max_connections,
        )

    @classmethod
    def from_conn_string(cls, conn_string: str, **settings: Any) -> Self:
        """A store with a pool of its own, for use in a `with` (or `async with`) block."""
        return cls(conn_string, **settings)

    def setup(self) -> None:
        """Make the tables, or bring them up to date. It also happens by itself at first use."""
        self.database.setup()

    async def asetup(self) -> None:
        await self._worker.run(self.setup)

    def close(self) -> None:
        """Close the pool (not one that was given). Harmless when repeated; later calls raise StorageError."""
        super().close()
        self.database.close()

    def run(self, work: Callable[[], T], *, writes: bool) -> T:
        return self.database.run(lambda connection, again: work(), "together" if writes else "snapshot")

    def rows(self, query: str, *values: Any) -> list[Any]:
        return self.database.rows(query.replace("?", "%s"), *values)

    # Locks are taken in one order, or not waited for, so that no two batches wait for each other.

    def expect_writes(self, items: Sequence[tuple[str, str]]) -> None:
        from hashlib import blake2b

        names = {blake2b(f"{ns}\x00{key}".encode(), digest_size=8).digest() for ns, key in items}
        locks = sorted(int.from_bytes(name, "big", signed=True) for name in names)
        self.rows("SELECT pg_advisory_xact_lock(name) FROM unnest(?::bigint[]) AS name", locks)

    def write_expiry(self, ids: Sequence[int], now: float) -> None:
        query = """UPDATE runwell_items SET expires_at = ttl + ? WHERE id IN (
            SELECT id FROM runwell_items WHERE id = ANY(?) AND ttl IS NOT NULL FOR UPDATE SKIP LOCKED)"""
        self.rows(query, now, list(ids))

    def remove_expired(self, now: float) -> int:
        query = """DELETE FROM runwell_items WHERE id IN (
            SELECT id FROM runwell_items WHERE expires_at <= ? FOR UPDATE SKIP LOCKED) RETURNING id"""
        return len(self.rows(query, now))


AsyncPostgresStore = PostgresStore
"""The same: every store works in both colours."""
