"""The map as values: rows to read, compare and render."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from runwell.errors import InvalidInput, nearest
from runwell.ports.seat import Holder, Status
from runwell.seats.anchor import Anchor
from runwell.seats.catalogue import Seat

__all__ = ["Difference", "Part", "SeatMap", "SeatRow"]


@dataclass(frozen=True, slots=True)
class Part:
    """One answer to a seat's question, who gives it, and the code it comes from (None: no Python file holds it)."""

    answer: str
    holder: Holder
    status: Status
    anchor: Anchor | None


@dataclass(frozen=True, slots=True)
class SeatRow:
    """A seat in this agent. The first part is the answer, the others add to it."""

    seat: Seat
    parts: tuple[Part, ...]

    @property
    def answer(self) -> str:
        return " ".join(part.answer for part in self.parts)

    @property
    def holder(self) -> Holder:
        return self.parts[0].holder

    @property
    def status(self) -> Status:
        """As the first part says; a seat that nobody held is held once something is added."""
        first = self.parts[0].status
        return "held" if first == "nobody" and len(self.parts) > 1 else first

    @property
    def anchors(self) -> tuple[Anchor, ...]:
        return tuple(part.anchor for part in self.parts if part.anchor is not None)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "id": self.seat.id,
            "question": self.seat.question,
            "kind": self.seat.kind,
            "holder": self.holder,
            "status": self.status,
            "answer": self.answer,
            "held_by": [{"code": anchor.name, "place": anchor.place} for anchor in self.anchors],
        }


@dataclass(frozen=True, slots=True)
class Difference:
    """A seat that two agents answer differently."""

    seat: Seat
    left: SeatRow
    right: SeatRow

    def __str__(self) -> str:
        return "\n".join(
            (
                f"{self.seat.id} {self.seat.question}",
                f"  - {self.left.holder}: {self.left.answer}",
                f"  + {self.right.holder}: {self.right.answer}",
            )
        )


@dataclass(frozen=True, slots=True)
class SeatMap:
    """Who decides what in the agent called `name`: one row for every seat, in order."""

    name: str
    rows: tuple[SeatRow, ...]

    def __iter__(self) -> Iterator[SeatRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, id: str) -> SeatRow:
        """The row of one seat, by its id."""
        for row in self.rows:
            if row.seat.id == id:
                return row
        ids = [row.seat.id for row in self.rows]
        raise InvalidInput(f"There is no seat {id!r}{nearest(id, ids)}.", hint="Seats go from A1 to I2.")

    def diff(self, other: Any) -> list[Difference]:
        """The seats that the other agent (or its map) answers differently."""
        if not isinstance(other, SeatMap):
            if not hasattr(other, "seats"):
                raise InvalidInput(f"{other!r:.200} has no seats.", hint="Pass an agent, or what seats_of() gave.")
            other = other.seats()
        return [
            Difference(mine.seat, mine, its)
            for mine, its in zip(self.rows, other.rows, strict=True)
            if (mine.answer, mine.holder, mine.status) != (its.answer, its.holder, its.status)
        ]

    def to_json(self) -> dict[str, Any]:
        """What a program can read."""
        return {"agent": self.name, "seats": [row.as_dict() for row in self.rows]}

    def to_markdown(self) -> str:
        """A page with a table for each stage."""
        from runwell.seats.render import markdown

        return markdown(self)

    def to_html(self) -> str:
        """One page that needs nothing else, with a search box."""
        from runwell.seats.render import html

        return html(self)
