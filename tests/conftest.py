"""Tests are written once and run in both colours, through the `driver` fixture."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import certifi
import pytest
from hypothesis import HealthCheck, settings

from runwell.errors import MissingExtra
from runwell.testing.killing import Program
from runwell.testing.postgres import PostgresServer
from runwell.testing.redis import RedisServer

# A shell that runs the tests in the background has them ignore Ctrl-C, and so would every program that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared machine")  # how long an example takes says how busy the machine is


# Tests that ask for one of these start a program, or talk to a server that is one; so do those of these kinds.
PROGRAMS = {"http_server", "postgres_server", "program", "programs", "redis_server", "runwell", "shared", "terminal"}
SERVERS = ("postgres", "redis")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what is known to start a program. What takes longest comes first, or would leave one worker alone at the
    end; and first of all what loads the bundled model, which is then in the memory of the first worker only."""
    for item in items:
        kinds = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if not PROGRAMS.isdisjoint(getattr(item, "fixturenames", ())) or any(
            isinstance(kind, str) and kind in SERVERS for kind in kinds
        ):
            item.add_marker(pytest.mark.integration)
    items.sort(
        key=lambda item: [item.get_closest_marker(name) is None for name in ("bundled_model", "slow", "integration")]
    )


@pytest.fixture(scope="session")
def few_certificates(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One of the certificates that HTTP clients read when they are made, all of which take 15 ms."""
    every = Path(certifi.where()).read_text(encoding="utf-8")
    path = tmp_path_factory.mktemp("certificates") / "one.pem"
    path.write_text(every[every.index("-----BEGIN") : every.index("-----END")] + "-----END CERTIFICATE-----\n")
    return str(path)


@pytest.fixture(autouse=True)
def _trust_few(request: pytest.FixtureRequest, few_certificates: str) -> Iterator[None]:
    """Servers of tests speak plain HTTP; only the slow tests fetch something from elsewhere."""
    if request.node.get_closest_marker("slow") is not None:
        yield
        return
    before = os.environ.get("SSL_CERT_FILE")
    os.environ["SSL_CERT_FILE"] = few_certificates
    yield
    if before is None:
        os.environ.pop("SSL_CERT_FILE", None)
    else:
        os.environ["SSL_CERT_FILE"] = before


class SyncCalls:
    """Calls a runnable (a model, a tool, a graph) from plain code."""

    colour = "sync"

    def invoke(self, part: Any, given: Any, config: Any = None, **kwargs: Any) -> Any:
        return part.invoke(given, config, **kwargs)

    def stream(self, part: Any, given: Any, config: Any = None, *, take: int | None = None, **kwargs: Any) -> list[Any]:
        """All chunks; with `take` the first so many, after which the stream is closed."""
        chunks = []
        stream = part.stream(given, config, **kwargs)
        for chunk in stream:
            chunks.append(chunk)
            if take is not None and len(chunks) == take:
                stream.close()
                break
        return chunks

    def transform(self, part: Any, chunks: Iterable[Any], config: Any = None, **kwargs: Any) -> list[Any]:
        return list(part.transform(iter(chunks), config, **kwargs))

    def batch(self, part: Any, given: list[Any], config: Any = None, **kwargs: Any) -> list[Any]:
        return part.batch(given, config, **kwargs)

    def completed(self, part: Any, given: list[Any], config: Any = None, **kwargs: Any) -> list[tuple[int, Any]]:
        return list(part.batch_as_completed(given, config, **kwargs))


class AsyncCalls:
    """The same calls from a coroutine, each on an event loop of its own."""

    colour = "async"

    def invoke(self, part: Any, given: Any, config: Any = None, **kwargs: Any) -> Any:
        async def call() -> Any:
            return await part.ainvoke(given, config, **kwargs)

        return asyncio.run(call())

    def stream(self, part: Any, given: Any, config: Any = None, *, take: int | None = None, **kwargs: Any) -> list[Any]:
        async def call() -> list[Any]:
            chunks = []
            stream = part.astream(given, config, **kwargs)
            async for chunk in stream:
                chunks.append(chunk)
                if take is not None and len(chunks) == take:
                    await stream.aclose()
                    break
            return chunks

        return asyncio.run(call())

    def transform(self, part: Any, chunks: Iterable[Any], config: Any = None, **kwargs: Any) -> list[Any]:
        async def source() -> Any:
            for chunk in chunks:
                yield chunk

        async def call() -> list[Any]:
            return [chunk async for chunk in part.atransform(source(), config, **kwargs)]

        return asyncio.run(call())

    def batch(self, part: Any, given: list[Any], config: Any = None, **kwargs: Any) -> list[Any]:
        async def call() -> list[Any]:
            return await part.abatch(given, config, **kwargs)

        return asyncio.run(call())

    def completed(self, part: Any, given: list[Any], config: Any = None, **kwargs: Any) -> list[tuple[int, Any]]:
        async def call() -> list[tuple[int, Any]]:
            return [item async for item in part.abatch_as_completed(given, config, **kwargs)]

        return asyncio.run(call())


@pytest.fixture(params=[SyncCalls(), AsyncCalls()], ids=["sync", "async"])
def driver(request: pytest.FixtureRequest) -> Any:
    """`invoke`, `stream`, `transform`, `batch` and `completed` in each colour in turn; `driver.colour` names it."""
    return request.param


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One PostgreSQL server for all tests that need one, in whichever of the run's workers."""
    with PostgresServer(shared=os.environ.get("PYTEST_XDIST_TESTRUNUID")) as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """A connection string to an empty schema."""
    return postgres_server.new_schema()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """One Redis server for all tests of a process that need one."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(RedisServer())
        except MissingExtra as error:  # no wheel has one for Python 3.12 and later
            pytest.skip(f"no Redis server on this machine: {error}")
        yield server


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """The address of an empty database."""
    return redis_server.new_database()


@pytest.fixture(scope="session")
def programs() -> Iterator[Any]:
    """`programs(source)`: the program, imported once for all tests of this process that start and kill it."""
    made: dict[str, Program] = {}
    with ExitStack() as stack:

        def program(source: str) -> Program:
            if source not in made:
                made[source] = stack.enter_context(Program(source))
            return made[source]

        yield program
