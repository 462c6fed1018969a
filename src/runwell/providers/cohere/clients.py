"""Cohere's SDK's clients, one colour each, over HTTP clients that are ours to close."""

from __future__ import annotations

from typing import Any

from runwell.providers.certificates import trusted_by
from runwell.providers.clients import Clients

__all__ = ["CohereClients"]


class CohereClients(Clients):
    """The HTTP clients of `cohere`, with the address, the key and the headers that it sends.

    Its typed methods are passed by: they skip events of a stream that they cannot read with a line in the log.
    """

    __slots__ = ()

    def make(self, model: Any) -> Any:
        import httpx
        from cohere import ClientV2

        http = model.http_client or httpx.Client(verify=trusted_by("httpx"), follow_redirects=True)
        return _ready(ClientV2(httpx_client=http, **_told(model)))

    def make_async(self, model: Any) -> Any:
        import httpx
        from cohere import AsyncClientV2

        http = model.http_async_client or httpx.AsyncClient(verify=trusted_by("httpx"), follow_redirects=True)
        return _ready(AsyncClientV2(httpx_client=http, **_told(model)))

    async def close_async(self, client: Any) -> None:
        await client.http.aclose()


class _Ready:
    """What a request needs of the SDK's client."""

    __slots__ = ("close", "headers", "http")

    def __init__(self, http: Any, headers: dict[str, str]) -> None:
        self.http = http
        self.headers = headers
        self.close = getattr(http, "close", None)


def _ready(client: Any) -> _Ready:
    wrapper = client._client_wrapper
    return _Ready(wrapper.httpx_client.httpx_client, wrapper.get_headers())


def _told(model: Any) -> dict[str, Any]:
    return {
        "api_key": model.api_key.get_secret_value(),
        "base_url": model.base_url,  # without it the SDK reads CO_API_URL
        "client_name": model.client_name,
        "max_retries": 0,
        "log_warning_experimental_features": False,
    }
