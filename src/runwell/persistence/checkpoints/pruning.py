"""What may go when only some checkpoints of a namespace are kept. Pure: nothing is decoded, no value is rewritten."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import NamedTuple

from runwell.persistence.checkpoints.delta import Chain
from runwell.persistence.checkpoints.rows import CheckpointRow, Tree

__all__ = ["Prunable", "prunable"]


class Prunable(NamedTuple):
    """Seqs of checkpoints to drop and to empty, and (channel, seq) of the changes to remove."""

    drop: list[int]
    hide: list[int]
    changes: list[tuple[str, int]]


def prunable(tree: Tree, kept: Mapping[int, Mapping[str, Chain]]) -> Prunable:
    """What goes when the checkpoints in `kept` (seq to chains) stay.

    A change stays when the chain of a kept checkpoint reads it. Where a branch that is read through left another one,
    its first checkpoint and the one it left stay as empty rows, since they say how the branches hang together.
    """
    rows = {row.seq: row for row in tree.rows}
    spans: dict[tuple[str, int], list[tuple[int, int]]] = {}  # (channel, branch) to spans of seqs that are read
    joints: set[int] = set()
    for seq, chains in kept.items():
        if not chains:
            continue
        oldest = min(chain.base for chain in chains.values())
        for branch, last in _lineage(rows, rows[seq], oldest, joints):
            for channel, chain in chains.items():
                if chain.base <= last:
                    spans.setdefault((channel, branch), []).append((chain.base, last))
    merged = {where: _merged(each) for where, each in spans.items()}
    changes = [
        (channel, seq) for channel, seq, branch in tree.changes if not _within(merged.get((channel, branch)), seq)
    ]
    gone = [row for row in tree.rows if row.seq not in kept]
    return Prunable(
        drop=[row.seq for row in gone if row.seq not in joints],
        hide=[row.seq for row in gone if row.seq in joints and row.meta],
        changes=changes,
    )


def _lineage(
    rows: Mapping[int, CheckpointRow], row: CheckpointRow, oldest: int, joints: set[int]
) -> list[tuple[int, int]]:
    """(branch, last seq of it) that a checkpoint descends from, back to seq `oldest`; notes the joints on the way."""
    lineage = [(row.branch, row.seq)]
    branch = row.branch
    while branch > oldest:
        first = rows[branch]
        parent = rows[first.parent_seq]
        joints.update((first.seq, parent.seq))
        branch = parent.branch
        lineage.append((branch, parent.seq))
    return lineage


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    spans.sort()
    merged = [spans[0]]
    for low, high in spans[1:]:
        if low <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], high)
        else:
            merged.append((low, high))
    return merged


def _within(spans: list[tuple[int, int]] | None, seq: int) -> bool:
    if not spans:
        return False
    at = bisect_right(spans, seq, key=lambda span: span[0]) - 1
    return at >= 0 and seq <= spans[at][1]
