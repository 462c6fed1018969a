"""Saves that an event loop does itself, and those it leaves to a thread: nothing that waits holds it up."""

from __future__ import annotations

import asyncio
import operator
import sqlite3
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from runwell.effects import Later
from runwell.errors import StorageError, ThreadBusy
from runwell.graph import START, StateGraph
from runwell.persistence import SqliteSaver
from runwell.persistence.databases import pace as pace_module
from runwell.persistence.databases import sqlite as sqlite_module
from runwell.persistence.databases.pace import AFTER_SLOW, IN_PLACE, IN_THREAD, QUICK_S, Pace
from runwell.ports.saver import GONE, Commit, TaskRecord

STEPS = 8
names = map("t{}".format, count())


class State(TypedDict):
    log: Annotated[list[Any], operator.add]


def app(saver: Any, says: Any = "x") -> Any:
    graph, before = StateGraph(State), START
    for number in range(STEPS):

        async def work(state: State) -> Any:
            return {"log": [says]}

        graph.add_node(str(number), work).add_edge(before, str(number))
        before = str(number)
    return graph.compile(saver)


def on(thread: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread}}


@pytest.fixture(autouse=True)
def _a_busy_machine_is_no_slow_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace_module, "QUICK_S", 0.5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "threads.sqlite"


@pytest.fixture
def saver(path: Path) -> Iterator[SqliteSaver]:
    with SqliteSaver(path) as made:
        yield made


class Commits:
    """Of a saver's transactions: whether each was done by the thread that asks, and how long the disk shall take."""

    def __init__(self, saver: SqliteSaver) -> None:
        self.here: list[bool] = []
        self.delay = 0.0
        self.thread = threading.get_ident()
        assert saver.file.connection is not None
        saver.file.connection.set_trace_callback(self.trace)

    def trace(self, statement: str) -> None:
        if statement == "COMMIT":
            self.here.append(threading.get_ident() == self.thread)
            if self.delay:
                time.sleep(self.delay)


def ran(saver: SqliteSaver, threads: int = 3, says: Any = "x") -> list[bool]:
    """Which commits of so many runs were done in place. Those of one come first that are not looked at: a file's first
    are never."""
    graph = app(saver, says)

    async def main() -> list[bool]:
        await app(saver).ainvoke({"log": []}, on(next(names)))
        commits = Commits(saver)
        for _ in range(threads):
            result = await graph.ainvoke({"log": []}, on(next(names)))
            assert result["log"] == [says] * STEPS
        return commits.here

    return asyncio.run(main())


# -- where a save is done


def test_small_saves_are_done_by_the_event_loop_itself(saver: SqliteSaver) -> None:
    done = ran(saver)
    assert len(done) == 3 * (STEPS + 3)  # the thread is taken, the input saved, and the thread let go
    assert all(done)
    for name in saver.threads():
        assert [each.values["log"] for each in saver.history(name)] == [["x"] * n for n in range(STEPS, -1, -1)]


def test_with_synchronous_full_none_is(path: Path) -> None:
    with SqliteSaver(path, synchronous="full") as saver:
        assert not any(ran(saver))


def test_on_a_connection_that_was_given_none_is(path: Path) -> None:
    connection = sqlite3.connect(path, check_same_thread=False)
    with SqliteSaver(connection) as saver:
        assert not any(ran(saver))
    assert connection.execute("PRAGMA busy_timeout").fetchone()[0] > 0
    connection.close()


class Slow(SqliteSaver):
    def commit(self, *args: Any) -> None:
        super().commit(*args)


class SlowInside(SqliteSaver):
    def write_commit(self, *args: Any) -> None:
        super().write_commit(*args)


@pytest.mark.parametrize("kind", [Slow, SlowInside])
def test_what_a_subclass_does_itself_may_take_long_and_goes_to_a_thread(path: Path, kind: type[SqliteSaver]) -> None:
    with kind(path) as saver:
        commits = ran(saver)
    assert commits.count(False) >= 3 * (STEPS + 1)


def test_a_saver_of_another_make_is_always_called_in_a_thread(saver: SqliteSaver) -> None:
    class Other:
        def __getattr__(self, name: str) -> Any:
            if name in ("at_once", "acommit", "asave_task", "aload", "ahistory", "atake", "arelease"):
                raise AttributeError(name)
            return getattr(saver, name)

    ran(saver)
    commits = Commits(saver)
    asyncio.run(app(Other()).ainvoke({"log": []}, on("other")))
    assert len(commits.here) == STEPS + 3
    assert not any(commits.here)


@pytest.mark.parametrize("says", ["long " * 20_000, b"x" * 200_000], ids=["text", "bytes"])
def test_a_large_save_goes_to_a_thread(saver: SqliteSaver, says: Any) -> None:
    commits = ran(saver, threads=1, says=says)
    assert commits.count(False) == STEPS
    loaded = saver.load(saver.threads()[-1])
    assert loaded is not None
    assert loaded.values["log"] == [says] * STEPS


def test_a_state_of_many_items_goes_to_a_thread_before_it_is_encoded(saver: SqliteSaver) -> None:
    ran(saver)

    class Item:
        pass

    def commit(count: int) -> Commit:
        return Commit(f"c{count}", f"t{count}", "", None, None, 0, 1.0, "input", {"log": (GONE, [Item()] * count)}, [])

    later = saver.at_once(saver.commit, commit(5000))
    assert type(later) is Later
    with pytest.raises(Exception, match="Item"):  # it is looked at here only, where it cannot be saved
        later.work()
    with pytest.raises(Exception, match="Item"):
        saver.at_once(saver.commit, commit(5))


def test_within_a_transaction_of_this_thread_a_save_from_the_loop_is_no_part_of_it(saver: SqliteSaver) -> None:
    ran(saver)
    with saver.transaction():
        given = saver.at_once(saver.commit, Commit("c", "t", "", None, None, 0, 1.0, "input", {}, []))
    assert type(given) is Later
    assert saver.load("t") is None


# -- what would hold the loop up


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_another_writer_does_not_hold_up_the_event_loop(path: Path, saver: SqliteSaver) -> None:
    ran(saver)
    other = sqlite3.connect(path, isolation_level=None)

    async def main() -> Any:
        other.execute("BEGIN IMMEDIATE")
        run = asyncio.create_task(app(saver).ainvoke({"log": []}, on("t")))
        await turns(200)  # would take 30 s, and the run would have failed
        assert not run.done()
        other.execute("COMMIT")
        return await run

    began = time.monotonic()
    assert asyncio.run(main())["log"] == ["x"] * STEPS
    assert time.monotonic() - began < 15
    other.close()
    assert all(ran(saver, threads=1))  # and then it goes on in place


def test_another_thread_that_is_at_the_file_does_not_either(saver: SqliteSaver) -> None:
    ran(saver)
    holds, may = threading.Event(), threading.Event()

    def hold() -> None:
        with saver.transaction():
            holds.set()
            assert may.wait(20)

    async def main() -> Any:
        holder = threading.Thread(target=hold)
        holder.start()
        assert holds.wait(20)
        run = asyncio.create_task(app(saver).ainvoke({"log": []}, on("t")))
        await turns(200)
        assert not run.done()
        may.set()
        result = await run
        holder.join()
        return result

    assert asyncio.run(main())["log"] == ["x"] * STEPS


def test_after_saves_that_were_slow_the_next_ones_go_to_a_thread(
    saver: SqliteSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(saver)
    monkeypatch.setattr(pace_module, "QUICK_S", 0.005)

    async def main() -> Commits:
        commits = Commits(saver)
        commits.delay = 0.05
        await app(saver).ainvoke({"log": []}, on("slow"))
        commits.delay = 0.0
        for number in range(4):
            await app(saver).ainvoke({"log": []}, on(f"quick{number}"))
        return commits

    done = asyncio.run(main()).here
    assert done[0]
    assert not any(done[1 : 1 + AFTER_SLOW])
    assert any(done[1 + AFTER_SLOW :])


def test_what_waits_for_the_other_writer_still_does_after_a_save_in_place(
    path: Path, saver: SqliteSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(ran(saver))
    assert saver._rows("PRAGMA busy_timeout") == [(30_000,)]
    assert saver._rows("PRAGMA wal_autocheckpoint") == [(1000,)]
    ran(saver)
    monkeypatch.setattr(sqlite_module, "BUSY_S", 0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageError, match="locked") as caught, saver.transaction():
        pass
    assert caught.value.retryable
    other.close()


def test_an_error_in_place_is_the_same_error(saver: SqliteSaver) -> None:
    ran(saver)
    saver.commit(Commit("c", "t0", "", None, None, 0, 1.0, "input", {"log": (GONE, [0])}, []))
    late = Commit("late", "t0", "", None, "older", 9, 1.0, "loop", {"log": (GONE, [1])}, [])
    with pytest.raises(ThreadBusy, match="moved on"):
        saver.at_once(saver.commit, late)
    with pytest.raises(StorageError, match="not stored"):
        saver.at_once(saver.save_task, "t0", "", "nowhere", TaskRecord("t", "n", done=True))
    pages = saver._rows("PRAGMA page_count")[0][0]
    saver._rows(f"PRAGMA max_page_count = {pages}")
    full = Commit("c", "full", "", None, None, 0, 1.0, "input", {"log": (GONE, ["x" * 60_000])}, [])
    with pytest.raises(StorageError, match="space"):
        saver.at_once(saver.commit, full)
    assert saver.load("full") is None


# -- the log


def test_the_log_is_still_brought_into_the_file(path: Path, saver: SqliteSaver) -> None:
    here = 0
    log: list[str] = []
    for number in range(1000):
        before, log = log, [*log, f"{number} " + "x" * 3000]
        last = f"c{number - 1}" if number else None
        old = GONE if number == 0 else before
        commit = Commit(f"c{number}", "t", "", last, last, number, 1.0, "loop", {"log": (old, log)}, [])
        given = saver.at_once(saver.commit, commit)
        if type(given) is Later:
            given.work()
        else:
            here += 1
    assert here > 900
    assert Path(f"{path}-wal").stat().st_size < 2 * 1000 * 4096  # without, 24 MB
    assert path.stat().st_size > 3_000_000
    loaded = saver.load("t")
    assert loaded is not None
    assert loaded.values["log"] == log


def test_several_loops_and_savers_on_one_file(path: Path) -> None:
    """Each with a loop in a thread of its own, two on one saver."""
    failed: list[BaseException] = []
    with SqliteSaver(path) as one, SqliteSaver(path) as two:

        def work(saver: SqliteSaver, name: str) -> None:
            async def main() -> None:
                for number in range(12):
                    await asyncio.gather(
                        *(app(saver).ainvoke({"log": []}, on(f"{name}-{number}-{at}")) for at in range(3))
                    )

            try:
                asyncio.run(main())
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=each) for each in ((one, "a"), (one, "b"), (two, "c"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        found = one.threads()
        assert len(found) == 3 * 12 * 3
        for thread_id in found[::9]:
            steps = one.history(thread_id)
            assert [each.values["log"] for each in steps] == [["x"] * n for n in range(STEPS, -1, -1)]
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


# -- how many are done in place


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace_module, "QUICK_S", QUICK_S)


def test_of_many_quick_writes_a_few_go_to_a_thread_first_and_now_and_then(quick: None) -> None:
    pace = Pace()
    done: list[bool] = []
    for _ in range(2 * (IN_PLACE + IN_THREAD)):
        done.append(pace.in_place())
        if done[-1]:
            pace.took(QUICK_S / 10)
    assert done == ([False] * IN_THREAD + [True] * IN_PLACE) * 2


def test_one_that_took_long_on_a_busy_machine_is_no_slow_disk(quick: None) -> None:
    pace = Pace()
    for _ in range(IN_THREAD):
        pace.in_place()
    for seconds in (QUICK_S / 10, 4 * QUICK_S, *[QUICK_S / 10] * 8, 4 * QUICK_S, QUICK_S / 10):
        assert pace.in_place()
        pace.took(seconds)
    assert pace.in_place()


def test_a_disk_that_stays_slow_is_tried_ever_more_seldom(quick: None) -> None:
    pace = Pace()
    waits: list[int] = []
    while len(waits) < 6:
        in_thread = 0
        while not pace.in_place():
            in_thread += 1
        waits.append(in_thread)
        pace.took(0.05)
    assert waits == [IN_THREAD, *(AFTER_SLOW * 2**n for n in range(5))]
