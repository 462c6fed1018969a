"""What turns text into vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runwell.drivers.other_colour import answer_in_both, asks_itself, beneath, writes
from runwell.errors import UsageError

__all__ = ["Embeddings"]

Vector = list[float]


class Embeddings:
    """Text to vectors of one fixed length, so that texts of like meaning lie close.

    A subclass writes `embed_documents` or `aembed_documents`, and gets the rest in both colours. It also writes
    `embed_query` (or `aembed_query`) where the model treats questions and documents differently; otherwise a query is
    embedded as a document.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        answer_in_both(cls, {"embed_documents": "aembed_documents", "embed_query": "aembed_query"}, Embeddings)

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """One vector per text, in order."""
        if not writes(type(self), "aembed_documents", Embeddings):
            raise _unwritten(self)
        from runwell.drivers.sync import call_sync
        from runwell.effects import Callee

        return call_sync(Callee(None, beneath(self, "aembed_documents")), texts)

    async def aembed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """One vector per text, in order. A plain implementation runs in a worker thread."""
        if not writes(type(self), "embed_documents", Embeddings):
            raise _unwritten(self)
        from runwell.drivers.aio import in_worker

        return await in_worker(beneath(self, "embed_documents"), texts)

    def embed_query(self, text: str) -> Vector:
        """The vector to search with."""
        if writes(type(self), "aembed_query", Embeddings) and not asks_itself(self, "aembed_query"):
            from runwell.drivers.sync import call_sync
            from runwell.effects import Callee

            return call_sync(Callee(None, beneath(self, "aembed_query")), text)
        return self.embed_documents([text])[0]

    async def aembed_query(self, text: str) -> Vector:
        """The vector to search with. A plain implementation runs in a worker thread."""
        if writes(type(self), "embed_query", Embeddings) and not asks_itself(self, "embed_query"):
            from runwell.drivers.aio import in_worker

            return await in_worker(beneath(self, "embed_query"), text)
        return (await self.aembed_documents([text]))[0]


def _unwritten(embeddings: Embeddings) -> UsageError:
    return UsageError(
        f"{type(embeddings).__name__} writes neither embed_documents nor aembed_documents.",
        hint="Write one of them; the other follows.",
    )
