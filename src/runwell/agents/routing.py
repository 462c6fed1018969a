"""What an agent does after the model has spoken: run tools, ask again, or end. A rule, computed from the state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runwell.agents.history import last_reply
from runwell.agents.setup import Setup
from runwell.messages.message import ToolMessage
from runwell.ports.command import Send

__all__ = ["after_model", "after_tools"]


def after_model(setup: Setup, state: Mapping[str, Any]) -> str | list[Send]:
    """The next place, after the model and any after_model hooks.

    Calls that nothing has answered run, an exclusive tool's alone. Calls that were all answered without running
    (malformed, refused, over the budget) go back to the model. Else the run ends.
    """
    if state.get("stopped"):
        return setup.end
    reply, answered = last_reply(state.get("messages") or ())
    if reply is None:
        return setup.loop
    pending = [call for call in reply.tool_calls if call["id"] not in answered]
    if pending and setup.has_tools:
        return _sends(setup, pending)
    if state.get("structured_response") is not None and not (state.get("ledger") or {}).get("ask_again"):
        return setup.end
    if answered or (state.get("ledger") or {}).get("ask_again"):
        return setup.loop
    return setup.end


def after_tools(setup: Setup, state: Mapping[str, Any]) -> str | list[Send]:
    """The next place, once a batch of tool calls has been answered."""
    reply, answered = last_reply(state.get("messages") or ())
    if reply is None:
        return setup.loop
    pending = [call for call in reply.tool_calls if call["id"] not in answered]
    if pending:
        return _sends(setup, pending)
    if state.get("structured_response") is not None and not (state.get("ledger") or {}).get("ask_again"):
        return setup.end
    answers = _answers(state)
    ran = [call for call in reply.tool_calls if call["id"] in answers]
    if ran and all(_returns_directly(setup, call, answers[str(call["id"])]) for call in ran):
        return setup.end
    return setup.loop


def _answers(state: Mapping[str, Any]) -> dict[str, ToolMessage]:
    found: dict[str, ToolMessage] = {}
    for message in reversed(state.get("messages") or ()):
        if not isinstance(message, ToolMessage):
            if message.type == "ai":
                break
            continue
        found[message.tool_call_id] = message
    return found


def _returns_directly(setup: Setup, call: Mapping[str, Any], answer: ToolMessage) -> bool:
    """A return_direct tool's result ends the run; its error never does."""
    tool = setup.local.get(call["name"])
    return tool is not None and tool.return_direct and answer.status != "error"


def _sends(setup: Setup, calls: list[Any]) -> list[Send]:
    """Side by side, but an exclusive tool's call by itself, after the others."""
    together = [call for call in calls if not getattr(setup.local.get(call["name"]), "exclusive", False)]
    return [Send("tools", call) for call in (together or calls[:1])]
