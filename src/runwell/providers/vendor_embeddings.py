"""What embeddings on vendors' SDKs share: batches, retries, both colours, and vectors that are what they should be."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from runwell.effects import Outcome
from runwell.errors import InvalidInput, OutsideError
from runwell.models.retry import RetryPolicy
from runwell.models.settings import check_settings
from runwell.ports.embeddings import Embeddings
from runwell.providers.vendor_model import VendorModel
from runwell.runnables.fields import KeywordFields

__all__ = ["VendorEmbeddings", "Vector", "with_retries", "with_retries_async"]

Vector = list[float]


def with_retries(account: VendorModel, send: Any, read: Any, retries: int, policy: RetryPolicy) -> Any:
    """What `read` makes of what `send(client)` gave, under the account's errors and our retries."""

    def attempt() -> Any:
        client = account._clients.plain(account)
        try:
            return read(send(client))
        except Exception as error:
            raise account._safe(account._translated(error)) from None

    try:
        return attempt()
    except OutsideError as error:
        return policy.go_on(error, attempt, None, retries)


async def with_retries_async(account: VendorModel, send: Any, read: Any, retries: int, policy: RetryPolicy) -> Any:
    """As `with_retries`, where `send(client)` is awaited."""

    async def attempt() -> Any:
        client = await account._clients.on_loop(account)
        try:
            return read(await send(client))
        except Exception as error:
            raise account._safe(account._translated(error)) from None

    try:
        return await attempt()
    except OutsideError as error:
        return await policy.ago_on(error, attempt, None, retries)


class VendorEmbeddings(KeywordFields, Embeddings):
    """Text to vectors behind a vendor's SDK. A subclass writes `_make_account` (the chat model whose clients, key and
    errors it shares), `_body`, `_post`, `_apost` and `_read`.

    Texts go `chunk_size` in a request, `max_concurrency` requests at once. May be used from many threads and event
    loops.
    """

    model: str
    chunk_size: int = 96
    max_concurrency: int = 1
    api_key: Any = None
    base_url: str | None = None
    timeout: Any = None
    max_retries: int = 2
    default_headers: dict[str, str] = {}
    http_client: Any = None
    http_async_client: Any = None

    _shared: ClassVar[tuple[str, ...]] = (
        *("model", "api_key", "base_url", "timeout", "default_headers", "http_client", "http_async_client"),
    )
    """What the account is made with."""

    def model_post_init(self, context: Any) -> None:
        given = {name: getattr(self, name) for name in self._fields}
        for name, value in check_settings(type(self).__name__, given, retried=True).items():
            setattr(self, name, value)
        if type(self.chunk_size) is not int or self.chunk_size < 1:
            raise InvalidInput(f"chunk_size is how many texts go in a request; got {self.chunk_size!r}.")
        if type(self.max_concurrency) is not int or self.max_concurrency < 1:
            raise InvalidInput(f"max_concurrency is how many requests go at once; got {self.max_concurrency!r}.")
        self._account = self._make_account({name: getattr(self, name) for name in self._shared})
        self.api_key, self.base_url = self._account.api_key, self._account.base_url
        self._policy = RetryPolicy()

    @abstractmethod
    def _make_account(self, shared: dict[str, Any]) -> VendorModel:
        """A chat model of the vendor with these settings."""

    @abstractmethod
    def _body(self, texts: list[str], query: bool) -> Any:
        """The request for these texts."""

    @abstractmethod
    def _post(self, client: Any, body: Any) -> Any: ...

    @abstractmethod
    async def _apost(self, client: Any, body: Any) -> Any: ...

    @abstractmethod
    def _read(self, answer: Any) -> Any:
        """The vectors in an answer, in the order of the texts."""

    # -- the four calls

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        batches = self._batches(texts)
        if len(batches) < 2 or self.max_concurrency == 1:
            return [vector for batch in batches for vector in self._embedded(batch, False)]
        from runwell.drivers.threads import fan_out

        calls = [partial(self._embedded, batch, False) for batch in batches]
        return _in_order(fan_out(calls, self.max_concurrency, stop_on_error=True))

    async def aembed_documents(self, texts: Sequence[str]) -> list[Vector]:
        batches = self._batches(texts)
        if len(batches) < 2 or self.max_concurrency == 1:
            return [vector for batch in batches for vector in await self._aembedded(batch, False)]
        from runwell.drivers.aio import afan_out

        calls = [partial(self._aembedded, batch, False) for batch in batches]
        return _in_order(await afan_out(calls, self.max_concurrency, stop_on_error=True))

    def embed_query(self, text: str) -> Vector:
        return self._embedded(self._checked([text]), True)[0]

    async def aembed_query(self, text: str) -> Vector:
        return (await self._aembedded(self._checked([text]), True))[0]

    def _batches(self, texts: Sequence[str]) -> list[list[str]]:
        texts = self._checked(texts)
        return [texts[start : start + self.chunk_size] for start in range(0, len(texts), self.chunk_size)]

    def _checked(self, texts: Sequence[str]) -> list[str]:
        if isinstance(texts, str):
            raise InvalidInput(f"embed_documents takes a list of texts; got the text {texts!r:.60}.")
        texts = list(texts)
        for place, text in enumerate(texts):
            if not isinstance(text, str):
                raise InvalidInput(f"Text {place} to embed is no text: {text!r:.100}.")
        return texts

    def _embedded(self, texts: list[str], query: bool) -> list[Vector]:
        body = self._body(texts, query)
        return with_retries(  # type: ignore[no-any-return]
            self._account,
            lambda client: self._post(client, body),
            lambda answer: self._vectors(answer, len(texts)),
            self.max_retries,
            self._policy,
        )

    async def _aembedded(self, texts: list[str], query: bool) -> list[Vector]:
        body = self._body(texts, query)
        return await with_retries_async(  # type: ignore[no-any-return]
            self._account,
            lambda client: self._apost(client, body),
            lambda answer: self._vectors(answer, len(texts)),
            self.max_retries,
            self._policy,
        )

    def _vectors(self, answer: Any, wanted: int) -> list[Vector]:
        try:
            vectors = [[float(number) for number in vector] for vector in self._read(answer)]
        except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
            shown = getattr(answer, "text", answer)  # of an HTTP response what it says
            raise self._account._unreadable(f"{shown!r:.200}", error) from None
        if len(vectors) != wanted:
            raise self._account._unreadable(f"{len(vectors)} vectors for {wanted} texts", ValueError("a number"))
        return vectors


def _in_order(outcomes: list[Outcome[list[Vector]]]) -> list[Vector]:
    """The vectors of all; else the first request's own error, not that others were stopped for it."""
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    if errors:
        raise next((error for error in errors if isinstance(error, Exception)), errors[0])
    return [vector for outcome in outcomes for vector in outcome.unwrap()]
