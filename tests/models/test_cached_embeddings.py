"""Embeddings behind a cache of their vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runwell.errors import InvalidInput, UsageError
from runwell.models import CacheBackedEmbeddings, Embeddings
from runwell.persistence.stores import InMemoryStore, SqliteStore


class Counted(Embeddings):
    """Says how long a text is, and remembers what it was asked."""

    model = "lengths"

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked.append(list(texts))
        if "bad" in texts:
            raise RuntimeError("no")
        return [[float(len(text)), 0.1] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        self.asked.append([f"?{text}"])
        return [float(len(text)), 0.2]


class Bytes:
    """A key-value store of bytes, as other libraries have them."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        return [self.kept.get(key) for key in keys]

    def mset(self, pairs: Sequence[tuple[str, bytes]]) -> None:
        self.kept.update(pairs)


@pytest.fixture(params=["memory", "sqlite", "bytes"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "bytes":
        return Bytes()
    return InMemoryStore() if request.param == "memory" else SqliteStore(str(tmp_path / "s.db"))


def documents(embeddings: Any, aio: bool, texts: list[str]) -> Any:
    import asyncio

    return asyncio.run(embeddings.aembed_documents(texts)) if aio else embeddings.embed_documents(texts)


@pytest.mark.parametrize("aio", [False, True], ids=["sync", "async"])
def test_what_was_embedded_once_is_not_asked_again(store: Any, aio: bool) -> None:
    plain = Counted()
    cached = CacheBackedEmbeddings(plain, store)
    expected = [[1.0, 0.1], [2.0, 0.1], [1.0, 0.1]]
    assert documents(cached, aio, ["a", "bb", "a"]) == expected
    assert documents(cached, aio, ["a", "bb", "a"]) == expected
    assert documents(CacheBackedEmbeddings(plain, store), aio, ["bb", "ccc"]) == [[2.0, 0.1], [3.0, 0.1]]
    assert documents(cached, aio, []) == []
    assert plain.asked == [["a", "bb"], ["ccc"]]


def test_batches_are_kept_as_they_come(store: Any) -> None:
    plain = Counted()
    cached = CacheBackedEmbeddings.from_bytes_store(plain, store, batch_size=2)
    with pytest.raises(RuntimeError):
        cached.embed_documents(["a", "b", "c", "bad"])
    assert cached.embed_documents(["a", "b"]) == [[1.0, 0.1], [1.0, 0.1]]
    assert plain.asked == [["a", "b"], ["c", "bad"]]


def test_questions_are_kept_when_asked_for(store: Any) -> None:
    plain, apart = Counted(), InMemoryStore()
    for query_cache, times in ((False, 2), (True, 1), (apart, 1)):
        plain.asked.clear()
        cached = CacheBackedEmbeddings(plain, store, query_embedding_cache=query_cache)
        assert cached.embed_query("hi") == cached.embed_query("hi") == [2.0, 0.2]
        assert len(plain.asked) == times
    assert CacheBackedEmbeddings(plain, store, query_embedding_cache=True).embed_documents(["hi"]) == [[2.0, 0.1]]


def test_models_are_kept_apart(store: Any) -> None:
    first, second = Counted(), Counted()
    second.model = "other.lengths"
    CacheBackedEmbeddings(first, store).embed_documents(["a"])
    CacheBackedEmbeddings(second, store).embed_documents(["a"])
    CacheBackedEmbeddings(first, store, namespace="mine").embed_documents(["a"])
    assert len(first.asked) == 2
    assert len(second.asked) == 1


def test_a_vector_that_cannot_be_read_is_made_anew() -> None:
    store = Bytes()
    cached = CacheBackedEmbeddings(Counted(), store)
    cached.embed_documents(["a"])
    [key] = store.kept
    store.kept[key] = b"???"
    assert cached.embed_documents(["a"]) == [[1.0, 0.1]]
    assert store.kept[key] != b"???"


def test_what_is_wrong_is_told() -> None:
    class Nameless(Embeddings):
        def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
            return []

    with pytest.raises(InvalidInput, match=r"does not say which model it is.*\n.*namespace="):
        CacheBackedEmbeddings(Nameless(), InMemoryStore())
    with pytest.raises(InvalidInput, match="dict is no store for vectors"):
        CacheBackedEmbeddings(Counted(), {})
    with pytest.raises(InvalidInput, match="batch_size=0"):
        CacheBackedEmbeddings(Counted(), InMemoryStore(), batch_size=0)
    with pytest.raises(UsageError, match="gave 0 vectors for 1 texts"):
        CacheBackedEmbeddings(Nameless(), InMemoryStore(), namespace="x").embed_documents(["a"])
