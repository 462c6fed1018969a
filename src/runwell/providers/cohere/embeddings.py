"""Cohere's embeddings, through Cohere's own SDK."""

from __future__ import annotations

from typing import Any, ClassVar

from runwell.errors import InvalidInput
from runwell.providers.cohere.account import CohereAccount
from runwell.providers.cohere.chat import ChatCohere
from runwell.providers.vendor_embeddings import VendorEmbeddings

__all__ = ["CohereEmbeddings"]

_MOST = 96
"""Texts that the API takes in a request."""


class CohereEmbeddings(VendorEmbeddings):
    """Text to vectors behind Cohere's embeddings API.

    Questions and documents are embedded differently, as the model wants it; `input_type` ("classification",
    "clustering") says that neither is meant. `dimensions` shortens the vectors of models that can. What is longer than
    the model reads is cut at its `truncate` ("END", "START"), or refused ("NONE"). Address, key, timeouts and retries
    are as for `ChatCohere`. May be used from many threads and event loops at once.
    """

    model: str = "embed-v4.0"
    dimensions: int | None = None
    input_type: str | None = None
    truncate: str | None = None
    client_name: str | None = None

    _account: CohereAccount
    _aliases: ClassVar[dict[str, str]] = {
        "cohere_api_key": "api_key",
        "output_dimension": "dimensions",
        "request_timeout": "timeout",
        "user_agent": "client_name",
    }

    def _make_account(self, shared: dict[str, Any]) -> ChatCohere:
        if self.chunk_size > _MOST:
            raise InvalidInput(f"Cohere takes {_MOST} texts in a request at most; got chunk_size={self.chunk_size}.")
        return ChatCohere(**shared, client_name=self.client_name)

    def _body(self, texts: list[str], query: bool) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "texts": texts,
            "input_type": self.input_type or ("search_query" if query else "search_document"),
            "embedding_types": ["float"],
        }
        if self.dimensions is not None:
            body["output_dimension"] = self.dimensions
        if self.truncate is not None:
            body["truncate"] = self.truncate
        return body

    def _post(self, client: Any, body: Any) -> Any:
        return self._account._sent(client, "embed", body, self._account._sending({}))

    async def _apost(self, client: Any, body: Any) -> Any:
        return await self._account._asent(client, "embed", body, self._account._sending({}))

    def _read(self, answer: Any) -> Any:
        return self._account._decoded(answer, "embeddings")["embeddings"]["float"]
