"""The PostgreSQL saver on a real server: dying connections, a server that restarts, kills, connections given to it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import psycopg_pool
import pytest

from runwell.errors import InvalidConfig, InvalidInput, StorageError, ThreadBusy
from runwell.messages import AIMessage, HumanMessage
from runwell.persistence import AsyncPostgresSaver, PostgresSaver
from runwell.persistence.checkpoints import tables
from runwell.persistence.databases import postgres as postgres_module
from runwell.ports.saver import GONE, Commit, TaskRecord
from runwell.testing.postgres import PostgresServer

pytestmark = pytest.mark.integration


@pytest.fixture
def saver(postgres_url: str) -> Iterator[PostgresSaver]:
    with PostgresSaver(postgres_url) as made:
        yield made


def step(number: int, old: Any, new: Any, thread: str = "t") -> Commit:
    """The `number`th commit of a thread, from 0, each on the one before."""
    parent = None if number == 0 else f"c{number - 1}"
    return Commit(f"c{number}", thread, "", parent, parent, number, float(number), "loop", {"messages": (old, new)}, [])


def talk(saver: PostgresSaver, turns: int, start: Any = GONE, thread: str = "t", number: int = 0) -> list[Any]:
    messages = start
    for turn in range(turns):
        for message in (HumanMessage(f"question {turn}", id=os.urandom(8).hex()), AIMessage("yes", id="a")):
            new = [message] if messages is GONE else [*messages, message]
            saver.commit(step(number, messages, new, thread))
            messages, number = new, number + 1
    return messages  # type: ignore[no-any-return]


def values(saver: PostgresSaver, thread: str = "t") -> Any:
    loaded = saver.load(thread)
    assert loaded is not None
    return loaded.values["messages"]


# -- connections that die


MINE = "application_name = current_setting('application_name') AND pid <> pg_backend_pid()"
"""The server's other sessions that were opened with the same connection string."""


def cut(url: str) -> int:
    """End every session of a saver's on the server's side; gives how many there were."""
    with psycopg.connect(url, autocommit=True) as admin:
        found = admin.execute(f"SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE {MINE}").fetchall()
        ended = [pid for pid, _ in found]
        while admin.execute("SELECT 1 FROM pg_stat_activity WHERE pid = ANY(%s)", (ended,)).fetchall():
            pass  # asking is quicker than letting the server wait, which looks ten times a second
        return len(ended)


def test_run_17_a_dropped_connection_is_replaced(postgres_url: str, saver: PostgresSaver) -> None:
    messages = talk(saver, 1)
    for number in range(2, 6):
        assert cut(postgres_url) >= 1
        new = [*messages, HumanMessage(f"{number}", id=f"{number}")]
        saver.commit(step(number, messages, new))
        messages = new
        cut(postgres_url)
        saver.save_task("t", "", f"c{number}", TaskRecord("t1", "x", done=True))
        cut(postgres_url)
        assert values(saver) == messages
        cut(postgres_url)
        assert [each.step for each in saver.history("t")] == list(range(number, -1, -1))


def test_run_17_all_connections_of_a_pool_may_have_died(postgres_url: str, saver: PostgresSaver) -> None:
    gate = threading.Barrier(6)

    def one(name: str) -> None:
        with saver.transaction():
            gate.wait()
            saver.commit(step(0, GONE, ["x"], name))

    workers = [threading.Thread(target=one, args=(f"t{n}",)) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert cut(postgres_url) >= 6
    for n in range(6):
        saver.commit(step(1, ["x"], ["x", "y"], f"t{n}"))
    assert [values(saver, f"t{n}") for n in range(6)] == [["x", "y"]] * 6


def test_run_17_connections_may_die_one_after_the_other_as_each_is_tried(
    postgres_url: str, saver: PostgresSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of a server that is stopping do."""
    messages = talk(saver, 1)
    real, died = postgres_module.PostgresDatabase._within, []

    def dying(self: Any, connection: Any, *arguments: Any) -> Any:
        if len(died) < 3:
            died.append(connection.info.backend_pid)
            with psycopg.connect(postgres_url, autocommit=True) as admin:
                admin.execute("SELECT pg_terminate_backend(%s, 5000)", (died[-1],))
        return real(self, connection, *arguments)

    monkeypatch.setattr(postgres_module.PostgresDatabase, "_within", dying)
    saver.commit(step(2, messages, [*messages, "more"]))
    assert len(set(died)) == 3
    assert values(saver) == [*messages, "more"]


class Lossy:
    """Lets a statement through, and loses the connection before its answer arrives."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
        self.lost = 0
        real = postgres_module.fetch

        def fetch(connection: Any, query: str, given: Any) -> list[Any]:
            rows = real(connection, query, given)
            if word in query and self.lost == 0:
                self.lost += 1
                connection.close()
                raise psycopg.OperationalError("the connection is lost")
            return rows

        for module in (postgres_module, sys.modules["runwell.persistence.checkpoints.postgres"]):
            monkeypatch.setattr(module, "fetch", fetch)


def test_run_17_a_save_whose_answer_was_lost_is_not_done_twice(
    saver: PostgresSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = talk(saver, 1)
    lossy = Lossy(monkeypatch, "INSERT INTO runwell_checkpoints")
    saver.commit(step(2, messages, [*messages, "more"]))
    assert lossy.lost == 1
    assert [each.id for each in saver.history("t")] == ["c2", "c1", "c0"]
    with pytest.raises(ThreadBusy):  # the same again is another save, and comes too late
        saver.commit(step(2, messages, [*messages, "more"]))
    saver.commit(step(3, [*messages, "more"], [*messages, "more", "x"]))


def test_run_17_taking_a_thread_whose_answer_was_lost_does_not_lock_oneself_out(
    saver: PostgresSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    lossy = Lossy(monkeypatch, "INSERT INTO runwell_attempts")
    attempt = saver.take("t")
    assert lossy.lost == 1
    with pytest.raises(ThreadBusy):
        saver.take("t")
    saver.release("t", attempt)
    saver.release("t", saver.take("t"))


@pytest.mark.slow
def test_run_17_a_server_that_stops_and_starts_in_the_middle_is_waited_for() -> None:
    with PostgresServer() as server:
        if not server.own:
            pytest.skip("the server that was named is not ours to stop")
        with PostgresSaver(server.new_schema()) as saver:
            messages = talk(saver, 3)
            server.stop()
            starter = threading.Thread(target=server.start)
            starter.start()
            saver.commit(step(6, messages, [*messages, "after"]))
            starter.join()
            assert values(saver) == [*messages, "after"]
            server.stop()
            starter = threading.Thread(target=server.start)
            starter.start()
            assert asyncio.run(saver.aload("t")) == saver.load("t")
            starter.join()


def test_a_server_that_is_not_there_is_named_and_worth_a_retry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(postgres_module, "WAIT_S", 0.2)
    saver = PostgresSaver(f"postgresql://me:secret@/db?host={tmp_path}")
    with saver, pytest.raises(StorageError, match="No connection") as caught:
        saver.load("t")
    assert caught.value.retryable
    assert "secret" not in str(caught.value)


# -- making the tables


def test_run_18_set_up_works_inside_a_transaction_and_goes_with_it(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE mine (x int)")
        saver = PostgresSaver(connection)
        saver.setup()
        saver.commit(step(0, GONE, ["x"]))
        assert values(saver) == ["x"]
        connection.rollback()
        query = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()"
        assert connection.execute(query).fetchone() == (0,)
        connection.rollback()
        saver.commit(step(0, GONE, ["y"]))  # by itself: kept
        saver.close()
    with PostgresSaver(postgres_url) as other:
        assert values(other) == ["y"]


def test_ckpt_16_tables_of_a_newer_runwell_say_upgrade(postgres_url: str, saver: PostgresSaver) -> None:
    talk(saver, 1)
    saver._rows("UPDATE runwell_schema SET version = 99")
    with pytest.raises(StorageError, match="upgrade"), PostgresSaver(postgres_url) as other:
        other.load("t")


def test_ckpt_16_tables_of_an_older_runwell_are_brought_up_to_date(
    postgres_url: str, saver: PostgresSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = talk(saver, 1)
    longer = (*tables.POSTGRES, ("ALTER TABLE runwell_threads ADD COLUMN note TEXT",))
    monkeypatch.setattr(tables, "POSTGRES", longer)
    with PostgresSaver(postgres_url) as newer:
        assert values(newer) == messages
        assert newer._rows("SELECT note FROM runwell_threads") == [(None,)]


def test_many_processes_may_make_the_tables_at_once(postgres_url: str) -> None:
    savers = [PostgresSaver(postgres_url) for _ in range(6)]
    failed: list[BaseException] = []

    def use(each: PostgresSaver, name: str) -> None:
        try:
            talk(each, 1, thread=name)
        except BaseException as error:
            failed.append(error)

    workers = [threading.Thread(target=use, args=(each, f"t{n}")) for n, each in enumerate(savers)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failed == []
    assert len(savers[0].threads()) == 6
    for each in savers:
        each.close()


# -- what it is given


def test_a_pool_that_was_given_is_used_and_left_open(postgres_url: str) -> None:
    from psycopg.rows import dict_row

    kwargs = {"row_factory": dict_row}  # and connections that begin transactions by themselves
    with psycopg_pool.ConnectionPool(postgres_url, kwargs=kwargs, min_size=1, max_size=2, open=True) as pool:
        with PostgresSaver(pool) as saver:
            messages = talk(saver, 2)
            assert values(saver) == messages
            with saver.transaction() as connection:
                connection.execute("CREATE TABLE mine (x int)")
        with pool.connection() as connection:
            assert connection.execute("SELECT count(*) AS n FROM mine").fetchone() == {"n": 0}


def test_a_programs_own_row_is_kept_together_with_a_checkpoint(postgres_url: str, saver: PostgresSaver) -> None:
    with saver.transaction() as connection:
        connection.execute("CREATE TABLE runs (id text, status text)")
        connection.execute("INSERT INTO runs VALUES ('r1', 'running')")
    with pytest.raises(ZeroDivisionError), saver.transaction() as connection:
        connection.execute("UPDATE runs SET status = 'done'")
        saver.commit(step(0, GONE, ["x"]))
        raise ZeroDivisionError
    assert saver.load("t") is None
    assert saver._rows("SELECT status FROM runs") == [("running",)]
    with saver.transaction() as connection:
        connection.execute("UPDATE runs SET status = 'done'")
        saver.commit(step(0, GONE, ["x"]))
    assert values(saver) == ["x"]
    assert saver._rows("SELECT status FROM runs") == [("done",)]


def test_bad_targets_are_refused_at_once_without_showing_a_password() -> None:
    for bad in ("nonsense secret", "postgresql://me:secret@[::1/x", 5, None):
        with pytest.raises(InvalidConfig) as caught:
            PostgresSaver(bad)  # type: ignore[arg-type]
        assert "secret" not in str(caught.value.hint)


def test_an_id_that_postgresql_cannot_hold_is_refused(saver: PostgresSaver) -> None:
    with pytest.raises(InvalidInput, match="zero character"):
        saver.load("a\x00b")
    with pytest.raises(InvalidInput, match="zero character"):
        saver.commit(step(0, GONE, ["x"], "a\x00b"))
    saver.commit(step(0, GONE, ["x\x00y \ud800"]))
    assert values(saver) == ["x\x00y \ud800"]


def test_a_closed_saver_says_so(postgres_url: str) -> None:
    saver = AsyncPostgresSaver.from_conn_string(postgres_url)
    talk(saver, 1)
    saver.close()
    saver.close()
    with pytest.raises(StorageError, match="closed"):
        saver.load("t")


def test_many_calls_from_an_event_loop_share_the_pool(saver: PostgresSaver) -> None:
    async def use() -> None:
        await asyncio.gather(*(saver.acommit(step(0, GONE, [n], f"t{n}")) for n in range(50)))
        loaded = await asyncio.gather(*(saver.aload(f"t{n}") for n in range(50)))
        assert [each.values["messages"] for each in loaded if each is not None] == [[n] for n in range(50)]

    asyncio.run(use())


# -- several processes, and death


CHILD = """
import os, sys
sys.path.insert(0, {tests!r})
from test_postgres import HumanMessage, PostgresSaver, TaskRecord, GONE, step
saver = PostgresSaver({url!r})
messages, number = GONE, 0
attempt = saver.take("t")
while True:
    message = HumanMessage(f"{{number}} " + "x" * (number % 7 * 500), id=str(number))
    new = [message] if messages is GONE else [*messages, message]
    commit = step(number, messages, new)
    commit.fence = attempt
    saver.commit(commit)
    saver.save_task("t", "", f"c{{number}}", TaskRecord("t1", "m", done=True, writes=[("n", number)]), fence=attempt)
    messages, number = new, number + 1
    os.write(1, b"%d\\n" % (number - 1))
"""


@pytest.mark.parametrize("after", [1, 60])
def test_kill_9_loses_nothing_that_was_acknowledged_and_leaves_no_half_state(postgres_url: str, after: int) -> None:
    code = CHILD.format(tests=str(Path(__file__).parent), url=postgres_url)
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert child.stdout is not None
    acknowledged = 0
    with child.stdout as lines:
        for line in lines:
            acknowledged = int(line)
            if acknowledged >= after:
                break
        child.send_signal(signal.SIGKILL)
        for line in lines:
            if line.endswith(b"\n"):
                acknowledged = int(line)
    assert child.wait() == -signal.SIGKILL
    with PostgresSaver(postgres_url) as saver:
        attempt = saver.take("t")  # at once, though it was held: its process is gone
        listed = saver.history("t")
        assert acknowledged <= listed[0].step <= acknowledged + 1
        assert [each.step for each in listed] == list(range(listed[0].step, -1, -1))
        for each in listed:
            assert [message.id for message in each.values["messages"]] == [str(n) for n in range(each.step + 1)]
            if each.step <= acknowledged:
                assert each.tasks == [TaskRecord("t1", "m", done=True, writes=[("n", each.step)])]
        last = listed[0].values["messages"]
        commit = step(len(last), last, [*last, HumanMessage("and on")])
        commit.fence = attempt
        saver.commit(commit)


def test_run_19_of_two_processes_on_one_checkpoint_one_is_refused(postgres_url: str, saver: PostgresSaver) -> None:
    saver.commit(step(0, GONE, ["x"]))
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_postgres import *
with PostgresSaver({postgres_url!r}) as saver:
    old = values(saver)
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        saver.commit(step(1, old, [*old, "mine"]))
        print("saved")
    except ThreadBusy:
        print("busy")
"""
    children = [
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    assert sorted(child.communicate()[0].strip() for child in children) == ["busy", "saved"]
    assert len(saver.history("t")) == 2


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_does_not_use_the_parents_connections(saver: PostgresSaver) -> None:
    messages = talk(saver, 1)
    child = os.fork()
    if child == 0:  # pragma: no cover  # in another process
        code = 1
        try:
            talk(saver, 1, messages, number=2)
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    with pytest.raises(ThreadBusy):
        talk(saver, 1, messages, number=2)
    assert len(saver.history("t")) == 4


def test_a_program_that_forgets_to_close_ends_quietly(postgres_url: str) -> None:
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_postgres import *
saver = PostgresSaver({postgres_url!r})
talk(saver, 1)
print(len(asyncio.run(saver.ahistory("t"))))
"""
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("2\n", "", 0)
    assert time.monotonic() - begun < 20
