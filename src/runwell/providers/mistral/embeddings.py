"""Mistral's embeddings, through Mistral's own SDK."""

from __future__ import annotations

from typing import Any, ClassVar

from runwell.providers.mistral.chat import ChatMistralAI
from runwell.providers.vendor_embeddings import VendorEmbeddings
from runwell.providers.vendor_model import FIRST_OUTPUT_S

__all__ = ["MistralAIEmbeddings"]


class MistralAIEmbeddings(VendorEmbeddings):
    """Text to vectors behind Mistral's embeddings API.

    `dimensions` shortens the vectors of models that can. Texts go `chunk_size` in a request. Address, key, timeouts and
    retries are as for `ChatMistralAI`. May be used from many threads and event loops at once.
    """

    model: str = "mistral-embed"
    chunk_size: int = 64
    dimensions: int | None = None

    _aliases: ClassVar[dict[str, str]] = {
        "mistral_api_key": "api_key",
        "endpoint": "base_url",
        "output_dimension": "dimensions",
    }

    def _make_account(self, shared: dict[str, Any]) -> ChatMistralAI:
        return ChatMistralAI(**shared)

    def _body(self, texts: list[str], query: bool) -> dict[str, Any]:
        seconds = self.timeout if isinstance(self.timeout, int | float) else FIRST_OUTPUT_S
        body: dict[str, Any] = {"model": self.model, "inputs": texts, "timeout_ms": round(1000 * seconds)}
        if self.dimensions is not None:
            body["output_dimension"] = self.dimensions
        if self.default_headers:
            body["http_headers"] = self.default_headers
        return body

    def _post(self, client: Any, body: Any) -> Any:
        return client.embeddings.create(**body)

    async def _apost(self, client: Any, body: Any) -> Any:
        return await client.embeddings.create_async(**body)

    def _read(self, answer: Any) -> Any:
        """In the order of the texts, whatever order the server gives them in."""
        return [each.embedding for each in sorted(answer.data, key=lambda each: each.index)]
