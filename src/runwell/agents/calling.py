"""Running a graph inside the task that is running: engine code."""

from __future__ import annotations

from typing import Any

from runwell.graph.called import called
from runwell.graph.compiled import CompiledStateGraph

__all__ = ["call_graph"]


async def call_graph(graph: CompiledStateGraph, given: Any) -> dict[str, Any]:
    """What `graph.invoke(given)` gives in a node, without leaving the driver; streamed where the outer run is.

    The graph's memory is what it was compiled for. Its pauses pause the task, and resume into it.
    """
    run, observed = called(graph, given, None, {})
    if observed is None:
        return await run.flow(given)  # type: ignore[no-any-return]
    with observed:
        return observed.end(await run.flow(given))
