"""Hooks into what an agent does, and the ready-made ones."""

from __future__ import annotations

from runwell.agents.middleware.decorators import (
    after_agent,
    after_model,
    before_agent,
    before_model,
    dynamic_prompt,
    wrap_model_call,
    wrap_tool_call,
)
from runwell.agents.middleware.human_in_the_loop import Decision, HumanInTheLoopMiddleware, InterruptOnConfig
from runwell.agents.middleware.middleware import AgentMiddleware, hook_config
from runwell.agents.middleware.requests import (
    ExtendedModelResponse,
    ModelCallResult,
    ModelRequest,
    ModelResponse,
    ToolCallRequest,
)
from runwell.agents.state import AgentState

__all__ = [
    "AgentMiddleware",
    "AgentState",
    "Decision",
    "ExtendedModelResponse",
    "HumanInTheLoopMiddleware",
    "InterruptOnConfig",
    "ModelCallResult",
    "ModelRequest",
    "ModelResponse",
    "ToolCallRequest",
    "after_agent",
    "after_model",
    "before_agent",
    "before_model",
    "dynamic_prompt",
    "hook_config",
    "wrap_model_call",
    "wrap_tool_call",
]
