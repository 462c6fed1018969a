"""The map of one agent: for each seat, who holds it and how it is answered there."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from runwell.errors import InvalidInput, nearest
from runwell.ports.seat import Held
from runwell.seats.anchor import anchor_of
from runwell.seats.catalogue import SEATS, Seat
from runwell.seats.facts import Facts
from runwell.seats.seat_map import Part, SeatMap, SeatRow
from runwell.seats.stages.choice import choice
from runwell.seats.stages.delegation import delegation
from runwell.seats.stages.execution import execution
from runwell.seats.stages.intake import intake
from runwell.seats.stages.limits import limits
from runwell.seats.stages.permission import permission
from runwell.seats.stages.result import result
from runwell.seats.stages.sight import sight

__all__ = ["seats_of"]

STAGES = (intake, sight, choice, permission, execution, limits, result, delegation)


def seats_of(agent: Any) -> SeatMap:
    """Who decides what in this agent, as it is configured; nothing is run.

    `agent` is what `create_agent` gave, or a binding of it. Raises InvalidInput for what is not an agent, and for a
    component that declares a seat that does not exist.
    """
    at = Facts(agent)
    usual: dict[str, list[Held]] = {name: [] for name in SEATS}
    declared: dict[str, list[Held]] = {name: [] for name in SEATS}
    for stage in STAGES:
        for held in stage(at):
            usual[held.seat].append(held)
    for owner, held in _declared(at):
        if held.seat not in SEATS:
            raise InvalidInput(
                f"{owner} declares a seat {held.seat!r}, which there is not{nearest(held.seat, SEATS)}.",
                hint="Seats go from A1 to I2.",
            )
        if all(held[:2] != other[:2] for other in declared[held.seat]):  # the tools of one server say the same
            declared[held.seat].append(held)
    rows = []
    for name, seat in SEATS.items():
        taken = [held for held in declared[name] if not held.adds]
        more = [held for held in declared[name] if held.adds]
        rows.append(SeatRow(seat, tuple(_part(seat, held) for held in chain(taken or usual[name], more))))
    return SeatMap(at.agent.get_name(), tuple(rows))


def _part(seat: Seat, held: Held) -> Part:
    holder = seat.holder if held.status == "idle" else held.holder
    return Part(held.answer, holder, held.status, anchor_of(held.by))


def _declared(at: Facts) -> Iterator[tuple[str, Held]]:
    """What the agent's components say of themselves, and what hooks that say nothing could do."""
    agent, setup = at.agent, at.setup
    for owner in (at.model, *setup.tools.values(), agent.checkpointer, agent.store):
        yield from ((_name(owner), held) for held in _said(owner))
    for middleware in setup.middleware:
        said = _said(middleware)
        yield from ((middleware.name, held) for held in said)
        if not said:
            yield from ((middleware.name, held) for held in _could(at, middleware))


def _said(owner: Any) -> list[Held]:
    seats = getattr(owner, "seats", None)
    return list(seats()) if callable(seats) else []


def _name(owner: Any) -> str:
    return str(getattr(owner, "name", None) or type(owner).__name__)


def _could(at: Facts, middleware: Any) -> Iterator[Held]:
    """A hook that declares nothing is shown where it might act."""
    name = middleware.name
    for hook in at.setup.hooks["wrap_model_call"]:
        if hook.owner is middleware:
            yield Held("D2", f"{name} stands around each call, and may change or refuse it.", hook.callee, adds=True)
    for hook in at.setup.hooks["wrap_tool_call"]:
        if hook.owner is middleware:
            yield Held("D1", f"{name} stands around each call, and may change or refuse it.", hook.callee, adds=True)
    for kind in ("before_agent", "before_model", "after_model", "after_agent"):
        for hook in at.setup.hooks[kind]:
            if hook.owner is middleware:
                words = kind.replace("_", " the ").replace("the model", "each model call")
                yield Held("B2", f"{name} may change the state {words}.", hook.callee, adds=True)
