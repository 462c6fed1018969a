"""`runwell seats`: who decides what in an agent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from runwell.cli.screen import err, one_line, out, print_json
from runwell.cli.target import load

if TYPE_CHECKING:
    from runwell.seats.seat_map import SeatMap

__all__ = ["seats"]


def seats(target: str, html: Path | None, other: str | None, as_json: bool) -> None:
    """Print the map of the agent `module:name`, or what `other` answers differently; or write it as a page."""
    found = _map(target)
    if html is not None:
        html.write_text(found.to_html(), encoding="utf-8")
        err.print(f"{len(found)} seats of {found.name!r} are in {html}")
    if other is not None:
        _differences(found, _map(other), as_json)
    elif as_json:
        print_json(found.to_json())
    elif html is None:
        _list(found)


def _map(target: str) -> SeatMap:
    from runwell.seats.live import seats_of

    return seats_of(load(target))


def _differences(left: SeatMap, right: SeatMap, as_json: bool) -> None:
    differences = left.diff(right)
    if as_json:
        print_json([{"left": each.left.as_dict(), "right": each.right.as_dict()} for each in differences])
        return
    for each in differences:
        out.print(f"{each.seat.id:4}{each.seat.question}", style="bold")
        out.print(f"  - {each.left.holder}: {one_line(each.left.answer)}", style="red")
        out.print(f"  + {each.right.holder}: {one_line(each.right.answer)}", style="green")
    err.print(f"{len(differences)} of {len(left)} seats differ", style="dim")


def _list(found: SeatMap) -> None:
    from runwell.seats.catalogue import STAGES
    from runwell.seats.render import summary

    for letter, title in STAGES.items():
        out.print(f"\n{letter}. {title}", style="bold")
        for row in found:
            if row.seat.stage != letter:
                continue
            who = row.holder if row.status == "held" else {"idle": "-", "nobody": "NOBODY"}[row.status]
            out.print(f"{row.seat.id:4}{row.seat.question}")
            out.print(f"    {who}: {one_line(row.answer)}", style="red" if row.status == "nobody" else "")
            out.print(f"    {', '.join(anchor.place for anchor in row.anchors)}", style="dim")
    out.print(f"\n{summary(found)}")
