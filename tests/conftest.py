"""Tests are written once and run in both colours, through the `driver` fixture."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from runwell.testing.killing import Program
from runwell.testing.postgres import PostgresServer

# A shell that runs the tests in the background has them ignore Ctrl-C, and so would every program that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared machine")  # how long an example takes says how busy the machine is


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What starts processes and servers comes first: it takes longest, and would leave one worker alone at the end."""
    items.sort(key=lambda item: item.get_closest_marker("integration") is None)


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
def programs() -> Iterator[Any]:
    """`programs(source)`: the program, imported once for all tests of this process that start and kill it."""
    made: dict[str, Program] = {}
    with ExitStack() as stack:

        def program(source: str) -> Program:
            if source not in made:
                made[source] = stack.enter_context(Program(source))
            return made[source]

        yield program
