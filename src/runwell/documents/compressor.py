"""What narrows down the documents that a search found: compressors, and rerankers, which put the best first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runwell.documents.document import Document
from runwell.drivers.other_colour import answer_in_both, beneath, writes
from runwell.errors import InvalidInput, UsageError

__all__ = ["BaseDocumentCompressor", "BaseReranker", "Ranked"]

Ranked = dict[str, Any]
"""`index` (which of the documents) and `relevance_score` (higher is better; comparable within one answer)."""


class BaseDocumentCompressor:
    """Makes of the documents found for a query fewer, shorter or better ordered ones.

    A subclass writes `compress_documents` or `acompress_documents`, and gets the other.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        answer_in_both(cls, {"compress_documents": "acompress_documents"}, BaseDocumentCompressor)

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None) -> list[Document]:
        """What is left of the documents. They themselves are not changed."""
        if not writes(type(self), "acompress_documents", BaseDocumentCompressor):
            raise _unwritten(self, "compress_documents")
        from runwell.drivers.sync import call_sync
        from runwell.effects import Callee

        return call_sync(Callee(None, beneath(self, "acompress_documents")), documents, query, callbacks)

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> list[Document]:
        """As `compress_documents`. A plain implementation runs in a worker thread."""
        if not writes(type(self), "compress_documents", BaseDocumentCompressor):
            raise _unwritten(self, "compress_documents")
        from runwell.drivers.aio import in_worker

        return await in_worker(beneath(self, "compress_documents"), documents, query, callbacks)


class BaseReranker(BaseDocumentCompressor):
    """Puts first what answers a query best. A subclass writes `_ranked` or `_aranked`, and gets the rest.

    `top_n` of the documents are kept, all if it is None. The score of each stands in its `relevance_score`, in the
    metadata of the copies that `compress_documents` gives.
    """

    top_n: int | None = 3

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        answer_in_both(cls, {"rerank": "arerank"})
        answer_in_both(cls, {"_ranked": "_aranked"}, BaseReranker)

    def _ranked(self, texts: list[str], query: str, top_n: int) -> list[tuple[int, float]]:
        """(Index, score) of at least the `top_n` best, in any order; neither is empty."""
        if not writes(type(self), "_aranked", BaseReranker):
            raise _unwritten(self, "_ranked")
        from runwell.drivers.sync import call_sync
        from runwell.effects import Callee

        return call_sync(Callee(None, beneath(self, "_aranked")), texts, query, top_n)

    async def _aranked(self, texts: list[str], query: str, top_n: int) -> list[tuple[int, float]]:
        """As `_ranked`. A plain implementation runs in a worker thread."""
        if not writes(type(self), "_ranked", BaseReranker):
            raise _unwritten(self, "_ranked")
        from runwell.drivers.aio import in_worker

        return await in_worker(beneath(self, "_ranked"), texts, query, top_n)

    def rerank(
        self, documents: Sequence[str | Document | dict[str, Any]], query: str, *, top_n: int | None = None
    ) -> list[Ranked]:
        """`{"index", "relevance_score"}` of the best `top_n` (the reranker's own unless given), best first.

        Documents are texts, `Document`s or dicts, of which all values are read. Raises InvalidInput for an empty query.
        """
        texts, wanted = self._asked(documents, query, top_n)
        return _best(self._ranked(texts, query, wanted), wanted) if wanted else []

    async def arerank(
        self, documents: Sequence[str | Document | dict[str, Any]], query: str, *, top_n: int | None = None
    ) -> list[Ranked]:
        """As `rerank`."""
        texts, wanted = self._asked(documents, query, top_n)
        return _best(await self._aranked(texts, query, wanted), wanted) if wanted else []

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None) -> list[Document]:
        """Copies of the best documents, best first."""
        return _scored(documents, self.rerank(documents, query))

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> list[Document]:
        """As `compress_documents`."""
        return _scored(documents, await self.arerank(documents, query))

    def _asked(self, documents: Sequence[Any], query: Any, top_n: int | None) -> tuple[list[str], int]:
        if not isinstance(query, str) or not query.strip():
            raise InvalidInput(f"Documents are ranked for a query, which is a text; got {query!r:.100}.")
        most = self.top_n if top_n is None else top_n
        if most is not None and (type(most) is not int or most < 1):
            raise InvalidInput(f"top_n is how many documents are kept, 1 or more; got {most!r}.")
        texts = [_text(document, place) for place, document in enumerate(documents)]
        return texts, len(texts) if most is None else min(most, len(texts))


def _best(ranked: list[tuple[int, float]], wanted: int) -> list[Ranked]:
    """Equal scores stay in the order of the documents."""
    best = sorted(ranked, key=lambda each: (-each[1], each[0]))[:wanted]
    return [{"index": index, "relevance_score": score} for index, score in best]


def _scored(documents: Sequence[Document], ranked: list[Ranked]) -> list[Document]:
    kept = [(documents[each["index"]], each["relevance_score"]) for each in ranked]
    return [Document(each.page_content, {**each.metadata, "relevance_score": score}, each.id) for each, score in kept]


def _text(document: Any, place: int) -> str:
    if isinstance(document, str):
        return document
    if isinstance(document, Document):
        return document.page_content
    if isinstance(document, dict):
        return "\n".join(f"{key}: {value}" for key, value in document.items())
    raise InvalidInput(f"Document {place} to rank is no text, Document or dict: {document!r:.100}.")


def _unwritten(one: object, name: str) -> UsageError:
    return UsageError(
        f"{type(one).__name__} writes neither {name} nor its async twin.", hint="Write one of them; the other follows."
    )
