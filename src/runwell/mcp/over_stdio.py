"""A server over standard input and output, for the program that started it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

from runwell.errors import InvalidConfig
from runwell.mcp.program import MAX_LINE

__all__ = ["serve_stdio"]


def serve_stdio(server: Any) -> None:
    """Serve until the other side closes our input. Ctrl-C raises KeyboardInterrupt, SIGTERM ends with status 143."""
    if sys.stdin is None or sys.stdin.closed:
        raise InvalidConfig(
            "There is no standard input to serve.", hint="An MCP client starts the command; or serve over HTTP: --http."
        )
    if sys.stdin.isatty():
        sys.stderr.write("This speaks MCP over standard input and output, for a client to start. Ctrl-C ends it.\n")
    asyncio.run(_serve(server))


async def _serve(server: Any) -> None:
    from mcp.server.stdio import stdio_server

    task = asyncio.current_task()
    assert task is not None
    stopped_by: list[int] = []

    def stop(number: int) -> None:
        stopped_by.append(number)
        task.cancel()

    lines: Any = None
    if sys.platform != "win32":
        lines = _Lines()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, stop, number)
    try:
        async with stdio_server(stdin=lines) as (read, write):
            await server.run(read, write, server.create_initialization_options())
    except BaseException:  # what was under way falls over itself when it is stopped
        if not stopped_by:
            raise
    finally:
        if lines is not None:
            lines.give_back()
    if stopped_by[:1] == [signal.SIGINT]:
        raise KeyboardInterrupt
    if stopped_by:
        raise SystemExit(128 + stopped_by[0])


class _Lines:
    """The lines of our input, read by a thread that the end of the program does not wait for.

    The SDK's own reader cannot be interrupted: Ctrl-C would wait for the next line. As with that, whoever else reads
    the input of this process finds nothing meanwhile.
    """

    def __init__(self) -> None:
        self._source = os.dup(0)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)

    def give_back(self) -> None:
        os.dup2(self._source, 0)

    async def __aiter__(self) -> AsyncIterator[str]:
        loop = asyncio.get_running_loop()
        lines: asyncio.Queue[bytes] = asyncio.Queue()
        room = threading.Semaphore(2)  # no more is read than is waited for
        threading.Thread(target=self._read, args=(loop, lines, room), name="runwell-mcp-stdin", daemon=True).start()
        while line := await lines.get():
            yield line.decode(errors="replace")
            room.release()

    def _read(self, loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[bytes], room: threading.Semaphore) -> None:
        with open(self._source, "rb", closefd=False) as source:
            while True:
                line = source.readline(MAX_LINE + 1)
                if len(line) > MAX_LINE:  # who writes more without a newline is not listened to
                    line = b""
                room.acquire()
                try:
                    loop.call_soon_threadsafe(lines.put_nowait, line)
                except RuntimeError:  # it is closed
                    return
                if not line:
                    return
