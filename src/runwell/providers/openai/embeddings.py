"""OpenAI's embeddings, and those of every server that speaks the same API, through OpenAI's own SDK."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from json import loads
from typing import Any, ClassVar

from runwell.errors import InvalidInput, OutsideError
from runwell.models.retry import RetryPolicy
from runwell.ports.embeddings import Embeddings
from runwell.providers.openai.chat import ChatOpenAI
from runwell.providers.vendor_model import PROXY
from runwell.runnables.fields import KeywordFields

__all__ = ["OpenAIEmbeddings"]

Vector = list[float]


class OpenAIEmbeddings(KeywordFields, Embeddings):
    """Text to vectors behind OpenAI's embeddings API.

    `dimensions` shortens the vectors of models that can. Texts go `chunk_size` in a request, one request after another.
    Address, key, timeouts and retries are as for `ChatOpenAI`. May be used from many threads and event loops at once.
    """

    model: str = "text-embedding-3-small"
    dimensions: int | None = None
    chunk_size: int = 1000
    api_key: Any = None
    base_url: str | None = None
    organization: str | None = None
    project: str | None = None
    timeout: Any = None
    max_retries: int = 2
    model_kwargs: dict[str, Any] = {}
    default_headers: dict[str, str] = {}
    default_query: dict[str, Any] = {}
    http_client: Any = None
    http_async_client: Any = None

    _shared: ClassVar[tuple[str, ...]] = (
        *("model", "api_key", "base_url", "organization", "project", "timeout", "default_headers"),
        *("default_query", "http_client", "http_async_client"),
    )
    """What the account is made with."""
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

    def model_post_init(self, context: Any) -> None:
        if type(self.chunk_size) is not int or self.chunk_size < 1:
            raise InvalidInput(f"chunk_size is how many texts go in a request; got {self.chunk_size!r}.")
        shared = {name: getattr(self, name) for name in self._shared}
        self._account = self._account_class(**shared)  # its clients, key and errors
        self.api_key, self.base_url = self._account.api_key, self._account.base_url
        self._policy = RetryPolicy()

    @property
    def _account_class(self) -> type[ChatOpenAI]:
        return ChatOpenAI

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        return [vector for body in self._bodies(texts) for vector in self._embedded(body)]

    async def aembed_documents(self, texts: Sequence[str]) -> list[Vector]:
        return [vector for body in self._bodies(texts) for vector in await self._aembedded(body)]

    def _bodies(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        if isinstance(texts, str):
            raise InvalidInput(f"embed_documents takes a list of texts; got the text {texts!r:.60}.")
        texts = list(texts)
        for place, text in enumerate(texts):
            if not isinstance(text, str):
                raise InvalidInput(f"Text {place} to embed is no text: {text!r:.100}.")
        shared: dict[str, Any] = {"model": self._account._sent_model, "encoding_format": "float", **self.model_kwargs}
        if self.dimensions is not None:
            shared["dimensions"] = self.dimensions
        starts = range(0, len(texts), self.chunk_size)
        return [{**shared, "input": texts[start : start + self.chunk_size]} for start in starts]

    def _embedded(self, body: dict[str, Any]) -> list[Vector]:
        account = self._account

        def attempt() -> list[Vector]:
            client = account._clients.plain(account)
            try:
                return self._vectors(client.post("/embeddings", body=body, **self._sending()), len(body["input"]))
            except Exception as error:
                raise account._safe(account._translated(error)) from None

        try:
            return attempt()
        except OutsideError as error:
            return self._policy.go_on(error, attempt, None, self.max_retries)

    async def _aembedded(self, body: dict[str, Any]) -> list[Vector]:
        account = self._account

        async def attempt() -> list[Vector]:
            client = await account._clients.on_loop(account)
            try:
                return self._vectors(await client.post("/embeddings", body=body, **self._sending()), len(body["input"]))
            except Exception as error:
                raise account._safe(account._translated(error)) from None

        try:
            return await attempt()
        except OutsideError as error:
            return await self._policy.ago_on(error, attempt, None, self.max_retries)

    def _sending(self) -> dict[str, Any]:
        import httpx2

        return {"cast_to": httpx2.Response, "options": self._account._options({})}

    def _vectors(self, response: Any, wanted: int) -> list[Vector]:
        """The vectors in the order of the texts, whatever order the server gives them in."""
        try:
            data = sorted(loads(response.content)["data"], key=lambda each: each["index"])
            vectors = [[float(number) for number in each["embedding"]] for each in data]
        except (ValueError, KeyError, TypeError) as error:
            raise self._account._unreadable(f"{response.text[:200]!r}", error) from None
        if len(vectors) != wanted:
            raise self._account._unreadable(f"{len(vectors)} vectors for {wanted} texts", ValueError("a number"))
        return vectors
