"""RUN-19 among processes: two that answer one question, one that is killed, one whose thread another takes over."""

from __future__ import annotations

from typing import Any

import pytest

from runwell.testing.killing import Program

pytestmark = pytest.mark.integration

PROGRAM = """
import operator, os, sqlite3
from typing import Annotated, TypedDict
import psycopg, psycopg_pool  # loaded once, before the forks
from runwell.errors import ThreadBusy
from runwell.graph import START, Command, StateGraph, interrupt
from runwell.persistence import PostgresSaver, SqliteSaver
from runwell.testing.killing import mark


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


def ask(state):
    answer = interrupt("who?")
    mark("answered")
    return {"log": [answer]}


def main(database, name, what, on_busy="raise"):
    def slow(state):
        mark("slow")
        return {"log": [f"slow of {name}"]}

    def after(state):
        mark("after")
        return {"log": [f"after of {name}"]}

    graph = StateGraph(Log)
    if what in ("begin", "go on", "answer"):
        graph.add_node(ask).add_edge(START, "ask")
    else:
        graph.add_node("first", lambda state: {"log": [f"first of {name}"]}).add_node(slow).add_node(after)
        graph.add_node("beside", lambda state: {"log": [f"beside of {name}"]})
        graph.add_edge(START, "first").add_edge("first", "slow").add_edge("first", "beside")
        graph.add_edge(["slow", "beside"], "after")
    given = {"begin": {"log": []}, "run": {"log": []}, "answer": Command(resume=name)}.get(what)
    saver = PostgresSaver(database) if database.startswith("postgresql:") else SqliteSaver(database)
    with saver:
        app = graph.compile(saver)
        try:
            found = app.invoke(given, {"configurable": {"thread_id": "t"}, "max_concurrency": 1}, on_busy=on_busy)
        except ThreadBusy as busy:
            return ["busy", busy.retryable, "Nothing was saved" in str(busy)]
        return found["log"]
"""


@pytest.fixture(scope="module")
def program(programs: Any) -> Program:
    return programs(PROGRAM)


def test_run_19_of_two_processes_that_answer_one_question_one_does(databases: Any, program: Program) -> None:
    database = databases.new("t")
    assert program.run(database, "", "begin") == ([], [])
    with program.start(database, "one", "answer") as first:
        assert first.next_mark() == "answered"
        assert program.run(database, "two", "answer") == ([], ["busy", True, False])
        first.go_on()
        assert first.result() == ["one"]


def test_run_19_a_killed_process_holds_nothing(databases: Any, program: Program) -> None:
    database = databases.new("t")
    program.run(database, "", "begin")
    program.run(database, "one", "answer", kill_at=0)
    assert program.run(database, "other", "go on") == (["answered"], ["one"]), "its answer is on record"


def test_run_19_of_two_processes_that_go_on_after_a_kill_one_does(databases: Any, program: Program) -> None:
    database = databases.new("t")
    marks, _ = program.run(database, "dead", "run", kill_at=0)
    assert marks == ["slow"]
    with program.start(database, "one", "go on from there") as first:
        assert first.next_mark() == "slow"
        assert program.run(database, "two", "go on from there") == ([], ["busy", True, False])
        first.go_on()
        assert first.result()[:1] == ["first of dead"]


@pytest.mark.parametrize("late", ["slow", "after"])
def test_run_19_a_worker_that_was_given_up_can_end_late_and_changes_nothing(
    late: str, databases: Any, program: Program
) -> None:
    """A second worker takes the thread over while the first is in a slow node, and has ended before the first has."""
    database = databases.new("t")
    with program.start(database, "one", "run") as first:
        while (mark := first.next_mark()) != late:
            assert mark is not None
            first.go_on()
        marks, result = program.run(database, "two", "go on from there", "take")
        first.go_on()
        assert first.result() == ["busy", False, True]
    mine = ["slow of two", "beside of two"] if late == "slow" else ["slow of one", "beside of one"]
    assert result == ["first of one", *mine, "after of two"], "what the first had saved is kept, and not done again"
    assert marks == (["slow", "after"] if late == "slow" else ["after"])
    with databases.saver(database) as saver:
        assert saver.load("t").values["log"] == result
        steps = [checkpoint.step for checkpoint in saver.history("t")]
        assert steps == list(range(steps[0], -1, -1)), "each step was saved once"


def test_run_19_taken_over_while_the_other_is_still_at_it(databases: Any, program: Program) -> None:
    """The first ends its slow node while the second is in the same one: the first is fenced, the second goes on."""
    database = databases.new("t")
    with program.start(database, "one", "run") as first:
        assert first.next_mark() == "slow"
        with program.start(database, "two", "go on from there", "take") as second:
            assert second.next_mark() == "slow"
            first.go_on()
            assert first.result() == ["busy", False, True]
            second.go_on()
            assert second.next_mark() == "after"
            second.go_on()
            assert second.result() == ["first of one", "slow of two", "beside of two", "after of two"]
