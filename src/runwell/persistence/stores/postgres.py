"""A store in a PostgreSQL database."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from runwell.errors import InvalidConfig, StorageError
from runwell.persistence.databases.postgres import PostgresDatabase
from runwell.persistence.serialization.encryption import Cipher
from runwell.persistence.stores import sql
from runwell.persistence.stores.facts import Dialect, PostgresFacts
from runwell.persistence.stores.pgvector import adopt, as_text, prepare, prepare_hnsw
from runwell.persistence.stores.store import PAGE, Filter
from runwell.persistence.stores.vectors import Index, other_model
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

    Where the server has the extension pgvector, it compares vectors itself and gives only what was found; otherwise
    each search reads all vectors below its namespace. `searches_in_database` says which it is. With `"hnsw": True` in
    `index` it searches by an approximate index, for many vectors.
    """

    next_written: ClassVar[str] = "nextval('runwell_written')"
    dialect: ClassVar[Dialect] = PostgresFacts()
    facts_mark: ClassVar[str] = "?::jsonb"
    approximates: ClassVar[bool] = True

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
        self._pgvector: str | None = None  # the schema it is in
        self._prepared = False
        self._goes_on = False
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
        self._prepare()

    def _prepare(self) -> None:
        """Find out, once, whether the server compares vectors."""
        if self.index is not None and not self._prepared:
            self._pgvector = self.database.run(lambda connection, again: prepare(connection), "together")
            if self.index.hnsw is not None:
                self._goes_on = self._indexed(self.index)
            self._prepared = self.database.ready

    def _indexed(self, index: Index) -> bool:
        """Make the approximate index that was asked for."""
        schema, settings = self._pgvector, index.hnsw
        if schema is None or settings is None:
            raise InvalidConfig(
                "PostgresStore got index={'hnsw': ...}, and the server has no pgvector that this user may turn on.",
                hint="An administrator can do it once: CREATE EXTENSION vector. Or leave hnsw out.",
            )
        try:
            return self.database.run(
                lambda connection, again: prepare_hnsw(connection, schema, index.dims, settings), "together"
            )
        except StorageError as error:
            raise self._other_model(error, index.dims) from error

    @property
    def searches_in_database(self) -> bool:
        """Whether the server compares vectors (with pgvector). Asks it, the first time."""
        self._prepare()
        return self._pgvector is not None

    async def asetup(self) -> None:
        await self._worker.run(self.setup)

    def close(self) -> None:
        """Close the pool (not one that was given). Harmless when repeated; later calls raise StorageError."""
        super().close()
        self.database.close()

    def run(self, work: Callable[[], T], *, writes: bool) -> T:
        self._prepare()
        return self.database.run(lambda connection, again: work(), "together" if writes else "snapshot")

    def rows(self, query: str, *values: Any) -> list[Any]:
        return self.database.rows(query.replace("?", "%s"), *values)

    # Vectors are of length 1 or 0, so the inner product, which pgvector gives with its sign turned, is the cosine.

    def write_vectors(self, item: int, vectors: Sequence[bytes]) -> None:
        if self._pgvector is None:
            super().write_vectors(item, vectors)
            return
        query = f"""INSERT INTO runwell_vectors (item, place, vector, embedding)
            SELECT ?, n.place - 1, '', n.text::{self._pgvector}.vector
            FROM unnest(?::text[]) WITH ORDINALITY AS n (text, place)"""
        self.rows(query, item, [as_text(vector) for vector in vectors])

    def read_nearest(
        self, query: bytes, prefix: str, now: float, size: int, filter: Filter = None
    ) -> Iterator[Sequence[tuple[float, int]]]:
        if self._pgvector is None:
            yield from super().read_nearest(query, prefix, now, size, filter)
            return
        below, values = self.below(prefix)
        meant, wanted = self.narrowed(filter)
        values = [*values, *wanted]
        if self.index is not None and self.index.hnsw is not None:
            yield from self._by_index(query, f"{below}{meant}", values, now, size)
            return
        nearest = f"""SELECT max(-(v.embedding OPERATOR({self._pgvector}.<#>) ?::{self._pgvector}.vector)) AS score,
                v.item, bool_or(v.embedding IS NULL) AS plain
            FROM runwell_vectors v JOIN runwell_items i ON i.id = v.item
            WHERE (i.expires_at IS NULL OR i.expires_at > ?){below}{meant}
            GROUP BY v.item ORDER BY plain DESC, score DESC, v.item DESC LIMIT ? OFFSET ?"""
        at, text = 0, as_text(query)
        while True:
            found = self._compared(nearest, text, now, *values, size, at, dims=len(query) // 4)
            if found and found[0][2]:  # of a store that knew no pgvector
                adopt(self.database.rows, self._pgvector)
                found = self._compared(nearest, text, now, *values, size, at, dims=len(query) // 4)
            yield [(score, item) for score, item, _ in found]
            if len(found) < size:
                return
            at, size = at + size, PAGE

    def _by_index(
        self, query: bytes, where: str, values: list[Any], now: float, size: int
    ) -> Iterator[Sequence[tuple[float, int]]]:
        """`read_nearest` by the approximate index, which has a row for each vector: the first of an item counts."""
        dims, schema = len(query) // 4, self._pgvector
        by = f"v.embedding::{schema}.vector({dims}) OPERATOR({schema}.<#>) ?::{schema}.vector({dims})"
        nearest = f"""SELECT -({by}), v.item FROM runwell_vectors v JOIN runwell_items i ON i.id = v.item
            WHERE (i.expires_at IS NULL OR i.expires_at > ?){where} ORDER BY {by} LIMIT ? OFFSET ?"""
        at, text, seen = 0, as_text(query), set[int]()
        while True:
            self.rows("SELECT set_config('hnsw.ef_search', ?, true)", str(min(1000, max(40, at + size))))
            if self._goes_on:
                self.rows("SELECT set_config('hnsw.iterative_scan', 'strict_order', true)")
            found = self._compared(nearest, text, now, *values, text, size, at, dims=dims)
            fresh: dict[int, float] = {}
            for score, item in found:
                if item not in seen:
                    fresh.setdefault(item, score)
            seen.update(fresh)
            yield [(score, item) for item, score in fresh.items()]
            if len(found) < size:
                return
            at, size = at + size, PAGE

    def _compared(self, query: str, *values: Any, dims: int) -> list[Any]:
        from psycopg.errors import DataException

        try:
            return self.rows(query, *values)
        except DataException as error:
            raise self._other_model(error, dims) from error

    def _other_model(self, error: Exception, dims: int) -> Exception:
        """The error of the server's that lengths differ in our words; any other as it is."""
        lengths = [int(each) for each in re.findall(r"\d+", str(error)) if int(each) != dims]
        return other_model(lengths[0], dims) if "dimensions" in str(error) and lengths else error

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
