"""Stores: what a program remembers beyond a thread, found by key, by content and by meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.errors import InvalidNamespaceError
    from runwell.persistence.stores.batched import AsyncBatchedBaseStore
    from runwell.persistence.stores.fields import get_text_at_path
    from runwell.persistence.stores.filters import matches
    from runwell.persistence.stores.memory import InMemoryStore
    from runwell.persistence.stores.postgres import AsyncPostgresStore, PostgresStore
    from runwell.persistence.stores.sqlite import AsyncSqliteStore, SqliteStore
    from runwell.ports.store import (
        BaseStore,
        GetOp,
        IndexConfig,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        validate_op_namespace,
    )

_HOME = {
    "AsyncBatchedBaseStore": "runwell.persistence.stores.batched",
    "AsyncPostgresStore": "runwell.persistence.stores.postgres",
    "AsyncSqliteStore": "runwell.persistence.stores.sqlite",
    "BaseStore": "runwell.ports.store",
    "GetOp": "runwell.ports.store",
    "InMemoryStore": "runwell.persistence.stores.memory",
    "IndexConfig": "runwell.ports.store",
    "InvalidNamespaceError": "runwell.errors",
    "Item": "runwell.ports.store",
    "ListNamespacesOp": "runwell.ports.store",
    "MatchCondition": "runwell.ports.store",
    "Op": "runwell.ports.store",
    "PostgresStore": "runwell.persistence.stores.postgres",
    "PutOp": "runwell.ports.store",
    "Result": "runwell.ports.store",
    "SearchItem": "runwell.ports.store",
    "SearchOp": "runwell.ports.store",
    "SqliteStore": "runwell.persistence.stores.sqlite",
    "TTLConfig": "runwell.ports.store",
    "get_text_at_path": "runwell.persistence.stores.fields",
    "matches": "runwell.persistence.stores.filters",
    "validate_op_namespace": "runwell.ports.store",
}

__all__ = [
    "AsyncBatchedBaseStore",
    "AsyncPostgresStore",
    "AsyncSqliteStore",
    "BaseStore",
    "GetOp",
    "InMemoryStore",
    "IndexConfig",
    "InvalidNamespaceError",
    "Item",
    "ListNamespacesOp",
    "MatchCondition",
    "Op",
    "PostgresStore",
    "PutOp",
    "Result",
    "SearchItem",
    "SearchOp",
    "SqliteStore",
    "TTLConfig",
    "get_text_at_path",
    "matches",
    "validate_op_namespace",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
