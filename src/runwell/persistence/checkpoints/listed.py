"""A checkpoint of a listing: its parts are read and checked, the objects that show them are made when asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from runwell.persistence.checkpoints.encoding import meta_of
from runwell.persistence.checkpoints.rows import CheckpointRow, place
from runwell.ports.saver import Checkpoint, TaskRecord
from runwell.ports.worked_out import WorkedOut

__all__ = ["Listing", "listed"]


class Listing(NamedTuple):
    """What the checkpoints of a listing have in common."""

    thread: str
    ns: str
    decode: Callable[..., Any]
    """`Serializer.reader`."""


class _ListedCheckpoint(WorkedOut, Checkpoint):
    """Of a row, and what is stored beside its values, decoded."""

    __slots__ = ("_meta", "_of", "_row")
    _plain = Checkpoint
    _row: CheckpointRow
    _of: Listing
    _meta: Any

    _work = {
        "id": lambda it: it._row.id,
        "thread_id": lambda it: it._of.thread,
        "ns": lambda it: it._of.ns,
        "parent_id": lambda it: it._row.parent_id,
        "step": lambda it: it._row.step,
        "created_at": lambda it: it._row.created_at,
        "source": lambda it: it._row.source,
        "next": lambda it: meta_of(it._meta).next,
        "joins": lambda it: it._meta[1],
        "metadata": lambda it: it._meta[2],
        "tasks": lambda _: [],
        "_meta": lambda it: it._of.decode(it._row.meta, place, it._of.thread, it._of.ns, it._row.id),
    }


_bare = object.__new__


def listed(
    row: CheckpointRow, of: Listing, meta: Any, values: dict[str, Any], tasks: list[TaskRecord] | None
) -> Checkpoint:
    """The checkpoint of a row in the listing `of`; `meta` is what `encode_meta` stored, decoded, or None: later."""
    checkpoint = _bare(_ListedCheckpoint)
    checkpoint._row = row
    checkpoint._of = of
    if meta is not None:
        checkpoint._meta = meta
    checkpoint.values = values
    if tasks:
        checkpoint.tasks = tasks
    return checkpoint
