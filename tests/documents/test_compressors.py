"""Compressors and rerankers are written once, in either colour."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runwell.documents import BaseDocumentCompressor, BaseReranker, Document
from runwell.errors import InvalidInput, UsageError

FOUND = [Document("aaa", {"n": 1}, "a"), Document("b", {"n": 2}, "b"), Document("cc", {"n": 3}, "c")]


class Plain(BaseReranker):
    def _ranked(self, texts: list[str], query: str, top_n: int) -> list[tuple[int, float]]:
        return [(place, 1 / len(text)) for place, text in enumerate(texts)]


class Async(BaseReranker):
    async def _aranked(self, texts: list[str], query: str, top_n: int) -> list[tuple[int, float]]:
        await asyncio.sleep(0)
        return [(place, 1 / len(text)) for place, text in enumerate(texts)]


class First(BaseDocumentCompressor):
    def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> list[Document]:
        return list(documents[:1])


@pytest.mark.parametrize("kind", [Plain, Async])
def test_a_reranker_in_either_colour(kind: type[BaseReranker]) -> None:
    best = [{"index": 1, "relevance_score": 1.0}, {"index": 2, "relevance_score": 0.5}]
    assert kind().rerank(FOUND, "q", top_n=2) == best
    assert asyncio.run(kind().arerank(FOUND, "q", top_n=2)) == best
    assert [each.id for each in kind().compress_documents(FOUND, "q")] == ["b", "c", "a"]
    kept = asyncio.run(kind().acompress_documents(FOUND, "q"))
    assert [(each.id, each.metadata["relevance_score"]) for each in kept][:2] == [("b", 1.0), ("c", 0.5)]
    assert FOUND[1].metadata == {"n": 2}


def test_equal_scores_keep_their_order() -> None:
    class Same(BaseReranker):
        top_n = None

        def _ranked(self, texts: list[str], query: str, top_n: int) -> list[tuple[int, float]]:
            return [(place, 0.0) for place in reversed(range(len(texts)))]

    assert [each.id for each in Same().compress_documents(FOUND, "q")] == ["a", "b", "c"]


def test_a_compressor_gets_its_twin() -> None:
    assert asyncio.run(First().acompress_documents(FOUND, "q")) == FOUND[:1]


def test_one_that_writes_nothing_says_so() -> None:
    for kind in (BaseReranker, BaseDocumentCompressor):
        with pytest.raises(UsageError, match="neither"):
            kind().compress_documents(FOUND, "q")
        with pytest.raises(UsageError, match="neither"):
            asyncio.run(kind().acompress_documents(FOUND, "q"))


@pytest.mark.parametrize(
    ("documents", "query", "top_n"),
    [(FOUND, "", None), (FOUND, 3, None), (FOUND, "q", 0), (FOUND, "q", True), ([3], "q", None)],
    ids=["no query", "no text", "none", "a bool", "no document"],
)
def test_bad_input(documents: Any, query: Any, top_n: Any) -> None:
    with pytest.raises(InvalidInput):
        Plain().rerank(documents, query, top_n=top_n)
