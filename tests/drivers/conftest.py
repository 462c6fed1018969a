"""The same engine code under both drivers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from runwell.drivers import run_async, run_sync

SOURCE = Path(__file__).resolve().parents[2] / "src"


class Sync:
    colour = "sync"

    def run(self, flow, emit=None):
        return run_sync(flow, emit)


class Async:
    colour = "async"

    def run(self, flow, emit=None):
        async def main():
            async def put(item):
                emit(item)

            return await run_async(flow, None if emit is None else put)

        return asyncio.run(main())


@pytest.fixture(params=[Sync, Async], ids=["sync", "async"])
def driver(request):
    return request.param()


@pytest.fixture
def program(tmp_path):
    """Write a program and start it; the caller talks to it and waits for it."""
    started = []

    def start(text):
        path = tmp_path / f"program{len(started)}.py"
        path.write_text("from __future__ import annotations\n" + textwrap.dedent(text), encoding="utf-8")
        process = subprocess.Popen(
            [sys.executable, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONUNBUFFERED": "1"},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


class Gate:
    """Lets a test know that something was reached, and hold it there."""

    def __init__(self):
        self.reached = threading.Event()
        self.opened = threading.Event()

    def hold(self):
        self.reached.set()
        assert self.opened.wait(20)

    def wait(self):
        assert self.reached.wait(20)


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.opened.set()
