"""HTTP answers not read beyond a limit: the SDK bounds the events of a stream, and not an answer that is one JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

__all__ = ["bounded_transport"]


def bounded_transport(limit: int) -> Any:
    """A transport for `httpx2.AsyncClient` whose JSON answers have at most `limit` bytes; more raises StreamError."""
    import httpx2

    class Body(httpx2.AsyncByteStream):
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for part in self.inner:
                size += len(part)
                if size > limit:
                    raise httpx2.StreamError(f"the answer has more than {limit} bytes")
                yield part

        async def aclose(self) -> None:
            await self.inner.aclose()

    class Bounded(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: Any) -> Any:
            response = await super().handle_async_request(request)
            if "json" in response.headers.get("content-type", ""):
                response.stream = Body(response.stream)
            return response

    return Bounded(trust_env=False)
