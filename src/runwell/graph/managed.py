"""Values of a state that nobody writes: they are worked out for each step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

__all__ = ["IsLastStep", "Managed", "RemainingSteps"]


@dataclass(slots=True, frozen=True)
class Managed:
    """Marks a key of a state as worked out: `at(left)` gives it when `left` more steps may run, this one included."""

    at: Callable[[int], Any]


RemainingSteps: TypeAlias = Annotated[int, Managed(lambda left: left)]
"""How many steps may still run before the step limit, the one under way included: 1 in the last."""
IsLastStep: TypeAlias = Annotated[bool, Managed(lambda left: left <= 1)]
"""Whether the step under way is the last that the step limit permits."""
