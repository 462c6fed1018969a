"""Agents that hand the conversation to one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired

from runwell.agents.delegation.team import TeamGraph, TeamState, check_members
from runwell.agents.handing_over import HandoffTool
from runwell.agents.limits import Budget
from runwell.errors import InvalidInput, nearest
from runwell.ports.command import END, START

__all__ = ["SwarmState", "create_swarm"]


class SwarmState(TeamState):
    """`messages`, shared by all, and `active_agent`, who answers the next input."""

    active_agent: NotRequired[str | None]


def create_swarm(
    agents: Sequence[Any],
    *,
    default_active_agent: str,
    state_schema: type = SwarmState,
    context_schema: type | None = None,
    budget: Budget | None = None,
    name: str = "swarm",
) -> TeamGraph:
    """A graph of agents that hand the conversation to one another with their `handoff` tools; `compile()` it.

    Each input goes to the agent that spoke last (`result["active_agent"]`), the first one to `default_active_agent`;
    that needs a checkpointer, or the state handed back in. All share one history. `budget` is for all of them
    together. Raises InvalidInput for a handoff to an agent that is not in the swarm.
    """
    members = check_members(agents, "create_swarm")
    if default_active_agent not in members:
        raise InvalidInput(
            f"default_active_agent={default_active_agent!r} is not in the swarm"
            f"{nearest(default_active_agent, members)}.",
            hint=f"It has {sorted(members)}.",
        )
    graph = TeamGraph(state_schema, context_schema, budget, name)
    if "active_agent" not in graph.schema.channels:
        raise InvalidInput(
            f"state_schema={state_schema!r:.100} has no key 'active_agent'.", hint="Derive it from SwarmState."
        )

    def active(state: Mapping[str, Any]) -> str:
        return state.get("active_agent") or default_active_agent

    graph.add_conditional_edges(START, active, list(members))
    for called, agent in members.items():
        ways = tuple(tool.to for tool in _handoffs(agent))
        for way in ways:
            if way not in members:
                raise InvalidInput(
                    f"Agent {called!r} hands off to {way!r}, which is not in the swarm{nearest(way, members)}.",
                    hint=f"It has {sorted(members)}.",
                )
        graph.add_node(called, agent, destinations=ways)
        graph.add_edge(called, END)
    return graph


def _handoffs(agent: Any) -> list[HandoffTool]:
    setup = getattr(agent, "setup", None)
    return [tool for tool in setup.local.values() if isinstance(tool, HandoffTool)] if setup is not None else []
