"""OpenAI's SDK's clients, made so that only what the program says identifies the account."""

from __future__ import annotations

from typing import Any

from pydantic import SecretStr

from runwell.providers.certificates import trusted_by
from runwell.providers.clients import Clients, overruled_headers
from runwell.providers.sent_apart import sendable_key

__all__ = ["OpenAIClients", "client_settings", "direct", "http_client", "key_source"]


class OpenAIClients(Clients):
    """Clients of `openai`."""

    __slots__ = ()

    def make(self, model: Any) -> Any:
        from openai import OpenAI

        return direct(OpenAI(http_client=http_client(model), **client_settings(model)), model)

    def make_async(self, model: Any) -> Any:
        from openai import AsyncOpenAI

        return direct(AsyncOpenAI(http_client=http_client(model, aio=True), **client_settings(model, aio=True)), model)


def http_client(model: Any, *, aio: bool = False) -> Any:
    """The one that was handed in, else one as the SDK would make it."""
    from openai import DefaultAsyncHttpxClient, DefaultHttpxClient

    if aio:
        return model.http_async_client or DefaultAsyncHttpxClient(verify=trusted_by("httpx2"))
    return model.http_client or DefaultHttpxClient(verify=trusted_by("httpx2"))


def client_settings(model: Any, *, aio: bool = False) -> dict[str, Any]:
    """What both of the SDK's clients are made with."""
    from openai import Omit

    key = model.api_key
    key = key.get_secret_value() if isinstance(key, SecretStr) else key_source(key, aio)
    return {
        "api_key": key,
        "admin_api_key": "",  # otherwise read from the environment
        "base_url": model.base_url,
        "organization": model.organization or "",
        "project": model.project or "",
        "max_retries": 0,
        "default_headers": {**overruled_headers("OPENAI_CUSTOM_HEADERS", Omit, key), **model.default_headers},
        "default_query": model.default_query or None,
    }


def key_source(give: Any, aio: bool) -> Any:
    """A function that gives the key, in the colour the client awaits."""
    from runwell.drivers.aio import call_async
    from runwell.drivers.colour import callee
    from runwell.drivers.sync import call_sync

    source = callee(give)
    if not aio:
        return lambda: _sendable(call_sync(source))

    async def key() -> Any:
        return _sendable(await call_async(source))

    return key


def _sendable(key: Any) -> Any:
    return sendable_key("The function that gives it", key) if isinstance(key, str) else key


def direct(client: Any, model: Any) -> Any:
    """Only what the program says, not what the environment adds, identifies the account."""
    client.organization = model.organization
    client.project = model.project
    client.admin_api_key = None
    return client
