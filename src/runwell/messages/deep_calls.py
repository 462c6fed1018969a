"""Calls whose arguments are nested deeper than anything can check or save, which a model then has to make anew.

Arguments that come as JSON text are told when that is read. Some servers send them parsed.
"""

from __future__ import annotations

from typing import Any

from runwell.messages.calls import MAX_DEPTH, calls_as_written, depth_of, invalid_tool_call, json_text, split_calls
from runwell.messages.message import AIMessage

__all__ = ["text_of_args", "without_deep_calls"]


_FLAT = frozenset({str, int, float, bool, type(None)})


def without_deep_calls(message: AIMessage) -> AIMessage:
    """The message with calls nested too deep as malformed ones; as it is where there are none."""
    for call in message.tool_calls:
        values = call["args"].values()
        if _FLAT.issuperset(map(type, values)):
            continue  # as mostly
        for value in values:
            if isinstance(value, (dict, list)) and depth_of(value) >= MAX_DEPTH:
                return _changed(message)
    return message


def text_of_args(args: Any) -> str:
    """Parsed arguments as JSON text. What is too deep to be written is cut, but not so far that it could be taken."""
    try:
        return json_text(args)
    except ValueError:
        return json_text(_cut(args, MAX_DEPTH + 1))


def _changed(message: AIMessage) -> AIMessage:
    problem = f"nested more than {MAX_DEPTH} deep"
    broken: dict[Any, Any] = {
        id(call["args"]): invalid_tool_call(
            name=call["name"], args=text_of_args(_cut(call["args"], MAX_DEPTH + 1)), id=call["id"], error=problem
        )
        for call in message.tool_calls
        if depth_of(call["args"]) > MAX_DEPTH
    }
    whole, malformed = split_calls(broken.get(id(call["args"]), call) for call in calls_as_written(message))
    content = message.content
    if isinstance(content, list):
        content = [_shown(block, problem) for block in content]
    return message.model_copy(update={"content": content, "tool_calls": whole, "invalid_tool_calls": malformed})


def _shown(block: Any, problem: str) -> Any:
    """A block of the content, as a malformed call if it shows one that is too deep."""
    args = (block.get("args") or block.get("input")) if isinstance(block, dict) else None
    if not isinstance(args, dict) or depth_of(args) <= MAX_DEPTH:
        return block
    kept = {key: value for key, value in block.items() if key not in ("args", "input", "type")}
    return {**kept, "type": "invalid_tool_call", "args": text_of_args(_cut(args, MAX_DEPTH + 1)), "error": problem}


def _cut(value: Any, levels: int) -> Any:
    """A value without what is more than so many levels inside it."""
    if isinstance(value, dict):
        return {key: _cut(inner, levels - 1) for key, inner in value.items()} if levels > 1 else {}
    if isinstance(value, list):
        return [_cut(inner, levels - 1) for inner in value] if levels > 1 else []
    return value
