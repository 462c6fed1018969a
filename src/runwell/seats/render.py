"""The map as pages for people."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from runwell.seats.catalogue import SEATS, STAGES

if TYPE_CHECKING:
    from runwell.seats.seat_map import SeatMap, SeatRow

__all__ = ["catalogue_markdown", "html", "markdown"]

UNHELD = {"held": "", "idle": "does not come up", "nobody": "nobody asks"}

PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Who decides what: {name}</title>
<style>
:root {{ color-scheme: light dark; --line: #8884; --soft: #8881; }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }}
h2 {{ margin-top: 2rem; font-size: 1.1rem; }}
form {{ position: sticky; top: 0; background: Canvas; padding: .6rem 0; display: flex; gap: .5rem; flex-wrap: wrap; }}
input {{ flex: 1 1 16rem; font: inherit; padding: .4rem .6rem; }}
select {{ font: inherit; }}
article {{ border-top: 1px solid var(--line); padding: .6rem 0; }}
article h3 {{ font-size: 1rem; margin: 0; }}
article p {{ margin: .2rem 0; }}
article.idle {{ opacity: .65; }}
.tag {{ font-size: .8rem; border: 1px solid var(--line); border-radius: .6rem; padding: 0 .5rem; margin-left: .3rem; }}
article.nobody .tag.status {{ background: #c00; color: #fff; }}
code {{ font-size: .85rem; background: var(--soft); padding: 0 .2rem; overflow-wrap: anywhere; }}
</style>
</head>
<body>
<h1>Who decides what: {name}</h1>
<p>{summary}</p>
<form role="search" onsubmit="return false">
<input id="q" type="search" placeholder="Search questions, answers, code" aria-label="Search" autofocus>
<select id="holder" aria-label="Holder"><option value="">any holder</option>{holders}</select>
<select id="status" aria-label="Status"><option value="">all seats</option><option value="held">held</option>\
<option value="idle">does not come up</option><option value="nobody">nobody asks</option></select>
<output id="count"></output>
</form>
{stages}
<script>
const all = [...document.querySelectorAll("article")];
const field = (id) => document.getElementById(id);
function show() {{
  const words = field("q").value.toLowerCase().split(/\\s+/).filter(Boolean);
  let shown = 0;
  for (const each of all) {{
    const text = each.textContent.toLowerCase();
    const fits = words.every((word) => text.includes(word))
      && (!field("holder").value || each.dataset.holder === field("holder").value)
      && (!field("status").value || each.dataset.status === field("status").value);
    each.hidden = !fits;
    shown += fits;
  }}
  for (const stage of document.querySelectorAll("section")) {{
    stage.hidden = !stage.querySelector("article:not([hidden])");
  }}
  field("count").textContent = `${{shown}} of ${{all.length}}`;
}}
for (const id of ["q", "holder", "status"]) field(id).addEventListener("input", show);
show();
</script>
</body>
</html>
"""


def summary(seats: SeatMap) -> str:
    """How many seats there are, and who holds how many of those that come up."""
    held: dict[str, int] = {}
    for row in seats:
        if row.status == "held":
            held[row.holder] = held.get(row.holder, 0) + 1
    idle, nobody = (sum(row.status == status for row in seats) for status in ("idle", "nobody"))
    who = ", ".join(f"{holder} {count}" for holder, count in held.items())
    return f"{len(seats)} seats: held by {who}; {idle} do not come up; at {nobody} nobody asks."


def html(seats: SeatMap) -> str:
    """One page that loads nothing from anywhere."""
    holders = sorted({row.holder for row in seats})
    return PAGE.format(
        name=escape(seats.name),
        summary=escape(summary(seats)),
        holders="".join(f"<option>{each}</option>" for each in holders),
        stages="\n".join(
            f'<section id="{letter}">\n<h2>{letter} · {escape(title)}</h2>\n'
            + "\n".join(_card(row) for row in seats if row.seat.stage == letter)
            + "\n</section>"
            for letter, title in STAGES.items()
        ),
    )


def _card(row: SeatRow) -> str:
    seat = row.seat
    status = f'<span class="tag status">{UNHELD[row.status]}</span>' if row.status != "held" else ""
    answers = "".join(f"<p>{escape(part.answer)}</p>" for part in row.parts)
    places = ", ".join(f"<code>{escape(anchor.place)}</code> {escape(anchor.name)}" for anchor in row.anchors)
    return (
        f'<article id="{seat.id}" class="{row.status}" data-holder="{row.holder}" data-status="{row.status}">\n'
        f"<h3>{seat.id} {escape(seat.question)} "
        f'<span class="tag">{seat.kind}</span><span class="tag">{row.holder}</span>{status}</h3>\n'
        f"{answers}\n<p>Held by: {places}</p>\n</article>"
    )


def markdown(seats: SeatMap) -> str:
    """A page with one table for each stage."""
    parts = [f"# Who decides what: {seats.name}\n", summary(seats)]
    for letter, title in STAGES.items():
        parts.append(f"\n## {letter}. {title}\n")
        parts.append("| seat | question | | holder | in this agent | held by |\n| --- | --- | --- | --- | --- | --- |")
        parts += [_line(row) for row in seats if row.seat.stage == letter]
    return "\n".join(parts) + "\n"


def _line(row: SeatRow) -> str:
    holder = row.holder if row.status == "held" else f"{row.holder} ({UNHELD[row.status]})"
    places = "<br>".join(f"`{anchor.place}`" for anchor in row.anchors)
    return _cells(row.seat.id, row.seat.question, row.seat.kind, holder, row.answer, places)


def _cells(*texts: str) -> str:
    return "| " + " | ".join(text.replace("|", "\\|").replace("\n", " ") for text in texts) + " |"


def catalogue_markdown() -> str:
    """The tables of all seats, whatever the agent: what runwell does at each."""
    parts: list[str] = []
    for letter, title in STAGES.items():
        parts.append(f"## {letter}. {title}\n")
        parts.append("| seat | question | | usually | runwell |\n| --- | --- | --- | --- | --- |")
        for seat in SEATS.values():
            if seat.stage == letter:
                lacks = f" *Not there yet: {seat.lacks}.*" if seat.lacks else ""
                parts.append(_cells(seat.id, seat.question, seat.kind, seat.holder, seat.behaviour + lacks))
        parts.append("")
    return "\n".join(parts)
