"""Cohere's reranker, through Cohere's own SDK."""

from __future__ import annotations

from typing import Any, ClassVar

from runwell.documents.compressor import BaseReranker
from runwell.errors import InvalidInput
from runwell.models.retry import RetryPolicy
from runwell.models.settings import check_settings
from runwell.providers.cohere.chat import ChatCohere
from runwell.providers.vendor_embeddings import with_retries, with_retries_async
from runwell.runnables.fields import KeywordFields

__all__ = ["CohereRerank"]


class CohereRerank(KeywordFields, BaseReranker):
    """Documents in the order of how well they answer a query, by Cohere's rerank API.

    Scores lie between 0 and 1. `max_tokens_per_doc` says where a long document is cut. Address, key, timeouts and
    retries are as for `ChatCohere`. May be used from many threads and event loops at once.
    """

    model: str
    top_n: int | None = 3
    max_tokens_per_doc: int | None = None
    api_key: Any = None
    base_url: str | None = None
    timeout: Any = None
    max_retries: int = 2
    client_name: str | None = None
    default_headers: dict[str, str] = {}
    http_client: Any = None
    http_async_client: Any = None

    _aliases: ClassVar[dict[str, str]] = {"cohere_api_key": "api_key", "user_agent": "client_name"}

    def model_post_init(self, context: Any) -> None:
        if self.top_n is not None and (type(self.top_n) is not int or self.top_n < 1):
            raise InvalidInput(f"top_n is how many documents are kept, 1 or more; got {self.top_n!r}.")
        check_settings(type(self).__name__, {name: getattr(self, name) for name in self._fields}, retried=True)
        shared = (
            *("model", "api_key", "base_url", "timeout", "client_name"),
            *("default_headers", "http_client", "http_async_client"),
        )
        self._account = ChatCohere(**{name: getattr(self, name) for name in shared})  # its clients, key and errors
        self.api_key, self.base_url = self._account.api_key, self._account.base_url
        self._policy = RetryPolicy()

    def _ranked(self, texts: list[str], query: str, top_n: int) -> list[tuple[int, float]]:
        body = self._body(texts, query, top_n)
        return with_retries(  # type: ignore[no-any-return]
            self._account,
            lambda client: self._account._sent(client, "rerank", body, self._account._sending({})),
            lambda answer: self._read(answer, len(texts)),
            self.max_retries,
            self._policy,
        )

    async def _aranked(self, texts: list[str], query: str, top_n: int) -> list[tuple[int, float]]:
        body = self._body(texts, query, top_n)
        return await with_retries_async(  # type: ignore[no-any-return]
            self._account,
            lambda client: self._account._asent(client, "rerank", body, self._account._sending({})),
            lambda answer: self._read(answer, len(texts)),
            self.max_retries,
            self._policy,
        )

    def _body(self, texts: list[str], query: str, top_n: int) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "query": query, "documents": texts, "top_n": top_n}
        if self.max_tokens_per_doc is not None:
            body["max_tokens_per_doc"] = self.max_tokens_per_doc
        return body

    def _read(self, answer: Any, of: int) -> list[tuple[int, float]]:
        results = self._account._decoded(answer, "results")["results"]
        try:
            ranked = [(each["index"], float(each["relevance_score"])) for each in results]
        except (KeyError, TypeError, ValueError) as error:
            raise self._account._unreadable(f"{answer.text[:200]!r}", error) from None
        if any(type(index) is not int or not 0 <= index < of for index, _ in ranked):
            raise self._account._unreadable(f"{answer.text[:200]!r}", ValueError("no such document"))
        return ranked
