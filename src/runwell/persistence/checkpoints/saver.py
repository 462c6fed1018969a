"""What all savers have in common: a commit is encoded into rows of bytes, and rows are decoded into checkpoints.

A saver for another database implements the few methods of `Rows`, which see plain columns and opaque bytes, and gets
everything else from here: deltas, forks, history, strict types, the async forms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar, Self, TypeVar

from runwell.errors import InvalidConfig, InvalidInput, ThreadBusy
from runwell.persistence.checkpoints.delta import Chain, Replace, difference, items, to_stored
from runwell.persistence.checkpoints.encoding import decode_task, encode_meta, encode_task, meta_of
from runwell.persistence.checkpoints.listed import Listing, listed
from runwell.persistence.checkpoints.replay import Replay
from runwell.persistence.checkpoints.rows import SHARED, CheckpointRow, place
from runwell.persistence.checkpoints.threads import PendingInterrupt, ThreadKeeping, questions_of
from runwell.persistence.checkpoints.worker import Worker
from runwell.persistence.databases.text import whole
from runwell.persistence.serialization.encryption import Cipher
from runwell.persistence.serialization.serializer import Serializer
from runwell.ports.saver import GONE, Checkpoint, Commit, TaskRecord

__all__ = ["BaseCheckpointSaver", "metadata_matches"]

T = TypeVar("T")

NO_TYPES: frozenset[type] = frozenset()
LONG = 512
"""Bytes from which a value is kept once however often it is set. Below, naming it would cost as much. Chosen."""
PAGE = 200
"""Checkpoints that `history` looks at in one read while it filters."""
HEADS = 4096
"""Threads whose newest checkpoint is remembered; the memory is only a short cut."""


class _Known:
    """A checkpoint as a commit on top of it needs it."""

    __slots__ = ("branch", "chains", "id", "seq")

    def __init__(self, id: str, seq: int, branch: int, chains: dict[str, Chain]) -> None:
        self.id = id
        self.seq = seq
        self.branch = branch
        self.chains = chains


_ROOT = _Known("", 0, 0, {})


def _off_the_loop(method: T) -> T:
    """Mark an awaited form that is the plain one in another thread; a class of yours may have its own instead."""
    method.__off_loop__ = True  # type: ignore[attr-defined]
    return method


class BaseCheckpointSaver(ThreadKeeping):
    """The checkpoint port over rows of bytes. Safe to share between threads.

    `allow` lists classes of yours that may be saved and loaded, beside those that the graph's own schemas name. `ttl`
    is how long a thread is kept after it was last written: seconds or a `timedelta`, None for ever. `encryption`
    encrypts what is stored of values. `workers` is how many threads serve event loops.

    `cheap` says that no method blocks, so that an event loop may call the plain forms in place; otherwise it awaits
    `acommit`, `asave_task`, `aload`, `ahistory`, `adelete_thread`, which run in threads of the saver's own.
    """

    cheap: ClassVar[bool] = False

    def __init__(
        self,
        *,
        allow: Iterable[type] = (),
        ttl: float | timedelta | None = None,
        encryption: Cipher | None = None,
        workers: int = 1,
    ) -> None:
        self.serializer = Serializer(allow, owner=type(self).__name__, encryption=encryption)
        self._ttl = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
        if self._ttl is not None and self._ttl <= 0:
            raise InvalidConfig(f"{type(self).__name__} got ttl={ttl!r}.", hint="Give seconds above 0, or None.")
        self._heads: dict[tuple[str, str], _Known] = {}
        self._worker = Worker(workers)

    # -- the port

    def commit(self, commit: Commit, types: frozenset[type] = NO_TYPES) -> None:
        """Save one checkpoint in one transaction, or raise and save nothing.

        Raises ThreadBusy when `expect_head` is no longer the newest, UnserializableType when a value may not be saved.
        """
        where = (whole(commit.thread_id), commit.ns)
        head = parent = self._heads.get(where, _ROOT)
        if not head.id == commit.parent_id == commit.expect_head:  # as nearly always
            head, parent = self._head_and_parent(commit)
        seq = head.seq + 1
        chains = dict(parent.chains)
        changes: list[tuple[str, int, bytes]] = []
        for channel, (old, new) in commit.changes.items():
            if new is GONE:
                chains.pop(channel, None)
            else:
                self._change(channel, old, new, seq, chains, changes, types)
        flat: list[Any] = []
        for channel, chain in chains.items():
            flat.append(channel)
            flat += chain
        branch = parent.branch if parent is head and head.seq else seq
        row = CheckpointRow(
            seq,
            commit.id,
            commit.parent_id,
            parent.seq,
            branch,
            commit.step,
            commit.source,
            commit.created_at,
            self.serializer.dumps(flat),
            encode_meta(self.serializer, commit, types),
        )
        try:
            if branch == seq and parent.seq:  # a branch off something older, which may be pruned meanwhile
                self.locked(*where, partial(self._write_checked, commit, row, changes))
            else:
                self.write_commit(*where, commit.expect_head, row, changes, commit.fence)
        except ThreadBusy:
            self._heads.pop(where, None)
            raise
        if len(self._heads) >= HEADS:
            self._heads.clear()
        self._heads[where] = _Known(commit.id, seq, branch, chains)
        self._sweep_sometimes()

    def _write_checked(self, commit: Commit, row: CheckpointRow, changes: list[tuple[str, int, bytes]]) -> None:
        self._parent_of(commit)
        self.write_commit(commit.thread_id, commit.ns, commit.expect_head, row, changes, commit.fence)

    def save_task(
        self,
        thread_id: str,
        ns: str,
        checkpoint_id: str,
        record: TaskRecord,
        types: frozenset[type] = NO_TYPES,
        fence: int | None = None,
    ) -> None:
        """Keep a task's result beside its checkpoint; a second record for the same task replaces the first.

        Raises StorageError when there is no such checkpoint, ThreadBusy as `commit` does when `fence` is given.
        """
        data = encode_task(self.serializer, record, types)
        self.write_task(whole(thread_id), ns, checkpoint_id, record.task_id, data, len(questions_of(record)), fence)

    def load(
        self, thread_id: str, ns: str = "", checkpoint_id: str | None = None, types: frozenset[type] = NO_TYPES
    ) -> Checkpoint | None:
        """The newest checkpoint, or the one named; None when there is none.

        Raises CheckpointCorrupt, naming thread and checkpoint, when anything of it cannot be read.
        """

        whole(thread_id)

        def read() -> Callable[[], list[Checkpoint]] | None:
            row = self.read_checkpoint(thread_id, ns, checkpoint_id)
            if row is None:
                return None
            decode = self.serializer.reader(types)
            return self._collect(thread_id, ns, ([row], [decode(row.meta, place, thread_id, ns, row.id)]), types)

        finish = self.read(read)
        return finish()[0] if finish is not None else None

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
        """Checkpoints, newest first, in the order they were saved.

        `before` names a checkpoint: only older ones are given. `filter` matches metadata, and `source` and `step`,
        exactly: a checkpoint that lacks a key does not match. Values that did not change from one checkpoint to the
        next are shared between them: treat them as read-only.

        Raises InvalidInput for a negative limit and for a `before` that the thread does not have.
        """
        whole(thread_id)
        if limit is not None and (type(limit) is not int or limit < 0):
            raise InvalidInput(f"history() got limit={limit!r}.", hint="Give a number from 0 up, or None for all.")
        if filter is not None and not isinstance(filter, dict):
            raise InvalidInput(
                f"history() got filter={filter!r:.200}.", hint='Give a dict, such as {"source": "loop"}.'
            )

        def read() -> Callable[[], list[Checkpoint]]:
            last: int | None = None
            if before is not None:
                start = self.read_checkpoint(thread_id, ns, before)
                if start is None:
                    raise InvalidInput(
                        f"Thread {thread_id!r} has no checkpoint {before!r} to list from.",
                        hint="Take the id from a checkpoint that history() gave.",
                    )
                last = start.seq
            return self._collect(thread_id, ns, self._matching(thread_id, ns, last, limit, filter, types), types)

        return self.read(read)()

    def delete_thread(self, thread_id: str) -> None:
        """Forget the thread, its subgraphs included. Forgetting an unknown thread is no error."""
        self.remove_thread(whole(thread_id))
        self._forget(thread_id)

    # -- from an event loop

    @_off_the_loop
    async def acommit(self, *args: Any, **kwargs: Any) -> None:
        """`commit`, without blocking the event loop; the others likewise. A cancelled caller never halves a save."""
        await self._off_loop(self.commit, *args, **kwargs)

    @_off_the_loop
    async def asave_task(self, *args: Any, **kwargs: Any) -> None:
        await self._off_loop(self.save_task, *args, **kwargs)

    @_off_the_loop
    async def aload(self, *args: Any, **kwargs: Any) -> Checkpoint | None:
        return await self._off_loop(self.load, *args, **kwargs)

    @_off_the_loop
    async def ahistory(self, *args: Any, **kwargs: Any) -> list[Checkpoint]:
        return await self._off_loop(self.history, *args, **kwargs)

    async def adelete_thread(self, *args: Any, **kwargs: Any) -> None:
        await self._off_loop(self.delete_thread, *args, **kwargs)

    @_off_the_loop
    async def atake(self, *args: Any, **kwargs: Any) -> int:
        return await self._off_loop(self.take, *args, **kwargs)

    @_off_the_loop
    async def arelease(self, *args: Any, **kwargs: Any) -> None:
        await self._off_loop(self.release, *args, **kwargs)

    async def athreads(self) -> list[str]:
        return await self._off_loop(self.threads)

    async def alist_interrupts(self, **kwargs: Any) -> list[PendingInterrupt]:
        return await self._off_loop(self.list_interrupts, **kwargs)

    async def acopy_thread(self, *args: Any, **kwargs: Any) -> None:
        await self._off_loop(self.copy_thread, *args, **kwargs)

    async def aprune(self, *args: Any, **kwargs: Any) -> int:
        return await self._off_loop(self.prune, *args, **kwargs)

    async def asweep(self) -> list[str]:
        return await self._off_loop(self.sweep)

    async def aexport_thread(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return await self._off_loop(self.export_thread, *args, **kwargs)

    async def aimport_thread(self, *args: Any, **kwargs: Any) -> str:
        return await self._off_loop(self.import_thread, *args, **kwargs)

    async def _off_loop(self, method: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        return method(*args, **kwargs) if self.cheap else await self._worker.run(method, *args, **kwargs)

    # -- lifetime

    def close(self) -> None:
        """Let go of what the saver holds open. Harmless when repeated."""
        self._worker.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._worker.run(self.close)

    # -- encoding

    def _head_and_parent(self, commit: Commit) -> tuple[_Known, _Known]:
        thread, ns = commit.thread_id, commit.ns
        head = self._heads.get((thread, ns))
        if commit.expect_head is None:
            head = _ROOT
        elif head is None or head.id != commit.expect_head:
            row = self.read(lambda: self.read_checkpoint(thread, ns, None))
            if row is None or row.id != commit.expect_head:
                raise self.busy(thread, ns, commit.expect_head, row.id if row else None)
            head = self._known(thread, ns, row)
        if commit.parent_id is None:
            return head, _ROOT
        if commit.parent_id == head.id:
            return head, head
        return head, self._known(thread, ns, self.read(lambda: self._parent_of(commit)))

    def _parent_of(self, commit: Commit) -> CheckpointRow:
        row = self.read_checkpoint(commit.thread_id, commit.ns, commit.parent_id)
        if row is None:
            raise InvalidInput(
                f"Thread {commit.thread_id!r} has no checkpoint {commit.parent_id!r} to continue from.",
                hint="Take the id from a checkpoint that history() gave.",
            )
        return row

    def _known(self, thread: str, ns: str, row: CheckpointRow) -> _Known:
        return _Known(row.id, row.seq, row.branch, self._decode_chains(thread, ns, row))

    def _change(
        self,
        channel: str,
        old: Any,
        new: Any,
        seq: int,
        chains: dict[str, Chain],
        changes: list[tuple[str, int, bytes]],
        types: frozenset[type],
    ) -> None:
        """Note how `channel` changes: what to store, and the chain it is read by from now on."""
        chain = chains.get(channel)
        # An `old` of another length than what is stored was changed in place meanwhile: no telling what it was.
        if chain is not None and items(old) == chain.length:
            change = difference(old, new)
            if change is None:
                return
            if not isinstance(change, Replace):
                kind, data = to_stored(change)
                stored = self.serializer.dumps(data, channel, types)
                extended = chain.extended(change, new, len(stored))
                if extended is not None:
                    chains[channel] = extended
                    changes.append((channel, kind, stored))
                    return
        stored = self.serializer.dumps(new, channel, types)
        chains[channel] = Chain.start(seq, new, len(stored))
        changes.append((channel, self.kind_of_whole(stored), stored))

    def kind_of_whole(self, stored: bytes) -> int:
        """How a value is stored whole: a long one such that an equal one is kept once."""
        return SHARED if len(stored) >= LONG and self.serializer.repeatable else 0

    # -- decoding

    def _decode_chains(self, thread: str, ns: str, row: CheckpointRow) -> dict[str, Chain]:
        flat = self.serializer.loads(row.chains, where=place(thread, ns, row.id))
        return {flat[at]: Chain._make(flat[at + 1 : at + 6]) for at in range(0, len(flat), 6)}

    def _matching(
        self,
        thread: str,
        ns: str,
        last: int | None,
        limit: int | None,
        filter: dict[str, Any] | None,
        types: frozenset[type],
    ) -> tuple[list[CheckpointRow], list[Any]]:
        """Up to `limit` checkpoints before seq `last` that match, newest first; what is stored beside their values, or
        None where that is sound and may be decoded later."""
        if not filter:
            rows = self.read_checkpoints(thread, ns, last, limit)
            stored = [row.meta for row in rows]
            if len(rows) > 1 and self.serializer.are_plain(stored):  # few of a listing are looked at so closely
                return rows, [None] * len(rows)
            return rows, self._decoded(thread, ns, rows, stored, types)
        found: list[CheckpointRow] = []
        metas: list[Any] = []
        while limit is None or len(found) < limit:
            rows = self.read_checkpoints(thread, ns, last, PAGE)
            stored = self._decoded(thread, ns, rows, [row.meta for row in rows], types)
            for row, meta in zip(rows, stored, strict=True):
                if metadata_matches(filter, {**meta_of(meta).metadata, "source": row.source, "step": row.step}):
                    found.append(row)
                    metas.append(meta)
                    if len(found) == limit:
                        break
            if len(rows) < PAGE:
                break
            last = rows[-1].seq
        return found, metas

    def _collect(
        self, thread: str, ns: str, found: tuple[list[CheckpointRow], list[Any]], types: frozenset[type]
    ) -> Callable[[], list[Checkpoint]]:
        """Read all that the checkpoints, newest first, need; calling the result, after the reading, decodes it."""
        rows, metas = found
        chains = self._decoded(thread, ns, rows, [row.chains for row in rows], types)
        replay = Replay(thread, ns, self.serializer.reader(types), partial(self.serializer.all, types=types))
        spans = replay.spans(rows, chains, lambda seq: self.read_seq(thread, ns, seq))
        changes, tasks = self.read_parts(thread, ns, spans, [row.seq for row in rows])

        def finish() -> list[Checkpoint]:
            replay.take(changes)
            found: list[Checkpoint] = []
            of, values_of = Listing(thread, ns, self.serializer.reader(types)), replay.values
            for row, chain, meta in zip(reversed(rows), reversed(chains), reversed(metas), strict=True):  # oldest first
                values, records = values_of(row, chain), None
                if tasks and row.seq in tasks:
                    records = [self._task(thread, ns, row.id, each, types) for each in tasks[row.seq]]
                found.append(listed(row, of, meta, values, records))
            found.reverse()
            return found

        return finish

    def _decoded(
        self, thread: str, ns: str, rows: Sequence[CheckpointRow], stored: Sequence[bytes], types: frozenset[type]
    ) -> list[Any]:
        """What is stored of each row: all at once where that goes, and else one by one, for the error to say which."""
        values = self.serializer.all(stored, types) if len(stored) > 1 else None
        if values is not None:
            return values
        read = self.serializer.reader(types)
        return [read(data, place, thread, ns, row.id) for row, data in zip(rows, stored, strict=True)]

    def _task(
        self, thread: str, ns: str, checkpoint_id: str, stored: tuple[str, bytes], types: frozenset[type]
    ) -> TaskRecord:
        task_id, data = stored
        where = f"{place(thread, ns, checkpoint_id)}, task {task_id!r}"
        return decode_task(self.serializer, task_id, data, types, where)


def metadata_matches(filter: dict[str, Any], facts: dict[str, Any]) -> bool:
    """Whether the facts have every key of the filter with an equal value."""
    return all(
        key in facts and facts[key] == value and (type(facts[key]) is bool) == (type(value) is bool)
        for key, value in filter.items()
    )
