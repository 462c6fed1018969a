"""A server that is a program of this machine: started in a group of its own, read line by line, ended with its group.

The SDK's transport for programs is not used where processes have groups: it reads a line whole however long it is, and
leaves children alone whose parent ended in time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from runwell.mcp.target import Stdio

__all__ = ["MAX_LINE", "Complaints", "program"]

_log = logging.getLogger("runwell.mcp")

MAX_LINE = 64 * 1024 * 1024
"""Bytes of one message. A program that writes more without a newline is ended."""

GRACE_S = 2.0
"""How long a program has to end after its input was closed, and again after SIGTERM."""

_POLL_S = 0.01
_FLUSH_S = 0.5
_TOLD = 5
"""How many lines that are no messages are told of."""


class Complaints:
    """What a program writes to its standard error: passed on to ours as it is then, its end kept for error messages.

    A thread reads it, so that a program that floods it waits for whoever reads ours, and nobody else does.
    """

    KEPT = 2_000

    def __init__(self) -> None:
        self._end = b""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def open(self) -> int:
        """The descriptor for the program to write to; to be closed here once the program has it."""
        read, write = os.pipe()
        self._thread = threading.Thread(target=self._pass_on, args=(read,), name="runwell-mcp-stderr", daemon=True)
        self._thread.start()
        return write

    @property
    def heard_out(self) -> bool:
        """Whether all that was written is passed on, and nobody is left to write more."""
        return self._thread is None or not self._thread.is_alive()

    @property
    def end(self) -> str:
        """Its last words."""
        with self._lock:
            return self._end.decode(errors="replace").strip()

    def _pass_on(self, source: int) -> None:
        with open(source, "rb", buffering=0) as stream:
            while part := stream.read(65_536):
                with self._lock:
                    self._end = (self._end + part[-self.KEPT :])[-self.KEPT :]
                with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or none, as under pythonw
                    _say(sys.stderr, part)


def _say(stream: Any, part: bytes) -> None:
    """Write to a stream; past its buffer where it is a file, whose lock must not be held when the program ends."""
    try:
        descriptor = stream.fileno()
    except (AttributeError, OSError, ValueError):  # a notebook's or a test's stand-in
        stream.write(part.decode(errors="replace"))
        stream.flush()
        return
    while part:
        part = part[os.write(descriptor, part) :]


@asynccontextmanager
async def program(
    target: Stdio, name: str, complaints: Complaints, on_end: Callable[[str | None], None]
) -> AsyncIterator[Any]:
    """Start a program and give the SDK's pair of streams. `on_end(why)` hears when it has nothing more to say.

    Left, it ends: its input is closed, then SIGTERM goes to it and its children, then SIGKILL. Raises OSError if it
    cannot be started.
    """
    from mcp.client.stdio import get_default_environment

    stderr = complaints.open()
    try:
        process = await anyio.open_process(
            [target.command, *target.args],
            env=get_default_environment() | dict(target.env or {}),
            cwd=target.cwd,
            stderr=stderr,
            start_new_session=True,
        )
    finally:
        os.close(stderr)
    incoming, read = anyio.create_memory_object_stream[Any](0)
    write, outgoing = anyio.create_memory_object_stream[Any](0)
    flushed = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, process, incoming, name, on_end)
        tasks.start_soon(_write, process, outgoing, incoming, flushed)
        try:
            yield read, write
        finally:
            with anyio.CancelScope(shield=True):  # however it is left, no process stays
                read.close()  # whoever still writes is not kept waiting
                write.close()
                with anyio.move_on_after(_FLUSH_S):
                    await flushed.wait()
                await _end(process, name)
                await _until(lambda: complaints.heard_out, _FLUSH_S)
            tasks.cancel_scope.cancel()


async def _read(process: Any, incoming: Any, name: str, on_end: Callable[[str | None], None]) -> None:
    """Messages to the session, then nothing: what comes after its end is read and dropped."""
    why: str | None = None
    junk = 0
    async with incoming:
        lines = _Lines()
        try:
            async for chunk in process.stdout:
                for line in lines.add(chunk):
                    message = _message(line)
                    if message is not None:
                        await incoming.send(message)
                    elif junk < _TOLD and line.strip():
                        junk += 1
                        _log.warning("MCP server %r wrote what is no message: %.200r", name, line)
                if lines.pending > MAX_LINE:
                    why = f"it wrote more than {MAX_LINE} bytes without a newline"
                    break
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            pass  # one side is gone, which the session hears of when its stream ends
        on_end(why)
    if why is not None:
        _signal(process.pid, signal.SIGKILL)
    with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        async for _ in process.stdout:
            pass


class _Lines:
    """Bytes as lines, without looking at any twice."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.pending = 0

    def add(self, chunk: bytes) -> list[bytes]:
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join([*self._parts, lines[0]])
            self._parts, self.pending = [], 0
        self._parts.append(rest)
        self.pending += len(rest)
        return lines


def _message(line: bytes) -> Any:
    """A line as the SDK's message; None if it is none."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None


async def _write(process: Any, outgoing: Any, incoming: Any, flushed: anyio.Event) -> None:
    try:
        async with outgoing:
            async for each in outgoing:
                text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(text.encode() + b"\n")
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        await incoming.aclose()  # it may live on, and hears nothing: the session must not wait for it
    finally:
        flushed.set()


async def _end(process: Any, name: str) -> None:
    with contextlib.suppress(OSError, anyio.ClosedResourceError, anyio.BrokenResourceError):
        await process.stdin.aclose()
    await _until(lambda: process.returncode is not None)
    for each in (signal.SIGTERM, signal.SIGKILL):  # to children too whose parent is gone already
        if not _signal(process.pid, each):
            break
        await _until(lambda: process.returncode is not None and not _signal(process.pid, 0))
    if process.returncode is None:
        _log.warning("MCP server %r (process %d) does not end, even when it is killed", name, process.pid)
    with contextlib.suppress(OSError, anyio.ClosedResourceError, anyio.BrokenResourceError):
        await process.stdout.aclose()
    # One that left its group may hold the pipe's other end: asyncio would wait for it, and warn.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        with contextlib.suppress(PermissionError):
            transport.close()


async def _until(done: Callable[[], bool], seconds: float | None = None) -> None:
    """Wait for it, for a while. (Not `process.wait()`, which waits also for whoever holds its pipes.)"""
    with anyio.move_on_after(GRACE_S if seconds is None else seconds):
        while not done():
            await anyio.sleep(_POLL_S)


def _signal(group: int, number: int) -> bool:
    """Signal a group of processes; whether there still is one."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's by now
        return False
    return True
