"""One PostgreSQL server for all tests of a process that need it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runwell.testing.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """A connection string to an empty schema."""
    return postgres_server.new_schema()
