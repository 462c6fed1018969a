"""Real servers: of the SDK in memory, as programs over stdio, and over HTTP. Tests run in both colours."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from runwell.mcp import MCPClient, Stdio
from runwell.testing.colours import COLOURS

MISBEHAVING = Path(__file__).parent / "servers" / "misbehaving.py"


@pytest.fixture(params=COLOURS, ids=[colour.name for colour in COLOURS])
def run(request: pytest.FixtureRequest) -> Any:
    return request.param()


def tool_call(name: str, id: str = "c1", **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


def named(client: MCPClient) -> dict[str, Any]:
    return {tool.name: tool for tool in client.tools()}


@pytest.fixture
def notes(tmp_path: Path) -> Any:
    """What the server noted that it did."""
    path = tmp_path / "notes"
    path.touch()
    return path


@pytest.fixture
def program(notes: Path) -> Stdio:
    """The misbehaving server, as a program."""
    return Stdio(sys.executable, [str(MISBEHAVING)], env={"NOTES": str(notes)})


@pytest.fixture(scope="module")
def shared() -> Iterator[MCPClient]:
    """A client of the misbehaving server over stdio, for tests that leave it alive."""
    with MCPClient(Stdio(sys.executable, [str(MISBEHAVING)]), name="m") as client:
        yield client


@pytest.fixture
def server() -> MCPServer:
    """The misbehaving server, anew, in this process."""
    spec = importlib.util.spec_from_file_location("misbehaving", MISBEHAVING)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.server


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def running(app: Any, port: int | None = None) -> Iterator[str]:
    """An ASGI application behind a URL."""
    import uvicorn

    port = port or free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 10
    while not listening(port):
        assert time.monotonic() < until
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.should_exit = True
        server.force_exit = True
        thread.join(10)


class HttpServer:
    """A server behind a URL, the misbehaving one; it can be stopped and started again on the same port."""

    def __init__(self, notes: Path, script: Path = MISBEHAVING) -> None:
        self.script = script
        self.port = free_port()
        self.notes = notes
        self.process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self.port}/mcp"

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(self.script), "--http", str(self.port)],
            env={**os.environ, "NOTES": str(self.notes)},
        )
        until = time.monotonic() + 30
        while time.monotonic() < until:
            if listening(self.port):
                return
            time.sleep(0.05)
        raise AssertionError("the server does not listen")

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None


@pytest.fixture(scope="session")
def http_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    notes = tmp_path_factory.mktemp("http") / "notes"
    notes.touch()
    server = HttpServer(notes)
    server.start()
    yield server
    server.stop()
