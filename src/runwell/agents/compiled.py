"""An agent: a compiled graph that knows what it was built from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runwell.graph.builder import StateGraph
from runwell.graph.compiled import CompiledStateGraph

if TYPE_CHECKING:
    from runwell.agents.setup import Setup
    from runwell.seats.seat_map import SeatMap

__all__ = ["AgentGraph", "CompiledAgent"]


class CompiledAgent(CompiledStateGraph):
    """What `create_agent` gives. `setup` are its parts, to be read and not changed."""

    setup: Setup
    replaces_tools: bool = False

    def seats(self) -> SeatMap:
        """Who decides what in this agent: one row for each judgment, with the code that holds it.

        `.to_markdown()` and `.to_html()` are pages of it, `.diff(other_agent)` what another one does differently.
        """
        from runwell.seats.live import seats_of  # a page about agents is not a part of them

        return seats_of(self)


class AgentGraph(StateGraph[Any]):
    """The graph that an agent is compiled from."""

    def _compiled_class(self) -> type[CompiledStateGraph]:
        return CompiledAgent
