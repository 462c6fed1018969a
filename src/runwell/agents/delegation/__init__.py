"""Graphs of several agents: a supervisor and those it gives work to, and swarms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.agents.agent_tool import AgentTool
    from runwell.agents.delegation.supervisor import create_supervisor
    from runwell.agents.delegation.swarm import SwarmState, create_swarm
    from runwell.agents.delegation.team import TeamGraph, TeamState
    from runwell.agents.handing_over import create_handoff_tool, handoff

_HOME = {
    "AgentTool": "runwell.agents.agent_tool",
    "SwarmState": "runwell.agents.delegation.swarm",
    "TeamGraph": "runwell.agents.delegation.team",
    "TeamState": "runwell.agents.delegation.team",
    "create_handoff_tool": "runwell.agents.handing_over",
    "create_supervisor": "runwell.agents.delegation.supervisor",
    "create_swarm": "runwell.agents.delegation.swarm",
    "handoff": "runwell.agents.handing_over",
}

__all__ = [
    "AgentTool",
    "SwarmState",
    "TeamGraph",
    "TeamState",
    "create_handoff_tool",
    "create_supervisor",
    "create_swarm",
    "handoff",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
