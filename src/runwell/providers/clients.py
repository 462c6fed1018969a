"""The SDK's clients of one model: one for plain calls, one for each event loop."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet, finalize

if TYPE_CHECKING:
    import asyncio

__all__ = ["Clients", "overruled_headers"]


class Clients:
    """Made when first used. The plain client is closed with the model, an async one with its event loop, whose
    connections it holds. Clients that were handed in are closed by whoever made them. A process that was forked has
    clients of its own: a connection that two processes read gives each half of an answer."""

    __slots__ = ("__weakref__", "_closing", "_lock", "_loops", "_plain")

    def __init__(self) -> None:
        _all.add(self)
        self._start()

    def _start(self) -> None:
        """With no clients yet: at first, and in a process that was forked."""
        self._lock = threading.Lock()
        self._plain: Any = None
        self._closing: Any = None
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Any, Any]] = WeakKeyDictionary()

    def make(self, model: Any) -> Any:
        """A client for plain calls."""
        raise NotImplementedError

    def make_async(self, model: Any) -> Any:
        """A client for the running event loop."""
        raise NotImplementedError

    async def close_async(self, client: Any) -> None:
        """Close a client that `make_async` gave."""
        await client.close()

    def plain(self, model: Any) -> Any:
        """For plain calls, from any thread."""
        client = self._plain
        if client is None:
            with self._lock:
                if self._plain is None:
                    made = self.make(model)
                    if model.http_client is None:
                        self._closing = finalize(self, made.close)
                        self._closing.atexit = False
                    self._plain = made
                client = self._plain
        return client

    async def on_loop(self, model: Any) -> Any:
        """For the running event loop."""
        import asyncio

        loop = asyncio.get_running_loop()
        held = self._loops.get(loop)
        if held is None:
            client = self.make_async(model)
            keeper = self._open_until_loop_ends(client) if model.http_async_client is None else None
            self._loops[loop] = held = (client, keeper)
            if keeper is not None:
                await anext(keeper)
        return held[0]

    async def _open_until_loop_ends(self, client: Any) -> AsyncIterator[None]:
        """Event loops finish their async generators when they shut down: this one closes the client then."""
        try:
            yield
        finally:
            await self.close_async(client)


_all: WeakSet[Clients] = WeakSet()
_of_the_parent: list[Any] = []
"""Kept, so that nothing of the parent's is closed here."""


def _after_fork() -> None:
    for clients in _all:
        _of_the_parent.append((clients._plain, clients._loops))
        if clients._closing is not None:
            clients._closing.detach()
        clients._start()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def overruled_headers(variable: str, omit: Any, key: Any) -> dict[str, Any]:
    """SDKs add the headers in an environment variable to each request; each is overruled by what is returned."""
    lines = os.environ.get(variable, "").split("\n")
    names = [line.partition(":")[0].strip() for line in lines if ":" in line]
    overruled: dict[str, Any] = {name: omit() for name in names}
    for name in names:
        if name.lower() == "authorization" and isinstance(key, str):
            overruled[name] = f"Bearer {key}"
    return overruled
