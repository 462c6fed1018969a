"""Hooks into what an agent does, and the ready-made ones. Each name is loaded when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.agents.middleware.auto_mode import AutoModeMiddleware, AutoModeState
    from runwell.agents.middleware.context_editing import ClearToolUsesEdit, ContextEdit, ContextEditingMiddleware
    from runwell.agents.middleware.decorators import (
        after_agent,
        after_model,
        before_agent,
        before_model,
        dynamic_prompt,
        wrap_model_call,
        wrap_tool_call,
    )
    from runwell.agents.middleware.file_search import FilesystemFileSearchMiddleware
    from runwell.agents.middleware.human_in_the_loop import Decision, HumanInTheLoopMiddleware, InterruptOnConfig
    from runwell.agents.middleware.llm_tool_emulator import LLMToolEmulator
    from runwell.agents.middleware.llm_tool_selector import LLMToolSelectorMiddleware
    from runwell.agents.middleware.memory_recall import MemoryRecallMiddleware
    from runwell.agents.middleware.middleware import AgentMiddleware, hook_config
    from runwell.agents.middleware.model_call_limit import (
        ModelCallLimitExceededError,
        ModelCallLimitMiddleware,
        ModelCallLimitState,
    )
    from runwell.agents.middleware.model_fallback import ModelFallbackMiddleware
    from runwell.agents.middleware.model_refusal import ModelRefusalMiddleware
    from runwell.agents.middleware.model_retry import ModelRetryMiddleware
    from runwell.agents.middleware.model_router import ModelChoice, ModelRouterMiddleware
    from runwell.agents.middleware.pii import PIIMiddleware
    from runwell.agents.middleware.prompt_caching import PromptCachingMiddleware
    from runwell.agents.middleware.provider_tool_search import ProviderToolSearchMiddleware
    from runwell.agents.middleware.requests import (
        ExtendedModelResponse,
        ModelCallResult,
        ModelRequest,
        ModelResponse,
        ResponseT,
        ToolCallRequest,
    )
    from runwell.agents.middleware.retrieval_tool_selector import RetrievalToolSelectorMiddleware
    from runwell.agents.middleware.shell_tool import (
        BubblewrapPolicy,
        CodexPolicy,
        CodexSandboxExecutionPolicy,
        DockerExecutionPolicy,
        DockerPolicy,
        HostExecutionPolicy,
        HostPolicy,
        SandboxPolicy,
        ShellSession,
        ShellToolMiddleware,
        ShellToolState,
    )
    from runwell.agents.middleware.summarization import SummarizationMiddleware
    from runwell.agents.middleware.todo_list import PlanningState, Todo, TodoListMiddleware, write_todos
    from runwell.agents.middleware.tool_call_limit import (
        ToolCallLimitExceededError,
        ToolCallLimitMiddleware,
        ToolCallLimitState,
    )
    from runwell.agents.middleware.tool_error import ToolErrorMiddleware
    from runwell.agents.middleware.tool_retry import ToolRetryMiddleware
    from runwell.agents.pii.detect import (
        detect_credit_card,
        detect_email,
        detect_ip,
        detect_mac_address,
        detect_url,
    )
    from runwell.agents.pii.match import PIIDetectionError, PIIMatch
    from runwell.agents.state import (
        AgentState,
        InputAgentState,
        OmitFromInput,
        OmitFromOutput,
        OmitFromSchema,
        OutputAgentState,
        PrivateStateAttr,
        RunStateAttr,
    )

__all__ = [
    "AgentMiddleware",
    "AgentState",
    "AutoModeMiddleware",
    "AutoModeState",
    "BubblewrapPolicy",
    "ClearToolUsesEdit",
    "CodexPolicy",
    "CodexSandboxExecutionPolicy",
    "ContextEdit",
    "ContextEditingMiddleware",
    "Decision",
    "DockerExecutionPolicy",
    "DockerPolicy",
    "ExtendedModelResponse",
    "FilesystemFileSearchMiddleware",
    "HostExecutionPolicy",
    "HostPolicy",
    "HumanInTheLoopMiddleware",
    "InputAgentState",
    "InterruptOnConfig",
    "LLMToolEmulator",
    "LLMToolSelectorMiddleware",
    "MemoryRecallMiddleware",
    "ModelCallLimitExceededError",
    "ModelCallLimitMiddleware",
    "ModelCallLimitState",
    "ModelCallResult",
    "ModelChoice",
    "ModelFallbackMiddleware",
    "ModelRefusalMiddleware",
    "ModelRequest",
    "ModelResponse",
    "ModelRetryMiddleware",
    "ModelRouterMiddleware",
    "OmitFromInput",
    "OmitFromOutput",
    "OmitFromSchema",
    "OutputAgentState",
    "PIIDetectionError",
    "PIIMatch",
    "PIIMiddleware",
    "PlanningState",
    "PrivateStateAttr",
    "PromptCachingMiddleware",
    "ProviderToolSearchMiddleware",
    "ResponseT",
    "RetrievalToolSelectorMiddleware",
    "RunStateAttr",
    "SandboxPolicy",
    "ShellSession",
    "ShellToolMiddleware",
    "ShellToolState",
    "SummarizationMiddleware",
    "Todo",
    "TodoListMiddleware",
    "ToolCallLimitExceededError",
    "ToolCallLimitMiddleware",
    "ToolCallLimitState",
    "ToolCallRequest",
    "ToolErrorMiddleware",
    "ToolRetryMiddleware",
    "after_agent",
    "after_model",
    "before_agent",
    "before_model",
    "detect_credit_card",
    "detect_email",
    "detect_ip",
    "detect_mac_address",
    "detect_url",
    "dynamic_prompt",
    "hook_config",
    "wrap_model_call",
    "wrap_tool_call",
    "write_todos",
]

_HOME = {
    "AgentMiddleware": "middleware.middleware",
    "AgentState": "state",
    "AutoModeMiddleware": "middleware.auto_mode",
    "AutoModeState": "middleware.auto_mode",
    "BubblewrapPolicy": "middleware.shell_tool",
    "ClearToolUsesEdit": "middleware.context_editing",
    "CodexPolicy": "middleware.shell_tool",
    "CodexSandboxExecutionPolicy": "middleware.shell_tool",
    "ContextEdit": "middleware.context_editing",
    "ContextEditingMiddleware": "middleware.context_editing",
    "Decision": "middleware.human_in_the_loop",
    "DockerExecutionPolicy": "middleware.shell_tool",
    "DockerPolicy": "middleware.shell_tool",
    "ExtendedModelResponse": "middleware.requests",
    "FilesystemFileSearchMiddleware": "middleware.file_search",
    "HostExecutionPolicy": "middleware.shell_tool",
    "HostPolicy": "middleware.shell_tool",
    "HumanInTheLoopMiddleware": "middleware.human_in_the_loop",
    "InputAgentState": "state",
    "InterruptOnConfig": "middleware.human_in_the_loop",
    "LLMToolEmulator": "middleware.llm_tool_emulator",
    "LLMToolSelectorMiddleware": "middleware.llm_tool_selector",
    "MemoryRecallMiddleware": "middleware.memory_recall",
    "ModelCallLimitExceededError": "middleware.model_call_limit",
    "ModelCallLimitMiddleware": "middleware.model_call_limit",
    "ModelCallLimitState": "middleware.model_call_limit",
    "ModelCallResult": "middleware.requests",
    "ModelChoice": "middleware.model_router",
    "ModelFallbackMiddleware": "middleware.model_fallback",
    "ModelRefusalMiddleware": "middleware.model_refusal",
    "ModelRequest": "middleware.requests",
    "ModelResponse": "middleware.requests",
    "ModelRetryMiddleware": "middleware.model_retry",
    "ModelRouterMiddleware": "middleware.model_router",
    "OmitFromInput": "state",
    "OmitFromOutput": "state",
    "OmitFromSchema": "state",
    "OutputAgentState": "state",
    "PIIDetectionError": "pii.match",
    "PIIMatch": "pii.match",
    "PIIMiddleware": "middleware.pii",
    "PlanningState": "middleware.todo_list",
    "PrivateStateAttr": "state",
    "PromptCachingMiddleware": "middleware.prompt_caching",
    "ProviderToolSearchMiddleware": "middleware.provider_tool_search",
    "ResponseT": "middleware.requests",
    "RetrievalToolSelectorMiddleware": "middleware.retrieval_tool_selector",
    "RunStateAttr": "state",
    "SandboxPolicy": "middleware.shell_tool",
    "ShellSession": "middleware.shell_tool",
    "ShellToolMiddleware": "middleware.shell_tool",
    "ShellToolState": "middleware.shell_tool",
    "SummarizationMiddleware": "middleware.summarization",
    "Todo": "middleware.todo_list",
    "TodoListMiddleware": "middleware.todo_list",
    "ToolCallLimitExceededError": "middleware.tool_call_limit",
    "ToolCallLimitMiddleware": "middleware.tool_call_limit",
    "ToolCallLimitState": "middleware.tool_call_limit",
    "ToolCallRequest": "middleware.requests",
    "ToolErrorMiddleware": "middleware.tool_error",
    "ToolRetryMiddleware": "middleware.tool_retry",
    "after_agent": "middleware.decorators",
    "after_model": "middleware.decorators",
    "before_agent": "middleware.decorators",
    "before_model": "middleware.decorators",
    "detect_credit_card": "pii.detect",
    "detect_email": "pii.detect",
    "detect_ip": "pii.detect",
    "detect_mac_address": "pii.detect",
    "detect_url": "pii.detect",
    "dynamic_prompt": "middleware.decorators",
    "hook_config": "middleware.middleware",
    "wrap_model_call": "middleware.decorators",
    "wrap_tool_call": "middleware.decorators",
    "write_todos": "middleware.todo_list",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        from runwell.errors import nearest

        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{nearest(name, _HOME)}")
    from importlib import import_module

    found = getattr(import_module(f"runwell.agents.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
