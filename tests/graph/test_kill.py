"""A graph whose process is killed with -9 goes on where it was: nothing finished is lost or done twice."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from runwell.persistence import SqliteSaver

STEPS = 20
THREAD = {"configurable": {"thread_id": "t"}}

PROGRAM = '''
"""Runs, or goes on with, a loop of {steps} steps; each is one line in the journal as its side effect.

Every mark is a line on stdout, after which it waits for a line on stdin: the test kills it at any of them.
"""
import operator, os, sys
from typing import Annotated, TypedDict
from runwell.graph import END, START, Send, StateGraph
from runwell.persistence import SqliteSaver

database, journal, shape = sys.argv[1:]


class State(TypedDict):
    n: int
    log: Annotated[list[str], operator.add]


def mark(text):
    os.write(1, (text + "\\n").encode())
    os.read(0, 1)


def effect(name):
    """The side effect of a step: durable the moment it has happened."""
    handle = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, (name + "\\n").encode())
    os.close(handle)


class Marking(SqliteSaver):
    """Stops before and after everything it writes."""

    def commit(self, commit, types=frozenset()):
        mark("before commit")
        super().commit(commit, types)
        mark("committed")

    def save_task(self, *args, **options):
        mark("before save_task")
        super().save_task(*args, **options)
        mark("task saved")


def step(state):
    name = f"step {{state['n'] + 1}}"
    mark("begin")
    effect(name)
    mark("effect")
    return {{"n": state["n"] + 1, "log": [name]}}


def part(state):
    name = f"step {{state['n']}}.{{state['part']}}"
    mark("begin")
    effect(name)
    mark("effect")
    return {{"log": [name]}}


graph = StateGraph(State)
if shape == "loop":
    graph.add_node("step", step).add_edge(START, "step")
    graph.add_conditional_edges("step", lambda s: END if s["n"] >= {steps} else "step", ["step", END])
elif shape == "fan":
    graph.add_node("next", lambda s: {{"n": s["n"] + 1}}).add_node("part", part).add_edge(START, "next")
    graph.add_conditional_edges("next", lambda s: [Send("part", {{"n": s["n"], "part": p}}) for p in "abc"], ["part"])
    graph.add_node("gather", lambda s: None).add_edge("part", "gather")
    graph.add_conditional_edges("gather", lambda s: END if s["n"] >= {steps} // 4 else "next", ["next", END])
else:
    inner = StateGraph(State).add_node("step", step).add_edge(START, "step")
    inner.add_conditional_edges("step", lambda s: END if s["n"] % 5 == 0 else "step", ["step", END])
    graph.add_node("inner", inner.compile()).add_edge(START, "inner")
    graph.add_conditional_edges("inner", lambda s: END if s["n"] >= {steps} else "inner", ["inner", END])

config = {{"configurable": {{"thread_id": "t"}}, "max_concurrency": 1}}
with Marking(database) as saver:
    app = graph.compile(saver)
    begun = saver.load("t") is not None
    result = app.invoke(None if begun else {{"n": 0, "log": []}}, config)
print("result", result["n"], *result["log"], sep="|", flush=True)
'''


class Killed(Exception):
    """The program was killed as planned."""


def run(database: Path, journal: Path, shape: str, kill_at: int | None = None) -> tuple[list[str], list[str]]:
    """Run the program past `kill_at` marks and kill it at the next; its marks, and what it printed at its end."""
    code = PROGRAM.format(steps=STEPS)
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(database), str(journal), shape],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    marks: list[str] = []
    result: list[str] = []
    with child.stdin, child.stdout, child.stderr:
        while line := child.stdout.readline().decode().rstrip("\n"):
            if line.startswith("result|"):
                result = line.split("|")[1:]
                break
            marks.append(line)
            if len(marks) - 1 == kill_at:
                child.send_signal(signal.SIGKILL)
                break
            child.stdin.write(b"\n")
            child.stdin.flush()
        failed = child.stderr.read().decode()
    ended = child.wait()
    assert ended == (-signal.SIGKILL if kill_at is not None and not result else 0), failed
    return marks, result


def done(journal: Path) -> list[str]:
    return journal.read_text().splitlines() if journal.exists() else []


@pytest.fixture(scope="module", params=["loop", "fan", "nested"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The shape of a graph, and how it runs when nobody kills it."""
    folder = tmp_path_factory.mktemp("whole")
    marks, result = run(folder / "db", folder / "journal", request.param)
    return request.param, marks, result, done(folder / "journal")


def points(marks: list[str]) -> list[int]:
    """Where to kill: at each kind of mark, early, in the middle and late, so that each boundary of a step is hit."""
    chosen: set[int] = set()
    for kind in sorted(set(marks)):
        at = [number for number, mark in enumerate(marks) if mark == kind]
        chosen |= {at[0], at[len(at) // 2], at[-1]}
    return sorted(chosen)


@pytest.mark.slow
@pytest.mark.integration
def test_kill_9_at_any_point_loses_nothing_and_repeats_only_the_step_in_flight(whole: Any, tmp_path: Path) -> None:
    shape, marks, expected, effects = whole
    assert expected[0] == str(STEPS if shape != "fan" else STEPS // 4)
    for at in points(marks):
        database, journal = tmp_path / f"{at}.db", tmp_path / f"{at}.journal"
        seen, _ = run(database, journal, shape, at)
        assert seen == marks[: at + 1], "the same up to the kill"
        before = done(journal)
        _, result = run(database, journal, shape)
        assert result == expected, f"killed at mark {at}: {marks[at]}"
        times = Counter(done(journal))
        assert set(times) == set(effects)
        repeated = [name for name, count in times.items() if count > 1]
        assert repeated in ([], before[-1:]), f"killed at mark {at}: {marks[at]}"
        assert all(count <= 2 for count in times.values())
        with SqliteSaver(database) as saver:
            steps = [checkpoint.step for checkpoint in saver.history("t")]
            assert steps == list(range(steps[0], -1, -1)), "each step was saved once"


@pytest.mark.slow
@pytest.mark.integration
def test_killed_again_and_again_it_still_ends(tmp_path: Path) -> None:
    database, journal = tmp_path / "db", tmp_path / "journal"
    result: list[str] = []
    for _ in range(3 * STEPS):
        _, result = run(database, journal, "loop", 9)
        if result:
            break
    names = [f"step {n + 1}" for n in range(STEPS)]
    assert result == [str(STEPS), *names]
    assert list(dict.fromkeys(done(journal))) == names
    assert max(Counter(done(journal)).values()) <= 2


@pytest.mark.integration
def test_killed_before_its_first_checkpoint_a_run_has_not_begun(tmp_path: Path) -> None:
    database, journal = tmp_path / "db", tmp_path / "journal"
    marks, _ = run(database, journal, "loop", 0)
    assert marks == ["before commit"]
    with SqliteSaver(database) as saver:
        assert saver.load("t") is None
    assert done(journal) == []
    _, result = run(database, journal, "loop")
    assert result[0] == str(STEPS)
