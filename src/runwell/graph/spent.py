"""What a graph's tasks used of a budget around it, kept so that it counts on after a pause, a failure or a crash.

What tasks that ended have used stands in the state, under a key of the graphs that have one, else beside it in the
checkpoint. What a task used that has not ended stands in its record, without what graphs keep that it called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.graph.run_state import RunState

__all__ = ["SPENT", "USED", "add_spent", "used_before"]

SPENT = "spent"
"""The key under which a graph that has it, with `add_spent`, keeps what its tasks used."""
USED = "__used__"
"""Instead of a channel: what a task of any other graph used. Also in a checkpoint's metadata, for the run so far; and
among a task's records: what it used itself, and what graphs did that it called."""


def add_spent(left: Mapping[str, Any] | None, right: Mapping[str, Any]) -> dict[str, Any]:
    """Amounts added; the earliest beginning."""
    total = dict(left or ())
    for kind, amount in right.items():
        if kind == "began":
            total.setdefault(kind, amount)
        else:
            total[kind] = total.get(kind, 0) + amount
    return total


def used_before(run: RunState) -> Mapping[str, Any] | None:
    """What a run that goes on has used so far, as far as graphs inside it do not say so when they go on themselves."""
    total: Mapping[str, Any] | None = run.values.get(SPENT) if run.graph.counts else run.spent
    for record in (run._records or {}).values():
        if record.done:
            for name, value in record.writes:
                if name == USED or (name == SPENT and run.graph.counts):
                    total = add_spent(total, value)
        elif USED in record.records:
            own, inside = record.records[USED]
            total = add_spent(total, own)
            if any(question.id not in run.answers for question in record.interrupts):  # it is not run again now
                total = add_spent(total, inside)
    return total
