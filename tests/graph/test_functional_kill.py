"""A workflow whose process is killed with -9 anywhere: on the next start no task that was recorded runs again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from runwell.testing.killing import Program, places

pytestmark = pytest.mark.integration

PROGRAM = '''
"""Starts the workflow, or goes on with it."""
import asyncio, os, sqlite3
from runwell.graph import Command, entrypoint, interrupt, task
from runwell.persistence import SqliteSaver
from runwell.testing.killing import mark


def effect(name):
    """Durable the moment it has happened."""
    handle = os.open(JOURNAL, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, (name + "\\n").encode())
    os.close(handle)


class Marking(SqliteSaver):
    def commit(self, commit, types=frozenset()):
        mark("before commit")
        super().commit(commit, types)
        mark("committed")

    def save_task(self, thread, ns, checkpoint, record, *args, **options):
        mark("before save_task")
        super().save_task(thread, ns, checkpoint, record, *args, **options)
        mark("task saved")


@task
def step(n):
    mark("begin")
    effect(f"ran {n}")
    mark("effect")
    return n * 10


@task
async def both(n):
    return await step(n) + await step(n + 1)


def main(database, journal, colour):
    global JOURNAL
    JOURNAL = journal
    with Marking(database) as saver:
        return start(saver, colour)


def start(saver, colour):
    if colour == "plain":

        @entrypoint(checkpointer=saver)
        def flow(n):
            first = step(n).result()
            answer = interrupt("?")
            return [first, answer, both(n + 1).result(), step(n + 3).result()]

    else:

        @entrypoint(checkpointer=saver)
        async def flow(n):
            first = await step(n)
            answer = interrupt("?")
            return [first, answer, await both(n + 1), await step(n + 3)]


    config = {"configurable": {"thread_id": "t"}}
    state = flow.get_state(config)
    if state.interrupts:
        given = Command(resume="yes")
    elif state.next:
        given = None
    else:
        given = 1
    call = flow.invoke if colour == "plain" else lambda *args: asyncio.run(flow.ainvoke(*args))
    if state.values is None:
        result = call(given, config)
        if "__interrupt__" in result:
            result = call(Command(resume="yes"), config)
    else:
        result = state.values
    return result
'''


EXPECTED = [10, "yes", 50, 40]


@pytest.fixture(scope="module")
def program(programs: Any) -> Program:
    return programs(PROGRAM)


def test_a_workflow_killed_behind_its_first_task_goes_on_behind_it(program: Program, tmp_path: Path) -> None:
    arguments = (str(tmp_path / "db.sqlite"), str(tmp_path / "journal"), "async")
    marks, _ = program.run(*arguments, kill_at=6)
    assert marks[:6] == ["before commit", "committed", "begin", "effect", "before save_task", "task saved"]
    _, result = program.run(*arguments)
    assert result == EXPECTED
    assert Counter((tmp_path / "journal").read_text().splitlines())["ran 1"] == 1


@pytest.mark.parametrize("colour", ["plain", "async"])
def test_a_recorded_task_never_runs_again_wherever_the_process_is_killed(
    colour: str, program: Program, tmp_path: Path
) -> None:
    marks, result = program.run(str(tmp_path / "whole.db"), str(tmp_path / "whole"), colour)
    assert result == EXPECTED
    assert len(marks) > 20
    for place in places(marks):
        arguments = (str(tmp_path / f"{place}.db"), str(tmp_path / f"{place}.journal"), colour)
        program.run(*arguments, kill_at=place)
        _, result = program.run(*arguments)
        assert result == EXPECTED, f"killed at mark {place}, {marks[place]!r}"
        ran = Counter(Path(arguments[1]).read_text().splitlines())
        assert set(ran) == {"ran 1", "ran 2", "ran 3", "ran 4"}
        again = [line for line, times in ran.items() if times > 1]
        # only the task under way when the process died may have run twice
        assert len(again) <= 1, f"killed at mark {place}, {marks[place]!r}: {again}"
        for line in again:
            assert marks[place] in ("effect", "before save_task", "begin"), f"killed at {marks[place]!r}: {line} again"
