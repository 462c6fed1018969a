"""What is kept of a task's call, so that a run that goes on gives it again: its arguments' mark, its result as bytes.

A task is given copies of its arguments and its caller a copy of its result, made through the same bytes that are
kept. So the first run sees exactly what a run that goes on from the record sees: what a task does to a list it was
given stays with the task, both times. What cannot be saved (a client, a lock, a class that is not allowed) is passed as
it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runwell.errors import UnserializableType
from runwell.ports.saver import TaskRecord

if TYPE_CHECKING:
    from runwell.graph.engine import Run

__all__ = ["CALL", "FRESH", "Copier", "contents_of", "copier_of", "recorded"]

CALL = "call"
"""Among the records of a task's row: its name and its arguments' mark. No other row has it."""
FRESH = "fresh"
"""Among them: whether no answer had been given when the call ended, so that it holds on any branch."""

_FIXED = frozenset({type(None), bool, int, float, complex, str, bytes})


class Copier:
    """Values to bytes and back, with the classes that a saver allows and those of a graph."""

    __slots__ = ("_marks", "serializer", "types")

    def __init__(self, saver: Any, types: frozenset[type]) -> None:
        from runwell.persistence.serialization import Serializer

        known = getattr(saver, "serializer", None)
        self.serializer = Serializer(known.allowed if known is not None else (), owner=type(saver).__name__)
        self.types = types
        self._marks: dict[frozenset[type], Any] = {}

    def mark(self, args: Sequence[Any], kwargs: Mapping[str, Any], types: frozenset[type]) -> str:
        """A text that tells calls apart by their arguments: by what they hold if they can be saved, else by type.

        Ids of messages do not count.
        """
        from runwell.persistence.caches.keys import CallCodec, call_key

        codec = self._marks.get(types)
        if codec is None:
            codec = self._marks[types] = CallCodec(self.serializer.allowing(self.types | types))
        parts = []
        for name, value in (*(("", value) for value in args), *sorted(kwargs.items())):
            parts.append(f"{name}={call_key(value, codec) or type(value).__qualname__}")
        return ",".join(parts)

    def copy(self, value: Any, types: frozenset[type]) -> Any:
        """A value that shares nothing with this one; the very same where it cannot be saved."""
        if type(value) in _FIXED:
            return value
        try:
            data = self.serializer.dumps(value, "argument", self.types | types)
        except UnserializableType:
            return value
        return self.serializer.loads(data, self.types | types)

    def pack(self, value: Any, name: str, types: frozenset[type]) -> bytes:
        """The bytes of a result. Raises UnserializableType."""
        return self.serializer.dumps(value, f"result of task {name}", self.types | types)

    def unpack(self, data: bytes, name: str, types: frozenset[type]) -> Any:
        """A result out of its bytes."""
        return self.serializer.loads(data, self.types | types, where=f"the result of task {name!r}")


def recorded(task_id: str, name: str, mark: str | None, data: Any, fresh: bool) -> TaskRecord:
    """The row of a call that has ended."""
    return TaskRecord(task_id, name, done=True, writes=[("return", data)], records={CALL: [name, mark], FRESH: fresh})


def contents_of(run: Run) -> Callable[[Any], bytes | None]:
    """What makes bytes of a value of a run's state, None where it cannot be saved."""
    copier = copier_of(run)

    def pack(value: Any) -> bytes | None:
        try:
            return copier.pack(value, "", frozenset())
        except UnserializableType:
            return None

    return pack


def copier_of(run: Run) -> Copier:
    """The copier of a run: one for all runs of a graph with a saver of its own."""
    if run.saver is None:
        return Copier(None, run.graph.all_types)
    copier: Copier | None = run.saver.copier
    if copier is None:
        copier = run.saver.copier = Copier(run.saver.saver, run.saver.types)
    return copier
