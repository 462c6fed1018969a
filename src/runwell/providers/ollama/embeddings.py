"""Embeddings of models that an Ollama server runs, through Ollama's own API and SDK."""

from __future__ import annotations

from typing import Any, ClassVar

from runwell.providers.ollama.chat import ChatOllama
from runwell.providers.vendor_embeddings import VendorEmbeddings

__all__ = ["OllamaEmbeddings"]

_OPTIONS = ("num_ctx", "num_gpu", "num_thread")


class OllamaEmbeddings(VendorEmbeddings):
    """Text to vectors by a model that an Ollama server runs.

    A text that is longer than the model reads is cut at its end, unless `truncate=False` makes that an error.
    `dimensions` shortens the vectors of models that can. `base_url` is as for `ChatOllama`. May be used from many
    threads and event loops at once.
    """

    model: str
    dimensions: int | None = None
    truncate: bool | None = None
    keep_alive: int | str | None = None
    num_ctx: int | None = None
    num_gpu: int | None = None
    num_thread: int | None = None

    _account: ChatOllama
    _aliases: ClassVar[dict[str, str]] = {"host": "base_url"}

    def _make_account(self, shared: dict[str, Any]) -> ChatOllama:
        return ChatOllama(**shared)

    def _body(self, texts: list[str], query: bool) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "input": texts}
        options = {name: getattr(self, name) for name in _OPTIONS if getattr(self, name) is not None}
        for name, value in (
            ("dimensions", self.dimensions),
            ("truncate", self.truncate),
            ("keep_alive", self.keep_alive),
            ("options", options or None),
        ):
            if value is not None:
                body[name] = value
        return body

    def _post(self, client: Any, body: Any) -> Any:
        return client.post("/api/embed", json=body, timeout=self._timeout())

    async def _apost(self, client: Any, body: Any) -> Any:
        return await client.post("/api/embed", json=body, timeout=self._timeout())

    def _timeout(self) -> Any:
        from httpx import Timeout

        return self._account._timeout(None, Timeout)

    def _read(self, answer: Any) -> Any:
        if answer.status_code >= 400:
            raise self._account._refused(answer)
        return answer.json()["embeddings"]
