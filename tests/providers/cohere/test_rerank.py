"""CohereRerank puts the best documents first, against a server that ranks by the words that query and text share."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from runwell.documents import Document
from runwell.errors import InvalidInput, MissingApiKey, ModelAuthenticationError, ModelError
from runwell.models.retry import RetryPolicy
from runwell.providers.cohere import CohereRerank
from runwell.testing.wire import CohereDialect, WireServer

KEY = "co-test-0123456789"
FOUND = [
    Document("Dogs bark.", {"source": "d"}, "1"),
    Document("Cats sleep most of the day.", {"source": "c"}, "2"),
    Document("A day is long.", {"source": "t"}, "3"),
]


class Ranks(WireServer):
    def __init__(self) -> None:
        super().__init__(CohereDialect())
        self.otherwise = self._rank

    def _rank(self, handler: BaseHTTPRequestHandler) -> None:
        body = vars(handler)["got"]["body"]
        words = set(body["query"].lower().split())
        scores = [len(words & set(text.lower().strip(".").split())) / 10 for text in body["documents"]]
        best = sorted(range(len(scores)), key=lambda place: -scores[place])[: body["top_n"]]
        results = [{"index": place, "relevance_score": scores[place]} for place in best]
        self._whole({"id": "r", "results": results, "meta": {"billed_units": {"search_units": 1}}})(handler)


@pytest.fixture
def wire() -> Iterator[Ranks]:
    with Ranks() as server:
        yield server


@pytest.fixture
def reranker(wire: Ranks) -> CohereRerank:
    made = CohereRerank(model="rerank-v3.5", api_key=KEY, base_url=wire.base_url, top_n=2)
    made._policy = RetryPolicy(first_s=0.001)
    return made


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Any:
    """Calls a method, or its async twin."""
    import asyncio

    def made(method: Any, *given: Any, **more: Any) -> Any:
        if request.param == "sync":
            return method(*given, **more)
        return asyncio.run(getattr(method.__self__, f"a{method.__name__}")(*given, **more))

    return made


def test_the_best_come_first_with_their_scores(wire: Ranks, reranker: CohereRerank, call: Any) -> None:
    best = call(reranker.compress_documents, FOUND, "when do cats sleep by day")
    assert [(each.id, each.metadata) for each in best] == [
        ("2", {"source": "c", "relevance_score": 0.3}),
        ("3", {"source": "t", "relevance_score": 0.1}),
    ]
    assert "relevance_score" not in FOUND[1].metadata, "what was found is not changed"
    assert wire.last["path"] == "/v2/rerank"
    assert wire.last["body"]["model"] == "rerank-v3.5"


def test_rerank_takes_texts_and_dicts(wire: Ranks, reranker: CohereRerank, call: Any) -> None:
    ranked = call(reranker.rerank, ["a b", {"title": "cats", "year": 3}, FOUND[1]], "cats sleep", top_n=1)
    assert ranked == [{"index": 2, "relevance_score": 0.2}]
    assert wire.last["body"]["documents"][1] == "title: cats\nyear: 3"
    assert call(reranker.rerank, [], "cats") == []
    assert len(wire.requests) == 1, "nothing to rank is not asked"


def test_failures(wire: Ranks, reranker: CohereRerank, call: Any) -> None:
    wire.fail(500, "busy")
    assert call(reranker.rerank, FOUND, "cats sleep")[0]["index"] == 1
    wire.fail(401, f"{KEY} is wrong")
    with pytest.raises(ModelAuthenticationError) as caught:
        call(reranker.rerank, FOUND, "cats")
    assert KEY not in str(caught.value) + repr(reranker)
    for results in ([{"index": 3, "relevance_score": 1}], [{"score": 1}], "x"):
        wire.json({"results": results})
        with pytest.raises(ModelError):
            call(CohereRerank(model="m", api_key=KEY, base_url=wire.base_url, max_retries=0).rerank, FOUND, "cats")


def test_bad_input_stays_here(wire: Ranks, reranker: CohereRerank, call: Any, monkeypatch: Any) -> None:
    for documents, query in ((FOUND, " "), ([3], "cats"), (FOUND, None)):
        with pytest.raises(InvalidInput):
            call(reranker.rerank, documents, query)
    with pytest.raises(InvalidInput):
        CohereRerank(model="m", api_key=KEY, top_n=0)
    with pytest.raises(InvalidInput):
        call(reranker.rerank, FOUND, "cats", top_n=0)
    monkeypatch.delenv("COHERE_API_KEY", raising=False)
    with pytest.raises(MissingApiKey):
        CohereRerank(model="m")
    assert wire.requests == []
