"""Which past a checkpoint has, told from its metadata: for memories that follow a thread when it goes back.

Checkpoints of a thread form a tree. Going on from the past begins a branch, and every checkpoint of it names its
branches, each with the checkpoint it left the one before at; the first has no name. So a memory of a nested graph,
which knows what checkpoint it was called from, can be told to lie in the past of a run or not, without a look at the
tree.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from runwell.ports.saver import Checkpoint

if TYPE_CHECKING:
    from runwell.graph.engine import Run

__all__ = ["CALLED_IN", "CALL_KEYS", "LINEAGE", "begin_branch", "branch_of", "memory_of", "take_lineage"]

LINEAGE = "branches"
"""In a checkpoint's metadata: [name, the checkpoint it left the one before at] of each branch on the way to it."""
CALLED_IN = "called_in"
"""In a nested graph's checkpoint: the branch of the graph around it that the call came from."""
CALL_KEYS = ("call", CALLED_IN)
"""What makes a nested graph's checkpoint belong to a call, and a change by hand to that one too."""
PAGE = 20


def take_lineage(run: Run, found: Checkpoint) -> None:
    """Stand on a checkpoint."""
    lineage = found.metadata.get(LINEAGE) or ()
    if lineage or run.lineage:
        run.lineage = lineage


def begin_branch(run: Run, found: Checkpoint | None) -> None:
    """Go on from a checkpoint that is not the newest, or (None) from nothing."""
    before = found.metadata.get(LINEAGE) or [] if found is not None else []
    run.lineage = [*before, [os.urandom(5).hex(), found.id if found is not None else ""]]


def branch_of(run: Run) -> str:
    return run.lineage[-1][0] if run.lineage else ""


def _is_past(lineage: list[list[str]], branch: str, origin: str) -> bool:
    """Whether the step that checkpoint `origin` of `branch` began lies in the past."""
    names = ["", *(name for name, _ in lineage)]
    if branch == names[-1]:
        return True
    # ids grow with time, so those of a branch are in its order
    return any(branch == name and origin < left_at for name, (_, left_at) in zip(names, lineage, strict=False))


async def memory_of(run: Run, found: Checkpoint) -> Checkpoint | None:
    """The newest checkpoint of a nested graph's memory that lies in the past of the run that calls it.

    That is `found`, the newest of all, unless the graph around it has gone back since.
    """
    lineage = run.caller.run.lineage
    page = [found]
    while page:
        for one in page:
            origin = _origin(one.metadata)
            if origin is None or _is_past(lineage, str(one.metadata.get(CALLED_IN, "")), origin):
                return one
        assert run.saver is not None
        assert run.thread_id is not None
        page = await run.saver.history(run.thread_id, run.ns, {"before": page[-1].id, "limit": PAGE})
    return None


def _origin(metadata: Mapping[str, Any]) -> str | None:
    """The checkpoint of the graph around it that a memory was called from; None for one that was used by itself."""
    call = metadata.get("call")
    return str(call).rpartition("|")[2].partition("@")[2].partition("#")[0] if call else None
