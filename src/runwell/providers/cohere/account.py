"""What Cohere's models have in common: the account, how a request is sent, and what errors mean."""

from __future__ import annotations

from collections.abc import Mapping
from json import loads
from typing import Any, ClassVar

from runwell.errors import ModelConnectionError, ModelTimeout
from runwell.models.wire_errors import error_from_wire
from runwell.providers.clients import Clients
from runwell.providers.cohere.clients import CohereClients
from runwell.providers.event_lines import AsyncEvents, Events
from runwell.providers.http_library import REACH, ended
from runwell.providers.vendor_model import VendorModel

__all__ = ["CohereAccount"]


class CohereAccount(VendorModel):
    """An account at Cohere. Bodies are sent as we write them and answers read as the server wrote them."""

    client_name: str | None = None

    sdk: ClassVar[str] = "cohere"
    extra: ClassVar[str] = "cohere"
    default_base_url: ClassVar[str] = "https://api.cohere.com"
    url_variable: ClassVar[str] = "CO_API_URL"
    key_variable: ClassVar[str] = "COHERE_API_KEY"
    clients: ClassVar[type[Clients]] = CohereClients
    http_library: ClassVar[tuple[str, ...]] = ("httpx",)

    def _sending(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        from httpx import Timeout

        return {
            "timeout": self._timeout(kwargs.get("timeout"), Timeout),
            "headers": {**self.default_headers, **(kwargs.get("extra_headers") or {})},
        }

    def _built(self, client: Any, path: str, body: dict[str, Any], sending: Mapping[str, Any]) -> Any:
        headers = {**client.headers, **sending["headers"]}
        url = f"{self.base_url}/v2/{path}"
        return client.http.build_request("POST", url, json=body, headers=headers, timeout=sending["timeout"])

    def _sent(self, client: Any, path: str, body: dict[str, Any], sending: Mapping[str, Any]) -> Any:
        return client.http.send(self._built(client, path, body, sending))

    async def _asent(self, client: Any, path: str, body: dict[str, Any], sending: Mapping[str, Any]) -> Any:
        return await client.http.send(self._built(client, path, body, sending))

    def _events(self, client: Any, path: str, body: dict[str, Any], sending: Mapping[str, Any]) -> Events:
        response = client.http.send(self._built(client, path, body, sending), stream=True)
        if response.status_code >= 400:
            response.read()
            response.close()
            raise self._refused(response)
        return Events(response)

    async def _aevents(self, client: Any, path: str, body: dict[str, Any], sending: Mapping[str, Any]) -> AsyncEvents:
        response = await client.http.send(self._built(client, path, body, sending), stream=True)
        if response.status_code >= 400:
            await response.aread()
            await response.aclose()
            raise self._refused(response)
        return AsyncEvents(response)

    def _decoded(self, answer: Any, wanted: str) -> dict[str, Any]:
        """The object in a response, which has the wanted key."""
        if answer.status_code >= 400:
            raise self._refused(answer)
        try:
            said = loads(answer.content)
        except ValueError as error:
            raise self._unreadable(f"{answer.text[:200]!r}", error) from None
        if not isinstance(said, dict) or said.get(wanted) is None:
            raise self._unreadable(f"{answer.text[:200]!r}", ValueError(f"no {wanted}"))
        return said

    def _refused(self, response: Any) -> Exception:
        try:
            body = loads(response.content)
        except ValueError:
            body = None
        return self._told(response.status_code, body, headers=response.headers, text=response.text[:500])

    def _told(self, status: int | None, body: Any, **details: Any) -> Exception:
        status = 401 if status == 498 else status  # its own, for a token that is invalid
        return error_from_wire(status, body, who=self.base_url or "", **details)

    def _translated(self, error: Exception) -> Exception:
        import httpx

        who = self.base_url
        if isinstance(error, httpx.TimeoutException):
            return ModelTimeout(
                f"{who} gave no answer in time.", hint="timeout= sets how long the first output may take."
            )
        if isinstance(error, httpx.TransportError):
            return ModelConnectionError(f"{who} was not reached, or the connection broke: {ended(error)}", hint=REACH)
        if type(error).__name__ == "JSONDecodeError":
            return self._unreadable("an event that is no JSON", error)
        return error
