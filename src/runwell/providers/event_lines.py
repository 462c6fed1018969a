"""The events of a streamed response, cut at its line breaks and at nothing else that a text may hold."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from json import loads
from typing import Any

__all__ = ["AsyncEvents", "AsyncLines", "Events", "Lines"]


class _Cut:
    """Lines out of pieces. httpx cuts at every break that Unicode knows, and JSON may hold some of them unescaped."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def take(self, piece: bytes) -> list[bytes]:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        return lines

    def end(self) -> list[bytes]:
        return [self._rest] if self._rest else []


class Lines:
    """The JSON texts of a response, one a line."""

    def __init__(self, response: Any) -> None:
        self.response = response
        self._lines = self._cut()

    def _cut(self) -> Iterator[bytes]:
        cut = _Cut()
        for piece in self.response.iter_bytes():
            yield from cut.take(piece)
        yield from cut.end()

    def __next__(self) -> Any:
        for line in self._lines:
            text = self.text(line)
            if text:
                return loads(text)
        raise StopIteration

    def text(self, line: bytes) -> bytes:
        """The JSON in a line; nothing if it holds none."""
        return line.strip()

    def close(self) -> None:
        self.response.close()


class AsyncLines:
    """As `Lines`."""

    def __init__(self, response: Any) -> None:
        self.response = response
        self._lines = self._cut()

    async def _cut(self) -> AsyncIterator[bytes]:
        cut = _Cut()
        async for piece in self.response.aiter_bytes():
            for line in cut.take(piece):
                yield line
        for line in cut.end():
            yield line

    async def __anext__(self) -> Any:
        async for line in self._lines:
            text = self.text(line)
            if text:
                return loads(text)
        raise StopAsyncIteration

    def text(self, line: bytes) -> bytes:
        """The JSON in a line; nothing if it holds none."""
        return line.strip()

    async def close(self) -> None:
        await self.response.aclose()


class Events(Lines):
    """The data of a response's server-sent events, each of which is a JSON text on one line. `[DONE]` says nothing."""

    def text(self, line: bytes) -> bytes:
        return _data(line)


class AsyncEvents(AsyncLines):
    """As `Events`."""

    def text(self, line: bytes) -> bytes:
        return _data(line)


def _data(line: bytes) -> bytes:
    if not line.startswith(b"data:"):
        return b""
    text = line[5:].strip()
    return b"" if text == b"[DONE]" else text
