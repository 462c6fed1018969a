"""Handing the conversation itself to another agent of the same graph."""

from __future__ import annotations

import re
from typing import Any

from runwell.agents.history import open_calls
from runwell.errors import InvalidInput
from runwell.messages.message import AIMessage, ToolMessage
from runwell.ports.command import Command
from runwell.ports.runtime import CURRENT_TASK
from runwell.tools.runtime import ToolRuntime
from runwell.tools.structured import StructuredTool

__all__ = ["HandoffTool", "create_handoff_tool", "handoff"]


class HandoffTool(StructuredTool):
    """A tool that goes to another agent; `to` is that agent's node."""

    to: str = ""


def handoff(
    to: Any,
    *,
    name: str | None = None,
    description: str | None = None,
    add_handoff_messages: bool = True,
) -> HandoffTool:
    """A tool with which an agent hands the conversation to the agent `to`, another node of the graph it is in.

    `to` is an agent or its node's name. It goes on with the whole conversation so far, or with
    `add_handoff_messages=False` without the turn that asked for the handoff. Other calls of that turn run first, and of
    two handoffs in one turn the first counts. `create_swarm` and `create_supervisor` take such tools; in a graph of
    your own the agents are nodes: `StateGraph(...).add_node("billing", billing)`.
    """
    target = to if isinstance(to, str) else getattr(to, "name", None)
    if not target or not isinstance(target, str):
        raise InvalidInput(f"handoff(to={to!r:.100}) names no agent.", hint="Pass an agent, or its name.")
    called = name or f"transfer_to_{re.sub(r'[^A-Za-z0-9_-]+', '_', target).strip('_').lower()}"

    def transfer(runtime: ToolRuntime[Any, Any]) -> Command[str]:
        state, call_id = runtime.state, runtime.tool_call_id
        messages = list(state["messages"])
        answers = [
            ToolMessage(f"Transferred to {target}.", tool_call_id=call_id, name=called)
            if call["id"] == call_id
            else ToolMessage(
                f"Not run: the conversation was handed to {target}.",
                tool_call_id=call["id"],
                name=call["name"],
                status="error",
            )
            for call in open_calls(messages)
        ]
        if add_handoff_messages:
            messages += answers
        else:
            while messages and not isinstance(messages.pop(), AIMessage):
                pass
        return Command(goto=target, graph=Command.PARENT, update={"messages": messages, **_active(target)})

    return HandoffTool.from_function(
        transfer,
        name=called,
        description=description or f"Hand the conversation to {target}.",
        to=target,
        exclusive=True,
    )


def _active(target: str) -> dict[str, str]:
    """Who speaks now, if the graph around keeps it."""
    scope = CURRENT_TASK.get()
    around = scope.run.caller if scope is not None and scope.run is not None else None
    return {"active_agent": target} if around is not None and "active_agent" in around.run.graph.channels else {}


def create_handoff_tool(
    *,
    agent_name: str,
    name: str | None = None,
    description: str | None = None,
    add_handoff_messages: bool = True,
) -> HandoffTool:
    """`handoff(agent_name, ...)`."""
    return handoff(agent_name, name=name, description=description, add_handoff_messages=add_handoff_messages)
