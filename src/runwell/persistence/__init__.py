"""What outlives a run: checkpoints, stores, caches, and the strict serialisation they are written with.

Names are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.persistence.caches.memory import InMemoryCache
    from runwell.persistence.caches.redis import RedisCache
    from runwell.persistence.caches.sqlite import SqliteCache
    from runwell.persistence.checkpoints.adapter import SaverAdapter
    from runwell.persistence.checkpoints.memory import InMemorySaver, MemorySaver
    from runwell.persistence.checkpoints.postgres import AsyncPostgresSaver, PostgresSaver
    from runwell.persistence.checkpoints.saver import BaseCheckpointSaver
    from runwell.persistence.checkpoints.sqlite import AsyncSqliteSaver, SqliteSaver
    from runwell.persistence.checkpoints.threads import PendingInterrupt
    from runwell.persistence.serialization.encryption import AesEncryption
    from runwell.persistence.serialization.reachable import reachable_types
    from runwell.persistence.serialization.serializer import Serializer
    from runwell.persistence.stores.memory import InMemoryStore
    from runwell.persistence.stores.postgres import AsyncPostgresStore, PostgresStore
    from runwell.persistence.stores.sqlite import AsyncSqliteStore, SqliteStore

__all__ = [
    "AesEncryption",
    "AsyncPostgresSaver",
    "AsyncPostgresStore",
    "AsyncSqliteSaver",
    "AsyncSqliteStore",
    "BaseCheckpointSaver",
    "InMemoryCache",
    "InMemorySaver",
    "InMemoryStore",
    "MemorySaver",
    "PendingInterrupt",
    "PostgresSaver",
    "PostgresStore",
    "RedisCache",
    "SaverAdapter",
    "Serializer",
    "SqliteCache",
    "SqliteSaver",
    "SqliteStore",
    "reachable_types",
]

_HOME = {
    "AesEncryption": "serialization.encryption",
    "AsyncPostgresSaver": "checkpoints.postgres",
    "AsyncPostgresStore": "stores.postgres",
    "AsyncSqliteSaver": "checkpoints.sqlite",
    "AsyncSqliteStore": "stores.sqlite",
    "BaseCheckpointSaver": "checkpoints.saver",
    "InMemoryCache": "caches.memory",
    "InMemorySaver": "checkpoints.memory",
    "InMemoryStore": "stores.memory",
    "MemorySaver": "checkpoints.memory",
    "PendingInterrupt": "checkpoints.threads",
    "PostgresSaver": "checkpoints.postgres",
    "PostgresStore": "stores.postgres",
    "RedisCache": "caches.redis",
    "SaverAdapter": "checkpoints.adapter",
    "Serializer": "serialization.serializer",
    "SqliteCache": "caches.sqlite",
    "SqliteSaver": "checkpoints.sqlite",
    "SqliteStore": "stores.sqlite",
    "reachable_types": "serialization.reachable",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
