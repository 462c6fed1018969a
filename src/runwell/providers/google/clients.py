"""The clients of Google's SDK, one colour each, made so that only what the program says decides where requests go and
who pays.

The SDK makes the requests, names the account and reads the streams. Its typed models are passed by: a body is sent as
we write it and an answer read as the server wrote it, so that nothing a vendor adds is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from runwell.providers.certificates import trusted_by
from runwell.providers.clients import Clients

__all__ = ["AsyncGoogle", "GoogleClients", "PlainGoogle"]


class GoogleClients(Clients):
    """Clients of `google.genai`."""

    __slots__ = ()

    def make(self, model: Any) -> Any:
        import httpx2

        http = model.http_client or httpx2.Client(verify=trusted_by("httpx2"), follow_redirects=True)
        return PlainGoogle(model, http)

    def make_async(self, model: Any) -> Any:
        import httpx2

        http = model.http_async_client or httpx2.AsyncClient(verify=trusted_by("httpx2"), follow_redirects=True)
        return AsyncGoogle(model, http)


class PlainGoogle:
    """The SDK over one HTTP client."""

    def __init__(self, model: Any, http: Any) -> None:
        import httpx2

        self.http = http
        # each colour's SDK is given a client for the other one too, which is never opened
        unused = httpx2.AsyncClient(transport=httpx2.AsyncBaseTransport(), trust_env=False)
        self._api = _sdk(model, http, unused)

    def post(self, path: str, body: dict[str, Any], options: Mapping[str, Any]) -> Any:
        """(The headers of the answer, its text.)"""
        answer = self._api._request_once(_built(self._api, path, body, options))
        return answer.headers, answer.response_stream[0]

    def stream(self, path: str, body: dict[str, Any], options: Mapping[str, Any]) -> Events:
        """The events of an answer."""
        return Events(self._api._request_once(_built(self._api, path, body, options), stream=True))

    def close(self) -> None:
        self.http.close()


class AsyncGoogle:
    """As `PlainGoogle`."""

    def __init__(self, model: Any, http: Any) -> None:
        import httpx2

        self.http = http
        unused = httpx2.Client(transport=httpx2.BaseTransport(), trust_env=False)
        self._api = _sdk(model, unused, http)

    async def post(self, path: str, body: dict[str, Any], options: Mapping[str, Any]) -> Any:
        """(The headers of the answer, its text.)"""
        request = _built(self._api, path, body, options)
        answer = await self._api._async_request_once(request, implicit_retry=False)
        return answer.headers, answer.response_stream[0]

    async def stream(self, path: str, body: dict[str, Any], options: Mapping[str, Any]) -> AsyncEvents:
        """The events of an answer."""
        request = _built(self._api, path, body, options)
        return AsyncEvents(await self._api._async_request_once(request, stream=True, implicit_retry=False))

    async def close(self) -> None:
        await self.http.aclose()


class Events:
    """The events of one stream, decoded."""

    def __init__(self, answer: Any) -> None:
        self.response = answer.response_stream
        self._events = answer.segments()

    def __next__(self) -> Any:
        return next(self._events)

    def close(self) -> None:
        self._events.close()
        self.response.close()


class AsyncEvents:
    """As `Events`."""

    def __init__(self, answer: Any) -> None:
        self.response = answer.response_stream
        self._events = answer.async_segments()

    async def __anext__(self) -> Any:
        return await anext(self._events)

    async def close(self) -> None:
        await self._events.aclose()
        await self.response.aclose()


def _sdk(model: Any, http: Any, http_async: Any) -> Any:
    """The SDK's API client. Each argument is given, as what is left out it reads in the environment."""
    from ssl import PROTOCOL_TLS_CLIENT, SSLContext

    from google.genai import Client
    from google.genai.client import DebugConfig
    from google.genai.types import HttpOptions

    key = model.api_key.get_secret_value() if isinstance(model.api_key, SecretStr) else None
    in_cloud = bool(model.vertexai)
    client = Client(
        vertexai=in_cloud,
        api_key=key,
        credentials=model.credentials,
        project=model.project,
        location=model.location if model.project else None,
        debug_config=DebugConfig(client_mode=None, replays_directory=None, replay_id=None),
        http_options=HttpOptions(
            base_url=model.base_url,
            api_version=model.api_version,
            headers=dict(model.default_headers),
            httpx_client=http,
            httpx_async_client=http_async,
            # for its web sockets, which nobody opens: it would read certificates, and those the environment names
            async_client_args={"ssl": SSLContext(PROTOCOL_TLS_CLIENT)},
        ),
    )
    api = client._api_client
    api._httpx_use_mtls_endpoint = api._async_httpx_use_mtls_endpoint = False  # a variable would change the host
    return api


def _built(api: Any, path: str, body: dict[str, Any], options: Mapping[str, Any]) -> Any:
    request = api._build_request("post", path, dict(body))
    request.timeout = options["timeout"]
    request.headers.update(options.get("headers") or {})
    return request
