"""From stored changes back to values."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from operator import itemgetter
from typing import Any

from runwell.errors import CheckpointCorrupt
from runwell.persistence.checkpoints.delta import WHOLE, apply, from_stored, items
from runwell.persistence.checkpoints.rows import ChangeRow, CheckpointRow, place

__all__ = ["Replay"]

_seq, _kind = itemgetter(0), itemgetter(2)
_NONE: frozenset[int] = frozenset()

FlatChains = list[Any]
"""A checkpoint's chains as they are stored, one after the other: channel, base, rows, cost, size, length."""


class Replay:
    """The values of some checkpoints of one namespace. Each stored change is read and decoded once.

    First `spans` says which changes are needed; it reads, and belongs inside the storage's transaction. Then `take` is
    given them, and `values` only computes. Ask for values in order of seq: a list or dict is copied from one checkpoint
    to the next, so that only their items are shared.
    """

    def __init__(
        self,
        thread: str,
        ns: str,
        decode: Callable[..., Any],
        decode_all: Callable[[Sequence[bytes]], list[Any] | None],
    ) -> None:
        self._thread, self._ns = thread, ns
        self._decode, self._decode_all = decode, decode_all
        self._changes: Mapping[str, list[ChangeRow]] = {}
        self._ready: dict[str, dict[int, Any]] = {}  # decoded changes, by channel and seq, each until it is used
        self._partial: dict[str, AbstractSet[int]] = {}  # the seqs of those that are not whole values
        self._parents: dict[int, tuple[int, int]] = {}  # branch -> (branch, seq) that it left
        self._last: dict[int, dict[str, tuple[int, int, int, Any]]] = {}  # by branch, channel: base, rows, seq, value

    def spans(
        self,
        rows: Sequence[CheckpointRow],
        chains_of: Sequence[FlatChains],
        row_at: Callable[[int], CheckpointRow | None],
    ) -> dict[str, tuple[int, int]]:
        """First and last seq of each channel's changes that these checkpoints, newest first, are made of."""
        lows: dict[str, int] = {}
        highs: dict[str, int] = {}
        for row, chains in zip(rows, chains_of, strict=True):
            at, end = 0, len(chains)
            while at < end:  # a `range` for each row costs more than what is done here
                channel, base = chains[at], chains[at + 1]
                low = lows.get(channel)
                if low is None:
                    lows[channel], highs[channel] = base, row.seq
                elif base < low:
                    lows[channel] = base
                at += 6
            if row[4] > 1:  # `branch`; by place, as below, since it is done for each row of a listing
                self._follow(row, min(chains[1::6], default=row.seq), row_at)
        return {channel: (low, highs[channel]) for channel, low in lows.items()}

    def _follow(self, row: CheckpointRow, oldest: int, row_at: Callable[[int], CheckpointRow | None]) -> None:
        """Find out where the branches left each other that the checkpoint descends through, back to seq `oldest`."""
        branch = row.branch
        while branch > oldest:
            if branch not in self._parents:
                first = row_at(branch)
                parent = row_at(first.parent_seq) if first else None
                if parent is None:
                    raise self._corrupt(row.id, f"the checkpoint that branch {branch} left is missing")
                self._parents[branch] = parent.branch, parent.seq
            branch, _ = self._parents[branch]  # of one that another checkpoint went through, but not so far back

    def take(self, changes: Mapping[str, list[ChangeRow]]) -> None:
        """The changes in the spans, of every branch, in order of seq."""
        self._changes = changes
        for channel, rows in changes.items():
            if WHOLE.issuperset(map(_kind, rows)):
                self._partial[channel] = _NONE
            else:
                self._partial[channel] = {seq for seq, _, kind, _ in rows if kind not in WHOLE}
            values = self._decode_all([row[3] for row in rows]) if len(rows) > 1 else None
            self._ready[channel] = dict(zip(map(_seq, rows), values, strict=True)) if values is not None else {}

    def values(self, row: CheckpointRow, chains: FlatChains) -> dict[str, Any]:
        """Every channel of one checkpoint; raises CheckpointCorrupt when anything of it is missing or unreadable."""
        values: dict[str, Any] = {}
        seq, branch = row[0], row[4]
        last = self._last.get(branch)
        if last is None:
            last = self._last[branch] = {}
        at, end = 0, len(chains)
        while at < end:
            channel, base, rows, _, _, length = chains[at : at + 6]
            at += 6
            ready = self._ready.get(channel)
            if base == seq and ready and seq in ready and seq not in self._partial[channel]:
                value, done = ready.pop(seq), 1  # written whole by this very commit
            else:
                value, done = self._value(row, channel, base, last)
            if done != rows or items(value) != length:
                raise self._corrupt(row.id, f"{done} of the {rows} stored changes of {channel!r} were found")
            last[channel] = base, rows, seq, value
            values[channel] = value
        return values

    def _value(
        self, row: CheckpointRow, channel: str, base: int, last: Mapping[str, tuple[int, int, int, Any]]
    ) -> tuple[Any, int]:
        """A value, and of how many changes since the whole one at `base` it was made."""
        known, done, seq, value = last.get(channel, (0, 0, 0, None))
        if known == base and seq <= row.seq:
            value = value.copy() if type(value) in (list, dict) else value
        else:
            done, seq, value = 0, 0, None
        lineage = self._lineage(row, base)
        changes = self._changes.get(channel, [])
        for at in range(bisect_left(changes, max(base, seq + 1), key=_seq), len(changes)):
            at_seq, branch, kind, data = changes[at]
            if at_seq > row.seq:
                break
            if at_seq > lineage.get(branch, 0):
                continue
            if done == 0 and (at_seq != base or kind not in WHOLE):
                break  # the whole value at the base is missing
            stored = self._stored(row, channel, at_seq, data)
            try:
                value = apply(value, from_stored(kind, stored))
            except (ValueError, KeyError, TypeError) as error:
                raise self._corrupt(row.id, f"a change of {channel!r} does not fit: {error}") from error
            done += 1
        return value, done

    def _stored(self, row: CheckpointRow, channel: str, seq: int, data: bytes) -> Any:
        """What is stored of a change: a value of the caller's own, since it may be changed in place."""
        ready = self._ready[channel]
        return ready.pop(seq) if seq in ready else self._decode(data, self._place, row.id, channel)

    def _lineage(self, row: CheckpointRow, oldest: int) -> dict[int, int]:
        """Branch to the last seq of it that the checkpoint descends from."""
        lineage = {row.branch: row.seq}
        branch = row.branch
        while branch > oldest and branch in self._parents:
            branch, seq = self._parents[branch]
            lineage[branch] = seq
        return lineage

    def _place(self, checkpoint_id: str, channel: str) -> str:
        return f"{place(self._thread, self._ns, checkpoint_id)}, key {channel!r}"

    def _corrupt(self, checkpoint_id: str, what: str) -> CheckpointCorrupt:
        return CheckpointCorrupt(
            f"Checkpoint {checkpoint_id!r} of {place(self._thread, self._ns)} cannot be read: {what}.",
            hint="Nothing of it was used. Restore the database from a backup, or continue from an older checkpoint.",
        )
