"""Every graph test runs in both colours: `run` calls the sync or the async form of the same method."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest


class Sync:
    name = "sync"

    def invoke(self, graph: Any, given: Any, config: Any = None, **options: Any) -> Any:
        return graph.invoke(given, config, **options)

    def stream(self, graph: Any, given: Any, config: Any = None, **options: Any) -> list[Any]:
        return list(graph.stream(given, config, **options))

    def state(self, graph: Any, config: Any) -> Any:
        return graph.get_state(config)

    def history(self, graph: Any, config: Any, **options: Any) -> list[Any]:
        return list(graph.get_state_history(config, **options))

    def update(self, graph: Any, config: Any, values: Any, as_node: str | None = None) -> Any:
        return graph.update_state(config, values, as_node)


class Async:
    name = "async"

    def invoke(self, graph: Any, given: Any, config: Any = None, **options: Any) -> Any:
        return asyncio.run(graph.ainvoke(given, config, **options))

    def stream(self, graph: Any, given: Any, config: Any = None, **options: Any) -> list[Any]:
        async def read() -> list[Any]:
            return [item async for item in graph.astream(given, config, **options)]

        return asyncio.run(read())

    def state(self, graph: Any, config: Any) -> Any:
        return asyncio.run(graph.aget_state(config))

    def history(self, graph: Any, config: Any, **options: Any) -> list[Any]:
        async def read() -> list[Any]:
            return [item async for item in graph.aget_state_history(config, **options)]

        return asyncio.run(read())

    def update(self, graph: Any, config: Any, values: Any, as_node: str | None = None) -> Any:
        return asyncio.run(graph.aupdate_state(config, values, as_node))


@pytest.fixture(params=[Sync, Async], ids=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Any:
    return request.param()


@pytest.fixture
def thread() -> dict[str, Any]:
    return {"configurable": {"thread_id": "t"}}
