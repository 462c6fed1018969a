"""A thread as JSON: what each checkpoint changed, with every value's type, and back.

It is made from the stored bytes: no class is needed, and none is built.
"""

from __future__ import annotations

from collections import defaultdict
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from runwell.errors import CheckpointCorrupt, InvalidInput
from runwell.persistence.checkpoints.rows import CheckpointRow, place
from runwell.persistence.serialization.json_form import pack_json, unpack_json

if TYPE_CHECKING:
    from runwell.persistence.checkpoints.threads import ThreadKeeping

__all__ = ["exported", "imported"]

FORMAT: Final = 1
_KINDS = ("set", "splice", "patch", "set")

Commits = list[tuple[CheckpointRow, list[tuple[str, int, bytes]]]]
Tasks = list[tuple[str, str, bytes, int]]


def exported(saver: ThreadKeeping, thread: str) -> dict[str, Any] | None:
    """The thread as JSON data, None when there is none. Reads, and belongs inside the storage's transaction."""
    spaces = [_space(saver, thread, ns) for ns in saver.read_namespaces(thread)]
    return {"runwell_thread": FORMAT, "thread_id": thread, "namespaces": spaces} if spaces else None


def _space(saver: ThreadKeeping, thread: str, ns: str) -> dict[str, Any]:
    def shown(data: bytes, seq: int) -> Any:
        return unpack_json(saver.serializer.plain(data, place(thread, ns, ids.get(seq, f"number {seq}"))))

    tree = saver.read_tree(thread, ns)
    ids = {row.seq: row.id for row in tree.rows}
    spans: dict[str, tuple[int, int]] = {}
    for channel, seq, _ in tree.changes:
        low, high = spans.get(channel, (seq, seq))
        spans[channel] = min(low, seq), max(high, seq)
    changes: dict[int, dict[str, Any]] = defaultdict(dict)
    for channel, rows in saver.read_changes(thread, ns, spans).items():
        for seq, _, kind, data in rows:
            if not 0 <= kind < len(_KINDS):
                raise CheckpointCorrupt(
                    f"A change of {channel!r} is of kind {kind} ({place(thread, ns, ids.get(seq))}).",
                    hint="Restore the database from a backup.",
                )
            changes[seq][channel] = {_KINDS[kind]: shown(data, seq)}
    tasks = saver.read_tasks(thread, ns, [row.seq for row in tree.rows])
    left = {seq: branch for _, seq, branch in tree.changes}  # of checkpoints that were pruned, and still read by others
    for row in tree.rows:
        left.pop(row.seq, None)
    pruned = [CheckpointRow(seq, f"pruned {seq}", None, 0, left[seq], 0, "loop", 0.0, b"", b"") for seq in left]
    return {
        "ns": ns,
        "checkpoints": [
            {
                "seq": row.seq,
                "id": row.id,
                "parent_seq": row.parent_seq,
                "branch": row.branch,
                "step": row.step,
                "source": row.source,
                "created_at": row.created_at,
                "meta": shown(row.meta, row.seq) if row.meta else None,
                "chains": shown(row.chains, row.seq) if row.meta else None,
                "changes": changes.get(row.seq, {}),
                "tasks": [{"id": task, "record": shown(data, row.seq)} for task, data in tasks.get(row.seq, ())],
            }
            for row in sorted((*tree.rows, *pruned), key=attrgetter("seq"))
        ],
    }


def imported(saver: ThreadKeeping, data: Any, thread: str | None) -> tuple[str, list[tuple[str, Commits, Tasks]]]:
    """The thread's id, and for each namespace what is to be written, in order."""
    if not isinstance(data, dict) or data.get("runwell_thread") != FORMAT:
        version = data.get("runwell_thread") if isinstance(data, dict) else None
        raise InvalidInput(
            f"import_thread() got {f'format {version!r}' if version else 'something'} that it does not know.",
            hint=f"It takes what export_thread() gives (format {FORMAT}), read with json.load if it was a file.",
        )
    try:
        return thread or data["thread_id"], [_space_rows(saver, space) for space in data["namespaces"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(
            f"import_thread() got data that does not hang together: {error!r}. Nothing was stored.",
            hint='Was the file edited? A value\'s type is written beside it, as in {"$bytes": ...}.',
        ) from error


def _space_rows(saver: ThreadKeeping, space: dict[str, Any]) -> tuple[str, Commits, Tasks]:
    seal = saver.serializer.seal
    commits: Commits = []
    tasks: Tasks = []
    ids: dict[int, str] = {}
    for each in space["checkpoints"]:
        row = CheckpointRow(
            seq=each["seq"],
            id=each["id"],
            parent_id=ids.get(each["parent_seq"]),
            parent_seq=each["parent_seq"],
            branch=each["branch"],
            step=each["step"],
            source=each["source"],
            created_at=float(each["created_at"]),
            chains=b"" if each["meta"] is None else seal(pack_json(each["chains"])),
            meta=b"" if each["meta"] is None else seal(pack_json(each["meta"])),
        )
        ids[row.seq] = row.id
        changes: list[tuple[str, int, bytes]] = []
        for channel, change in each["changes"].items():
            for kind, value in change.items():
                stored = seal(pack_json(value))
                number = _KINDS.index(kind)
                changes.append((channel, number or saver.kind_of_whole(stored), stored))
        commits.append((row, changes))
        for task in each["tasks"]:
            tasks.append((row.id, task["id"], seal(pack_json(task["record"])), 1))  # 1: it may wait with questions
    return space["ns"], commits, tasks
