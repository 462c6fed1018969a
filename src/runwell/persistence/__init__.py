"""What outlives a run: checkpoints, and the strict serialisation they are written with.

Names are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.persistence.checkpoints.memory import InMemorySaver, MemorySaver
    from runwell.persistence.checkpoints.postgres import AsyncPostgresSaver, PostgresSaver
    from runwell.persistence.checkpoints.saver import BaseCheckpointSaver
    from runwell.persistence.checkpoints.sqlite import AsyncSqliteSaver, SqliteSaver
    from runwell.persistence.serialization.reachable import reachable_types
    from runwell.persistence.serialization.serializer import Serializer

__all__ = [
    "AsyncPostgresSaver",
    "AsyncSqliteSaver",
    "BaseCheckpointSaver",
    "InMemorySaver",
    "MemorySaver",
    "PostgresSaver",
    "Serializer",
    "SqliteSaver",
    "reachable_types",
]

_HOME = {
    "AsyncPostgresSaver": "checkpoints.postgres",
    "AsyncSqliteSaver": "checkpoints.sqlite",
    "BaseCheckpointSaver": "checkpoints.saver",
    "InMemorySaver": "checkpoints.memory",
    "MemorySaver": "checkpoints.memory",
    "PostgresSaver": "checkpoints.postgres",
    "Serializer": "serialization.serializer",
    "SqliteSaver": "checkpoints.sqlite",
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
