"""The parts of a checkpoint beside its values, as bytes: plans and results of tasks. Part of the file format."""

from __future__ import annotations

from typing import Any, NamedTuple

from runwell.errors import UnserializableType
from runwell.persistence.serialization.serializer import Serializer
from runwell.ports.saver import Commit, PlannedTask, TaskRecord

__all__ = ["Meta", "decode_meta", "decode_task", "encode_meta", "encode_task", "meta_of"]


class Meta(NamedTuple):
    """What a checkpoint holds beside its values."""

    next: list[PlannedTask]
    joins: dict[str, list[str]]
    metadata: dict[str, Any]


def encode_meta(serializer: Serializer, commit: Commit, types: frozenset[type]) -> bytes:
    planned: list[Any] = []
    for task in commit.next:
        planned += (task.id, task.node, task.sent, task.arg)
    try:
        return serializer.dumps([planned, commit.joins, commit.metadata], "checkpoint", types)
    except UnserializableType:  # once more, to name the place as the user knows it
        for task in commit.next:
            serializer.dumps(task.arg, f"Send to {task.node}", types)
        serializer.dumps(commit.metadata, "metadata", types)
        raise


def decode_meta(serializer: Serializer, data: bytes, types: frozenset[type], where: str) -> Meta:
    return meta_of(serializer.loads(data, types, where=where))


def meta_of(stored: Any) -> Meta:
    """What `encode_meta` was given, of its decoded bytes."""
    planned, joins, metadata = stored
    if len(planned) == 4:  # the most frequent by far
        return Meta([PlannedTask(*planned)], joins, metadata)
    return Meta([PlannedTask(*planned[at : at + 4]) for at in range(0, len(planned), 4)], joins, metadata)


def encode_task(serializer: Serializer, record: TaskRecord, types: frozenset[type]) -> bytes:
    fields = [
        record.node,
        record.done,
        [side for write in record.writes for side in write],
        record.interrupts,
        record.answers,
        record.actors,
        record.records,
        record.error,
    ]
    try:
        return serializer.dumps(fields, "task", types)
    except UnserializableType:
        for channel, value in record.writes:
            serializer.dumps(value, channel, types)
        for name in ("interrupts", "answers", "records"):
            serializer.dumps(getattr(record, name), f"{name} of node {record.node}", types)
        raise


def decode_task(serializer: Serializer, task_id: str, data: bytes, types: frozenset[type], where: str) -> TaskRecord:
    node, done, writes, interrupts, answers, actors, records, error = serializer.loads(data, types, where=where)
    sides = iter(writes)
    pairs = list(zip(sides, sides, strict=True))
    return TaskRecord(task_id, node, done, pairs, interrupts, answers, actors, records, error)
