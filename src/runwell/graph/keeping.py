"""How a run saves: checkpoints after steps, and how each task stands beside them. Engine code."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from types import coroutine
from typing import Any

from runwell.effects import NOW
from runwell.graph.interrupts import EDITED
from runwell.graph.lineage import LINEAGE
from runwell.graph.run_state import RunState
from runwell.graph.spent import USED
from runwell.graph.task_stream import TELLS_SAVED, tell_saved
from runwell.observe.ids import random_hex
from runwell.ports.runtime import TaskScope
from runwell.ports.saver import Commit, TaskRecord

__all__ = ["Keeping"]


class Keeping(RunState):
    """The part of a run that saves."""

    __slots__ = ()

    async def keep(self, scope: TaskScope, record: TaskRecord) -> None:
        """Keep how a task stands beside its checkpoint."""
        if not record.done:
            budget = scope.budget
            if budget is not None and budget is not self.base.budget and (budget.used or USED in scope.records):
                scope.records[USED] = budget.split()
            record.answers = list(scope.answers)
            record.records = {key: kept for key, kept in scope.records.items() if key != EDITED}
        if self.saver is None:
            return
        if self.durability == "sync":
            await self._keep_now(record)
        else:  # its checkpoint may not be on disk yet
            if scope.calls is not None and not record.done:
                mine = (f"{scope.task_id}:t", f"{scope.task_id}:b")
                self.unkept.extend(call for id_, call in self.records.items() if id_.startswith(mine))
            self.unkept.append(record)

    async def keep_call(self, scope: TaskScope, record: TaskRecord) -> None:
        """Keep how the call of a `@task` ended, as soon as it has; not of one left behind by a run that went on."""
        if scope.runtime.execution_info.checkpoint_id != self.head:
            return
        self.records[record.task_id] = record
        if self.saver is not None and self.durability == "sync":
            await self.save_record(self.head, record)

    async def _keep_now(self, record: TaskRecord) -> None:
        assert self.saver is not None
        if self.durability == "exit":
            await self._settle()
        self.records[record.task_id] = record
        await self.save_record(self.head, record)

    async def _settle(self) -> None:
        """Save a commit that was put off."""
        pending, self.pending = self.pending, None
        if pending is not None:
            await self._save(pending)
            self.head = pending.id
            if not TELLS_SAVED.isdisjoint(self.modes) and self.durability == "exit":
                await tell_saved(self, pending)

    def _answered(self) -> dict[str, str]:
        """Who answered the questions of the step that has ended, by question; the checkpoint after it says so."""
        actors = {question: actor for question, (_, actor) in self.answers.items() if actor is not None}
        if not self.nested:  # those inside share the answers, and their checkpoints come first
            self.answers.clear()
        return actors

    @coroutine  # to `yield` what it asks for: `await` would make a generator for each
    def save_checkpoint(
        self,
        source: Any,
        changes: dict[str, tuple[Any, Any]],
        *,
        ran: list[str] | None = None,
        jumped: Sequence[str] = (),
        actors: Mapping[str, str] | None = None,
        parent: str | None = None,
        expect: str | None = None,
        carry: bool = False,
    ) -> Generator[Any, Any, None]:
        if self.saver is None:
            return
        if self.graph.untracked:
            changes = {name: change for name, change in changes.items() if name not in self.graph.untracked}
        now = yield NOW
        metadata = dict(self.metadata)
        if ran:
            metadata["ran"] = ran
        if jumped:
            metadata["jumped"] = list(jumped)
        if actors:
            metadata["actors"] = dict(actors)
        if self.lineage:
            metadata[LINEAGE] = self.lineage
        if self.spent:
            metadata[USED] = self.spent
        commit = Commit(
            f"{int(now * 1e6):014x}-{random_hex(5)}",
            self.thread_id or "",
            self.ns,
            parent or self.head,
            expect or self.head,
            self.step,
            now,
            source,
            changes,
            self.next,
            self.joins,
            metadata,
            self.fence,
        )
        if self.durability == "exit":
            previous, self.pending = self.pending, None
            if previous is not None:
                commit = _merged(previous, commit)
            self.pending = commit
            self.head = commit.expect_head
        elif self.durability == "async":
            self.pending = commit
            self.head = commit.id
        else:
            yield self.saver.commit(commit)
            self.head = commit.id
        if carry:
            for record in self.records.values():
                yield from self.save_record(commit.id, record)
        if not TELLS_SAVED.isdisjoint(self.modes) and self.durability != "exit":
            yield from tell_saved(self, commit)

    async def _save(self, commit: Commit) -> None:
        assert self.saver is not None
        await self.saver.commit(commit)

    async def save_record(self, checkpoint_id: str | None, record: TaskRecord) -> None:
        assert self.saver is not None
        await self.saver.save_task(self.thread_id, self.ns, checkpoint_id, record, self.fence)


def _merged(first: Commit, second: Commit) -> Commit:
    """Two commits as one, for durability "exit": only the last is saved, with all that changed."""
    changes = dict(first.changes)
    for name, (old, new) in second.changes.items():
        changes[name] = (changes[name][0] if name in changes else old, new)
    second.changes = changes
    second.parent_id = first.parent_id
    second.expect_head = first.expect_head
    return second
