"""Stage A: intake and routing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from runwell.ports.seat import Held
from runwell.seats.facts import Facts, named

__all__ = ["intake"]

INIT = "runwell.models.init:"


def intake(at: Facts) -> Iterator[Held]:
    """The seats A1 to A11."""
    agent = at.agent
    yield Held("A1", f"The model of this agent is {at.model_name}; its class decides whom it calls.", type(at.model))
    yield Held("A1", "A string would go by the prefix before its first colon.", f"{INIT}init_chat_model", adds=True)
    yield Held(
        "A2",
        "Not asked any more: the model is an object. A bare name would be inferred only beyond doubt.",
        f"{INIT}infer_provider",
        status="idle",
    )
    yield Held("A3", _address(at.model), type(at.model))
    swaps = at.hooked("wrap_model_call")
    by = f"; {named(each.name for each in swaps)} may swap it for a call" if swaps else ""
    yield Held("A4", f"Fixed: {at.model_name}{by}.", "runwell.agents.model_node:_request")
    extra = 'are dropped (extra="ignore")' if agent.ignore_extra else "raise InvalidInput"
    yield Held("A5", f"Keys other than {named(agent.input_schema.channels)} {extra}.", type(agent.input_schema).intake)
    yield Held("A5", "A run without any message is refused.", agent.on_input, adds=True)
    allowed = at.setup.limits.allowed_roles
    if allowed is None:
        said = "Any role: texts, pairs and dicts become messages as they say."
        yield Held("A6", said, "runwell.messages.convert:convert_to_message")
    else:
        yield Held("A6", f"{named(allowed)}; a message of any other is refused.", "runwell.agents.roles:check_roles")
    yield Held("A7", _names(at), "runwell.tools.toolbox:as_tools")
    yield Held(
        "A8", f"At the provider: {named(at.at_provider)}. Here: {named(at.local)}.", "runwell.tools.toolbox:as_tool"
    )
    yield Held("A9", "No MCP server is connected.", "runwell.tools.toolbox:as_tool", status="idle")
    yield Held("A10", "No MCP server is connected.", "runwell.tools.toolbox:as_tool", status="idle")
    yield Held("A11", f"{named(agent.nodes)}.", "runwell.agents.agent_graph:agent_graph")


def _names(at: Facts) -> str:
    if at.agent.replaces_tools:
        return f"{len(at.setup.tools)} tools; of two with one name the later one won (replace_tools=True)."
    return f"{len(at.setup.tools)} tools, all with names of their own; two with one name are refused."


def _address(model: Any) -> str:
    url = getattr(model, "base_url", None)
    if isinstance(url, str) and url:
        return f"Straight to {re.sub('//[^/@]*@', '//***@', url)}."  # a password in it is nobody's business
    return f"As {type(model).__name__} says; runwell puts nothing between."
