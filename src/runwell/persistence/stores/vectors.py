"""Embedded texts: who makes vectors, how they are stored, and how near two are."""

from __future__ import annotations

import math
from array import array
from collections.abc import Awaitable, Callable, Iterable, Sequence
from operator import mul
from typing import Any, cast

from runwell.drivers.colour import is_async
from runwell.errors import InvalidConfig, StorageError
from runwell.persistence.stores.fields import check_path
from runwell.ports.embeddings import Embeddings
from runwell.ports.store import IndexConfig

__all__ = ["Index", "nearness", "other_model"]

Vector = Sequence[float]


class EmbeddingFunction(Embeddings):
    """Embeddings made of a function from texts to vectors, of either colour."""

    def __init__(self, function: Callable[[Sequence[str]], Any]) -> None:
        self._function = function
        self._async = is_async(function)

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        if self._async:
            from runwell.drivers.sync import call_sync
            from runwell.effects import Callee

            return call_sync(Callee(None, self._function), texts)
        return cast("list[list[float]]", self._function(texts))

    async def aembed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        if self._async:
            return await cast("Awaitable[list[list[float]]]", self._function(texts))
        return await super().aembed_documents(texts)


class Index:
    """A checked IndexConfig."""

    def __init__(self, config: IndexConfig, owner: str) -> None:
        if not isinstance(config, dict):
            raise InvalidConfig(
                f"{owner} got index={config!r:.200}.", hint='Give a dict: {"dims": 384, "embed": ..., "fields": [...]}.'
            )
        embed = config.get("embed")
        if not isinstance(embed, Embeddings):
            if not callable(embed):
                raise InvalidConfig(
                    f"{owner} got index={{'embed': {embed!r}}}.",
                    hint="Give Embeddings, for instance init_embeddings(...), or a function from texts to vectors.",
                )
            embed = EmbeddingFunction(embed)
        dims = config.get("dims")
        if type(dims) is not int or dims < 1:
            raise InvalidConfig(
                f"{owner} got index={{'dims': {dims!r}}}.", hint="Say how many numbers a vector of the model has."
            )
        unknown = set(config) - {"dims", "embed", "fields", "hnsw"}
        if unknown:
            raise InvalidConfig(
                f"{owner} got index= with {sorted(unknown)}.", hint="It takes dims, embed, fields and hnsw."
            )
        self.hnsw = _checked_hnsw(config.get("hnsw"), dims, owner)
        """The settings of an approximate index, None where everything is compared."""
        self.embed: Embeddings = embed
        self.dims = dims
        self.fields = config.get("fields") or ["$"]
        for path in self.fields:
            check_path(path)

    def stored(self, vector: Vector, text: str) -> bytes:
        """A vector as it is stored: of length 1, as 32-bit numbers."""
        if len(vector) != self.dims:
            raise InvalidConfig(
                f"The embedding of {text!r:.60} has {len(vector)} numbers; index= says dims={self.dims}.",
                hint=f"Set dims={len(vector)}, or use the model that the store was made with.",
            )
        length = math.sqrt(sum(map(mul, vector, vector)))
        if not math.isfinite(length):
            raise InvalidConfig(f"The embedding of {text!r:.60} holds numbers that are not finite.")
        return array("f", [number / length for number in vector] if length else vector).tobytes()


def _checked_hnsw(given: Any, dims: int, owner: str) -> dict[str, int] | None:
    if not given and given != {}:
        return None
    settings = {} if given is True else given
    known = isinstance(settings, dict) and settings.keys() <= {"m", "ef_construction"}
    if not known or any(type(number) is not int for number in settings.values()):
        raise InvalidConfig(
            f"{owner} got index={{'hnsw': {given!r:.100}}}.",
            hint='It is True, or a dict such as {"m": 16, "ef_construction": 64}.',
        )
    if dims > 2000:
        raise InvalidConfig(
            f"{owner} got index={{'hnsw': ...}} and dims={dims}; the index takes up to 2,000.",
            hint="Use an embedding model of fewer dimensions, or leave hnsw out.",
        )
    return settings


def nearness(query: bytes, stored: Iterable[tuple[int, bytes]]) -> list[tuple[float, int]]:
    """(cosine, id), the nearest first; of an id with several vectors the nearest counts.

    `stored` are (id, vector) as `Index.stored` made them. Equal ones: the higher id first.
    """
    rows = list(stored)
    for _, vector in rows:
        if len(vector) != len(query):
            raise other_model(len(vector) // 4, len(query) // 4)
    best: dict[int, float] = {}
    for (owner, _), score in zip(rows, _cosines(query, [vector for _, vector in rows]), strict=True):
        if score > best.get(owner, -math.inf):
            best[owner] = score
    return sorted(((score, owner) for owner, score in best.items()), reverse=True)


def other_model(stored: int, asked: int) -> StorageError:
    """The error for vectors of different lengths."""
    return StorageError(
        f"The store holds vectors of {stored} numbers, and the query has {asked}.",
        hint="They are of different models: put the items again with the one in use now.",
    )


def _cosines(query: bytes, vectors: list[bytes]) -> list[float]:
    try:
        import numpy
    except ImportError:
        wanted = array("f", query)
        return [sum(map(mul, wanted, array("f", vector))) for vector in vectors]
    matrix = numpy.frombuffer(b"".join(vectors), dtype=numpy.float32).reshape(len(vectors), len(query) // 4)
    scores: list[float] = (matrix @ numpy.frombuffer(query, dtype=numpy.float32)).tolist()
    return scores
