"""The clients of Mistral's SDK, one colour each, so that each closes what it opened."""

from __future__ import annotations

from typing import Any

from runwell.providers.certificates import trusted_by
from runwell.providers.clients import Clients

__all__ = ["AsyncMistral", "MistralClients", "PlainMistral"]


class MistralClients(Clients):
    """Clients of `mistralai`."""

    __slots__ = ()

    def make(self, model: Any) -> Any:
        import httpx2

        http = model.http_client or httpx2.Client(verify=trusted_by("httpx2"), follow_redirects=True)
        return PlainMistral(model, http)

    def make_async(self, model: Any) -> Any:
        import httpx2

        http = model.http_async_client or httpx2.AsyncClient(verify=trusted_by("httpx2"), follow_redirects=True)
        return AsyncMistral(model, http)


class PlainMistral:
    """The SDK over one HTTP client."""

    def __init__(self, model: Any, http: Any) -> None:
        from mistralai.client import Mistral

        self._http = http
        # each colour's SDK is given a client for the other one too, which is never opened
        sdk = Mistral(
            api_key=model.api_key.get_secret_value(), server_url=model.base_url, client=http, async_client=_Unused()
        )
        self.chat, self.embeddings = sdk.chat, sdk.embeddings

    def close(self) -> None:
        self._http.close()


class AsyncMistral:
    """As `PlainMistral`."""

    def __init__(self, model: Any, http: Any) -> None:
        from mistralai.client import Mistral

        self._http = http
        sdk = Mistral(
            api_key=model.api_key.get_secret_value(), server_url=model.base_url, client=_Unused(), async_client=http
        )
        self.chat, self.embeddings = sdk.chat, sdk.embeddings

    async def close(self) -> None:
        await self._http.aclose()


class _Unused:
    """Stands where the SDK would open a client of the other colour."""

    def send(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def build_request(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing was opened."""

    async def aclose(self) -> None:
        """Nothing was opened."""
