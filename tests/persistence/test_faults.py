"""Graphs on real databases that are killed between any two statements, or whose server goes away in the middle."""

from __future__ import annotations

import operator
import subprocess
import sys
import threading
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from runwell.errors import ThreadBusy
from runwell.graph import END, START, Send, StateGraph
from runwell.persistence import PostgresSaver, SqliteSaver, SqliteStore
from runwell.testing.killing import Program, places
from runwell.testing.postgres import PostgresServer

pytestmark = pytest.mark.integration

PROGRAM = '''
"""Runs, or goes on with, a graph, with a mark before and after every statement to the database."""
import sqlite3, sys
import psycopg, psycopg_pool  # loaded once, before the forks
sys.path.insert(0, FOLDER)
from test_faults import build
from runwell.persistence import PostgresSaver, SqliteSaver
from runwell.persistence.databases import postgres, sqlite
from runwell.testing.killing import mark


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


def main(kind, target, journal):
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
    saver.close()
    return [result["n"], *result["log"]]
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


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_run_20_killed_between_any_two_statements_it_ends_the_same_and_repeats_only_what_was_in_flight(
    kind: str, tmp_path: Path, postgres_server: PostgresServer, programs: Any
) -> None:
    program: Program = programs(PROGRAM.replace("FOLDER", repr(str(Path(__file__).parent))))

    def target(name: str) -> str:
        return str(tmp_path / f"{name}.db") if kind == "sqlite" else postgres_server.new_schema()

    marks, expected = program.run(kind, target("whole"), str(tmp_path / "whole"))
    assert expected[:3] == [2, "next 1", "part 1 a"]
    whole = (tmp_path / "whole").read_text().splitlines()
    for at in places(marks, 1):
        where, journal = target(f"{at}"), tmp_path / f"{at}.journal"
        seen, _ = program.run(kind, where, str(journal), kill_at=at)
        assert seen == marks[: at + 1]
        before = journal.read_text().splitlines() if journal.exists() else []
        _, result = program.run(kind, where, str(journal))
        assert result == expected, (at, marks[at])
        lines = journal.read_text().splitlines()
        assert sorted(set(lines)) == sorted(whole)
        assert [line for line in whole if lines.count(line) > 1] in ([], before[-1:]), (at, marks[at])


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
