"""What tests of programs, and of integrations, are made with: fakes, and suites that an implementation must pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.testing.caches import CacheSuite
    from runwell.testing.effects import EnumeratingDriver, Killed, kills
    from runwell.testing.models import (
        DeterministicFakeEmbedding,
        FakeChatModel,
        FakeEmbeddings,
        FakeListChatModel,
        FakeMessagesListChatModel,
        FakeRequest,
        GenericFakeChatModel,
        ParrotFakeChatModel,
    )
    from runwell.testing.postgres import PostgresServer
    from runwell.testing.redis import RedisServer
    from runwell.testing.saver_threads import SaverThreadsSuite
    from runwell.testing.savers import CheckpointSaverSuite
    from runwell.testing.stores import StoreSuite
    from runwell.testing.trajectory import Trajectory, match_trajectory

# one line per name, so that each room's names can be added without touching another's
_HOME = {
    "CacheSuite": "runwell.testing.caches",
    "CheckpointSaverSuite": "runwell.testing.savers",
    "DeterministicFakeEmbedding": "runwell.testing.models",
    "EnumeratingDriver": "runwell.testing.effects",
    "FakeChatModel": "runwell.testing.models",
    "FakeEmbeddings": "runwell.testing.models",
    "FakeListChatModel": "runwell.testing.models",
    "FakeMessagesListChatModel": "runwell.testing.models",
    "FakeRequest": "runwell.testing.models",
    "GenericFakeChatModel": "runwell.testing.models",
    "Killed": "runwell.testing.effects",
    "ParrotFakeChatModel": "runwell.testing.models",
    "PostgresServer": "runwell.testing.postgres",
    "RedisServer": "runwell.testing.redis",
    "SaverThreadsSuite": "runwell.testing.saver_threads",
    "StoreSuite": "runwell.testing.stores",
    "Trajectory": "runwell.testing.trajectory",
    "kills": "runwell.testing.effects",
    "match_trajectory": "runwell.testing.trajectory",
}

__all__ = [
    "CacheSuite",
    "CheckpointSaverSuite",
    "DeterministicFakeEmbedding",
    "EnumeratingDriver",
    "FakeChatModel",
    "FakeEmbeddings",
    "FakeListChatModel",
    "FakeMessagesListChatModel",
    "FakeRequest",
    "GenericFakeChatModel",
    "Killed",
    "ParrotFakeChatModel",
    "PostgresServer",
    "RedisServer",
    "SaverThreadsSuite",
    "StoreSuite",
    "Trajectory",
    "kills",
    "match_trajectory",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
