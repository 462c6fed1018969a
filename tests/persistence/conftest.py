"""One PostgreSQL server and one Redis server for all tests of a process that need them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runwell.testing.postgres import PostgresServer
from runwell.testing.redis import RedisServer


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """A connection string to an empty schema."""
    return postgres_server.new_schema()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """An address of an empty database."""
    return redis_server.new_database()
