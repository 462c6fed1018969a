"""Search by meaning inside PostgreSQL, where the server has the extension pgvector."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from runwell.persistence.databases.postgres import fetch

if TYPE_CHECKING:
    import psycopg

__all__ = ["adopt", "as_text", "prepare", "prepare_hnsw"]

Rows = Callable[..., list[Any]]

_LOCK: Final = 7310579871155
"""Names the lock under which the extension and its column are made."""
_AT_ONCE = 1000
_log = logging.getLogger("runwell.persistence")


def prepare(connection: psycopg.Connection[Any]) -> str | None:
    """Make vectors searchable, and say in which schema pgvector is, quoted; None when it cannot be had.

    The extension is made where the server offers it and this user may. Vectors stored before move into its type.
    """
    schema = _schema(connection)
    if schema is None:
        offered = fetch(
            connection, "SELECT to_regnamespace('public') FROM pg_available_extensions WHERE name = %s", _IT
        )
        if not offered:
            return None
        from psycopg.errors import InsufficientPrivilege

        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))  # several processes may be at it
        try:
            with connection.transaction():
                # not in the default schema, which may be of this store alone
                where = "SCHEMA public" if offered[0][0] else ""
                connection.execute(f"CREATE EXTENSION IF NOT EXISTS vector {where}")
        except InsufficientPrivilege:
            _log.info(
                "PostgreSQL has pgvector, and this user may not turn it on: every search reads all vectors below its "
                "namespace. An administrator can do it once: CREATE EXTENSION vector."
            )
            return None
        schema = _schema(connection)
    known = "SELECT 1 FROM pg_attribute WHERE attrelid = 'runwell_vectors'::regclass AND attname = 'embedding'"
    if not fetch(connection, known, ()):
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        connection.execute(f"ALTER TABLE runwell_vectors ADD COLUMN IF NOT EXISTS embedding {schema}.vector")
        connection.execute(
            "CREATE INDEX IF NOT EXISTS runwell_vectors_plain ON runwell_vectors (item) WHERE embedding IS NULL"
        )
    adopt(lambda query, *values: fetch(connection, query, values), str(schema))
    return schema


def prepare_hnsw(connection: psycopg.Connection[Any], schema: str, dims: int, settings: dict[str, int]) -> bool:
    """Make the index of vectors of `dims` numbers. Tells whether pgvector can go on where a filter is narrow."""
    found = fetch(connection, "SELECT extversion FROM pg_extension WHERE extname = %s", _IT)
    version = tuple(int(part) for part in found[0][0].split(".")[:2])
    given = ", ".join(f"{name} = {value}" for name, value in settings.items())
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    connection.execute(
        f"CREATE INDEX IF NOT EXISTS runwell_vectors_hnsw_{dims} ON runwell_vectors "
        f"USING hnsw ((embedding::{schema}.vector({dims})) {schema}.vector_ip_ops){f' WITH ({given})' if given else ''}"
    )
    return version >= (0, 8)


def adopt(rows: Rows, schema: str) -> None:
    """Move vectors that were stored as bytes, by a store that knew no pgvector, into its type."""
    while True:
        found = rows("SELECT item, place, vector FROM runwell_vectors WHERE embedding IS NULL LIMIT %s", _AT_ONCE)
        if not found:
            return
        query = f"""UPDATE runwell_vectors v SET embedding = n.text::{schema}.vector, vector = ''
            FROM unnest(%s::bigint[], %s::int[], %s::text[]) AS n (item, place, text)
            WHERE v.item = n.item AND v.place = n.place"""
        items, places, vectors = zip(*found, strict=True)
        rows(query, list(items), list(places), [as_text(vector) for vector in vectors])


def as_text(vector: bytes) -> str:
    """A stored vector as pgvector reads it, exactly."""
    return f"[{','.join(map(repr, array('f', vector)))}]"


_IT: Final = ("vector",)


def _schema(connection: psycopg.Connection[Any]) -> str | None:
    query = """SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
        WHERE e.extname = %s"""
    found = fetch(connection, query, _IT)
    return found[0][0] if found else None
