"""OpenAIEmbeddings passes the suite that all embeddings pass, against a server that answers in any order."""

from __future__ import annotations

import asyncio
import hashlib
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from runwell.errors import ModelError, ModelRateLimitError
from runwell.models.retry import RetryPolicy
from runwell.providers.openai import OpenAIEmbeddings
from runwell.testing.embeddings import EmbeddingsSuite
from runwell.testing.wire import OpenAIDialect, WireServer

KEY = "sk-test-0123456789-secret"


class Vectors(WireServer):
    """Answers each request that no script is for with vectors made of its texts, the last first."""

    def __init__(self) -> None:
        super().__init__(OpenAIDialect())

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        if not self.script:
            self.script.append(self._answer)
        super()._serve(handler)

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        data = [{"index": place, "embedding": vector(text)} for place, text in enumerate(self.last["body"]["input"])]
        self._whole({"data": data[::-1], "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}})(handler)


def vector(text: str) -> list[float]:
    return [byte / 255 for byte in hashlib.sha256(text.encode()).digest()[:4]]


class TestOpenAIEmbeddings(EmbeddingsSuite):
    def setup_method(self) -> None:
        self.wire = Vectors()

    def teardown_method(self) -> None:
        self.wire.close()

    def make_embeddings(self) -> OpenAIEmbeddings:
        return OpenAIEmbeddings(model="m", api_key=KEY, base_url=self.wire.base_url)

    def test_many_at_once(self) -> None:
        """One after another: the server answers the latest request."""
        for text in ("a", "b"):
            assert self.make_embeddings().embed_documents([text]) == [vector(text)]


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def embed(embeddings: OpenAIEmbeddings, texts: list[str], colour: str) -> Any:
    if colour == "sync":
        return embeddings.embed_documents(texts)
    return asyncio.run(embeddings.aembed_documents(texts))


def test_texts_go_in_chunks(colour: str) -> None:
    with Vectors() as wire:
        made = OpenAIEmbeddings(model="m", api_key=KEY, base_url=wire.base_url, chunk_size=2, dimensions=4)
        assert embed(made, ["a", "b", "c"], colour) == [vector(text) for text in "abc"]
        assert [each["body"]["input"] for each in wire.requests] == [["a", "b"], ["c"]]
        assert wire.last["body"]["dimensions"] == 4
        assert wire.last["path"] == "/v1/embeddings"
        assert KEY not in repr(made) + str(vars(made))


def test_failures(colour: str) -> None:
    with Vectors() as wire:
        made = OpenAIEmbeddings(model="m", api_key=KEY, base_url=wire.base_url)
        made._policy = RetryPolicy(first_s=0.001)
        wire.fail(429, "slow down")
        assert embed(made, ["a"], colour) == [vector("a")]
        wire.fail(429, f"slow down, {KEY}", retry_after="3600")
        with pytest.raises(ModelRateLimitError) as caught:
            embed(made, ["a"], colour)
        assert KEY not in str(caught.value)
        for _ in range(3):
            wire.json({"data": []})
        with pytest.raises(ModelError, match="0 vectors for 1 texts"):
            embed(made, ["a"], colour)
