"""Stages H and I: delegation and learning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runwell.ports.seat import Held
from runwell.seats.facts import Facts, named, said_of

__all__ = ["delegation"]


def delegation(at: Facts) -> Iterator[Held]:
    """The seats H1 to H5, I1 and I2."""
    agents = [name for name, tool in at.local.items() if _is_agent(tool)]
    handed = [name for name, tool in at.local.items() if getattr(tool, "to", None)]
    ways = [f"by calling {named(agents)}" if agents else "", f"by handing over with {named(handed)}" if handed else ""]
    said = "; ".join(filter(None, ways))
    yield Held(
        "H1",
        f"{said[:1].upper()}{said[1:]}." if said else "No tool is known to be an agent.",
        "runwell.agents.model_node:_ask",
        "llm",
        "held" if said else "idle",
    )
    inner = {name: getattr(at.local[name], "agent", None) for name in agents}
    own = "; ".join(f"{name}: {_own(agent)}" for name, agent in inner.items() if agent is not None)
    yield Held(
        "H2",
        f"They draw on this budget{f', and may use no more of it than their own says ({own})' if own else ''}."
        if agents
        else "No tool is known to be an agent.",
        "runwell.agents.metering:Meter.reached",
        status="held" if agents else "idle",
    )
    yield Held(
        "H3",
        "A graph called in a tool is saved by this agent's checkpointer, under the call.",
        "runwell.graph.nesting:nest",
        status="held" if at.local else "idle",
    )
    backups = [model for around in at.around_model("fallbacks") for model in around.fallbacks]
    yield Held(
        "H4",
        f"Then {named(type(each).__name__ for each in backups)}." if backups else "No: the error is raised.",
        type(at.setup.model),
        status="held" if backups else "nobody",
    )
    yield Held("H5", "No MCP server is connected.", "runwell.tools.toolbox:as_tool", status="idle")
    store = at.agent.store
    writers = at.which(needs_store=True)
    if store is None and not writers:
        yield Held("I1", "Nothing: the agent has no store.", "runwell.schemas.injection:Injection", status="idle")
    else:
        where = type(store).__name__ if store is not None else "a store lent by a graph around it"
        yield Held(
            "I1",
            f"What {named(writers, 'tools and hooks')} put into {where}.",
            type(store) if store is not None else "runwell.schemas.injection:Injection",
            "external",
        )
    profile = at.profile
    facts = named(f"{key}={value}" for key, value in sorted(profile.items()))
    yield Held(
        "I2",
        f"{facts}." if profile else "Nothing: the model has no profile.",
        "runwell.models.profile:profile_of",
        status="held" if profile else "nobody",
    )


def _own(agent: Any) -> str:
    setup = getattr(agent, "setup", None)
    return said_of(setup.budget) or "no limit" if setup is not None else "no limit"


def _is_agent(tool: Any) -> bool:
    """Whether a tool says that a graph does its work."""
    inner = getattr(tool, "runnable", None) or getattr(tool, "agent", None)
    return hasattr(inner, "blueprint")
