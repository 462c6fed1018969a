"""Tools: functions a model may call, with arguments checked on the way in and results shaped on the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.errors import ToolArgumentsError, ToolDefinitionError, ToolError, ToolException, ToolOutputError
    from runwell.schemas.dialects import (
        convert_to_anthropic_tool,
        convert_to_bedrock_tool,
        convert_to_cohere_tool,
        convert_to_gemini_tool,
        convert_to_json_schema,
        convert_to_mistral_tool,
        convert_to_openai_function,
        convert_to_openai_tool,
    )
    from runwell.schemas.injection import InjectedState, InjectedStore, InjectedToolArg, InjectedToolCallId
    from runwell.schemas.json_schema import dereference_refs
    from runwell.tools.base_tool import ArgsSchema, BaseTool
    from runwell.tools.cost import ToolCost, tool_cost
    from runwell.tools.decorator import tool
    from runwell.tools.examples import tool_example_to_messages
    from runwell.tools.kits.retriever import create_retriever_tool
    from runwell.tools.provider_tool import ProviderTool
    from runwell.tools.result import TOOL_MESSAGE_BLOCK_TYPES
    from runwell.tools.runnable_tool import convert_runnable_to_tool
    from runwell.tools.runtime import ToolRuntime
    from runwell.tools.structured import StructuredTool, Tool, create_schema_from_function
    from runwell.tools.toolbox import as_tool, as_tools

_HOME = {
    "TOOL_MESSAGE_BLOCK_TYPES": "runwell.tools.result",
    "ArgsSchema": "runwell.tools.base_tool",
    "BaseTool": "runwell.tools.base_tool",
    "InjectedState": "runwell.schemas.injection",
    "InjectedStore": "runwell.schemas.injection",
    "InjectedToolArg": "runwell.schemas.injection",
    "InjectedToolCallId": "runwell.schemas.injection",
    "ProviderTool": "runwell.tools.provider_tool",
    "StructuredTool": "runwell.tools.structured",
    "Tool": "runwell.tools.structured",
    "ToolArgumentsError": "runwell.errors",
    "ToolCost": "runwell.tools.cost",
    "ToolDefinitionError": "runwell.errors",
    "ToolError": "runwell.errors",
    "ToolException": "runwell.errors",
    "ToolOutputError": "runwell.errors",
    "ToolRuntime": "runwell.tools.runtime",
    "as_tool": "runwell.tools.toolbox",
    "as_tools": "runwell.tools.toolbox",
    "convert_runnable_to_tool": "runwell.tools.runnable_tool",
    "convert_to_anthropic_tool": "runwell.schemas.dialects",
    "convert_to_bedrock_tool": "runwell.schemas.dialects",
    "convert_to_cohere_tool": "runwell.schemas.dialects",
    "convert_to_gemini_tool": "runwell.schemas.dialects",
    "convert_to_json_schema": "runwell.schemas.dialects",
    "convert_to_mistral_tool": "runwell.schemas.dialects",
    "convert_to_openai_function": "runwell.schemas.dialects",
    "convert_to_openai_tool": "runwell.schemas.dialects",
    "create_retriever_tool": "runwell.tools.kits.retriever",
    "create_schema_from_function": "runwell.tools.structured",
    "dereference_refs": "runwell.schemas.json_schema",
    "tool": "runwell.tools.decorator",
    "tool_cost": "runwell.tools.cost",
    "tool_example_to_messages": "runwell.tools.examples",
}

__all__ = [
    "TOOL_MESSAGE_BLOCK_TYPES",
    "ArgsSchema",
    "BaseTool",
    "InjectedState",
    "InjectedStore",
    "InjectedToolArg",
    "InjectedToolCallId",
    "ProviderTool",
    "StructuredTool",
    "Tool",
    "ToolArgumentsError",
    "ToolCost",
    "ToolDefinitionError",
    "ToolError",
    "ToolException",
    "ToolOutputError",
    "ToolRuntime",
    "as_tool",
    "as_tools",
    "convert_runnable_to_tool",
    "convert_to_anthropic_tool",
    "convert_to_bedrock_tool",
    "convert_to_cohere_tool",
    "convert_to_gemini_tool",
    "convert_to_json_schema",
    "convert_to_mistral_tool",
    "convert_to_openai_function",
    "convert_to_openai_tool",
    "create_retriever_tool",
    "create_schema_from_function",
    "dereference_refs",
    "tool",
    "tool_cost",
    "tool_example_to_messages",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
