"""Embeddings of models on Amazon Bedrock (Titan, Nova, Cohere), through AWS's own SDK."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from runwell.drivers.aio import in_worker
from runwell.errors import InvalidInput
from runwell.providers.bedrock.chat import ChatBedrockConverse
from runwell.providers.vendor_embeddings import VendorEmbeddings

__all__ = ["BedrockEmbeddings"]

_MOST = {"amazon": 1, "nova": 1, "cohere": 96}
"""Texts that a request takes, by who made the model; Nova's are Amazon's too, and asked in words of their own."""
_ACCOUNT = (
    *("region_name", "aws_access_key_id", "aws_secret_access_key", "aws_session_token", "credentials_profile_name"),
    "config",
)


class BedrockEmbeddings(VendorEmbeddings):
    """Text to vectors by a Titan, Nova or Cohere model on Bedrock.

    `model` is its id, an inference profile or an ARN; where that does not say who made the model, `provider` does
    ("amazon" for Titan, "nova" or "cohere"). Titan and Nova take one text in a request, Cohere 96; `max_concurrency`
    requests go at once. `dimensions` shortens the vectors of models that can; `normalize=False` leaves Titan's at their
    length. Cohere's and Nova's models embed questions and documents differently, unless `input_type` says what is meant
    ("CLUSTERING", "TEXT_RETRIEVAL", ... of Nova). A text that is too long for Nova is an error, unless `truncate` says
    which end may go ("END", "START"). Account, address, timeouts and retries are as for `ChatBedrockConverse`. May be
    used from many threads and event loops at once.
    """

    model: str = "amazon.titan-embed-text-v2:0"
    chunk_size: int | None = None  # type: ignore[assignment]  # the model's own
    max_concurrency: int = 8
    provider: str | None = None
    dimensions: int | None = None
    normalize: bool | None = None
    input_type: str | None = None
    truncate: str | None = None
    region_name: str | None = None
    aws_access_key_id: Any = None
    aws_secret_access_key: Any = None
    aws_session_token: Any = None
    credentials_profile_name: str | None = None
    config: Any = None

    _account: ChatBedrockConverse
    _aliases: ClassVar[dict[str, str]] = {
        "model_id": "model",
        "endpoint_url": "base_url",
        "client": "http_client",
        "bedrock_api_key": "api_key",
    }

    def model_post_init(self, context: Any) -> None:
        self._maker = self.provider or _maker(self.model)
        most = _MOST.get(self._maker)
        if most is None:
            raise InvalidInput(
                f"How to ask {self.model!r} for vectors is not known.",
                hint='provider="amazon" (Titan), "nova" or "cohere" says it.',
            )
        self.chunk_size = most if self.chunk_size is None else self.chunk_size
        super().model_post_init(context)
        if self.chunk_size > most:
            raise InvalidInput(f"{self.model} takes {most} at most in a request; got chunk_size={self.chunk_size}.")
        for name in (*_ACCOUNT, "api_key"):
            setattr(self, name, getattr(self._account, name))

    def _make_account(self, shared: dict[str, Any]) -> ChatBedrockConverse:
        return ChatBedrockConverse(**shared, **{name: getattr(self, name) for name in _ACCOUNT})

    def _body(self, texts: list[str], query: bool) -> dict[str, Any]:
        if self._maker == "amazon":
            [text] = texts
            asked: dict[str, Any] = {"inputText": text, "dimensions": self.dimensions, "normalize": self.normalize}
        elif self._maker == "nova":
            [text] = texts
            purpose = self.input_type or ("GENERIC_RETRIEVAL" if query else "GENERIC_INDEX")
            told: dict[str, Any] = {"embeddingPurpose": purpose}
            if self.dimensions is not None:
                told["embeddingDimension"] = self.dimensions
            told["text"] = {"truncationMode": self.truncate or "NONE", "value": text}
            asked = {"taskType": "SINGLE_EMBEDDING", "singleEmbeddingParams": told}
        else:
            asked = {
                "texts": texts,
                "input_type": self.input_type or ("search_query" if query else "search_document"),
                "truncate": self.truncate,
                "output_dimension": self.dimensions,
            }
        return {key: value for key, value in asked.items() if value is not None}

    def _post(self, client: Any, body: Any) -> Any:
        kind = "application/json"
        answer = client.invoke_model(modelId=self.model, body=json.dumps(body), contentType=kind, accept=kind)
        return json.loads(answer["body"].read())

    async def _apost(self, client: Any, body: Any) -> Any:
        return await in_worker(self._post, client, body)

    def _read(self, answer: Any) -> Any:
        if self._maker == "amazon":
            return [answer["embedding"]]
        found = answer["embeddings"]
        if self._maker == "nova":
            return [each["embedding"] for each in found]
        return found["float"] if isinstance(found, dict) else found


def _maker(model: str) -> str:
    """Who made a model, by its id: `amazon.titan-embed-text-v2:0`, `us.cohere.embed-v4:0`."""
    parts = model.rpartition("/")[2].split(".")
    if any(part.startswith("nova-") for part in parts):
        return "nova"
    return next((maker for maker in _MOST if maker in parts), "")
