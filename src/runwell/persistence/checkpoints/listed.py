"""A checkpoint of a listing: its parts are read and checked, the objects that show them are made when asked for."""

from __future__ import annotations

from typing import Any

from runwell.persistence.checkpoints.encoding import meta_of
from runwell.persistence.checkpoints.rows import CheckpointRow
from runwell.ports.saver import Checkpoint, TaskRecord
from runwell.ports.worked_out import WorkedOut

__all__ = ["listed"]


class _ListedCheckpoint(WorkedOut, Checkpoint):
    """Of a row, and what is stored beside its values, decoded."""

    __slots__ = ("_meta", "_of", "_row")
    _plain = Checkpoint
    _row: CheckpointRow
    _of: tuple[str, str]
    _meta: Any

    _work = {
        "id": lambda it: it._row.id,
        "thread_id": lambda it: it._of[0],
        "ns": lambda it: it._of[1],
        "parent_id": lambda it: it._row.parent_id,
        "step": lambda it: it._row.step,
        "created_at": lambda it: it._row.created_at,
        "source": lambda it: it._row.source,
        "next": lambda it: meta_of(it._meta).next,
        "joins": lambda it: it._meta[1],
        "metadata": lambda it: it._meta[2],
        "tasks": lambda _: [],
    }


_bare = object.__new__


def listed(
    row: CheckpointRow, of: tuple[str, str], meta: Any, values: dict[str, Any], tasks: list[TaskRecord] | None
) -> Checkpoint:
    """The checkpoint of a row in the thread and namespace `of`; `meta` is what `encode_meta` stored, decoded."""
    checkpoint = _bare(_ListedCheckpoint)
    checkpoint._row = row
    checkpoint._of = of
    checkpoint._meta = meta
    checkpoint.values = values
    if tasks:
        checkpoint.tasks = tasks
    return checkpoint
