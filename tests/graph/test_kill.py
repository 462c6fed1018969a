"""A graph whose process is killed with -9 goes on where it was: nothing finished is lost or done twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from runwell.testing.killing import Program, places

pytestmark = pytest.mark.integration

STEPS = 10

PROGRAM = '''
"""Runs, or goes on with, a loop of so many steps; each is one line in the journal as its side effect."""
import operator, os, sqlite3
import psycopg, psycopg_pool  # loaded once, before the forks
from typing import Annotated, TypedDict
from runwell.graph import END, START, Send, StateGraph
from runwell.persistence import PostgresSaver, SqliteSaver
from runwell.testing.killing import mark


class State(TypedDict):
    n: int
    log: Annotated[list[str], operator.add]


class Marking:
    """Stops before and after everything it writes."""

    def take(self, *args, **options):
        mark("before take")
        attempt = super().take(*args, **options)
        mark("taken")
        return attempt

    def release(self, *args, **options):
        mark("before release")
        super().release(*args, **options)
        mark("released")

    def commit(self, *args, **options):
        mark("before commit")
        super().commit(*args, **options)
        mark("committed")

    def save_task(self, *args, **options):
        mark("before save_task")
        super().save_task(*args, **options)
        mark("task saved")


class MarkingSqlite(Marking, SqliteSaver):
    pass


class MarkingPostgres(Marking, PostgresSaver):
    pass


def main(database, journal, shape, steps):
    steps = int(steps)

    def effect(name):
        """The side effect of a step: durable the moment it has happened."""
        mark("begin")
        handle = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, (name + "\\n").encode())
        os.close(handle)
        mark("effect")

    def step(state):
        name = f"step {state['n'] + 1}"
        effect(name)
        return {"n": state["n"] + 1, "log": [name]}

    def part(state):
        name = f"step {state['n']}.{state['part']}"
        effect(name)
        return {"log": [name]}

    graph = StateGraph(State)
    if shape == "loop":
        graph.add_node("step", step).add_edge(START, "step")
        graph.add_conditional_edges("step", lambda s: END if s["n"] >= steps else "step", ["step", END])
    elif shape == "fan":
        graph.add_node("next", lambda s: {"n": s["n"] + 1}).add_node("part", part).add_edge(START, "next")
        to_parts = lambda s: [Send("part", {"n": s["n"], "part": p}) for p in "abc"]
        graph.add_conditional_edges("next", to_parts, ["part"])
        graph.add_node("gather", lambda s: None).add_edge("part", "gather")
        graph.add_conditional_edges("gather", lambda s: END if s["n"] >= steps // 5 else "next", ["next", END])
    else:
        inner = StateGraph(State).add_node("step", step).add_edge(START, "step")
        inner.add_conditional_edges("step", lambda s: END if s["n"] % 5 == 0 else "step", ["step", END])
        graph.add_node("inner", inner.compile()).add_edge(START, "inner")
        graph.add_conditional_edges("inner", lambda s: END if s["n"] >= steps else "inner", ["inner", END])

    config = {"configurable": {"thread_id": "t"}, "max_concurrency": 1}
    saver = MarkingPostgres(database) if database.startswith("postgresql:") else MarkingSqlite(database)
    with saver:
        begun = saver.load("t") is not None
        result = graph.compile(saver).invoke(None if begun else {"n": 0, "log": []}, config)
    return [result["n"], *result["log"]]
'''


@pytest.fixture(scope="module")
def program(programs: Any) -> Program:
    return programs(PROGRAM)


def done(journal: Path) -> list[str]:
    return journal.read_text().splitlines() if journal.exists() else []


@pytest.mark.parametrize("shape", ["loop", "fan", "nested"])
def test_kill_9_at_any_point_loses_nothing_and_repeats_only_the_step_in_flight(
    shape: str, databases: Any, program: Program, tmp_path: Path
) -> None:
    def run(database: str, journal: Path, kill_at: int | None = None) -> tuple[list[str], Any]:
        return program.run(database, str(journal), shape, str(STEPS), kill_at=kill_at)

    marks, expected = run(databases.new("whole"), tmp_path / "whole")
    effects = done(tmp_path / "whole")
    assert expected == [STEPS // 5 if shape == "fan" else STEPS, *effects]
    assert len(effects) == (3 * (STEPS // 5) if shape == "fan" else STEPS)
    for at in places(marks, 2 if databases.kind == "sqlite" else 1):
        database, journal = databases.new(str(at)), tmp_path / f"{at}.journal"
        seen, _ = run(database, journal, at)
        assert seen == marks[: at + 1], "the same up to the kill"
        before = done(journal)
        _, result = run(database, journal)
        assert result == expected, f"killed at mark {at}: {marks[at]}"
        times = Counter(done(journal))
        assert set(times) == set(effects)
        repeated = [name for name, count in times.items() if count > 1]
        assert repeated in ([], before[-1:]), f"killed at mark {at}: {marks[at]}"
        assert all(count <= 2 for count in times.values())
        with databases.saver(database) as saver:
            steps = [checkpoint.step for checkpoint in saver.history("t")]
            assert steps == list(range(steps[0], -1, -1)), "each step was saved once"


def test_killed_again_and_again_it_still_ends(databases: Any, program: Program, tmp_path: Path) -> None:
    database, journal = databases.new("t"), tmp_path / "journal"
    result: Any = None
    for _ in range(3 * STEPS):
        _, result = program.run(database, str(journal), "loop", str(STEPS), kill_at=11)
        if result:
            break
    names = [f"step {n + 1}" for n in range(STEPS)]
    assert result == [STEPS, *names]
    assert list(dict.fromkeys(done(journal))) == names
    assert max(Counter(done(journal)).values()) <= 2


def test_killed_before_its_first_checkpoint_a_run_has_not_begun(
    databases: Any, program: Program, tmp_path: Path
) -> None:
    database, journal = databases.new("t"), tmp_path / "journal"
    marks, _ = program.run(database, str(journal), "loop", str(STEPS), kill_at=2)
    assert marks == ["before take", "taken", "before commit"]
    with databases.saver(database) as saver:
        assert saver.load("t") is None
    assert done(journal) == []
    _, result = program.run(database, str(journal), "loop", str(STEPS))
    assert result[0] == STEPS
