"""Agents: a model that calls tools until it has an answer."""

from __future__ import annotations

from runwell.agents.create_agent import create_agent
from runwell.agents.limits import AgentLimits, Budget
from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.agents.state import AgentState
from runwell.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy

__all__ = [
    "AgentLimits",
    "AgentMiddleware",
    "AgentState",
    "AutoStrategy",
    "Budget",
    "ProviderStrategy",
    "ToolStrategy",
    "create_agent",
]
