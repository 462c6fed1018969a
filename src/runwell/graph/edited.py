"""Open questions over a change by hand.

What a paused node asked was about the state as it was. After a change to that state the question stays open, so that
it can be answered; the node runs again, and the answer counts if it asks the very same. If it asks something else, that
is asked instead. Nothing else that the node had done is kept.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from runwell.graph.interrupts import EDITED, SEED
from runwell.graph.nesting import children_of
from runwell.ports.saver import Checkpoint, PlannedTask, TaskRecord

if TYPE_CHECKING:
    from runwell.ports.command import Interrupt

__all__ = ["asked_before", "still_open"]


def still_open(
    before: Checkpoint, after: Sequence[PlannedTask], changed: Container[str | None]
) -> tuple[list[PlannedTask], dict[str, TaskRecord]]:
    """What comes `after` a change as if the nodes `changed` had run, with the tasks that are paused and come again in
    it under the names they had; and the records of these.

    A task that a `Send` made, and one that had called a graph, is a new one after a change.
    """
    records = {record.task_id: record for record in before.tasks if not record.done}
    paused = {
        task.node: record
        for task in before.next
        if not task.sent and task.node not in changed and (record := records.get(task.id)) is not None
    }
    planned: list[PlannedTask] = []
    kept: dict[str, TaskRecord] = {}
    for task in after:
        record = paused.get(task.node) if not task.sent else None
        questions = asked_before(record) if record is not None and not children_of(record) else []
        if record is None or not questions:
            planned.append(task)
            continue
        planned.append(PlannedTask(record.task_id, task.node))
        noted = {SEED: record.records.get(SEED), EDITED: {each.id: each.value for each in questions}}
        kept[record.task_id] = TaskRecord(record.task_id, task.node, interrupts=questions, records=noted)
    return planned, kept


def asked_before(record: TaskRecord) -> list[Interrupt]:
    """A task's questions that nobody has answered."""
    return [each for each in record.interrupts if f"answer/{each.id}" not in record.records]
