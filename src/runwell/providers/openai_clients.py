"""The SDK's clients of one model: one for plain calls, one for each event loop."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pydantic import SecretStr

if TYPE_CHECKING:
    import asyncio

    from openai import AsyncOpenAI, OpenAI

__all__ = ["Clients"]


class Clients:
    """Made when first used. An async client is closed with its event loop, whose connections it holds."""

    __slots__ = ("_lock", "_loops", "_plain")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plain: OpenAI | None = None
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[AsyncOpenAI, Any]] = WeakKeyDictionary()

    def plain(self, model: Any) -> Any:
        """For plain calls, from any thread."""
        client = self._plain
        if client is None:
            from openai import OpenAI

            with self._lock:
                if self._plain is None:
                    self._plain = _direct(OpenAI(http_client=model.http_client, **_settings(model)), model)
                client = self._plain
        return client

    async def on_loop(self, model: Any) -> Any:
        """For the running event loop."""
        import asyncio

        loop = asyncio.get_running_loop()
        held = self._loops.get(loop)
        if held is None:
            from openai import AsyncOpenAI

            client = _direct(AsyncOpenAI(http_client=model.http_async_client, **_settings(model, aio=True)), model)
            keeper = _open_until_loop_ends(client) if model.http_async_client is None else None
            self._loops[loop] = held = (client, keeper)
            if keeper is not None:  # a client that was handed in is closed by whoever made it
                await anext(keeper)
        return held[0]


async def _open_until_loop_ends(client: AsyncOpenAI) -> AsyncIterator[None]:
    """Event loops finish their async generators when they shut down: this one closes the client then."""
    try:
        yield
    finally:
        await client.close()


def _settings(model: Any, *, aio: bool = False) -> dict[str, Any]:
    key = model.api_key
    key = key.get_secret_value() if isinstance(key, SecretStr) else _key_source(key, aio)
    return {
        "api_key": key,
        "admin_api_key": "",  # otherwise read from the environment
        "base_url": model.base_url,
        "organization": model.organization or "",
        "project": model.project or "",
        "max_retries": 0,
        "default_headers": {**_no_ambient_headers(key), **model.default_headers},
        "default_query": model.default_query or None,
    }


def _key_source(give: Any, aio: bool) -> Any:
    """A function that gives the key, in the colour the client awaits."""
    from runwell.drivers.aio import call_async
    from runwell.drivers.colour import callee
    from runwell.drivers.sync import call_sync

    source = callee(give)
    if not aio:
        return lambda: call_sync(source)

    async def key() -> Any:
        return await call_async(source)

    return key


def _direct(client: Any, model: Any) -> Any:
    """Only what the program says, not what the environment adds, identifies the account."""
    client.organization = model.organization
    client.project = model.project
    client.admin_api_key = None
    return client


def _no_ambient_headers(key: Any) -> dict[str, Any]:
    """The SDK adds the headers in OPENAI_CUSTOM_HEADERS to each request; each is overruled here."""
    lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
    names = [line.partition(":")[0].strip() for line in lines if ":" in line]
    if not names:
        return {}
    from openai import Omit

    overruled: dict[str, Any] = {name: Omit() for name in names}
    for name in names:
        if name.lower() == "authorization" and isinstance(key, str):
            overruled[name] = f"Bearer {key}"
    return overruled
