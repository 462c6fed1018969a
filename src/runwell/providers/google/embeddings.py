"""Google's embeddings, on its developer API and on Vertex AI, through Google's own SDK."""

from __future__ import annotations

from json import loads
from typing import Any, ClassVar

from runwell.errors import InvalidInput
from runwell.providers.google.chat import ChatGoogleGenerativeAI
from runwell.providers.google.request import Request
from runwell.providers.vendor_embeddings import VendorEmbeddings

__all__ = ["GoogleGenerativeAIEmbeddings"]

_MOST = 100
"""Texts that the API takes in a request."""


class GoogleGenerativeAIEmbeddings(VendorEmbeddings):
    """Text to vectors behind Gemini's embeddings API.

    Questions and documents are embedded differently ("RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT"), as the model wants it;
    `task_type` ("SEMANTIC_SIMILARITY", "CLASSIFICATION", "CLUSTERING", ...) says that neither is meant.
    `output_dimensionality` shortens the vectors of models that can; Google gives them length 1 only at their full size.
    Address, key, Vertex AI, timeouts and retries are as for `ChatGoogleGenerativeAI`. May be used from many threads and
    event loops at once.
    """

    model: str = "gemini-embedding-001"
    chunk_size: int = _MOST
    output_dimensionality: int | None = None
    task_type: str | None = None
    vertexai: bool = False
    project: str | None = None
    location: str | None = None
    credentials: Any = None
    api_version: str | None = None

    _account: ChatGoogleGenerativeAI
    _aliases: ClassVar[dict[str, str]] = {
        "google_api_key": "api_key",
        "gemini_api_key": "api_key",
        "dimensions": "output_dimensionality",
        "batch_size": "chunk_size",
        "request_timeout": "timeout",
    }

    def _make_account(self, shared: dict[str, Any]) -> ChatGoogleGenerativeAI:
        if self.chunk_size > _MOST:
            raise InvalidInput(f"Gemini takes {_MOST} texts in a request at most; got chunk_size={self.chunk_size}.")
        cloud = ("vertexai", "project", "location", "credentials", "api_version")
        return ChatGoogleGenerativeAI(**shared, **{name: getattr(self, name) for name in cloud})

    def _body(self, texts: list[str], query: bool) -> Request:
        task = self.task_type or ("RETRIEVAL_QUERY" if query else "RETRIEVAL_DOCUMENT")
        config: dict[str, Any] = {"taskType": task.upper()}
        if self.output_dimensionality is not None:
            config["outputDimensionality"] = self.output_dimensionality
        account = self._account
        if not self.vertexai:
            name = account._path("").rstrip(":")
            asked = [{"model": name, "content": {"parts": [{"text": text}]}, **config} for text in texts]
            request = Request(account._path("batchEmbedContents"), {"requests": asked})
        elif "gemini" in self.model.rpartition("/")[2]:
            asked = [{"content": {"parts": [{"text": text}]}, "embedContentConfig": config} for text in texts]
            request = Request(account._path("batchEmbedContents"), {"requests": asked})
        else:  # models from before Gemini
            rest = {key: value for key, value in config.items() if key != "taskType"}
            body: dict[str, Any] = {"instances": [{"content": text, "task_type": config["taskType"]} for text in texts]}
            request = Request(account._path("predict"), {**body, **({"parameters": rest} if rest else {})})
        request.options = {"timeout": self.timeout}
        return request

    def _post(self, client: Any, body: Request) -> Any:
        return self._account._sent(client, body)

    async def _apost(self, client: Any, body: Request) -> Any:
        return await self._account._asent(client, body)

    def _read(self, answer: Any) -> Any:
        _, text = answer
        said = loads(text)
        if "predictions" in said:
            return [each["embeddings"]["values"] for each in said["predictions"]]
        return [each["values"] for each in said["embeddings"]]
