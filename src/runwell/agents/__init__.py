"""Agents: a model that calls tools until it has an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runwell.agents.create_agent import create_agent  # at once: its module has the same name

if TYPE_CHECKING:
    from runwell.agents.delegation import create_handoff_tool, create_supervisor, create_swarm, handoff
    from runwell.agents.human_input import human_input_tool
    from runwell.agents.limits import AgentLimits, Budget
    from runwell.agents.memory import MemoryNamespace, memory_tools
    from runwell.agents.middleware.middleware import AgentMiddleware
    from runwell.agents.react_agent import create_react_agent
    from runwell.agents.state import AgentState
    from runwell.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
    from runwell.agents.tool_runner import ToolNode, tools_condition
    from runwell.models.prices import Price

_HOME = {
    "AgentLimits": "runwell.agents.limits",
    "AgentMiddleware": "runwell.agents.middleware.middleware",
    "AgentState": "runwell.agents.state",
    "AutoStrategy": "runwell.agents.structured_output",
    "Budget": "runwell.agents.limits",
    "MemoryNamespace": "runwell.agents.memory",
    "Price": "runwell.models.prices",
    "ProviderStrategy": "runwell.agents.structured_output",
    "ToolStrategy": "runwell.agents.structured_output",
    "ToolNode": "runwell.agents.tool_runner",
    "create_react_agent": "runwell.agents.react_agent",
    "tools_condition": "runwell.agents.tool_runner",
    "create_handoff_tool": "runwell.agents.delegation",
    "create_supervisor": "runwell.agents.delegation",
    "create_swarm": "runwell.agents.delegation",
    "handoff": "runwell.agents.delegation",
    "memory_tools": "runwell.agents.memory",
    "human_input_tool": "runwell.agents.human_input",
}

__all__ = [
    "AgentLimits",
    "AgentMiddleware",
    "AgentState",
    "AutoStrategy",
    "Budget",
    "MemoryNamespace",
    "Price",
    "ProviderStrategy",
    "ToolNode",
    "ToolStrategy",
    "create_agent",
    "create_handoff_tool",
    "create_react_agent",
    "create_supervisor",
    "create_swarm",
    "handoff",
    "memory_tools",
    "human_input_tool",
    "tools_condition",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
