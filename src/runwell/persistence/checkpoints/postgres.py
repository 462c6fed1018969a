"""Checkpoints in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self, TypeVar

from runwell.errors import InvalidConfig
from runwell.persistence.checkpoints import tables
from runwell.persistence.checkpoints.holds import gone
from runwell.persistence.checkpoints.lease import Lease
from runwell.persistence.checkpoints.rows import ChangeRow, CheckpointRow, QuestionRow, Tree, addressed
from runwell.persistence.checkpoints.saver import BaseCheckpointSaver
from runwell.persistence.databases.postgres import PostgresDatabase, fetch
from runwell.persistence.serialization.encryption import Cipher

if TYPE_CHECKING:
    import psycopg
    from psycopg_pool import ConnectionPool

__all__ = ["AsyncPostgresSaver", "PostgresSaver"]

T = TypeVar("T")

_NOW = "extract(epoch FROM clock_timestamp())::double precision"
_DATA = """CASE c.kind WHEN 3 THEN coalesce(
    (SELECT b.data FROM runwell_blobs b WHERE b.space = c.space AND b.digest = c.data), '') ELSE c.data END"""
_SPACE = "(SELECT space FROM runwell_threads WHERE thread = %s AND ns = %s)"
_CHECKPOINT = """SELECT c.seq, c.id, p.id, c.parent_seq, c.branch, c.step, c.source, c.created_at, c.chains, c.meta
    FROM runwell_checkpoints c
    LEFT JOIN runwell_checkpoints p ON p.space = c.space AND p.seq = c.parent_seq AND p.meta <> ''"""

# A commit is one statement, so one trip to the server: it is all done, or nothing is. Without the head that was
# expected, or without the fence, `moved` is empty, and with it everything after. A thread that was let go (until = 0)
# is not held anew by a save that was under way.
_FENCE = f"""fenced AS (
    UPDATE runwell_attempts SET until = CASE WHEN until > 0 THEN hold + {_NOW} ELSE 0 END
    WHERE thread = %(thread)s AND attempt = %(fence)s RETURNING 1
), """
_NEW = """moved AS (
    INSERT INTO runwell_threads (head, seq, thread, ns) SELECT %(id)s, %(seq)s, %(thread)s, %(ns)s {allowed}
    ON CONFLICT DO NOTHING RETURNING space
)"""
_ON = """moved AS (
    UPDATE runwell_threads SET head = %(id)s, seq = %(seq)s
    WHERE thread = %(thread)s AND ns = %(ns)s AND head = %(expect)s {allowed} RETURNING space
)"""
_REST = """, checkpoint AS (
    INSERT INTO runwell_checkpoints SELECT space, %(seq)s, %(id)s, %(parent_seq)s, %(branch)s, %(step)s, %(source)s,
        %(created_at)s, %(chains)s, %(meta)s FROM moved
), changes AS (
    INSERT INTO runwell_changes SELECT space, channel, %(seq)s, %(branch)s, kind, data
    FROM moved, unnest(%(channels)s::text[], %(kinds)s::int[], %(datas)s::bytea[]) AS c (channel, kind, data)
), blobs AS (
    INSERT INTO runwell_blobs SELECT space, digest, data
    FROM moved, unnest(%(digests)s::bytea[], %(blobs)s::bytea[]) AS b (digest, data) ON CONFLICT DO NOTHING
) SELECT space FROM moved"""
_COMMITS = {
    (new, fenced): "WITH "
    + (_FENCE if fenced else "")
    + (_NEW if new else _ON).format(
        allowed=(("WHERE" if new else "AND") + " EXISTS (SELECT FROM fenced)") if fenced else ""
    )
    + _REST
    for new in (True, False)
    for fenced in (True, False)
}


def _seconds(lease: Any) -> float:
    seconds = lease.total_seconds() if isinstance(lease, timedelta) else lease
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds >= 1:
        raise InvalidConfig(f"lease={lease!r}.", hint="Give seconds from 1 up, a timedelta, or None.")
    return float(seconds)


class PostgresSaver(BaseCheckpointSaver):
    """Keeps checkpoints in a PostgreSQL database (12 or newer), for any number of threads, processes and machines.

    `target` is a connection string, for which the saver keeps a pool of up to `max_connections`; or a
    `psycopg_pool.ConnectionPool` or `psycopg.Connection`, which stays yours to close. The tables are made at first use,
    or by `setup()`. They live in the connection's default schema (put `?options=-csearch_path%3Dmine` into the string
    for another), and their names begin with `runwell_`.

    A connection that died is replaced, and what was under way on it done again, without doing anything twice; while
    the server starts again, calls wait for up to 30 s. Only a connection that was given cannot be replaced.

    A saved step survives the death of this process, and of the server as its `synchronous_commit` says. `allow` lists
    classes of yours that may be saved and loaded, `ttl` forgets threads not written for so long (seconds or a
    timedelta), `encryption` encrypts what is stored of their values. From an event loop, as many threads as there may
    be connections do the waiting.

    `lease` is how long a run whose machine has died keeps its thread from others (seconds or a timedelta): each process
    renews the holds of its runs three times as often, all in one statement. None: 300 s from the run's last save.

    Raises StorageError (`.retryable` when it may pass by itself), at the first call that needs the server.
    """

    def __init__(
        self,
        target: str | ConnectionPool[Any] | psycopg.Connection[Any],
        *,
        max_connections: int = 8,
        allow: Iterable[type] = (),
        ttl: float | timedelta | None = None,
        encryption: Cipher | None = None,
        lease: float | timedelta | None = None,
    ) -> None:
        super().__init__(allow=allow, ttl=ttl, encryption=encryption, workers=max_connections)
        if lease is not None:
            if hasattr(target, "cursor"):
                raise InvalidConfig(
                    "PostgresSaver got a connection and a lease, which another thread would renew over it.",
                    hint="Pass a connection string or a pool.",
                )
            self._lease = Lease(_seconds(lease), self.write_renewals)
        self.database = PostgresDatabase(
            target,
            room=tables.ROOM,
            migrations=tables.POSTGRES,
            owner=type(self).__name__,
            max_connections=max_connections,
        )

    @classmethod
    def from_conn_string(cls, conn_string: str, **settings: Any) -> Self:
        """A saver with a pool of its own, for use in a `with` (or `async with`) block."""
        return cls(conn_string, **settings)

    def setup(self) -> None:
        """Make the tables, or bring them up to date. Needed only where the user that runs programs may not.

        On a connection of yours with an open transaction it belongs to that one, beside your own changes.
        """
        self.database.setup()

    async def asetup(self) -> None:
        await self._off_loop(self.setup)

    def close(self) -> None:
        """Close the pool (not one that was given). Harmless when repeated; later calls raise StorageError."""
        if self._lease is not None:
            self._lease.close()
        super().close()
        self.database.close()

    def read(self, work: Callable[[], T]) -> T:
        return self.database.run(lambda connection, again: work(), "snapshot")

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """All writes of this thread within it, or none; gives the connection for statements of your own."""
        try:
            with self.database.transaction() as connection:
                yield connection
        except BaseException:
            self._heads.clear()
            raise

    def locked(self, thread: str, ns: str, work: Callable[[], T]) -> T:
        def together(connection: psycopg.Connection[Any], again: bool) -> T:
            query = "SELECT space FROM runwell_threads WHERE thread = %s AND ns = %s FOR UPDATE"
            connection.execute(query, (thread, ns))
            return work()

        try:
            return self.database.run(together, "together")
        except BaseException:
            self._heads.clear()
            raise

    def _rows(self, query: str, *values: Any) -> list[Any]:
        return self.database.rows(query, *values)

    # -- reading

    def read_checkpoint(self, thread: str, ns: str, checkpoint_id: str | None) -> CheckpointRow | None:
        if checkpoint_id is None:
            which = "JOIN runwell_threads t ON t.space = c.space AND t.seq = c.seq WHERE t.thread = %s AND t.ns = %s"
            rows = self._rows(f"{_CHECKPOINT} {which}", thread, ns)
        else:
            which = f"WHERE c.space = {_SPACE} AND c.id = %s AND c.meta <> ''"
            rows = self._rows(f"{_CHECKPOINT} {which}", thread, ns, checkpoint_id)
        return CheckpointRow(*rows[0]) if rows else None

    def read_seq(self, thread: str, ns: str, seq: int) -> CheckpointRow | None:
        rows = self._rows(f"{_CHECKPOINT} WHERE c.space = {_SPACE} AND c.seq = %s", thread, ns, seq)
        return CheckpointRow(*rows[0]) if rows else None

    def read_checkpoints(self, thread: str, ns: str, before: int | None, limit: int | None) -> list[CheckpointRow]:
        which = f"WHERE c.space = {_SPACE} AND c.seq < %s AND c.meta <> '' ORDER BY c.seq DESC LIMIT %s"
        rows = self._rows(f"{_CHECKPOINT} {which}", thread, ns, 2**31 if before is None else before, limit)
        return list(map(CheckpointRow._make, rows))

    def read_changes(self, thread: str, ns: str, spans: Mapping[str, tuple[int, int]]) -> dict[str, list[ChangeRow]]:
        query = f"""SELECT c.channel, c.seq, c.branch, c.kind, {_DATA}
            FROM unnest(%s::text[], %s::int[], %s::int[]) AS s (channel, low, high)
            JOIN runwell_changes c ON c.space = {_SPACE} AND c.channel = s.channel AND c.seq BETWEEN s.low AND s.high
            ORDER BY c.channel, c.seq"""
        lows, highs = [low for low, _ in spans.values()], [high for _, high in spans.values()]
        found: dict[str, list[ChangeRow]] = {}
        for channel, seq, branch, kind, data in self._rows(query, list(spans), lows, highs, thread, ns):
            found.setdefault(channel, []).append((seq, branch, kind, data))
        return found

    def read_tasks(self, thread: str, ns: str, seqs: Sequence[int]) -> dict[int, list[tuple[str, bytes]]]:
        query = f"""SELECT seq, task, data FROM runwell_tasks
            WHERE space = {_SPACE} AND seq = ANY(%s) ORDER BY seq, place"""
        found: dict[int, list[tuple[str, bytes]]] = {}
        for seq, task, data in self._rows(query, thread, ns, list(seqs)) if seqs else ():
            found.setdefault(seq, []).append((task, data))
        return found

    def read_parts(
        self, thread: str, ns: str, spans: Mapping[str, tuple[int, int]], seqs: Sequence[int]
    ) -> tuple[dict[str, list[ChangeRow]], dict[int, list[tuple[str, bytes]]]]:
        # One way to the server instead of two.
        query = f"""WITH here AS (SELECT {_SPACE} AS space)
            SELECT c.kind, c.channel, c.seq, c.branch::bigint AS place, {_DATA}
            FROM unnest(%s::text[], %s::int[], %s::int[]) AS s (channel, low, high)
            JOIN runwell_changes c ON c.space = (SELECT space FROM here)
                AND c.channel = s.channel AND c.seq BETWEEN s.low AND s.high
            UNION ALL SELECT -1, task, seq, place, data FROM runwell_tasks
            WHERE space = (SELECT space FROM here) AND seq = ANY(%s) ORDER BY 3, 4"""
        lows, highs = [low for low, _ in spans.values()], [high for _, high in spans.values()]
        changes: dict[str, list[ChangeRow]] = {}
        tasks: dict[int, list[tuple[str, bytes]]] = {}
        for kind, name, seq, at, data in self._rows(query, thread, ns, list(spans), lows, highs, list(seqs)):
            if kind < 0:
                tasks.setdefault(seq, []).append((name, data))
            else:
                changes.setdefault(name, []).append((seq, at, kind, data))
        return changes, tasks

    def read_threads(self) -> list[str]:
        query = """SELECT t.thread FROM runwell_threads t JOIN runwell_checkpoints c USING (space, seq)
            GROUP BY t.thread ORDER BY max(c.created_at), max(t.space)"""
        return [thread for (thread,) in self._rows(query)]

    def read_namespaces(self, thread: str) -> list[str]:
        query = "SELECT ns FROM runwell_threads WHERE thread = %s ORDER BY ns"
        return [ns for (ns,) in self._rows(query, thread)]

    def read_questions(self, limit: int | None) -> list[QuestionRow]:
        query = """SELECT t.thread, c.id, c.created_at, k.task, k.data FROM runwell_tasks k
            JOIN runwell_threads t ON t.space = k.space AND t.seq = k.seq
            JOIN runwell_checkpoints c ON c.space = k.space AND c.seq = k.seq
            WHERE k.asks > 0 AND t.ns = '' ORDER BY c.created_at, t.thread, k.place LIMIT %s"""
        return [QuestionRow(*row) for row in self._rows(query, limit)]

    def read_tree(self, thread: str, ns: str) -> Tree:
        rows = self._rows(f"{_CHECKPOINT} WHERE c.space = {_SPACE} ORDER BY c.seq", thread, ns)
        query = f"SELECT channel, seq, branch FROM runwell_changes WHERE space = {_SPACE}"
        return Tree(list(map(CheckpointRow._make, rows)), self._rows(query, thread, ns))

    # -- writing

    def write_commit(
        self,
        thread: str,
        ns: str,
        expect_head: str | None,
        row: CheckpointRow,
        changes: Sequence[tuple[str, int, bytes]],
        fence: int | None,
    ) -> None:
        rows, blobs = addressed(changes)
        values = {
            "thread": thread,
            "ns": ns,
            "expect": expect_head,
            "fence": fence,
            "id": row.id,
            "seq": row.seq,
            "parent_seq": row.parent_seq,
            "branch": row.branch,
            "step": row.step,
            "source": row.source,
            "created_at": row.created_at,
            "chains": row.chains,
            "meta": row.meta,
            "channels": [channel for channel, _, _ in rows],
            "kinds": [kind for _, kind, _ in rows],
            "datas": [data for _, _, data in rows],
            "digests": list(blobs),
            "blobs": list(blobs.values()),
        }
        query = _COMMITS[expect_head is None, fence is not None]

        def work(connection: psycopg.Connection[Any], again: bool) -> None:
            from psycopg.errors import UniqueViolation

            try:
                if fetch(connection, query, values):
                    return
            except UniqueViolation as error:
                raise self.taken(thread, ns, row.id) from error
            if again and self._is_saved(connection, thread, ns, row):
                return  # the first try was done; only its answer was lost
            self._check_fence(connection, thread, fence)
            head = fetch(connection, "SELECT head FROM runwell_threads WHERE thread = %s AND ns = %s", (thread, ns))
            raise self.busy(thread, ns, expect_head, head[0][0] if head else None)

        self.database.run(work)

    def _is_saved(self, connection: psycopg.Connection[Any], thread: str, ns: str, row: CheckpointRow) -> bool:
        query = f"SELECT meta, chains FROM runwell_checkpoints WHERE space = {_SPACE} AND id = %s"
        return fetch(connection, query, (thread, ns, row.id)) == [(row.meta, row.chains)]

    def write_task(
        self, thread: str, ns: str, checkpoint_id: str, task_id: str, data: bytes, asks: int, fence: int | None
    ) -> None:
        allowed = "AND EXISTS (SELECT FROM fenced)" if fence is not None else ""
        query = f"""{"WITH " + _FENCE.rstrip(", ") if fence is not None else ""}
            INSERT INTO runwell_tasks (space, seq, task, data, asks)
            SELECT c.space, c.seq, %(task)s, %(data)s, %(asks)s FROM runwell_checkpoints c
                JOIN runwell_threads t ON t.space = c.space
                WHERE t.thread = %(thread)s AND t.ns = %(ns)s AND c.id = %(id)s {allowed}
            ON CONFLICT (space, seq, task) DO UPDATE SET data = excluded.data, asks = excluded.asks RETURNING seq"""
        values = {"thread": thread, "ns": ns, "id": checkpoint_id, "task": task_id, "data": data, "asks": asks}

        def work(connection: psycopg.Connection[Any], again: bool) -> None:
            if not fetch(connection, query, {**values, "fence": fence}):
                self._check_fence(connection, thread, fence)
                raise self.no_checkpoint(thread, ns, checkpoint_id)

        self.database.run(work)

    def remove_thread(self, thread: str) -> None:
        query = """WITH attempt AS (DELETE FROM runwell_attempts WHERE thread = %s)
            DELETE FROM runwell_threads WHERE thread = %s"""
        self._rows(query, thread, thread)

    # -- who runs a thread

    def _check_fence(self, connection: psycopg.Connection[Any], thread: str, fence: int | None) -> None:
        if fence is not None:
            found = fetch(connection, "SELECT attempt FROM runwell_attempts WHERE thread = %s", (thread,))
            if not found or found[0][0] != fence:
                raise self.lost(thread, fence, found[0][0] if found else None)

    def write_take(self, thread: str, holder: str, hold_s: float, force: bool) -> int:
        # Taken when it is new, free or ours (a first try whose answer was lost), or still as it was when looked at.
        query = f"""INSERT INTO runwell_attempts AS a VALUES (%s, nextval('runwell_attempt'), %s, %s, {_NOW} + %s)
            ON CONFLICT (thread) DO UPDATE SET (attempt, holder, hold, until)
                = ROW (excluded.attempt, excluded.holder, excluded.hold, excluded.until)
            WHERE a.until <= {_NOW} OR a.holder = excluded.holder OR a.holder = %s OR %s RETURNING attempt"""
        look = f"SELECT holder, until - {_NOW} FROM runwell_attempts WHERE thread = %s"

        def work(connection: psycopg.Connection[Any], again: bool) -> int:
            ended = ""
            while True:
                taken = fetch(connection, query, (thread, holder, hold_s, hold_s, ended, force))
                if taken:
                    attempt: int = taken[0][0]
                    return attempt
                for other, left in fetch(connection, look, (thread,)):
                    if other == ended or not gone(other):
                        raise self.held(thread, left)
                    ended = other

        return self.database.run(work)

    def write_release(self, thread: str, attempt: int) -> None:
        self._rows("UPDATE runwell_attempts SET until = 0 WHERE thread = %s AND attempt = %s", thread, attempt)

    def write_renewals(self, held: list[tuple[str, int]]) -> None:
        """Hold threads, each by the attempt that has it, for as long again."""
        query = f"""UPDATE runwell_attempts a SET until = a.hold + {_NOW}
            FROM unnest(%s::text[], %s::bigint[]) AS h (thread, attempt)
            WHERE a.thread = h.thread AND a.attempt = h.attempt AND a.until > 0"""
        threads, attempts = zip(*held, strict=True)
        self._rows(query, list(threads), list(attempts))

    # -- whole threads

    def copy_rows(self, source: str, target: str) -> None:
        with self.transaction() as connection:
            query = """INSERT INTO runwell_threads (thread, ns, head, seq)
                SELECT %s, ns, head, seq FROM runwell_threads WHERE thread = %s"""
            connection.execute(query, (target, source))
            for table, columns in _COPIED.items():
                chosen = ", ".join(f"c.{column}" for column in columns.split(", "))
                query = f"""INSERT INTO runwell_{table} (space, {columns}) SELECT n.space, {chosen}
                    FROM runwell_{table} c JOIN runwell_threads o USING (space)
                    JOIN runwell_threads n ON n.ns = o.ns WHERE o.thread = %s AND n.thread = %s"""
                if table == "tasks":
                    query += " ORDER BY c.seq, c.place"
                connection.execute(query, (source, target))

    def remove_rows(
        self, thread: str, ns: str, drop: Sequence[int], hide: Sequence[int], changes: Sequence[tuple[str, int]]
    ) -> None:
        with self.transaction() as connection:
            space = fetch(connection, "SELECT space FROM runwell_threads WHERE thread = %s AND ns = %s", (thread, ns))[
                0
            ][0]
            delete = "DELETE FROM runwell_{} WHERE space = %s AND seq = ANY(%s)"
            connection.execute(delete.format("tasks"), (space, [*drop, *hide]))
            connection.execute(delete.format("checkpoints"), (space, list(drop)))
            empty = "UPDATE runwell_checkpoints SET meta = '', chains = '' WHERE space = %s AND seq = ANY(%s)"
            connection.execute(empty, (space, list(hide)))
            query = """DELETE FROM runwell_changes c USING unnest(%s::text[], %s::int[]) AS d (channel, seq)
                WHERE c.space = %s AND c.channel = d.channel AND c.seq = d.seq"""
            connection.execute(query, ([channel for channel, _ in changes], [seq for _, seq in changes], space))
            query = """DELETE FROM runwell_blobs b WHERE space = %s AND NOT EXISTS
                (SELECT FROM runwell_changes c WHERE c.space = b.space AND c.kind = 3 AND c.data = b.digest)"""
            connection.execute(query, (space,))

    def remove_namespace(self, thread: str, ns: str) -> None:
        self._rows("DELETE FROM runwell_threads WHERE thread = %s AND ns = %s", thread, ns)

    def remove_idle(self, before: float) -> list[str]:
        query = """SELECT t.thread FROM runwell_threads t JOIN runwell_checkpoints c USING (space, seq)
            GROUP BY t.thread HAVING max(c.created_at) < %s"""
        with self.transaction():
            idle = [thread for (thread,) in self._rows(query, before)]
            # A run that writes to one of them meanwhile locks its row: look once more, now that it is ours.
            lock = "SELECT space FROM runwell_threads WHERE thread = ANY(%s) FOR UPDATE"
            self._rows(lock, idle)
            still = {thread for (thread,) in self._rows(query, before)}
            idle = [thread for thread in idle if thread in still]
            for thread in idle:
                self.remove_thread(thread)
            return idle


_COPIED = {
    "checkpoints": "seq, id, parent_seq, branch, step, source, created_at, chains, meta",
    "changes": "channel, seq, branch, kind, data",
    "blobs": "digest, data",
    "tasks": "seq, task, data, asks",
}

AsyncPostgresSaver = PostgresSaver
"""The same: every saver works in both colours."""
