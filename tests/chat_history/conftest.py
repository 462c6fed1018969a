"""One PostgreSQL server, and one that speaks as Redis does, for all tests of a process that need them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from fakeredis import TcpFakeServer

from runwell.testing.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """A connection string to an empty schema."""
    return postgres_server.new_schema()


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """The client is the real one; there is no Redis server to install without root."""
    server = TcpFakeServer(("127.0.0.1", 0), server_type="redis")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"redis://127.0.0.1:{server.server_address[1]}/0"
    server.shutdown()
    server.server_close()
    thread.join()
