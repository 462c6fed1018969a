"""Long answers, which come in several requests: each but the first says the token that the one before ended with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

__all__ = ["AsyncHops", "Hops", "next_token"]


def next_token(said: Any) -> str | None:
    """The token under which an answer goes on; None at its end."""
    candidates = said.get("candidates") if isinstance(said, Mapping) else None
    last = candidates[0] if isinstance(candidates, list) and candidates else {}
    if not isinstance(last, Mapping):
        return None
    return last.get("continuationToken") or None if last.get("finishReason") == "CONTINUATION" else None


class Hops:
    """The events of one answer, whose parts `begin(token)` starts."""

    def __init__(self, begin: Callable[[str | None], Any]) -> None:
        self._begin = begin
        self._events = begin(None)
        self._token: str | None = None

    @property
    def response(self) -> Any:
        """The HTTP response that is being read."""
        return self._events.response

    def __next__(self) -> Any:
        event = next(self._events, None)
        if event is None and self._token is not None:
            self._events.close()
            self._events = self._begin(self._token)
            event = next(self._events, None)
        if event is None:
            raise StopIteration
        self._token = next_token(event)
        return event

    def close(self) -> None:
        self._events.close()


class AsyncHops:
    """As `Hops`, made by `started`."""

    def __init__(self, begin: Callable[[str | None], Awaitable[Any]], events: Any) -> None:
        self._begin = begin
        self._events = events
        self._token: str | None = None

    @classmethod
    async def started(cls, begin: Callable[[str | None], Awaitable[Any]]) -> AsyncHops:
        """With the first part begun."""
        return cls(begin, await begin(None))

    @property
    def response(self) -> Any:
        """The HTTP response that is being read."""
        return self._events.response

    async def __anext__(self) -> Any:
        event = await anext(self._events, None)
        if event is None and self._token is not None:
            await self._events.close()
            self._events = await self._begin(self._token)
            event = await anext(self._events, None)
        if event is None:
            raise StopAsyncIteration
        self._token = next_token(event)
        return event

    async def close(self) -> None:
        await self._events.close()
