"""What a saver can do with whole threads: take them, copy, prune, expire, export them, list what they wait for."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from runwell.errors import InvalidConfig, InvalidInput, StorageError
from runwell.persistence.checkpoints.delta import Chain
from runwell.persistence.checkpoints.holds import new_holder
from runwell.persistence.checkpoints.lease import Lease
from runwell.persistence.checkpoints.pruning import prunable
from runwell.persistence.checkpoints.rows import CheckpointRow, Rows
from runwell.persistence.databases.text import whole
from runwell.persistence.serialization.serializer import Serializer
from runwell.ports.command import Interrupt
from runwell.ports.saver import TaskRecord

__all__ = ["PendingInterrupt", "ThreadKeeping", "questions_of"]

NO_TYPES: frozenset[type] = frozenset()
HOLD_S = 300.0
"""How long a hold lasts that is not renewed, where nothing tells whether its process still lives. Chosen."""
_log = logging.getLogger("runwell.persistence")
_ORIGIN = re.compile(r"@([^|.@]+)")
"""In the namespace of a subgraph: the checkpoint of the graph around it that it was called from."""


@dataclass(slots=True)
class PendingInterrupt:
    """A question that a thread waits with: `graph.invoke(Command(resume=answer), config)` answers it.

    `config` names the thread. `asked_at` is when the checkpoint it waits at was made, in seconds since the epoch, UTC.
    """

    interrupt: Interrupt
    thread_id: str
    checkpoint_id: str
    node: str
    task_id: str
    asked_at: float

    @property
    def config(self) -> dict[str, Any]:
        return {"configurable": {"thread_id": self.thread_id}}


def questions_of(record: TaskRecord) -> list[Interrupt]:
    """The questions of a task that nobody has answered."""
    if record.done:
        return []
    return [each for each in record.interrupts if f"answer/{getattr(each, 'id', '')}" not in record.records]


class ThreadKeeping(Rows):
    """The part of `BaseCheckpointSaver` that deals with threads as a whole."""

    serializer: Serializer
    _heads: dict[tuple[str, str], Any]
    _ttl: float | None = None
    _lease: Lease | None = None
    """What renews the holds of this saver's runs, where they are short."""
    _swept_at: float = 0.0

    # -- one run at a time

    def take(self, thread_id: str, *, hold_s: float | None = None, force: bool = False) -> int:
        """Begin to run a thread: gives the attempt, to be passed as `fence` with everything this run saves.

        From then on, what carries an older attempt is refused with ThreadBusy: a run that was wrongly given up stops at
        its next save. The thread is held for `hold_s` seconds from the last save (default: the saver's `lease`, which
        is renewed while this process lives, else 300), until `release`, or until the process is seen to have ended (on
        this machine); meanwhile `take` raises ThreadBusy (`.retryable`). `force` takes it from whoever holds it.
        """
        if hold_s is not None and hold_s < 0:
            raise InvalidConfig(f"take() got hold_s={hold_s!r}.", hint="Give a number of seconds from 0 up.")
        lease = self._lease if hold_s is None else None
        hold_s = hold_s if hold_s is not None else HOLD_S if lease is None else lease.seconds
        thread = whole(thread_id)
        attempt = self.write_take(thread, new_holder(), hold_s, force)
        if lease is not None:
            lease.held(thread, attempt)
        return attempt

    def release(self, thread_id: str, attempt: int) -> None:
        """The run has ended: others may take the thread at once. Harmless when it has been taken already."""
        if self._lease is not None:
            self._lease.released(whole(thread_id), attempt)
        self.write_release(thread_id, attempt)

    # -- looking

    def threads(self) -> list[str]:
        """The ids of all threads, the most recently written last."""
        return self.read(self.read_threads)

    def list_interrupts(self, *, limit: int | None = None, types: frozenset[type] = NO_TYPES) -> list[PendingInterrupt]:
        """The open questions of all threads, the longest waiting first.

        Costs what is open, not what is stored. A question inside a subgraph is listed once, under the node that called
        it. Classes of yours in questions must be allowed (`allow=` or `types`).
        """
        _checked_limit("list_interrupts", limit)
        rows = self.read(lambda: self.read_questions(None if limit is None else limit))
        found: list[PendingInterrupt] = []
        for thread, checkpoint_id, created_at, task_id, data in rows:
            record = self._task(thread, "", checkpoint_id, (task_id, data), types)
            for question in questions_of(record):
                found.append(PendingInterrupt(question, thread, checkpoint_id, record.node, task_id, created_at))
        return found if limit is None else found[:limit]

    # -- changing

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Make a thread of another id with everything of the source: its history, subgraphs and open questions.

        Raises InvalidInput when the source has nothing or the target has something; then nothing is copied.
        """
        with self.transaction():
            if not self.read_namespaces(source_thread_id):
                raise InvalidInput(f"There is no thread {source_thread_id!r} to copy.", hint="See threads().")
            self._refuse_existing(whole(target_thread_id))
            self.copy_rows(source_thread_id, target_thread_id)

    def _refuse_existing(self, thread_id: str) -> None:
        if self.read_namespaces(thread_id):
            raise InvalidInput(
                f"Thread {thread_id!r} exists already. It was left as it is.",
                hint="Use a new id, or delete_thread() it first.",
            )

    def prune(self, thread_ids: Iterable[str] | None = None, *, keep: int = 1) -> int:
        """Forget all but the newest `keep` checkpoints of each thread (None: of every thread); gives how many went.

        Those that stay are exact, with their tasks and open questions. `keep` counts for each subgraph by itself; one
        that was called from a forgotten checkpoint is forgotten with it. `keep=0` forgets the threads.
        """
        if type(keep) is not int or keep < 0:
            raise InvalidInput(f"prune() got keep={keep!r}.", hint="Give a whole number from 0 up.")
        if isinstance(thread_ids, str):
            thread_ids = [thread_ids]
        return sum(self._prune(thread, keep) for thread in (self.threads() if thread_ids is None else thread_ids))

    def _prune(self, thread: str, keep: int) -> int:
        gone: set[str] = set()
        count = 0
        for ns in self.read(lambda: self.read_namespaces(thread)):  # "" first, a subgraph after the graph around it
            went = self.locked(thread, ns, partial(self._prune_namespace, thread, ns, keep, frozenset(gone)))
            gone |= went
            count += len(went)
        self._forget(thread)
        return count

    def _prune_namespace(self, thread: str, ns: str, keep: int, gone: frozenset[str]) -> set[str]:
        """The ids of the checkpoints that went. `gone` are those of the namespaces before."""
        tree = self.read_tree(thread, ns)
        shown = [row for row in tree.rows if row.meta]
        if keep == 0 or not gone.isdisjoint(_ORIGIN.findall(ns)):
            self.remove_namespace(thread, ns)
            return {row.id for row in shown}
        kept = {row.seq: self._decode_chains(thread, ns, row) for row in shown[-keep:]}
        plan = prunable(tree, kept)
        if plan.drop or plan.hide or plan.changes:
            self.remove_rows(thread, ns, plan.drop, plan.hide, plan.changes)
        return {row.id for row in shown if row.seq not in kept}

    def sweep(self) -> list[str]:
        """Forget the threads that were last written longer ago than the saver's `ttl`; gives their ids.

        With a ttl it also happens by itself, now and then, when something is saved.
        """
        if self._ttl is None:
            return []
        self._swept_at = time.monotonic()
        gone = self.remove_idle(time.time() - self._ttl)
        for thread in gone:
            self._forget(thread)
        return gone

    def _sweep_is_due(self) -> bool:
        return self._ttl is not None and time.monotonic() - self._swept_at > min(60.0, self._ttl / 4)

    def _sweep_sometimes(self) -> None:
        if self._sweep_is_due():
            try:
                self.sweep()
            except StorageError:  # what was to be saved is saved: that must not look like a failure
                _log.warning("Threads past their ttl could not be removed", exc_info=True)

    # -- as JSON

    def export_thread(self, thread_id: str) -> dict[str, Any]:
        """The thread as plain JSON data: every checkpoint with what it changed, in a form that people can read.

        It is exact: `import_thread` makes the same thread of it, in any saver. It can be written without knowing the
        classes of the values, which are named where they occur.
        """
        from runwell.persistence.checkpoints.portable import exported

        data = self.read(lambda: exported(self, thread_id))
        if data is None:
            raise InvalidInput(f"There is no thread {thread_id!r} to export.", hint="See threads().")
        return data

    def import_thread(self, data: dict[str, Any], *, thread_id: str | None = None) -> str:
        """Make a thread of what `export_thread` gave, under its own id or another; gives the id.

        Raises InvalidInput for data of another shape and for a thread that exists; then nothing is stored.
        """
        from runwell.persistence.checkpoints.portable import imported

        target, namespaces = imported(self, data, thread_id)
        with self.transaction():
            self._refuse_existing(target)
            for ns, commits, tasks in namespaces:
                head = None
                for row, changes in commits:
                    self.write_commit(target, ns, head, row, changes, None)
                    head = row.id
                for checkpoint_id, task_id, stored, asks in tasks:
                    self.write_task(target, ns, checkpoint_id, task_id, stored, asks, None)
        return target

    def _decode_chains(self, thread: str, ns: str, row: CheckpointRow) -> dict[str, Chain]:
        raise NotImplementedError

    def kind_of_whole(self, stored: bytes) -> int:
        raise NotImplementedError

    def _task(
        self, thread: str, ns: str, checkpoint_id: str, stored: tuple[str, bytes], types: frozenset[type]
    ) -> TaskRecord:
        raise NotImplementedError

    def _forget(self, thread_id: str) -> None:
        """Drop what is remembered of the thread's newest checkpoints."""
        for where in [where for where in list(self._heads) if where[0] == thread_id]:
            self._heads.pop(where, None)


def _checked_limit(name: str, limit: Any) -> None:
    if limit is not None and (type(limit) is not int or limit < 0):
        raise InvalidInput(f"{name}() got limit={limit!r}.", hint="Give a number from 0 up, or None for all.")
