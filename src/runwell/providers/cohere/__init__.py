"""Cohere's models, on its own SDK; each class is imported at first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.providers.cohere.chat import ChatCohere
    from runwell.providers.cohere.embeddings import CohereEmbeddings
    from runwell.providers.cohere.rerank import CohereRerank

_HOME = {
    "ChatCohere": "runwell.providers.cohere.chat",
    "CohereEmbeddings": "runwell.providers.cohere.embeddings",
    "CohereRerank": "runwell.providers.cohere.rerank",
}

__all__ = ["ChatCohere", "CohereEmbeddings", "CohereRerank"]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
