"""Parts for agents and graphs of one's own, under the names that `langgraph.prebuilt` has them."""

from __future__ import annotations

from runwell.agents.middleware.requests import ToolCallRequest
from runwell.agents.react_agent import create_react_agent
from runwell.agents.state import AgentState
from runwell.agents.tool_runner import ToolNode, tools_condition
from runwell.errors import ToolArgumentsError as ToolInvocationError
from runwell.schemas.injection import InjectedState, InjectedStore, InjectedToolCallId
from runwell.tools.runtime import ToolRuntime

__all__ = [
    "AgentState",
    "InjectedState",
    "InjectedStore",
    "InjectedToolCallId",
    "ToolCallRequest",
    "ToolInvocationError",
    "ToolNode",
    "ToolRuntime",
    "create_react_agent",
    "tools_condition",
]
