"""The clients of Ollama's SDK."""

from __future__ import annotations

from typing import Any

from pydantic import SecretStr

from runwell.providers.certificates import trusted_by
from runwell.providers.clients import Clients

__all__ = ["OllamaClients"]


class OllamaClients(Clients):
    """The HTTP clients that the SDK makes. Its typed requests are passed by: they drop what a tool's schema nests."""

    __slots__ = ()

    def make(self, model: Any) -> Any:
        if model.http_client is not None:
            return _Given(model.http_client, model)
        from ollama import Client

        return _keyed(Client(**_told(model))._client, model)

    def make_async(self, model: Any) -> Any:
        if model.http_async_client is not None:
            return _Given(model.http_async_client, model)
        from ollama import AsyncClient

        return _keyed(AsyncClient(**_told(model))._client, model)

    async def close_async(self, client: Any) -> None:
        await client.aclose()


def _told(model: Any) -> dict[str, Any]:
    return {"host": model.base_url, "headers": dict(model.default_headers), "verify": trusted_by("httpx")}


def _keyed(client: Any, model: Any) -> Any:
    """With the model's key and no other: the SDK adds the one in the environment, wherever the host is."""
    named = {name.lower() for name in model.default_headers}
    if isinstance(model.api_key, SecretStr):
        client.headers["authorization"] = f"Bearer {model.api_key.get_secret_value()}"
    elif "authorization" not in named:
        client.headers.pop("authorization", None)
    return client


class _Given:
    """A client that was handed in, which knows neither the model's address nor its key. It is closed by its owner."""

    __slots__ = ("_headers", "_http", "_where", "send")

    def __init__(self, http: Any, model: Any) -> None:
        self._http = http
        self._where = model.base_url
        self._headers = dict(model.default_headers)
        if isinstance(model.api_key, SecretStr):
            self._headers["authorization"] = f"Bearer {model.api_key.get_secret_value()}"
        self.send = http.send

    def post(self, path: str, *, headers: Any = None, **sending: Any) -> Any:
        return self._http.post(self._where + path, headers={**self._headers, **(headers or {})}, **sending)

    def build_request(self, method: str, path: str, *, headers: Any = None, **sending: Any) -> Any:
        return self._http.build_request(
            method, self._where + path, headers={**self._headers, **(headers or {})}, **sending
        )
