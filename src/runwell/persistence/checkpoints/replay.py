"""From stored changes back to values."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any

from runwell.errors import CheckpointCorrupt
from runwell.persistence.checkpoints.delta import Chain, apply, from_stored, items
from runwell.persistence.checkpoints.rows import ChangeRow, CheckpointRow

__all__ = ["Replay"]

ReadChanges = Callable[[Mapping[str, tuple[int, int]]], dict[str, list[ChangeRow]]]
"""{channel: (first seq, last seq)} to the channels' changes in those ranges, of every branch, in order of seq."""
ReadRow = Callable[[int], "CheckpointRow | None"]

_seq = attrgetter("seq")


class Replay:
    """The values of some checkpoints of one namespace. Each stored change is read and decoded once.

    `fetch` reads, and belongs inside the storage's transaction; `values` only computes. Ask for values in order of seq:
    a list or dict is copied from one checkpoint to the next, so that only their items are shared.
    """

    def __init__(self, where: str, decode: Callable[[bytes, Callable[[], str]], Any]) -> None:
        self._where = where
        self._decode = decode
        self._changes: dict[str, list[ChangeRow]] = {}
        self._parents: dict[int, tuple[int, int]] = {}  # branch -> (branch, seq) that it left
        self._last: dict[tuple[str, int], tuple[Chain, int, Any]] = {}

    def fetch(
        self, wanted: Iterable[tuple[CheckpointRow, dict[str, Chain]]], read: ReadChanges, row_at: ReadRow
    ) -> None:
        """Read what the values of these checkpoints need."""
        spans: dict[str, tuple[int, int]] = {}
        for row, chains in wanted:
            for channel, chain in chains.items():
                low, high = spans.get(channel, (chain.base, row.seq))
                spans[channel] = (min(low, chain.base), max(high, row.seq))
            oldest = min((chain.base for chain in chains.values()), default=row.seq)
            branch = row.branch
            while branch > oldest and branch not in self._parents:
                first = row_at(branch)
                parent = row_at(first.parent_seq) if first else None
                if parent is None:
                    raise self._corrupt(row.id, f"the checkpoint that branch {branch} left is missing")
                self._parents[branch] = parent.branch, parent.seq
                branch = parent.branch
        self._changes = read(spans) if spans else {}

    def values(self, row: CheckpointRow, chains: dict[str, Chain]) -> dict[str, Any]:
        """Every channel of one checkpoint; raises CheckpointCorrupt when anything of it is missing or unreadable."""
        return {channel: self._value(row, channel, chain) for channel, chain in chains.items()}

    def _value(self, row: CheckpointRow, channel: str, chain: Chain) -> Any:
        known, seq, value = self._last.get((channel, row.branch), (None, 0, None))
        done = 0
        if known is not None and known.base == chain.base and seq <= row.seq:
            done, value = known.rows, _copied(value)
        else:
            seq = 0
        lineage = self._lineage(row, chain.base)

        def where() -> str:
            return f"{self._where}, checkpoint {row.id!r}, key {channel!r}"

        changes = self._changes.get(channel, [])
        for at in range(bisect_left(changes, max(chain.base, seq + 1), key=_seq), len(changes)):
            at_seq, branch, kind, data = changes[at]
            if at_seq > row.seq:
                break
            if at_seq > lineage.get(branch, 0):
                continue
            if done == 0 and (at_seq != chain.base or kind != 0):
                break  # the whole value at the base is missing
            stored = self._decode(data, where)
            try:
                value = apply(value, from_stored(kind, stored))
            except (ValueError, KeyError, TypeError) as error:
                raise self._corrupt(row.id, f"a change of {channel!r} does not fit: {error}") from error
            done += 1
        if done != chain.rows or items(value) != chain.length:
            raise self._corrupt(row.id, f"{done} of the {chain.rows} stored changes of {channel!r} were found")
        self._last[channel, row.branch] = chain, row.seq, value
        return value

    def _lineage(self, row: CheckpointRow, oldest: int) -> dict[int, int]:
        """Branch to the last seq of it that the checkpoint descends from."""
        lineage = {row.branch: row.seq}
        branch = row.branch
        while branch > oldest and branch in self._parents:
            branch, seq = self._parents[branch]
            lineage[branch] = seq
        return lineage

    def _corrupt(self, checkpoint_id: str, what: str) -> CheckpointCorrupt:
        return CheckpointCorrupt(
            f"Checkpoint {checkpoint_id!r} of {self._where} cannot be read: {what}.",
            hint="Nothing of it was used. Restore the database from a backup, or continue from an older checkpoint.",
        )


def _copied(value: Any) -> Any:
    return value.copy() if type(value) in (list, dict) else value
