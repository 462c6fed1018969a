"""Which errors of tools the model is told, and which end the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runwell.agents.setup import Setup
from runwell.errors import NodeTimeoutError, OutsideError, ToolError
from runwell.messages.message import ToolMessage
from runwell.tools.base_tool import BaseTool

__all__ = ["answer_to", "is_outside"]


OUTSIDE = (ToolError, OutsideError, NodeTimeoutError, ConnectionError, TimeoutError, FileNotFoundError)


def is_outside(error: BaseException) -> bool:
    """Whether an error is about the world rather than the program: network, HTTP status, files, timeouts."""
    if isinstance(error, OUTSIDE):
        return True
    kinds = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(error).__mro__}
    return bool(
        kinds
        & {"httpx.HTTPError", "httpx2.HTTPError", "requests.RequestException", "urllib.URLError", "aiohttp.ClientError"}
    )


def answer_to(setup: Setup, tool: BaseTool | None, call: Mapping[str, Any], error: Exception) -> Any:
    """The model's answer to a failed call, by the agent's `on_tool_error`; raises what is to end the run."""
    rule = setup.on_tool_error
    if callable(rule):
        told = rule(error, call)
        if isinstance(told, ToolMessage):
            return told
        if told is not None:
            return _message(str(told), call)
    elif rule == "message" or (rule == "default" and is_outside(error)):
        return _message(_said(error), call)
    error.add_note(f"in tool {call['name']!r}, call {call['id']!r}, with arguments {call['args']!r:.500}")
    raise error


def _said(error: Exception) -> str:
    if isinstance(error, ToolError):
        return str(error) or "The tool failed without saying why."
    return f"{type(error).__name__}: {getattr(error, 'message', error)}"


def _message(text: str, call: Mapping[str, Any]) -> ToolMessage:
    return ToolMessage(text, tool_call_id=call["id"], name=call["name"], status="error")
