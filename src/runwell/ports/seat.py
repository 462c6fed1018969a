"""How a component says which judgments it takes: the seats it holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

__all__ = ["Held", "Holder", "SeatHolder", "Status"]

Holder = Literal["code", "llm", "model", "human", "external"]
"""Who judges: code (a rule of the program), the agent's language model, another model, a person, someone outside."""

Status = Literal["held", "idle", "nobody"]
"""`"held"`: it is decided. `"idle"`: the question does not come up in this agent. `"nobody"`: it comes up, and nothing
asks it."""


class Held(NamedTuple):
    """A seat and how it is answered here.

    `by` is the code that decides: a function, method, class, an object of a class, or `"module:name"` of one. Its file
    and line are read from it when the map is made. A declaration takes the place of what the map would say by itself,
    unless it `adds` to that.
    """

    seat: str
    answer: str
    by: Any
    holder: Holder = "code"
    status: Status = "held"
    adds: bool = False


@runtime_checkable
class SeatHolder(Protocol):
    """A middleware, tool, model, saver or store that says which seats it holds. Asked when a map is made."""

    def seats(self) -> Iterable[Held]:
        """The seats it holds, as it is configured."""
