"""What an agent does after the model has spoken: run tools, ask again, or end. A rule, computed from the state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runwell.agents.history import last_reply, lent_of
from runwell.agents.setup import Setup
from runwell.messages.message import AIMessage, ToolMessage
from runwell.observe.run import record_decision, watched
from runwell.ports.command import Send

__all__ = ["after_model", "after_tools", "sends"]


def after_model(setup: Setup, state: Mapping[str, Any]) -> str | list[Send]:
    """The next place, after the model and any after_model hooks.

    Calls that nothing has answered run, an exclusive tool's alone. Calls that were all answered without running
    (malformed, refused, over the budget) go back to the model. Else the run ends.
    """
    place, reason = _after_model(setup, state)
    if watched():
        record_decision("C2", _said(place), reason, "code")
    return place


Way = tuple[str | list[Send], str]
"""A place, and why there."""


def _after_model(setup: Setup, state: Mapping[str, Any]) -> Way:
    if state.get("stopped"):
        return setup.end, "the run was stopped"
    reply, answered = last_reply(state.get("messages") or ())
    if reply is None:
        return setup.loop, "the model has not spoken"
    pending = [call for call in reply.tool_calls if call["id"] not in answered]
    if pending and setup.has_tools:
        return sends(setup, state, pending), "calls are open"
    again = (state.get("ledger") or {}).get("ask_again")
    if state.get("structured_response") is not None and not again:
        return setup.end, "the structured answer is there"
    if answered or again:
        return setup.loop, "the model is to answer again" if again else "calls were answered without running"
    return setup.end, "the model called no tool"


def after_tools(setup: Setup, state: Mapping[str, Any]) -> str | list[Send]:
    """The next place, once a batch of tool calls has been answered."""
    place, reason = _after_tools(setup, state)
    if watched():
        record_decision("C5", _said(place), reason, "code")
    return place


def _after_tools(setup: Setup, state: Mapping[str, Any]) -> Way:
    reply, answered = last_reply(state.get("messages") or ())
    if reply is None:
        return setup.loop, "the history was cleared"
    pending = [call for call in reply.tool_calls if call["id"] not in answered]
    if pending:
        return sends(setup, state, pending), "calls are open"
    if state.get("structured_response") is not None and not (state.get("ledger") or {}).get("ask_again"):
        return setup.end, "the structured answer is there"
    if _all_direct(setup, state, reply):
        return setup.end, "every call returned directly"
    return setup.loop, "the model reads the results"


def _said(place: str | list[Send]) -> str:
    """A place in words."""
    if isinstance(place, str):
        return "end" if place == "__end__" else place
    return "tools: " + ", ".join(str(send.arg["name"]) for send in place)


def _answers(state: Mapping[str, Any]) -> dict[str, ToolMessage]:
    found: dict[str, ToolMessage] = {}
    for message in reversed(state.get("messages") or ()):
        if not isinstance(message, ToolMessage):
            if message.type == "ai":
                break
            continue
        found[message.tool_call_id] = message
    return found


def _all_direct(setup: Setup, state: Mapping[str, Any], reply: AIMessage) -> bool:
    """Whether all calls that ran were of return_direct tools, whose result ends the run; an error never does."""
    direct = _named(setup.return_direct, lent_of(state), "return_direct")
    if not direct:
        return False
    answers = _answers(state)
    ran = [call for call in reply.tool_calls if call["id"] in answers]
    return bool(ran) and all(call["name"] in direct and answers[str(call["id"])].status != "error" for call in ran)


def _named(own: frozenset[str], lent: Mapping[str, Any] | None, trait: str) -> frozenset[str]:
    """The names of tools that have a trait. One that the last turn was lent stands for one of the agent's."""
    if not lent:
        return own
    return own - lent.keys() | {name for name, traits in lent.items() if traits[trait]}


def sends(setup: Setup, state: Mapping[str, Any], calls: list[Any]) -> list[Send]:
    """Side by side, but an exclusive tool's call by itself, after the others."""
    exclusive = _named(setup.exclusive, lent_of(state), "exclusive")
    together = [call for call in calls if call["name"] not in exclusive] if exclusive else calls
    return [Send("tools", call) for call in (together or calls[:1])]
