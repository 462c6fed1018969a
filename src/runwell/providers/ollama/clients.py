"""The clients of Ollama's SDK."""

from __future__ import annotations

from typing import Any

from pydantic import SecretStr

from runwell.providers.clients import Clients

__all__ = ["OllamaClients"]


class OllamaClients(Clients):
    """The HTTP clients that the SDK makes. Its typed requests are passed by: they drop what a tool's schema nests."""

    __slots__ = ()

    def make(self, model: Any) -> Any:
        if model.http_client is not None:
            return model.http_client
        from ollama import Client

        return _keyed(Client(host=model.base_url, headers=dict(model.default_headers))._client, model)

    def make_async(self, model: Any) -> Any:
        if model.http_async_client is not None:
            return model.http_async_client
        from ollama import AsyncClient

        return _keyed(AsyncClient(host=model.base_url, headers=dict(model.default_headers))._client, model)

    async def close_async(self, client: Any) -> None:
        await client.aclose()


def _keyed(client: Any, model: Any) -> Any:
    """With the model's key and no other: the SDK adds the one in the environment, wherever the host is."""
    named = {name.lower() for name in model.default_headers}
    if isinstance(model.api_key, SecretStr):
        client.headers["authorization"] = f"Bearer {model.api_key.get_secret_value()}"
    elif "authorization" not in named:
        client.headers.pop("authorization", None)
    return client
