"""OpenAI's embeddings, and those of every server that speaks the same API, through OpenAI's own SDK."""

from __future__ import annotations

from collections.abc import Mapping
from json import loads
from typing import Any, ClassVar

from runwell.providers.openai.account import OpenAIAccount
from runwell.providers.openai.chat import ChatOpenAI
from runwell.providers.stainless import response_type
from runwell.providers.vendor_embeddings import VendorEmbeddings
from runwell.providers.vendor_model import PROXY

__all__ = ["OpenAIEmbeddings"]


class OpenAIEmbeddings(VendorEmbeddings):
    """Text to vectors behind OpenAI's embeddings API.

    `dimensions` shortens the vectors of models that can. Texts go `chunk_size` in a request, `max_concurrency` requests
    at once. Address, key, timeouts and retries are as for `ChatOpenAI`. May be used from many threads and event loops
    at once.
    """

    model: str = "text-embedding-3-small"
    dimensions: int | None = None
    chunk_size: int = 1000
    organization: str | None = None
    project: str | None = None
    model_kwargs: dict[str, Any] = {}
    default_query: dict[str, Any] = {}

    _account: OpenAIAccount
    _shared: ClassVar[tuple[str, ...]] = (*VendorEmbeddings._shared, "organization", "project", "default_query")
    _aliases: ClassVar[dict[str, str]] = {
        "openai_api_key": "api_key",
        "openai_api_base": "base_url",
        "request_timeout": "timeout",
    }
    _not_here: ClassVar[Mapping[str, str]] = {
        "check_embedding_ctx_length": "leave it out: texts are sent as they are, never as tokens.",
        "embedding_ctx_length": "leave it out; split long texts before.",
        "tiktoken_enabled": "leave it out: texts are sent as they are, never as tokens.",
        "tiktoken_model_name": "leave it out: texts are sent as they are, never as tokens.",
        "deployment": "model=.",
        "show_progress_bar": "leave it out; embed_documents of slices shows how far it is.",
        "headers": "default_headers={...}.",
        "skip_empty": "leave empty texts out before.",
        "openai_proxy": PROXY,
        "retry_min_seconds": "max_retries=; Retry-After is waited out.",
        "retry_max_seconds": "max_retries=; Retry-After is waited out.",
    }

    def _make_account(self, shared: dict[str, Any]) -> OpenAIAccount:
        return ChatOpenAI(**shared)

    def _body(self, texts: list[str], query: bool) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._account._sent_model, "encoding_format": "float", **self.model_kwargs}
        if self.dimensions is not None:
            body["dimensions"] = self.dimensions
        return {**body, "input": texts}

    def _post(self, client: Any, body: Any) -> Any:
        return client.post("/embeddings", body=body, **self._sending())

    async def _apost(self, client: Any, body: Any) -> Any:
        return await client.post("/embeddings", body=body, **self._sending())

    def _sending(self) -> dict[str, Any]:
        return {"cast_to": response_type(), "options": self._account._options({})}

    def _read(self, answer: Any) -> Any:
        """In the order of the texts, whatever order the server gives them in."""
        return [each["embedding"] for each in sorted(loads(answer.content)["data"], key=lambda each: each["index"])]
