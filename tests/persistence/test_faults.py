"""Graphs on real databases that are killed between any two statements, or whose server goes away in the middle."""

from __future__ import annotations

import operator
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from runwell.errors import ThreadBusy
from runwell.graph import END, START, Send, StateGraph
from runwell.persistence import PostgresSaver, SqliteSaver, SqliteStore
from runwell.testing.postgres import PostgresServer

pytestmark = pytest.mark.integration

PROGRAM = '''
"""Runs, or goes on with, a graph. Around every statement to the database it marks a line, and waits to go on."""
import os, sys
sys.path.insert(0, sys.argv[1])
from test_faults import build
from runwell.persistence import PostgresSaver, SqliteSaver
from runwell.persistence.databases import postgres, sqlite

kind, target, journal = sys.argv[2:]


def mark(text):
    os.write(1, (text + "\\n").encode())
    os.read(0, 1)


def watched(function):
    def call(*args, **options):
        query = next(arg for arg in args if isinstance(arg, str))
        if "runwell_schema" in query:
            return function(*args, **options)
        word = " ".join(query.split()[:3])
        mark("before " + word)
        result = function(*args, **options)
        mark("after " + word)
        return result
    return call


if kind == "sqlite":
    saver = SqliteSaver(target)
    sqlite.SqliteFile.rows = watched(sqlite.SqliteFile.rows)
else:
    saver = PostgresSaver(target)
    saver.setup()
    import runwell.persistence.checkpoints.postgres as dialect
    dialect.fetch = postgres.fetch = watched(postgres.fetch)
app = build(journal).compile(saver)
begun = saver.load("t") is not None
config = {"configurable": {"thread_id": "t"}, "max_concurrency": 1}
result = app.invoke(None if begun else {"n": 0, "log": []}, config)
print("result", result["n"], *result["log"], sep="|", flush=True)
saver.close()
'''


class State(TypedDict):
    n: int
    log: Annotated[list[str], operator.add]


def build(journal: str) -> Any:
    """Two rounds of a step and three parts; each leaves a line in the journal when it has been done."""

    def effect(name: str) -> list[str]:
        with open(journal, "a") as lines:
            lines.write(name + "\n")
        return [name]

    graph = StateGraph(State)
    graph.add_node("next", lambda s: {"n": s["n"] + 1, "log": effect(f"next {s['n'] + 1}")})
    graph.add_node("part", lambda s: {"log": effect(f"part {s['n']} {s['part']}")})
    graph.add_node("gather", lambda s: None)
    graph.add_edge(START, "next")
    graph.add_conditional_edges("next", lambda s: [Send("part", {"n": s["n"], "part": p}) for p in "abc"], ["part"])
    graph.add_edge("part", "gather")
    graph.add_conditional_edges("gather", lambda s: END if s["n"] == 2 else "next", ["next", END])
    return graph


def run(kind: str, target: str, journal: Path, kill_at: int | None = None) -> tuple[list[str], str]:
    """Run the program past `kill_at` marks and kill it at the next; its marks and its result."""
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), kind, target, str(journal)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    marks: list[str] = []
    result = ""
    with child.stdin, child.stdout, child.stderr:
        while line := child.stdout.readline().decode().rstrip("\n"):
            if line.startswith("result|"):
                result = line
                break
            marks.append(line)
            if len(marks) - 1 == kill_at:
                child.send_signal(signal.SIGKILL)
                break
            child.stdin.write(b"\n")
            child.stdin.flush()
        failed = child.stderr.read().decode()
    assert child.wait() == (-signal.SIGKILL if kill_at is not None and not result else 0), failed
    return marks, result


@pytest.mark.slow
@pytest.mark.timeout(600)  # some sixty processes, which a busy machine starts slowly
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_run_20_killed_between_any_two_statements_it_ends_the_same_and_repeats_only_what_was_in_flight(
    kind: str, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    def target(name: str) -> str:
        return str(tmp_path / f"{name}.db") if kind == "sqlite" else postgres_server.new_schema()

    marks, expected = run(kind, target("whole"), tmp_path / "whole")
    assert expected.startswith("result|2|next 1|part 1 a|")
    whole = (tmp_path / "whole").read_text().splitlines()
    kinds: dict[str, list[int]] = {}
    for number, mark in enumerate(marks):
        kinds.setdefault(mark, []).append(number)
    points = sorted({at for places in kinds.values() for at in (places[0], places[len(places) // 2], places[-1])})
    for at in points:
        where, journal = target(f"{at}"), tmp_path / f"{at}.journal"
        seen, _ = run(kind, where, journal, at)
        assert seen == marks[: at + 1]
        before = journal.read_text().splitlines() if journal.exists() else []
        _, result = run(kind, where, journal)
        assert result == expected, marks[at]
        lines = journal.read_text().splitlines()
        assert sorted(set(lines)) == sorted(whole)
        assert [line for line in whole if lines.count(line) > 1] in ([], before[-1:]), marks[at]


@pytest.mark.slow
def test_postgresql_stopped_and_started_in_the_middle_of_a_run(tmp_path: Path) -> None:
    with PostgresServer() as server:
        if not server.own:
            pytest.skip("the server that was named is not ours to stop")
        starters: list[threading.Thread] = []

        def restart(state: State) -> Any:
            if not starters:
                server.stop()
                starters.append(threading.Thread(target=server.start))
                starters[0].start()
            return {"log": ["restarted"]}

        with PostgresSaver(server.new_schema()) as saver:
            graph = build(str(tmp_path / "journal"))
            graph.add_node("restart", restart)
            graph.add_edge("next", "restart")
            config: Any = {"configurable": {"thread_id": "t"}}
            result = graph.compile(saver).invoke({"n": 0, "log": []}, config)
            starters[0].join()
            lines = (tmp_path / "journal").read_text().splitlines()
            assert len(lines) == len(set(lines)) == 8
            assert sorted(result["log"]) == sorted([*lines, "restarted", "restarted"])
            found = saver.load("t")
            assert found is not None
            assert found.values == result


def test_a_thread_held_by_a_process_that_was_killed_is_free_at_once(tmp_path: Path) -> None:
    path = tmp_path / "db"
    code = f"""
import os
from runwell.persistence import SqliteSaver
attempt = SqliteSaver({str(path)!r}).take("t", hold_s=3600)
os.write(1, b"%d\\n" % attempt)
os.read(0, 1)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    with child.stdin, child.stdout, SqliteSaver(path) as saver:
        attempt = int(child.stdout.readline())
        with pytest.raises(ThreadBusy):
            saver.take("t")
        child.kill()
        child.wait()
        assert saver.take("t") > attempt


def test_a_store_killed_while_it_writes_has_whole_batches(tmp_path: Path) -> None:
    path = tmp_path / "db"
    code = f"""
import os
from runwell.persistence import SqliteStore
from runwell.ports.store import PutOp
store = SqliteStore({str(path)!r})
for n in range(100000):
    store.batch([PutOp(("a",), f"{{k}}", {{"n": n}}) for k in range(20)])
    os.write(1, b"%d\\n" % n)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert child.stdout is not None
    acknowledged = 0
    with child.stdout as lines:
        while acknowledged < 30:
            acknowledged = int(lines.readline())
        child.kill()
        for line in lines:
            acknowledged = int(line) if line.endswith(b"\n") else acknowledged
    child.wait()
    with SqliteStore(path) as store:
        numbers = {item.value["n"] for item in store.search(("a",), limit=100)}
        assert len(store.search(("a",), limit=100)) == 20
    assert numbers in ({acknowledged}, {acknowledged + 1})
