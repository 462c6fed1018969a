"""Documents: a text and what is known about it."""

from runwell.documents.document import Blob, Document

__all__ = ["Blob", "Document"]
