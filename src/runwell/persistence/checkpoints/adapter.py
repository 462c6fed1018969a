"""Savers that were written for another framework's interface: `put`, `put_writes`, `get_tuple`, `list`.

Such a saver stores whole states and compares no heads. What it is given are bytes that only runwell reads, and metadata
that can be filtered: no class of ours passes through its own serialisation.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from datetime import UTC, datetime
from itertools import count
from typing import Any, Protocol, TypeVar

from runwell.drivers.sync import call_sync
from runwell.effects import Callee
from runwell.errors import InvalidInput, StorageError, ThreadBusy
from runwell.persistence.checkpoints.encoding import decode_meta, decode_task, encode_meta, encode_task
from runwell.persistence.checkpoints.rows import place
from runwell.persistence.checkpoints.saver import metadata_matches
from runwell.persistence.databases.text import whole
from runwell.persistence.serialization.encryption import Cipher
from runwell.persistence.serialization.serializer import Serializer
from runwell.ports.saver import GONE, Checkpoint, Commit, TaskRecord

__all__ = ["SaverAdapter"]

T = TypeVar("T")
NO_TYPES: frozenset[type] = frozenset()
PLAN = "__runwell_plan__"
TASK = "__runwell_task__"
_COUNT = count()


class _Ask(Protocol):
    def __call__(self, name: str, *args: Any, **kwargs: Any) -> Any: ...


class SaverAdapter:
    """Makes a checkpointer for graphs here of one that was written for LangGraph.

        graph = builder.compile(checkpointer=SaverAdapter(TheirSaver(...), allow=[Mine]))

    `compile(checkpointer=TheirSaver(...))` does so by itself, without settings. It works in both colours, whichever the
    saver has. `allow` and `encryption` are as in runwell's own savers. What such a saver cannot do stays so: each step
    stores every state key that changed as a whole, and only this process notices when two runs write to one thread at
    once. Threads written by another framework cannot be read.
    """

    def __init__(self, saver: Any, *, allow: Iterable[type] = (), encryption: Cipher | None = None) -> None:
        needed = ("put", "put_writes", "get_tuple", "list")
        missing = [name for name in needed if not (hasattr(saver, name) or hasattr(saver, f"a{name}"))]
        if missing:
            raise InvalidInput(
                f"SaverAdapter got a {type(saver).__name__}, which has no {', '.join(missing)}.",
                hint="It takes a saver with put, put_writes, get_tuple and list. Runwell's own need no adapter.",
            )
        self.saver = saver
        self.serializer = Serializer(allow, owner=type(self).__name__, encryption=encryption)
        self._plain = _written(saver, "put")
        self._aio = _written(saver, "aput")
        self._lock = threading.Lock()
        self._busy: dict[tuple[str, str], threading.Lock] = {}

    # -- the port, in both colours

    def commit(self, commit: Commit, types: frozenset[type] = NO_TYPES) -> None:
        """Save one checkpoint; raises ThreadBusy when `expect_head` is not the newest."""
        with self._alone(commit.thread_id, commit.ns):
            self._now(self._commit, commit, types)

    async def acommit(self, commit: Commit, types: frozenset[type] = NO_TYPES) -> None:
        await self._commit(self._later, commit, types)

    def save_task(
        self, thread_id: str, ns: str, checkpoint_id: str, record: TaskRecord, types: frozenset[type] = NO_TYPES
    ) -> None:
        """Keep a task's result beside its checkpoint."""
        self._now(self._save_task, thread_id, ns, checkpoint_id, record, types)

    async def asave_task(
        self, thread_id: str, ns: str, checkpoint_id: str, record: TaskRecord, types: frozenset[type] = NO_TYPES
    ) -> None:
        await self._save_task(self._later, thread_id, ns, checkpoint_id, record, types)

    def load(
        self, thread_id: str, ns: str = "", checkpoint_id: str | None = None, types: frozenset[type] = NO_TYPES
    ) -> Checkpoint | None:
        """The newest checkpoint, or the one named; None when there is none."""
        return self._now(self._load, thread_id, ns, checkpoint_id, types)

    async def aload(
        self, thread_id: str, ns: str = "", checkpoint_id: str | None = None, types: frozenset[type] = NO_TYPES
    ) -> Checkpoint | None:
        return await self._load(self._later, thread_id, ns, checkpoint_id, types)

    def history(
        self,
        thread_id: str,
        ns: str = "",
        *,
        before: str | None = None,
        limit: int | None = None,
        filter: dict[str, Any] | None = None,
        types: frozenset[type] = NO_TYPES,
    ) -> list[Checkpoint]:
        """Checkpoints, newest first; `filter` matches metadata, `source` and `step` exactly."""
        return self._now(self._history, thread_id, ns, before, limit, filter, types)

    async def ahistory(
        self,
        thread_id: str,
        ns: str = "",
        *,
        before: str | None = None,
        limit: int | None = None,
        filter: dict[str, Any] | None = None,
        types: frozenset[type] = NO_TYPES,
    ) -> list[Checkpoint]:
        return await self._history(self._later, thread_id, ns, before, limit, filter, types)

    def delete_thread(self, thread_id: str) -> None:
        """Forget the thread."""
        self._now(self._delete, thread_id)

    async def adelete_thread(self, thread_id: str) -> None:
        await self._delete(self._later, thread_id)

    # -- calling the saver

    def _now(self, work: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """The work from plain code: it waits for nothing but the saver, so it runs through at once."""
        running = work(self._at_once, *args)
        try:
            running.send(None)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        running.close()
        raise AssertionError("the saver's plain methods do not wait")

    async def _at_once(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if self._plain:
            try:
                return _listed(getattr(self.saver, name)(*args, **kwargs), name)
            except NotImplementedError:
                if not self._aio:
                    raise
                self._plain = False  # it has the method only to say that it has not
        return call_sync(Callee(None, self._later), name, *args, **kwargs)

    async def _later(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if self._aio:
            try:
                found = getattr(self.saver, f"a{name}")(*args, **kwargs)
                return [each async for each in found] if name == "list" else await found
            except NotImplementedError:
                if not self._plain:
                    raise
                self._aio = False
        from runwell.drivers.aio import in_worker

        return await in_worker(lambda: _listed(getattr(self.saver, name)(*args, **kwargs), name))

    def _alone(self, thread: str, ns: str) -> threading.Lock:
        with self._lock:
            return self._busy.setdefault((thread, ns), threading.Lock())

    # -- what is asked of it

    async def _commit(self, ask: _Ask, commit: Commit, types: frozenset[type]) -> None:
        thread, ns = commit.thread_id, commit.ns
        head = await ask("get_tuple", _config(thread, ns))
        newest = head.checkpoint["id"] if head is not None else None
        if newest != commit.expect_head:
            raise ThreadBusy(
                f"{place(thread, ns)} has moved on: its newest checkpoint is {newest!r}, and this run continued from "
                f"{commit.expect_head!r}. Nothing was saved.",
                hint="Another run is writing to the same thread. Let it end, then run again from the newest state.",
            )
        if newest is not None and commit.id <= newest:
            raise StorageError(
                f"Checkpoint {commit.id!r} would come before {newest!r} in {place(thread, ns)}, and such a saver takes "
                "the highest id for the newest. Nothing was saved.",
                hint="Has a clock been set back? Ids of checkpoints begin with the time.",
            )
        parent = head
        if commit.parent_id != newest:
            parent = None
            if commit.parent_id is not None:
                parent = await ask("get_tuple", _config(thread, ns, commit.parent_id))
                if parent is None:
                    raise InvalidInput(
                        f"Thread {thread!r} has no checkpoint {commit.parent_id!r} to continue from.",
                        hint="Take the id from a checkpoint that history() gave.",
                    )
        before = parent.checkpoint if parent is not None else {}
        values = dict(before.get("channel_values") or {})
        versions = dict(before.get("channel_versions") or {})
        changed: dict[str, bytes] = {}
        for channel, (_, new) in commit.changes.items():
            if new is GONE:
                values.pop(channel, None)
                versions.pop(channel, None)
            else:
                changed[channel] = self.serializer.dumps(new, channel, types)
        meta = encode_meta(self.serializer, commit, types)
        changed[PLAN] = self.serializer.dumps([meta, commit.created_at, commit.parent_id])
        newer = max([*versions.values(), *_versions(head)], default=None, key=_order)
        next_version = getattr(self.saver, "get_next_version", None) or (lambda current, _: (current or 0) + 1)
        version = next_version(newer, None)
        new_versions = dict.fromkeys(changed, version)
        checkpoint = {
            "v": 4,
            "id": commit.id,
            "ts": datetime.fromtimestamp(commit.created_at, UTC).isoformat(),
            "channel_values": {**values, **changed},
            "channel_versions": {**versions, **new_versions},
            "versions_seen": {},
            "updated_channels": sorted(changed),
        }
        metadata = {**commit.metadata, "source": commit.source, "step": commit.step, "parents": {}}
        await ask("put", _config(thread, ns, commit.parent_id), checkpoint, metadata, new_versions)

    async def _save_task(
        self, ask: _Ask, thread: str, ns: str, checkpoint_id: str, record: TaskRecord, types: frozenset[type]
    ) -> None:
        if await ask("get_tuple", _config(thread, ns, checkpoint_id)) is None:
            raise StorageError(
                f"{place(thread, ns, checkpoint_id)} is not stored, so the result of its task cannot be.",
                hint="Was the thread deleted while it was running?",
            )
        data = self.serializer.dumps([record.task_id, encode_task(self.serializer, record, types)])
        # Some savers keep the first writes of a task and drop later ones, so each record has a name of its own.
        await ask(
            "put_writes",
            _config(thread, ns, checkpoint_id),
            [(TASK, data)],
            f"{time.time_ns():020d}-{next(_COUNT):08x}",
        )

    async def _load(
        self, ask: _Ask, thread: str, ns: str, checkpoint_id: str | None, types: frozenset[type]
    ) -> Checkpoint | None:
        found = await ask("get_tuple", _config(thread, ns, checkpoint_id))
        return None if found is None else self._checkpoint(thread, ns, found, types)

    async def _history(
        self,
        ask: _Ask,
        thread: str,
        ns: str,
        before: str | None,
        limit: int | None,
        filter: dict[str, Any] | None,
        types: frozenset[type],
    ) -> list[Checkpoint]:
        if limit is not None and (type(limit) is not int or limit < 0):
            raise InvalidInput(f"history() got limit={limit!r}.", hint="Give a number from 0 up, or None for all.")
        if before is not None and await ask("get_tuple", _config(thread, ns, before)) is None:
            raise InvalidInput(
                f"Thread {thread!r} has no checkpoint {before!r} to list from.",
                hint="Take the id from a checkpoint that history() gave.",
            )
        listed = await ask("list", _config(thread, ns), before=_config(thread, ns, before) if before else None)
        found: list[Checkpoint] = []
        for each in listed:
            if limit is not None and len(found) >= limit:
                break
            checkpoint = self._checkpoint(thread, ns, each, types)
            facts = {**checkpoint.metadata, "source": checkpoint.source, "step": checkpoint.step}
            if not filter or metadata_matches(filter, facts):
                found.append(checkpoint)
        return found

    async def _delete(self, ask: _Ask, thread: str) -> None:
        await ask("delete_thread", whole(thread))

    def _checkpoint(self, thread: str, ns: str, found: Any, types: frozenset[type]) -> Checkpoint:
        stored = dict(found.checkpoint["channel_values"])
        where = place(thread, ns, found.checkpoint["id"])
        if PLAN not in stored:
            raise InvalidInput(
                f"{where} was not written by runwell, so it cannot be continued here.", hint="Start a new thread."
            )
        data, created_at, parent_id = self.serializer.loads(stored.pop(PLAN), where=where)
        meta = decode_meta(self.serializer, data, types, where)
        records: dict[str, TaskRecord] = {}
        for _, _, data in sorted((each for each in found.pending_writes or () if each[1] == TASK), key=lambda e: e[0]):
            task_id, data = self.serializer.loads(data, where=where)
            # in its first place, as it was last
            records[task_id] = decode_task(self.serializer, task_id, data, types, f"{where}, task {task_id!r}")
        return Checkpoint(
            id=found.checkpoint["id"],
            thread_id=thread,
            ns=ns,
            parent_id=parent_id,
            step=found.metadata["step"],
            created_at=created_at,
            source=found.metadata["source"],
            values={
                key: self.serializer.loads(data, types, where=f"{where}, key {key!r}") for key, data in stored.items()
            },
            next=meta.next,
            joins=meta.joins,
            metadata=meta.metadata,
            tasks=list(records.values()),
        )


def _config(thread: str, ns: str, checkpoint_id: str | None = None) -> dict[str, Any]:
    configurable = {"thread_id": whole(thread), "checkpoint_ns": ns}
    return {"configurable": configurable if checkpoint_id is None else {**configurable, "checkpoint_id": checkpoint_id}}


def _written(saver: Any, name: str) -> bool:
    """Whether the saver has the method itself, and not only from an abstract base."""
    if name in getattr(saver, "__dict__", ()):
        return True
    home = next((each for each in type(saver).__mro__ if name in vars(each)), None)
    return home is not None and home.__name__ != "BaseCheckpointSaver"


def _listed(found: Any, name: str) -> Any:
    return list(found) if name == "list" else found


def _versions(found: Any) -> Iterable[Any]:
    return (found.checkpoint.get("channel_versions") or {}).values() if found is not None else ()


def _order(version: Any) -> Any:
    return (isinstance(version, str), version)
