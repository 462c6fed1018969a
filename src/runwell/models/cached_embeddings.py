"""Embeddings that remember: a text that was turned into a vector once is not sent again."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from runwell.errors import InvalidInput, UsageError
from runwell.ports.embeddings import Embeddings, Vector
from runwell.ports.store import BaseStore, GetOp, PutOp

__all__ = ["CacheBackedEmbeddings"]


class CacheBackedEmbeddings(Embeddings):
    """`underlying_embeddings` behind a cache of their vectors: a store of `runwell.persistence.stores`, or anything
    with `mget(keys)` and `mset(pairs)` of texts and bytes.

    `namespace` keeps the vectors of different models apart; unless given it is the model's class, name and dimensions.
    Texts that the cache does not have are embedded `batch_size` at a time (all at once without one), each batch kept
    before the next is sent; a text that stands twice is sent once. Questions are not kept unless
    `query_embedding_cache` is True (the same store) or a store of their own. One that is stored and cannot be read is
    embedded anew. May be used from several threads.
    """

    def __init__(
        self,
        underlying_embeddings: Embeddings,
        document_embedding_store: Any,
        *,
        namespace: str | None = None,
        batch_size: int | None = None,
        query_embedding_cache: Any = False,
    ) -> None:
        if batch_size is not None and (type(batch_size) is not int or batch_size < 1):
            raise InvalidInput(f"batch_size={batch_size!r}: how many texts are embedded at a time, 1 or more, or None.")
        self.underlying_embeddings = underlying_embeddings
        self.namespace = _identity(underlying_embeddings) if namespace is None else namespace
        self.batch_size = batch_size
        self._documents = _Kept(document_embedding_store, self.namespace, "documents")
        asked = document_embedding_store if query_embedding_cache is True else query_embedding_cache
        self._queries = _Kept(asked, self.namespace, "queries") if asked is not None and asked is not False else None

    @classmethod
    def from_bytes_store(
        cls,
        underlying_embeddings: Embeddings,
        document_embedding_cache: Any,
        *,
        namespace: str | None = None,
        batch_size: int | None = None,
        query_embedding_cache: Any = False,
    ) -> CacheBackedEmbeddings:
        """The same as the constructor."""
        return cls(
            underlying_embeddings,
            document_embedding_cache,
            namespace=namespace,
            batch_size=batch_size,
            query_embedding_cache=query_embedding_cache,
        )

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """One vector per text, in order."""
        asked = list(dict.fromkeys(texts))
        found = dict(zip(asked, self._documents.get(asked), strict=True)) if asked else {}
        missing = [text for text in asked if found[text] is None]
        size = self.batch_size or len(missing) or 1
        for some in (missing[at : at + size] for at in range(0, len(missing), size)):
            vectors = self.underlying_embeddings.embed_documents(some)
            if len(vectors) != len(some):
                raise UsageError(
                    f"{type(self.underlying_embeddings).__name__} gave {len(vectors)} vectors for {len(some)} texts."
                )
            self._documents.put(some, vectors)
            found.update(zip(some, vectors, strict=True))
        return [list(found[text]) for text in texts]  # type: ignore[arg-type]  # none is missing any more

    def embed_query(self, text: str) -> Vector:
        """The vector to search with."""
        if self._queries is None:
            return self.underlying_embeddings.embed_query(text)
        [found] = self._queries.get([text])
        if found is None:
            found = self.underlying_embeddings.embed_query(text)
            self._queries.put([text], [found])
        return list(found)


class _Kept:
    """The vectors of one kind in a store."""

    def __init__(self, store: Any, namespace: str, kind: str) -> None:
        self.store = store
        self.where = ("embeddings", *(part.replace(".", "_") for part in (namespace, kind)))
        self.prefix = f"{namespace}:{kind}:"
        if not isinstance(store, BaseStore) and not (hasattr(store, "mget") and hasattr(store, "mset")):
            raise InvalidInput(
                f"{type(store).__name__} is no store for vectors.",
                hint="A store of runwell.persistence.stores (InMemoryStore, SqliteStore, PostgresStore), or an object "
                "with mget(keys) and mset(pairs).",
            )

    def get(self, texts: Sequence[str]) -> list[Vector | None]:
        keys = list(map(_key, texts))
        if isinstance(self.store, BaseStore):
            items = self.store.batch([GetOp(self.where, key) for key in keys])
            return [_checked(item.value.get("vector")) if item is not None else None for item in items]  # type: ignore[union-attr]
        return [_unpacked(value) for value in self.store.mget([self.prefix + key for key in keys])]

    def put(self, texts: Sequence[str], vectors: Sequence[Vector]) -> None:
        pairs = list(zip(map(_key, texts), vectors, strict=True))
        if isinstance(self.store, BaseStore):
            self.store.batch([PutOp(self.where, key, {"vector": list(vector)}, index=False) for key, vector in pairs])
        else:
            self.store.mset([(self.prefix + key, _packed(vector)) for key, vector in pairs])


def _key(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _packed(vector: Vector) -> bytes:
    return struct.pack(f"<{len(vector)}d", *vector)


def _unpacked(value: Any) -> Vector | None:
    if not isinstance(value, bytes | bytearray | memoryview) or not value or len(value) % 8:
        return None
    return list(struct.unpack(f"<{len(value) // 8}d", value))


def _checked(value: Any) -> Vector | None:
    if isinstance(value, list) and value and all(isinstance(each, float | int) for each in value):
        return [float(each) for each in value]
    return None


def _identity(embeddings: Embeddings) -> str:
    """What tells the vectors of one model from those of another."""
    model = getattr(embeddings, "model", None)
    if not isinstance(model, str) or not model:
        raise InvalidInput(
            f"{type(embeddings).__name__} does not say which model it is, so its vectors could be taken for another's.",
            hint='Name them: CacheBackedEmbeddings(..., namespace="my-model").',
        )
    about = (getattr(embeddings, name, None) for name in ("dimensions", "output_dimensionality", "task_type"))
    return ":".join([type(embeddings).__name__, model, *(str(each) for each in about if each is not None)])
