"""Savers: threads of checkpoints, stored as what changed.

`SqliteSaver` is imported when it is first used, since SQLite's module is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.persistence.checkpoints.memory import InMemorySaver, MemorySaver
    from runwell.persistence.checkpoints.postgres import AsyncPostgresSaver, PostgresSaver
    from runwell.persistence.checkpoints.saver import BaseCheckpointSaver
    from runwell.persistence.checkpoints.sqlite import AsyncSqliteSaver, SqliteSaver

__all__ = [
    "AsyncPostgresSaver",
    "AsyncSqliteSaver",
    "BaseCheckpointSaver",
    "InMemorySaver",
    "MemorySaver",
    "PostgresSaver",
    "SqliteSaver",
]

_HOME = {
    "AsyncPostgresSaver": "postgres",
    "AsyncSqliteSaver": "sqlite",
    "BaseCheckpointSaver": "saver",
    "InMemorySaver": "memory",
    "MemorySaver": "memory",
    "PostgresSaver": "postgres",
    "SqliteSaver": "sqlite",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
