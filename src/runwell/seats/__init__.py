"""Who decides what: the judgments of an agent, and who holds each of them in the agent at hand."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.observe.decisions import DecisionLog
    from runwell.ports.seat import Held, Holder, SeatHolder
    from runwell.seats.anchor import Anchor
    from runwell.seats.catalogue import SEATS, Seat, seat
    from runwell.seats.live import seats_of
    from runwell.seats.seat_map import Difference, Part, SeatMap, SeatRow

_HOME = {
    "SEATS": "seats.catalogue",
    "Anchor": "seats.anchor",
    "DecisionLog": "observe.decisions",
    "Difference": "seats.seat_map",
    "Held": "ports.seat",
    "Holder": "ports.seat",
    "Part": "seats.seat_map",
    "Seat": "seats.catalogue",
    "SeatHolder": "ports.seat",
    "SeatMap": "seats.seat_map",
    "SeatRow": "seats.seat_map",
    "seat": "seats.catalogue",
    "seats_of": "seats.live",
}

__all__ = [
    "SEATS",
    "Anchor",
    "DecisionLog",
    "Difference",
    "Held",
    "Holder",
    "Part",
    "Seat",
    "SeatHolder",
    "SeatMap",
    "SeatRow",
    "seat",
    "seats_of",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"runwell.{home}"), name)
    globals()[name] = value
    return value
