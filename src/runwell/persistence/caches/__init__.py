"""Caches: results of nodes, tasks and models, kept so that the same work is not done twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.persistence.caches.keys import cache_key
    from runwell.persistence.caches.memory import InMemoryCache
    from runwell.persistence.caches.redis import RedisCache
    from runwell.persistence.caches.sqlite import SqliteCache
    from runwell.ports.cache import BaseCache, FullKey

_HOME = {
    "BaseCache": "runwell.ports.cache",
    "FullKey": "runwell.ports.cache",
    "InMemoryCache": "runwell.persistence.caches.memory",
    "RedisCache": "runwell.persistence.caches.redis",
    "SqliteCache": "runwell.persistence.caches.sqlite",
    "cache_key": "runwell.persistence.caches.keys",
}

__all__ = ["BaseCache", "FullKey", "InMemoryCache", "RedisCache", "SqliteCache", "cache_key"]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
