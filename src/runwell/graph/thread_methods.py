"""A graph's methods that read and change what is saved of its threads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import Unpack

from runwell.drivers.sync import run_sync
from runwell.graph import thread
from runwell.graph.snapshot import StateSnapshot

if TYPE_CHECKING:
    from runwell.persistence.checkpoints.threads import PendingInterrupt

__all__ = ["ThreadMethods"]


class ThreadMethods:
    """What stands in a compiled graph, in both colours."""

    def get_state(self: Any, config: Mapping[str, Any], *, subgraphs: bool = False) -> StateSnapshot:
        """The thread as it stands, or stood at the config's `checkpoint_id`: values, what comes next, questions.

        `subgraphs` puts the state of a nested graph that has begun into its task's `state`.
        """
        return run_sync(thread.state(self, config, subgraphs=subgraphs))

    async def aget_state(self: Any, config: Mapping[str, Any], *, subgraphs: bool = False) -> StateSnapshot:
        """`get_state`, on the running event loop."""
        from runwell.drivers.aio import run_async

        return await run_async(thread.state(self, config, subgraphs=subgraphs))

    def get_state_history(
        self: Any, config: Mapping[str, Any], **options: Unpack[thread.HistoryOptions]
    ) -> Iterator[StateSnapshot]:
        """Every checkpoint of the thread, newest first."""
        return run_sync(thread.history(self, config, options))

    async def aget_state_history(
        self: Any, config: Mapping[str, Any], **options: Unpack[thread.HistoryOptions]
    ) -> AsyncIterator[StateSnapshot]:
        """`get_state_history`, on the running event loop."""
        from runwell.drivers.aio import run_async

        for snapshot in await run_async(thread.history(self, config, options)):
            yield snapshot

    def update_state(self: Any, config: Mapping[str, Any], values: Any, as_node: str | None = None) -> dict[str, Any]:
        """Change the thread's state as if `as_node` had returned `values`; gives the config of the new checkpoint.

        `as_node` defaults to the node that ran last; what comes next follows from its edges, or stays as it is if that
        node had jumped there with a `Command`. END ends the run. With a `checkpoint_id` in the config the change starts
        a branch there.
        """
        return run_sync(thread.update(self, config, values, as_node))

    async def aupdate_state(
        self: Any, config: Mapping[str, Any], values: Any, as_node: str | None = None
    ) -> dict[str, Any]:
        """`update_state`, on the running event loop."""
        from runwell.drivers.aio import run_async

        return await run_async(thread.update(self, config, values, as_node))

    def bulk_update_state(
        self: Any, config: Mapping[str, Any], supersteps: Sequence[Sequence[thread.StateUpdate]]
    ) -> dict[str, Any]:
        """Make a history by hand: a checkpoint for each superstep, whose `StateUpdate`s count as one step's.

        Gives the config of the last one. What is saved before a superstep that is refused stays.
        """
        return run_sync(thread.bulk_update(self, config, supersteps))

    async def abulk_update_state(
        self: Any, config: Mapping[str, Any], supersteps: Sequence[Sequence[thread.StateUpdate]]
    ) -> dict[str, Any]:
        """`bulk_update_state`, on the running event loop."""
        from runwell.drivers.aio import run_async

        return await run_async(thread.bulk_update(self, config, supersteps))

    def list_interrupts(self: Any, *, limit: int | None = None) -> list[PendingInterrupt]:
        """The open questions of every thread of the checkpointer, the longest waiting first, each with its config."""
        return run_sync(thread.questions(self, limit))

    async def alist_interrupts(self: Any, *, limit: int | None = None) -> list[PendingInterrupt]:
        """`list_interrupts`, on the running event loop."""
        from runwell.drivers.aio import run_async

        return await run_async(thread.questions(self, limit))
