"""What an agent does after the model has spoken: run tools, ask again, or end. A rule, computed from the state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from runwell.agents.history import last_reply, lent_of
from runwell.agents.setup import Setup
from runwell.effects import flow
from runwell.messages.message import AIMessage, ToolMessage
from runwell.observe.context import CURRENT
from runwell.observe.run import record_decision
from runwell.ports.command import Send

__all__ = ["after_model", "after_tools", "sends"]


Place = str | Send | list[Send]


def after_model(setup: Setup) -> Callable[[Mapping[str, Any]], Place]:
    """The rule that gives the next place, after the model and any after_model hooks.

    Calls that nothing has answered run, an exclusive tool's alone. Calls that were all answered without running
    (malformed, refused, over the budget) go back to the model. Else the run ends.
    """
    end, loop, has_tools = setup.end, setup.loop, setup.has_tools

    def after_the_model(state: Mapping[str, Any]) -> Place:
        if state.get("stopped"):
            return _to(end, "C2", "the run was stopped")
        reply, answered = last_reply(state.get("messages") or ())
        if reply is None:
            return _to(loop, "C2", "the model has not spoken")
        pending = _pending(reply, answered)
        if pending and has_tools:
            return _to(sends(setup, state, pending), "C2", "calls are open")
        again = (state.get("ledger") or {}).get("ask_again")
        if state.get("structured_response") is not None and not again:
            return _to(end, "C2", "the structured answer is there")
        if again:
            return _to(loop, "C2", "the model is to answer again")
        if answered:
            return _to(loop, "C2", "calls were answered without running")
        return _to(end, "C2", "the model called no tool")

    return flow(after_the_model)


def after_tools(setup: Setup) -> Callable[[Mapping[str, Any]], Place]:
    """The rule that gives the next place, once a batch of tool calls has been answered."""
    end, loop, direct = setup.end, setup.loop, setup.return_direct

    def after_the_tools(state: Mapping[str, Any]) -> Place:
        reply, answered = last_reply(state.get("messages") or ())
        if reply is None:
            return _to(loop, "C5", "the history was cleared")
        pending = _pending(reply, answered)
        if pending:
            return _to(sends(setup, state, pending), "C5", "calls are open")
        if state.get("structured_response") is not None and not (state.get("ledger") or {}).get("ask_again"):
            return _to(end, "C5", "the structured answer is there")
        if (direct or lent_of(state)) and _all_direct(setup, state, reply):
            return _to(end, "C5", "every call returned directly")
        return _to(loop, "C5", "the model reads the results")

    return flow(after_the_tools)


def _pending(reply: AIMessage, answered: set[str]) -> list[Any]:
    """The calls of a turn that nothing has answered."""
    calls: list[Any] = reply.tool_calls
    if not answered or not calls:
        return calls
    if len(calls) == 1:
        return [] if calls[0]["id"] in answered else calls
    return [call for call in calls if call["id"] not in answered]


def _to(place: Place, seat: str, reason: str) -> Place:
    run = CURRENT.get()
    if run is not None and run.inherited.handlers:  # `watched`, written out
        record_decision(seat, _said(place), reason, "code")
    return place


def _said(place: Place) -> str:
    """A place in words."""
    if isinstance(place, str):
        return "end" if place == "__end__" else place
    if isinstance(place, Send):
        return f"tools: {place.arg['name']}"
    if len(place) == 1:
        return f"tools: {place[0].arg['name']}"
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


def sends(setup: Setup, state: Mapping[str, Any], calls: list[Any]) -> Send | list[Send]:
    """Side by side, but an exclusive tool's call by itself, after the others."""
    if len(calls) == 1:
        return Send("tools", calls[0])
    exclusive = _named(setup.exclusive, lent_of(state), "exclusive")
    together = [call for call in calls if call["name"] not in exclusive] if exclusive else calls
    return [Send("tools", call) for call in (together or calls[:1])]
