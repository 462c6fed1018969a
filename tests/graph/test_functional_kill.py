"""A workflow whose process is killed with -9 anywhere: on the next start no task that was recorded runs again."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

PROGRAM = '''
"""Starts the workflow, or goes on with it. Each mark is a line on stdout, after which it waits for a line on stdin."""
import asyncio, os, sys
from runwell.graph import Command, entrypoint, interrupt, task
from runwell.persistence import SqliteSaver

database, journal, colour = sys.argv[1:]


def mark(text):
    os.write(1, (text + "\\n").encode())
    os.read(0, 1)


def effect(name):
    """Durable the moment it has happened."""
    handle = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
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


saver = Marking(database)
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
os.write(1, f"result {result}\\n".encode())
'''


def started(folder: Path, colour: str, marks: int | None) -> tuple[list[str], str]:
    """Run the program, past so many marks, and kill it there (None: to its end); the marks passed, and the result."""
    program = folder / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, str(program), str(folder / "db.sqlite"), str(folder / "journal"), colour]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert child.stdin is not None
    assert child.stdout is not None
    passed: list[str] = []
    result = ""
    try:
        for raw in iter(child.stdout.readline, b""):
            line = raw.decode().strip()
            if line.startswith("result "):
                result = line.removeprefix("result ")
                break
            if marks is not None and len(passed) == marks:
                child.send_signal(signal.SIGKILL)
                break
            passed.append(line)
            child.stdin.write(b"\n")
        child.wait(timeout=30)
    finally:
        child.kill()
        child.stdin.close()
        child.stdout.close()
    return passed, result


EXPECTED = "[10, 'yes', 50, 40]"


def test_a_workflow_killed_behind_its_first_task_goes_on_behind_it(tmp_path: Path) -> None:
    marks, _ = started(tmp_path, "async", 6)
    assert marks == ["before commit", "committed", "begin", "effect", "before save_task", "task saved"]
    _, result = started(tmp_path, "async", None)
    assert result == EXPECTED
    assert Counter((tmp_path / "journal").read_text().split())["1"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("colour", ["plain", "async"])
def test_a_recorded_task_never_runs_again_wherever_the_process_is_killed(colour: str, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    marks, result = started(whole, colour, None)
    assert result == EXPECTED
    assert len(marks) > 20
    for place in range(len(marks)):
        folder = tmp_path / str(place)
        folder.mkdir()
        started(folder, colour, place)
        _, result = started(folder, colour, None)
        assert result == EXPECTED, f"killed at mark {place}, {marks[place]!r}"
        journal = (folder / "journal").read_text().split("\n")
        ran = Counter(line for line in journal if line.startswith("ran "))
        assert set(ran) == {"ran 1", "ran 2", "ran 3", "ran 4"}
        again = [line for line, times in ran.items() if times > 1]
        # only the task under way when the process died may have run twice
        assert len(again) <= 1, f"killed at mark {place}, {marks[place]!r}: {again}"
        for line in again:
            assert marks[place] in ("effect", "before save_task", "begin"), f"killed at {marks[place]!r}: {line} again"
