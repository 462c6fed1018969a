"""One Redis server for all tests of a process that need them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runwell.testing.redis import RedisServer


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """The address of an empty database."""
    return redis_server.new_database()
