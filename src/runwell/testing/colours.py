"""Calling a graph or agent in either colour from one test."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

__all__ = ["COLOURS", "AsyncCalls", "SyncCalls"]


class SyncCalls:
    """The plain forms."""

    name: ClassVar[str] = "sync"

    def invoke(self, graph: Any, given: Any, config: Any = None, **options: Any) -> Any:
        return graph.invoke(given, config, **options)

    def stream(self, graph: Any, given: Any, config: Any = None, **options: Any) -> list[Any]:
        return list(graph.stream(given, config, **options))

    def state(self, graph: Any, config: Any, **options: Any) -> Any:
        return graph.get_state(config, **options)

    def history(self, graph: Any, config: Any, **options: Any) -> list[Any]:
        return list(graph.get_state_history(config, **options))

    def update(self, graph: Any, config: Any, values: Any, as_node: str | None = None) -> Any:
        return graph.update_state(config, values, as_node)

    def bulk(self, graph: Any, config: Any, supersteps: Any) -> Any:
        return graph.bulk_update_state(config, supersteps)

    def questions(self, graph: Any, **options: Any) -> Any:
        return graph.list_interrupts(**options)


class AsyncCalls:
    """The async forms, each in an event loop of its own."""

    name: ClassVar[str] = "async"

    def invoke(self, graph: Any, given: Any, config: Any = None, **options: Any) -> Any:
        return asyncio.run(graph.ainvoke(given, config, **options))

    def stream(self, graph: Any, given: Any, config: Any = None, **options: Any) -> list[Any]:
        return asyncio.run(_collected(graph.astream(given, config, **options)))

    def state(self, graph: Any, config: Any, **options: Any) -> Any:
        return asyncio.run(graph.aget_state(config, **options))

    def history(self, graph: Any, config: Any, **options: Any) -> list[Any]:
        return asyncio.run(_collected(graph.aget_state_history(config, **options)))

    def update(self, graph: Any, config: Any, values: Any, as_node: str | None = None) -> Any:
        return asyncio.run(graph.aupdate_state(config, values, as_node))

    def bulk(self, graph: Any, config: Any, supersteps: Any) -> Any:
        return asyncio.run(graph.abulk_update_state(config, supersteps))

    def questions(self, graph: Any, **options: Any) -> Any:
        return asyncio.run(graph.alist_interrupts(**options))


async def _collected(items: Any) -> list[Any]:
    return [item async for item in items]


COLOURS = (SyncCalls, AsyncCalls)
"""For `pytest.fixture(params=COLOURS)`: `request.param()` makes the same calls in one colour and the other."""
