"""What tests of programs, and of integrations, are made with: fakes, and suites that an implementation must pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.testing.caches import CacheSuite
    from runwell.testing.cassettes import Tape, cassette
    from runwell.testing.chat_models import ChatModelSuite
    from runwell.testing.effects import EnumeratingDriver, Killed, kills
    from runwell.testing.embeddings import EmbeddingsSuite
    from runwell.testing.llms import FakeListLLM, FakeStreamingListLLM
    from runwell.testing.models import (
        DeterministicFakeEmbedding,
        FakeChatModel,
        FakeEmbeddings,
        FakeListChatModel,
        FakeListChatModelError,
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
    from runwell.testing.wire.said import Asked, Call, Said, WireDialect
    from runwell.testing.wire.server import WireServer

# one line per name, so that each room's names can be added without touching another's
_HOME = {
    "Asked": "runwell.testing.wire.said",
    "CacheSuite": "runwell.testing.caches",
    "Call": "runwell.testing.wire.said",
    "ChatModelSuite": "runwell.testing.chat_models",
    "CheckpointSaverSuite": "runwell.testing.savers",
    "DeterministicFakeEmbedding": "runwell.testing.models",
    "EmbeddingsSuite": "runwell.testing.embeddings",
    "EnumeratingDriver": "runwell.testing.effects",
    "FakeChatModel": "runwell.testing.models",
    "FakeEmbeddings": "runwell.testing.models",
    "FakeListChatModel": "runwell.testing.models",
    "FakeListChatModelError": "runwell.testing.models",
    "FakeListLLM": "runwell.testing.llms",
    "FakeMessagesListChatModel": "runwell.testing.models",
    "FakeRequest": "runwell.testing.models",
    "FakeStreamingListLLM": "runwell.testing.llms",
    "GenericFakeChatModel": "runwell.testing.models",
    "Killed": "runwell.testing.effects",
    "ParrotFakeChatModel": "runwell.testing.models",
    "PostgresServer": "runwell.testing.postgres",
    "RedisServer": "runwell.testing.redis",
    "Said": "runwell.testing.wire.said",
    "SaverThreadsSuite": "runwell.testing.saver_threads",
    "StoreSuite": "runwell.testing.stores",
    "Tape": "runwell.testing.cassettes",
    "Trajectory": "runwell.testing.trajectory",
    "WireDialect": "runwell.testing.wire.said",
    "WireServer": "runwell.testing.wire.server",
    "cassette": "runwell.testing.cassettes",
    "kills": "runwell.testing.effects",
    "match_trajectory": "runwell.testing.trajectory",
}

__all__ = [
    "Asked",
    "CacheSuite",
    "Call",
    "ChatModelSuite",
    "CheckpointSaverSuite",
    "DeterministicFakeEmbedding",
    "EmbeddingsSuite",
    "EnumeratingDriver",
    "FakeChatModel",
    "FakeEmbeddings",
    "FakeListChatModel",
    "FakeListChatModelError",
    "FakeListLLM",
    "FakeMessagesListChatModel",
    "FakeRequest",
    "FakeStreamingListLLM",
    "GenericFakeChatModel",
    "Killed",
    "ParrotFakeChatModel",
    "PostgresServer",
    "RedisServer",
    "Said",
    "SaverThreadsSuite",
    "StoreSuite",
    "Tape",
    "Trajectory",
    "WireDialect",
    "WireServer",
    "cassette",
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
