"""Stage G: judging the result."""

from __future__ import annotations

from collections.abc import Iterator

from runwell.agents.structured_output import ProviderStrategy, ToolStrategy
from runwell.ports.seat import Held, Status
from runwell.seats.facts import Facts, named

__all__ = ["result"]

NODE = "runwell.agents.model_node:"


def result(at: Facts) -> Iterator[Held]:
    """The seats G1 to G8."""
    setup, strategy = at.setup, at.setup.response_format
    yield Held("G1", f"{at.model_name} says so.", "runwell.agents.routing:after_model", "llm")
    if setup.done is not None:
        yield Held(
            "G1",
            f"Then done= judges; it may send the answer back {setup.limits.max_sent_back} times.",
            setup.done,
            adds=True,
        )
    direct = at.which(return_direct=True)
    yield Held(
        "G2",
        f"{named(direct, 'No tool')}{' ends it, unless it failed' if direct else ' does'}.",
        "runwell.agents.routing:_all_direct",
        status="held" if direct else "idle",
    )
    asked: Status = "held" if strategy is not None else "idle"
    tools, native = isinstance(strategy, ToolStrategy), isinstance(strategy, ProviderStrategy)
    none = "No structured answer is asked for."
    shapes = strategy.shapes.values() if isinstance(strategy, ToolStrategy) else [strategy.shape] if strategy else []
    yield Held(
        "G3",
        f"Validated as {' or '.join(shape.name for shape in shapes)}." if strategy else none,
        "runwell.schemas.structured:StructuredSchema",
        status=asked,
    )
    tries = f"{setup.limits.max_answers} attempts in all, then StructuredOutputError."
    yield Held("G4", tries if strategy else none, f"{NODE}_attempt", status=asked)
    way = "By a tool." if tools else "By the provider's own structured output." if native else none
    yield Held("G5", way, "runwell.agents.structured_output:strategy_of", status=asked)
    yield Held(
        "G6",
        "Told to the model and asked again, as G4." if native else "The provider's own is not used.",
        f"{NODE}_native",
        status="held" if native else "idle",
    )
    yield Held(
        "G7",
        "Not one of them, unless they are equal." if tools else "There is only ever one.",
        f"{NODE}_structured",
        status="held" if tools else "idle",
    )
    yield Held(
        "G8",
        "As C6 says." if tools else "An answer is not a call here.",
        f"{NODE}_structured",
        status="held" if tools else "idle",
    )
