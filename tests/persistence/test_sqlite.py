"""The SQLite saver as a file: what is written, what survives a kill, and what happens to a file that is not right."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runwell.errors import CheckpointCorrupt, InvalidConfig, StorageError, ThreadBusy
from runwell.messages import AIMessage, HumanMessage
from runwell.persistence import AesEncryption, AsyncSqliteSaver, SqliteSaver
from runwell.persistence.checkpoints import tables
from runwell.persistence.databases import sqlite as sqlite_module
from runwell.ports.saver import GONE, Commit, TaskRecord


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "threads.sqlite"


@pytest.fixture
def saver(path: Path) -> Iterator[SqliteSaver]:
    with SqliteSaver(path) as made:
        yield made


def step(number: int, old: Any, new: Any, thread: str = "t") -> Commit:
    """The `number`th commit of a thread, from 0, each on the one before."""
    parent = None if number == 0 else f"c{number - 1}"
    return Commit(
        id=f"c{number}",
        thread_id=thread,
        ns="",
        parent_id=parent,
        expect_head=parent,
        step=number,
        created_at=float(number),
        source="loop",
        changes={"messages": (old, new)},
        next=[],
    )


def talk(
    saver: SqliteSaver, turns: int, start: list[Any] | None = None, thread: str = "t", number: int = 0
) -> list[Any]:
    """Two commits a turn, as a chat makes them: the question, then the answer."""
    messages: Any = start if start is not None else GONE
    for turn in range(turns):
        for message in (
            HumanMessage(f"question {turn} " + "about the weather " * 8, id=os.urandom(16).hex()),
            AIMessage(f"answer {turn} " + "it will be fine " * 20, id=os.urandom(16).hex()),
        ):
            new = [message] if messages is GONE else [*messages, message]
            saver.commit(step(number, messages, new, thread))
            messages, number = new, number + 1
    return messages  # type: ignore[no-any-return]


def stored_bytes(path: Path) -> int:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    return path.stat().st_size


# -- what is written


def test_a_conversation_grows_the_file_linearly(path: Path, saver: SqliteSaver) -> None:
    empty = stored_bytes(path)
    messages = talk(saver, 100)
    half = stored_bytes(path)
    messages = talk(saver, 100, messages, number=200)
    first, second = half - empty, stored_bytes(path) - half
    assert second <= 1.15 * first
    loaded = saver.load("t")
    assert loaded is not None
    assert loaded.values == {"messages": messages}


def test_one_more_turn_on_a_long_thread_writes_little(path: Path, saver: SqliteSaver) -> None:
    history = [HumanMessage(f"message {n} " + "x" * 200, id=f"m{n}") for n in range(2000)]
    saver.commit(step(0, GONE, history))
    before = stored_bytes(path)
    talk(saver, 5, history, number=1)
    assert (stored_bytes(path) - before) / 5 <= 4096


def test_nothing_of_history_is_deleted_by_going_on(saver: SqliteSaver) -> None:
    messages = talk(saver, 10)
    assert [each.values["messages"] for each in saver.history("t")] == [messages[:n] for n in range(20, 0, -1)]


def test_an_equal_value_is_stored_once_in_a_thread_however_often_it_is_set(path: Path, saver: SqliteSaver) -> None:
    def set_to(number: int, **values: Any) -> None:
        commit = step(number, GONE, GONE)
        commit.changes = {key: (GONE, value) for key, value in values.items()}
        saver.commit(commit)

    pages = [f"page {n} " * 3000 for n in range(2)]
    set_to(0, page=pages[0])
    set_to(1, page=pages[1])
    before = stored_bytes(path)
    for number in range(2, 22):
        set_to(number, page=pages[number % 2], **{f"copy {number}": pages[0]})
    assert (stored_bytes(path) - before) / 20 < 2048
    assert [each.values["page"] for each in saver.history("t", limit=2)] == [pages[1], pages[0]]
    assert saver._rows("SELECT count(*) FROM runwell_blobs") == [(2,)]
    saver.prune(keep=1)
    set_to(22, page="short", **{f"copy {number}": "short" for number in range(2, 22)})
    saver.prune(keep=1)
    assert saver._rows("SELECT count(*) FROM runwell_blobs") == [(0,)]


def test_a_long_value_that_is_missing_names_thread_and_checkpoint(saver: SqliteSaver) -> None:
    saver.commit(step(0, GONE, "long " * 1000))
    saver._rows("DELETE FROM runwell_blobs")
    with pytest.raises(CheckpointCorrupt, match=r"thread 't'.*checkpoint 'c0'.*key 'messages'"):
        saver.load("t")


def test_encrypted_values_are_not_compared(tmp_path: Path) -> None:
    with SqliteSaver(tmp_path / "x", encryption=AesEncryption(AesEncryption.new_key())) as saver:
        saver.commit(step(0, GONE, "long " * 1000))
        assert saver._rows("SELECT count(*) FROM runwell_blobs") == [(0,)]
        loaded = saver.load("t")
        assert loaded is not None
        assert loaded.values["messages"] == "long " * 1000


def test_threads_lists_the_most_recently_written_last(saver: SqliteSaver) -> None:
    talk(saver, 1, thread="b")
    talk(saver, 2, thread="a")
    assert saver.threads() == ["b", "a"]


def selects(saver: SqliteSaver, work: Callable[[], Any]) -> int:
    """How many times the database is asked for something meanwhile."""
    asked: list[str] = []
    assert saver.file.connection is not None
    saver.file.connection.set_trace_callback(asked.append)
    work()
    saver.file.connection.set_trace_callback(None)
    return len([query for query in asked if query.lstrip().startswith("SELECT")])


def test_reading_takes_two_queries_for_the_newest_state_and_a_few_for_all_of_them(saver: SqliteSaver) -> None:
    messages = talk(saver, 30)
    saver.save_task("t", "", "c59", TaskRecord("t2", "model", done=True, writes=[("n", 1)]))
    saver.save_task("t", "", "c59", TaskRecord("t1", "model", done=True, writes=[("n", 1)]))
    assert selects(saver, lambda: saver.load("t")) == 2
    assert selects(saver, lambda: saver.history("t")) <= 3
    loaded = saver.load("t")
    assert loaded is not None
    assert loaded.values == {"messages": messages}
    assert [task.task_id for task in loaded.tasks] == ["t2", "t1"]


# -- opening


def test_it_opens_again_with_everything(path: Path) -> None:
    with SqliteSaver(path) as saver:
        messages = talk(saver, 3)
        saver.save_task("t", "", "c5", TaskRecord("t1", "model", done=True, writes=[("n", 1)]))
    with SqliteSaver(str(path)) as saver:
        loaded = saver.load("t")
        assert loaded is not None
        assert loaded.values == {"messages": messages}
        assert loaded.tasks == [TaskRecord("t1", "model", done=True, writes=[("n", 1)])]
        talk(saver, 1, messages, number=6)


def test_the_file_is_in_wal_mode_with_the_chosen_durability(tmp_path: Path) -> None:
    for setting, number in (("normal", 1), ("full", 2)):
        with SqliteSaver(tmp_path / setting, synchronous=setting) as saver:  # type: ignore[arg-type]
            assert saver._rows("PRAGMA journal_mode") == [("wal",)]
            assert saver._rows("PRAGMA synchronous") == [(number,)]
            assert saver._rows("PRAGMA foreign_keys") == [(1,)]
    with pytest.raises(InvalidConfig, match="'off'"):
        SqliteSaver(tmp_path / "x", synchronous="off")  # type: ignore[arg-type]
    assert not (tmp_path / "x").exists()


def test_from_conn_string_gives_the_saver_in_a_with_block(path: Path) -> None:
    with SqliteSaver.from_conn_string(str(path)) as saver:
        talk(saver, 1)
    with pytest.raises(StorageError, match="closed"):
        saver.load("t")
    saver.close()

    async def use() -> int:
        async with AsyncSqliteSaver.from_conn_string(str(path)) as again:
            loaded = await again.aload("t")
            assert loaded is not None
            return len(loaded.values["messages"])

    assert asyncio.run(use()) == 2


def test_a_connection_that_was_given_stays_open(path: Path) -> None:
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    with SqliteSaver(connection) as saver:
        talk(saver, 2)
        assert len(saver.history("t")) == 4
    assert connection.execute("SELECT count(*) FROM runwell_checkpoints").fetchone()[0] == 4
    connection.execute("CREATE TABLE mine (x)")
    connection.execute("INSERT INTO mine VALUES (1)")  # opens a transaction, in Python's default mode
    with pytest.raises(StorageError, match="open transaction"):
        SqliteSaver(connection)
    connection.close()


def test_a_connection_of_one_thread_says_what_to_do_in_another(path: Path) -> None:
    connection = sqlite3.connect(path)
    saver = SqliteSaver(connection)
    found: list[BaseException] = []

    def use() -> None:
        try:
            saver.load("t")
        except StorageError as error:
            found.append(error)

    worker = threading.Thread(target=use)
    worker.start()
    worker.join()
    assert "check_same_thread=False" in str(found[0])
    saver.close()
    connection.close()


def test_our_tables_live_beside_others(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE checkpoints (thread_id TEXT); INSERT INTO checkpoints VALUES ('theirs');")
    connection.close()
    with SqliteSaver(path) as saver:
        talk(saver, 1)
        assert saver._rows("SELECT * FROM checkpoints") == [("theirs",)]


# -- files that are not right


def test_a_file_that_is_not_sqlite_is_refused_and_left_alone(path: Path) -> None:
    for content in (b"these are my notes\n" * 100, b"short", b"\x00" * 5000):
        path.write_bytes(content)
        with pytest.raises(StorageError) as caught:
            SqliteSaver(path)
        assert str(path) in str(caught.value)
        assert "Give another path" in str(caught.value)
        assert path.read_bytes() == content
        assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("where", ["missing/dir/threads.sqlite", "."])
def test_a_path_that_cannot_be_opened_is_named(tmp_path: Path, where: str) -> None:
    with pytest.raises(StorageError, match="directory") as caught:
        SqliteSaver(tmp_path / where)
    assert str(tmp_path) in str(caught.value)


def test_an_empty_path_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=":memory:"):
        SqliteSaver("")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to read-only files")
def test_a_read_only_file_is_named(path: Path) -> None:
    SqliteSaver(path).close()
    path.chmod(0o400)
    with pytest.raises(StorageError, match="writable"), SqliteSaver(path) as saver:
        talk(saver, 1)


def test_a_damaged_file_is_an_error_that_names_it_and_changes_nothing(path: Path) -> None:
    with SqliteSaver(path) as saver:
        talk(saver, 50)
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[4096 * 2 :] = os.urandom(len(whole) - 4096 * 2)
    path.write_bytes(damaged)
    with pytest.raises(CheckpointCorrupt) as caught, SqliteSaver(path) as saver:
        saver.load("t")
    assert str(path) in str(caught.value)
    assert "backup" in str(caught.value)
    assert path.read_bytes() == damaged


def test_a_damaged_row_names_thread_and_checkpoint_and_gives_no_half_state(path: Path, saver: SqliteSaver) -> None:
    messages = talk(saver, 3)
    other = sqlite3.connect(path)
    for query in (
        "UPDATE runwell_changes SET data = substr(data, 1, 20) WHERE seq = 4",
        "UPDATE runwell_changes SET data = x'00' WHERE seq = 4",
        "DELETE FROM runwell_changes WHERE seq = 4",
        "DELETE FROM runwell_changes WHERE seq = 1",
        "UPDATE runwell_changes SET kind = 9 WHERE seq = 4",
        "UPDATE runwell_checkpoints SET meta = x'0102' WHERE seq = 6",
        "UPDATE runwell_checkpoints SET chains = x'' WHERE seq = 6",
    ):
        with sqlite3.connect(":memory:") as copy:
            other.backup(copy)
            copy.execute(query)
            copy.commit()
            hurt = SqliteSaver(copy)
            for read in (hurt.load, hurt.history):
                with pytest.raises(CheckpointCorrupt) as caught:
                    read("t")
                assert "thread 't'" in str(caught.value), query
                assert "'c5'" in str(caught.value) or read == hurt.history, query
            if "DELETE" not in query:  # what is not there is noticed by whoever reads the thread that is made of it
                with pytest.raises(CheckpointCorrupt, match=r"thread 't', checkpoint 'c\d'"):
                    hurt.export_thread("t")
            if "seq = 4" in query:  # what came before is still whole
                found = hurt.load("t", checkpoint_id="c2")
                assert found is not None
                assert found.values == {"messages": messages[:3]}
            hurt.close()
        copy.close()
    other.close()


def test_a_missing_change_is_noticed_even_when_the_length_is_right(saver: SqliteSaver) -> None:
    values: Any = {"a": [1], "b": [2]}
    saver.commit(step(0, GONE, values))
    for number in (1, 2):
        saver.commit(step(number, values, values := {**values, "b": [number]}))
    saver._rows("DELETE FROM runwell_changes WHERE seq = 2")
    with pytest.raises(CheckpointCorrupt, match="2 of the 3"):
        saver.load("t")


def test_ckpt_16_a_file_of_a_newer_runwell_says_upgrade_and_is_left_alone(path: Path) -> None:
    with SqliteSaver(path) as saver:
        talk(saver, 1)
        saver._rows("UPDATE runwell_schema SET version = 99")
    before = path.read_bytes()
    with pytest.raises(StorageError, match="upgrade"):
        SqliteSaver(path)
    assert path.read_bytes() == before


def test_ckpt_16_a_file_of_an_older_runwell_is_brought_up_to_date(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SqliteSaver(path) as saver:
        messages = talk(saver, 2)
    longer = (*tables.SQLITE, ("ALTER TABLE runwell_threads ADD COLUMN note TEXT",))
    monkeypatch.setattr(tables, "SQLITE", longer)
    with SqliteSaver(path) as saver:
        assert saver._rows("SELECT note FROM runwell_threads") == [(None,)]
        assert saver._rows("SELECT version FROM runwell_schema") == [(len(longer),)]
        loaded = saver.load("t")
        assert loaded is not None
        assert loaded.values == {"messages": messages}


def test_a_migration_that_fails_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SqliteSaver(path) as saver:
        talk(saver, 1)
    broken = (*tables.SQLITE, ("CREATE TABLE half (x)", "CREATE TABLE half (x)"))
    with monkeypatch.context() as patch:
        patch.setattr(tables, "SQLITE", broken)
        with pytest.raises(StorageError, match="half"):
            SqliteSaver(path)
    with SqliteSaver(path) as saver:
        assert saver._rows("SELECT name FROM sqlite_master WHERE name = 'half'") == []
        assert saver.load("t") is not None


@pytest.mark.parametrize("table", ["threads", "checkpoints", "changes", "tasks", "blobs", "attempts"])
def test_a_dropped_table_is_named_with_what_to_do(saver: SqliteSaver, table: str) -> None:
    messages = talk(saver, 1)
    saver._rows(f"DROP TABLE runwell_{table}")
    failed = []
    for use in (
        lambda: saver.load("t"),
        lambda: saver.history("t"),
        lambda: saver.commit(step(2, messages, [*messages, "x" * 600])),
        lambda: saver.commit(step(0, GONE, "x" * 600, "u")),
        lambda: saver.save_task("t", "", "c1", TaskRecord("t1", "n")),
        lambda: saver.take("t"),
        lambda: saver.threads(),
    ):
        try:
            use()
        except StorageError as error:
            failed.append(error)
    assert failed
    for each in failed:
        assert f"no such table: runwell_{table}" in str(each)
        assert "backup" in str(each)


def test_a_full_disk_saves_nothing_and_says_so(path: Path, saver: SqliteSaver) -> None:
    messages = talk(saver, 2)
    pages = saver._rows("PRAGMA page_count")[0][0]
    saver._rows(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StorageError, match="space"):
        saver.commit(step(4, messages, [*messages, HumanMessage("x" * 100_000)]))
    saver._rows("PRAGMA max_page_count = 1000000")
    talk(saver, 1, messages, number=4)


# -- several processes, and death


def test_another_writer_is_waited_for_and_then_named(
    path: Path, saver: SqliteSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(sqlite_module, "BUSY_S", 0.05)
    with SqliteSaver(path) as impatient, pytest.raises(StorageError, match="locked") as caught:
        talk(impatient, 1)
    assert caught.value.retryable
    other.execute("ROLLBACK")
    other.close()
    talk(saver, 1)


CHILD = """
import os, sys
sys.path.insert(0, {tests!r})
from test_sqlite import HumanMessage, SqliteSaver, TaskRecord, GONE, step
saver = SqliteSaver({path!r})
messages, number = GONE, 0
while True:
    message = HumanMessage(f"{{number}} " + "x" * (number % 7 * 500), id=str(number))
    new = [message] if messages is GONE else [*messages, message]
    saver.commit(step(number, messages, new))
    saver.save_task("t", "", f"c{{number}}", TaskRecord("t1", "model", done=True, writes=[("n", number)]))
    messages, number = new, number + 1
    os.write(1, b"%d\\n" % (number - 1))
"""


@pytest.mark.integration
@pytest.mark.parametrize("after", [1, 40, 333])
def test_kill_9_loses_nothing_that_was_acknowledged_and_leaves_no_half_state(path: Path, after: int) -> None:
    code = CHILD.format(tests=str(Path(__file__).parent), path=str(path))
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
    with SqliteSaver(path) as saver:
        listed = saver.history("t")
        assert acknowledged <= listed[0].step <= acknowledged + 1
        assert [each.step for each in listed] == list(range(listed[0].step, -1, -1))
        for each in listed:
            assert [message.id for message in each.values["messages"]] == [str(n) for n in range(each.step + 1)]
            if each.step <= acknowledged:
                assert each.tasks == [TaskRecord("t1", "model", done=True, writes=[("n", each.step)])]
        last = listed[0].values["messages"]
        saver.commit(step(len(last), last, [*last, HumanMessage("and on")]))


@pytest.mark.integration
def test_run_19_of_two_processes_on_one_checkpoint_one_is_refused(path: Path, saver: SqliteSaver) -> None:
    saver.commit(step(0, GONE, [HumanMessage("x", id="0")]))
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_sqlite import *
saver = SqliteSaver({str(path)!r})
loaded = saver.load("t")
print("ready", flush=True)
sys.stdin.readline()
old = loaded.values["messages"]
try:
    saver.commit(step(1, old, [*old, HumanMessage("mine")]))
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


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_does_not_use_the_parents_connection(path: Path, saver: SqliteSaver) -> None:
    messages = talk(saver, 1)
    connection = saver.file.connection
    child = os.fork()
    if child == 0:  # pragma: no cover  # in another process
        code = 1
        try:
            talk(saver, 1, messages, number=2)
            code = int(saver.file.connection is connection)
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    with pytest.raises(ThreadBusy):
        talk(saver, 1, messages, number=2)
    assert len(saver.history("t")) == 4


def test_a_copy_of_the_file_is_a_working_backup(path: Path, saver: SqliteSaver, tmp_path: Path) -> None:
    messages = talk(saver, 3)
    stored_bytes(path)  # folds the log in
    shutil.copy(path, tmp_path / "copy")
    with SqliteSaver(tmp_path / "copy") as copy:
        loaded = copy.load("t")
        assert loaded is not None
        assert loaded.values == {"messages": messages}


# -- from an event loop


def test_a_cancelled_save_is_still_whole(saver: SqliteSaver) -> None:
    async def use() -> None:
        task = asyncio.ensure_future(saver.acommit(step(0, GONE, [HumanMessage("x", id="0")])))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        loaded = await saver.aload("t")  # one thread, in order: the save has been done
        assert loaded is not None
        assert loaded.values == {"messages": [HumanMessage("x", id="0")]}

    asyncio.run(use())


def test_the_async_forms_work_on_one_loop_after_another(saver: SqliteSaver) -> None:
    messages = talk(saver, 1)
    for _ in range(3):
        loaded = asyncio.run(saver.aload("t"))
        assert loaded is not None
        assert loaded.values == {"messages": messages}
    saver.close()
    with pytest.raises(StorageError):
        asyncio.run(saver.aload("t"))
