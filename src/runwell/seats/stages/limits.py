"""Stage F: limits and memory."""

from __future__ import annotations

from collections.abc import Iterator

from runwell.agents.limits import Budget
from runwell.ports.seat import Held
from runwell.seats.facts import Facts, said_of

__all__ = ["limits"]

NODE = "runwell.agents.model_node:"


def limits(at: Facts) -> Iterator[Held]:
    """The seats F1 to F12."""
    setup, agent, budget = at.setup, at.agent, at.setup.budget
    said = said_of(budget)
    end = "an error" if budget.on_limit == "raise" else "what there is, and the reason"
    yield Held(
        "F1",
        f"{said}; then {end}." if said else "As far as it likes.",
        Budget.reached,
        status="held" if said else "nobody",
    )
    first, idle = getattr(at.model, "timeout", None), getattr(at.model, "stream_idle_timeout", None)
    patience = [
        f"first output {first} s" if first else "first output as its adapter says" if idle else "",
        f"between chunks {idle:g} s" if idle else "",
    ]
    tools = [f"{name} {tool.timeout:g} s" for name, tool in at.local.items() if tool.timeout is not None]
    model = f"Model: {', '.join(filter(None, patience)) or 'as its adapter says'}."
    yield Held("F2", f"{model} Tools: {', '.join(tools) or 'no limit'}.", type(at.model))
    window = at.profile.get("max_input_tokens")
    size = f"{window:,} tokens" if window else "unknown"
    measured = "Measured before each call; what is sure not to fit is refused" if window else "The provider refuses"
    yield Held(
        "F3",
        f"Its window: {size}. {measured}, as ContextOverflow.",
        "runwell.agents.overflow:check_fits" if window else "runwell.models.wire_errors:error_from_wire",
    )
    for seat in ("F4", "F5", "F6"):
        yield Held(seat, "Nothing is summarised.", f"{NODE}_request", status="idle")
    yield Held("F7", "No result is blanked.", f"{NODE}_request", status="idle")
    calls = budget.model_calls
    yield Held(
        "F8",
        f"A run {calls:,}; a thread as many as it likes." if calls else "As many as it likes.",
        Budget.reached,
        status="held" if calls else "nobody",
    )
    limit = budget.tool_calls
    yield Held(
        "F9",
        f"{limit:,} a run; the excess is answered with an error." if limit else "As many as it likes.",
        f"{NODE}_take_in",
        status="held" if limit else "nobody" if at.local else "idle",
    )
    saver = agent.checkpointer
    own = saver is not None and not isinstance(saver, bool)
    lent = "nothing is ever saved" if saver is False else "only under the checkpointer of a graph around it"
    kept = f"With the same thread_id, from {type(saver).__name__}." if own else f"No: {lent}."
    yield Held("F10", kept, "runwell.graph.opening:_stand_on")
    yield Held(
        "F11",
        "Before the next step begins, unless a call asks for another durability." if own else f"{lent}.".capitalize(),
        "runwell.graph.engine:Run.save_checkpoint",
        status="held" if own else "idle",
    )
    yield Held(
        "F12",
        "No: cleared at the start of a run.",
        agent.on_input,
        status="held" if setup.response_format is not None else "idle",
    )
