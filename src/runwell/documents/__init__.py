"""Documents: a text and what is known about it, and what narrows down those that a search found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runwell.documents.document import Blob, Document

if TYPE_CHECKING:
    from runwell.documents.compressor import BaseDocumentCompressor, BaseReranker

_LATE = frozenset({"BaseDocumentCompressor", "BaseReranker"})

__all__ = ["BaseDocumentCompressor", "BaseReranker", "Blob", "Document"]


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from runwell.documents import compressor

    value = getattr(compressor, name)
    globals()[name] = value
    return value
