"""Stage D: may this action run."""

from __future__ import annotations

from collections.abc import Iterator

from runwell.ports.seat import Held, Status
from runwell.seats.facts import Facts, named

__all__ = ["permission"]

NODE = "runwell.agents.model_node:"
TOOLS = "runwell.agents.tool_node:"
SENT = f"{NODE}_ask"
REVIEW = "runwell.agents.middleware.human_in_the_loop:HumanInTheLoopMiddleware"


def permission(at: Facts) -> Iterator[Held]:
    """The seats D1 to D23."""
    agent = at.agent
    destructive = at.which(destructive=True)
    asked: Status = "nobody" if at.local else "idle"
    danger = f" Destructive by their own word: {named(destructive)}." if destructive else ""
    yield Held("D1", f"Nobody asks: every call runs.{danger}", f"{TOOLS}_execute", status=asked)
    yield Held("D2", "Nobody inspects what leaves.", SENT, status="nobody")
    yield Held("D3", "As C7 says.", f"{TOOLS}_answers_in", status="held" if at.local else "idle")
    yield Held("D4", _pause(at), "runwell.graph.interrupts:interrupt")
    yield Held("D5", "Checked against the schema the question came with.", "runwell.graph.interrupts:answers_for")
    saver = agent.checkpointer
    if saver is None or isinstance(saver, bool):
        yield Held(
            "D6",
            "Nothing is saved by this agent itself.",
            "runwell.persistence.serialization.reachable:reachable_types",
            status="idle",
        )
    else:
        yield Held(
            "D6",
            "Only types of the agent's schemas; others are refused when saving.",
            "runwell.persistence.serialization.serializer:Serializer",
        )
    before, after = sorted(agent.breaks_before), sorted(agent.breaks_after)
    stops = f"Before {named(before)}; after {named(after)}." if before or after else "Nowhere."
    yield Held("D7", stops, "runwell.graph.builder:StateGraph._breaks")
    yield Held(
        "D8",
        "Whoever resumes the thread.",
        "runwell.graph.opening:_take_command",
        "human",
        "held" if agent.pauses or before or after else "idle",
    )
    yield Held("D9", "No call does.", f"{TOOLS}_execute", status=asked)
    for seat in ("D10", "D11", "D12"):
        yield Held(seat, "No call is reviewed.", REVIEW, status="idle")
    for seat in ("D13", "D14", "D15"):
        yield Held(seat, "Nothing looks for personal data.", SENT, status="nobody")
    yield Held(
        "D16", "A reader sees all that the model and the tools give.", "runwell.graph.streaming:shaped", status="nobody"
    )
    for seat in ("D17", "D18", "D19"):
        yield Held(seat, "The agent has no shell of runwell's.", "runwell.tools.toolbox:as_tools", status="idle")
    for seat in ("D20", "D21"):
        yield Held(seat, "The agent has no file search of runwell's.", "runwell.tools.toolbox:as_tools", status="idle")
    for seat in ("D22", "D23"):
        yield Held(seat, "No MCP server is connected.", "runwell.tools.toolbox:as_tool", status="idle")


def _pause(at: Facts) -> str:
    agent = at.agent
    if agent.checkpointer is False:
        return "checkpointer=False: the agent was refused if it could pause; a bare interrupt() raises."
    if agent.checkpointer is None or agent.checkpointer is True:
        reasons = f" Without one, runs are refused at the start: {'; '.join(agent.pauses)}." if agent.pauses else ""
        return f"Saved only by the checkpointer of a graph around it.{reasons}"
    return f"Saved by {type(agent.checkpointer).__name__}."
