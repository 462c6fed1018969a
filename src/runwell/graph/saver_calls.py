"""A saver's methods as effects."""

from __future__ import annotations

from functools import partial
from typing import Any

from runwell.drivers.colour import is_async
from runwell.effects import Call, Callee
from runwell.ports.saver import Checkpoint, Commit, TaskRecord

__all__ = ["SaverCalls"]


class SaverCalls:
    """A saver's methods as effects, each in whatever colour the saver has it, with the graph's own types allowed."""

    __slots__ = ("_commit", "_history", "_load", "_save_task", "copier", "saver", "types")

    def __init__(self, saver: Any, types: frozenset[type]) -> None:
        self.saver = saver
        self.types = types
        self.copier: Any = None
        self._commit = _method(saver, "commit")
        self._save_task = _method(saver, "save_task")
        self._load = _method(saver, "load")
        self._history = _method(saver, "history")

    async def commit(self, commit: Commit) -> None:
        await Call(self._commit, commit, self.types, shield=True)

    async def save_task(self, thread_id: str | None, ns: str, checkpoint_id: str | None, record: TaskRecord) -> None:
        await Call(self._save_task, thread_id, ns, checkpoint_id, record, self.types, shield=True)

    async def load(self, thread_id: str | None, ns: str, checkpoint_id: str | None) -> Checkpoint | None:
        found: Checkpoint | None = await Call(self._load, thread_id, ns, checkpoint_id, self.types)
        return found

    async def history(self, thread_id: str, ns: str, options: dict[str, Any]) -> list[Checkpoint]:
        called = self._history
        bound = Callee[Any](
            None if called.sync is None else partial(called.sync, **options, types=self.types),
            None if called.aio is None else partial(called.aio, **options, types=self.types),
            cheap=called.cheap,
        )
        return list(await Call(bound, thread_id, ns))


def _method(saver: Any, name: str) -> Callee[Any]:
    method = getattr(saver, name)
    if is_async(method):
        return Callee(None, method)
    return Callee(method, getattr(saver, f"a{name}", None), cheap=bool(getattr(saver, "cheap", False)))
