"""A compiled graph with settings bound to it: it runs with them, and looks at its threads with them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import Unpack

from runwell.graph.thread import HistoryOptions, StateUpdate
from runwell.runnables.binding import RunnableBinding
from runwell.runnables.config import merge_configs

if TYPE_CHECKING:
    from runwell.graph.compiled import CompiledStateGraph
    from runwell.graph.snapshot import StateSnapshot
    from runwell.persistence.checkpoints.threads import PendingInterrupt

__all__ = ["BoundStateGraph"]

Config = Mapping[str, Any] | None


class BoundStateGraph(RunnableBinding[Any, Any]):
    """What `graph.with_config(...)` gives: the graph, called with this config merged under each call's own.

    Where the bound config names the thread, `get_state()` and the like need none.
    """

    bound: CompiledStateGraph[Any, Any, Any, Any]

    def with_config(self, config: Config = None, **kwargs: Any) -> BoundStateGraph:
        """The same with more config, merged over what is bound already."""
        return BoundStateGraph(self.bound, config=merge_configs(self.config, merge_configs(config, kwargs)))

    def get_state(self, config: Config = None, *, subgraphs: bool = False) -> StateSnapshot:
        """`CompiledStateGraph.get_state`."""
        return self.bound.get_state(self._at(config), subgraphs=subgraphs)

    async def aget_state(self, config: Config = None, *, subgraphs: bool = False) -> StateSnapshot:
        """`get_state`, on the running event loop."""
        return await self.bound.aget_state(self._at(config), subgraphs=subgraphs)

    def get_state_history(self, config: Config = None, **options: Unpack[HistoryOptions]) -> Iterator[StateSnapshot]:
        """`CompiledStateGraph.get_state_history`."""
        return self.bound.get_state_history(self._at(config), **options)

    def aget_state_history(
        self, config: Config = None, **options: Unpack[HistoryOptions]
    ) -> AsyncIterator[StateSnapshot]:
        """`get_state_history`, on the running event loop."""
        return self.bound.aget_state_history(self._at(config), **options)

    def update_state(self, config: Config, values: Any, as_node: str | None = None) -> dict[str, Any]:
        """`CompiledStateGraph.update_state`."""
        return self.bound.update_state(self._at(config), values, as_node)

    async def aupdate_state(self, config: Config, values: Any, as_node: str | None = None) -> dict[str, Any]:
        """`update_state`, on the running event loop."""
        return await self.bound.aupdate_state(self._at(config), values, as_node)

    def bulk_update_state(self, config: Config, supersteps: Sequence[Sequence[StateUpdate]]) -> dict[str, Any]:
        """`CompiledStateGraph.bulk_update_state`."""
        return self.bound.bulk_update_state(self._at(config), supersteps)

    async def abulk_update_state(self, config: Config, supersteps: Sequence[Sequence[StateUpdate]]) -> dict[str, Any]:
        """`bulk_update_state`, on the running event loop."""
        return await self.bound.abulk_update_state(self._at(config), supersteps)

    def list_interrupts(self, *, limit: int | None = None) -> list[PendingInterrupt]:
        """`CompiledStateGraph.list_interrupts`: of every thread, whatever is bound."""
        return self.bound.list_interrupts(limit=limit)

    async def alist_interrupts(self, *, limit: int | None = None) -> list[PendingInterrupt]:
        """`list_interrupts`, on the running event loop."""
        return await self.bound.alist_interrupts(limit=limit)

    def get_subgraphs(self, *, recurse: bool = False) -> Iterator[tuple[str, CompiledStateGraph]]:
        """`CompiledStateGraph.get_subgraphs`."""
        return self.bound.get_subgraphs(recurse=recurse)

    def _at(self, config: Config) -> Mapping[str, Any]:
        return merge_configs(self.config, config) if config else self.config
