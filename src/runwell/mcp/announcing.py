"""What a server says of a tool of ours, and what it sends of its result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from runwell.agents.agent_tool import AgentTool
from runwell.agents.compiled import CompiledAgent
from runwell.agents.structured_output import ProviderStrategy
from runwell.mcp.outgoing import as_error, as_result
from runwell.mcp.text import sendable
from runwell.messages.message import ToolMessage
from runwell.schemas.json_schema import at_root
from runwell.tools.base_tool import BaseTool

__all__ = ["answer_of_tool", "announced"]


def announced(tool: BaseTool, input_schema: dict[str, Any] | None = None, more: str = "") -> Any:
    """The protocol's description of a tool. `input_schema` stands for its own, and `more` is said beside its own."""
    from mcp_types import Tool, ToolAnnotations

    return Tool(
        name=tool.name,
        title=getattr(tool, "title", None),
        description=sendable(f"{tool.description} {more}".strip()),
        input_schema=sendable(tool.json_schema() if input_schema is None else input_schema),
        output_schema=sendable(_output(tool)),
        annotations=ToolAnnotations(
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=tool.open_world,
        ),
    )


def answer_of_tool(tool: BaseTool, message: ToolMessage) -> Any:
    """The protocol's result of a call, with the structured content that the tool declares."""
    made = as_result(message)
    declared = _declared(tool)
    if declared is None or made.is_error:
        return made
    value = message.artifact if message.artifact is not None else _value(message, declared)
    import pydantic_core

    plain = pydantic_core.to_jsonable_python(value, fallback=str)
    if not _is_object(declared):
        plain = {"result": plain}
    if not isinstance(plain, Mapping):  # nothing but an error may go without it
        said = message.text
        return as_error(f"The tool {tool.name!r} gave no structured result, which it declares. It said: {said:.2000}")
    made.structured_content = sendable(dict(plain))
    return made


def _declared(tool: BaseTool) -> dict[str, Any] | None:
    """The JSON schema of the result, or of the artifact where there is one."""
    if tool.output_schema is not None:
        return tool.get_output_jsonschema()
    if not isinstance(tool, AgentTool) or not isinstance(tool.agent, CompiledAgent):
        return None
    strategy = tool.agent.setup.response_format
    if isinstance(strategy, ProviderStrategy):
        return strategy.shape.json_schema
    shapes = [] if strategy is None else list(strategy.shapes.values())
    return shapes[0].json_schema if len(shapes) == 1 else None


def _output(tool: BaseTool) -> dict[str, Any] | None:
    """The declared output, as an object: older clients take no other."""
    declared = _declared(tool)
    if declared is None or _is_object(declared):
        return declared
    inner = {key: value for key, value in declared.items() if key not in ("$defs", "$schema")}
    definitions = {"$defs": declared["$defs"]} if "$defs" in declared else {}
    return {"type": "object", "properties": {"result": inner}, "required": ["result"], **definitions}


def _is_object(schema: Mapping[str, Any]) -> bool:
    return at_root(dict(schema)).get("type") == "object"


def _value(message: ToolMessage, declared: Mapping[str, Any]) -> Any:
    """The result that was written as text: it is JSON, but for a string."""
    content = message.content
    if not isinstance(content, str):
        return None
    try:
        return content if at_root(dict(declared)).get("type") == "string" else json.loads(content)
    except ValueError:
        return content
