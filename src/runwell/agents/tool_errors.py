"""Which errors of tools the model is told, and which end the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runwell.agents.cut_results import bounded
from runwell.agents.metering import Meter
from runwell.agents.setup import Setup
from runwell.errors import BudgetExceeded, NodeTimeoutError, OutsideError, ToolArgumentsError, ToolError, nearest
from runwell.messages.message import ToolMessage
from runwell.observe.run import record_decision, watched
from runwell.tools.base_tool import BaseTool
from runwell.tools.result import sendable

__all__ = ["answer_to", "is_outside", "malformed", "over_budget", "record_failure", "unknown"]


OUTSIDE = (ToolError, OutsideError, NodeTimeoutError, ConnectionError, TimeoutError, FileNotFoundError)


def is_outside(error: BaseException) -> bool:
    """Whether an error is about the world rather than the program: network, HTTP status, files, timeouts."""
    if isinstance(error, OUTSIDE):
        return True
    if (
        isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason
    ):  # half a character, in what a model wrote
        return True
    kinds = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(error).__mro__}
    return bool(
        kinds
        & {"httpx.HTTPError", "httpx2.HTTPError", "requests.RequestException", "urllib.URLError", "aiohttp.ClientError"}
    )


def answer_to(setup: Setup, tool: BaseTool | None, call: Mapping[str, Any], error: Exception) -> Any:
    """The model's answer to a failed call, by the agent's `on_tool_error`; raises what is to end the run."""
    rule = setup.on_tool_error
    told = rule(error, call) if callable(rule) else None
    if told is None and (rule == "message" or (rule == "default" and is_outside(error))):
        told = _said(error)
    if watched():
        name = "a function of the program's" if callable(rule) else f"on_tool_error={rule!r}"
        record_failure(error, call, "raised" if told is None else "told", name)
    if told is not None:
        said = told if isinstance(told, ToolMessage) else _message(str(told), call)
        return bounded(said, setup.limits, setup.reader is not None)
    error.add_note(f"in tool {call['name']!r}, call {call['id']!r}, with arguments {call['args']!r:.500}")
    raise error


def malformed(call: Mapping[str, Any]) -> ToolMessage:
    """The answer to a call whose arguments cannot be read."""
    problem = call.get("error") or "they are not a valid JSON object"
    return ToolMessage(
        f"The arguments of this call could not be read: {problem}. Call the tool again with complete, valid JSON.",
        tool_call_id=call["id"],
        name=call.get("name"),
        status="error",
    )


def unknown(setup: Setup, call: Mapping[str, Any]) -> ToolMessage:
    """The answer to a call of a tool that the agent does not have."""
    own = [name for name, tool in setup.local.items() if tool is not setup.reader]
    names = ", ".join(sorted(own)) or "none"
    if watched():
        record_decision("E1", "told", f"there is no tool {call['name']!r}; there are {names}", "code")
    return ToolMessage(
        f"There is no tool {call['name']!r}{nearest(call['name'], own).replace('?', '')}. Available tools: {names}.",
        tool_call_id=call["id"],
        name=call["name"],
        status="error",
    )


def over_budget(
    setup: Setup, tool: BaseTool | None, call: Mapping[str, Any], over: BudgetExceeded, meter: Meter
) -> Any:
    """The answer to a call that a limit cut short. One that the run shares ends the run, as the limit's owner says."""
    if not meter.bounds(over):
        return answer_to(setup, tool, call, over)
    if over.owner.budget.on_limit == "raise":
        raise over
    return _message(f"Not finished: {over.message}", call)


def record_failure(error: Exception, call: Mapping[str, Any], outcome: str, by: str) -> None:
    """Tell that a failed call was decided: bad arguments are a seat of their own."""
    seat = "E2" if isinstance(error, ToolArgumentsError) else "E3"
    record_decision(
        seat, outcome, f"{type(error).__name__} in call {call['id']!r} of {call['name']!r}, by {by}", "code"
    )


def _said(error: Exception) -> str:
    if isinstance(error, ToolError):
        return str(error) or "The tool failed without saying why."
    return f"{type(error).__name__}: {getattr(error, 'message', error)}"


def _message(text: str, call: Mapping[str, Any]) -> ToolMessage:
    return ToolMessage(sendable(text), tool_call_id=call["id"], name=call["name"], status="error")
