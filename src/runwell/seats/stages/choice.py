"""Stage C: choosing the next action."""

from __future__ import annotations

from collections.abc import Iterator

from runwell.agents.structured_output import ToolStrategy
from runwell.ports.seat import Held
from runwell.seats.facts import Facts

__all__ = ["choice"]

ROUTING = "runwell.agents.routing:"
NODE = "runwell.agents.model_node:"


def choice(at: Facts) -> Iterator[Held]:
    """The seats C1 to C7."""
    strategy = at.setup.response_format
    yield Held("C1", f"{at.model_name} chooses.", f"{NODE}_ask", "llm")
    yield Held("C2", "By the calls that are open, and the answer that is due.", f"{ROUTING}after_model")
    for name in ("before_agent", "before_model", "after_model", "after_agent"):
        for hook in at.setup.hooks[name]:
            if hook.jumps:
                yield Held(
                    "C2",
                    f"{hook.owner.name}.{name} may go to {' or '.join(hook.jumps)} instead.",
                    hook.callee,
                    adds=True,
                )
    yield Held("C3", "As B6, unless a hook sets the request's tool_choice.", f"{NODE}_bound")
    yield Held("C4", "Read strictly; what does not parse is never run.", "runwell.messages.calls:parse_calls")
    direct = at.which(return_direct=True)
    ends = f", unless only {', '.join(direct)} ran" if direct else ""
    yield Held("C5", f"Back to the model{ends}.", f"{ROUTING}after_tools")
    if isinstance(strategy, ToolStrategy):
        yield Held("C6", f"on_mixed={strategy.on_mixed!r}.", f"{NODE}_structured")
    else:
        yield Held("C6", "An answer is not a call here.", f"{NODE}_take_in", status="idle")
    yield Held(
        "C7",
        "What a tool says, if the state has such keys and the call is answered once.",
        "runwell.agents.tool_node:_checked",
        "external" if at.local else "code",
        "held" if at.local else "idle",
    )
