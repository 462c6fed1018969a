"""Google's models, on its own SDK; each class is imported at first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.providers.google.chat import ChatGoogleGenerativeAI, ChatVertexAI
    from runwell.providers.google.embeddings import GoogleGenerativeAIEmbeddings

_HOME = {
    "ChatGoogleGenerativeAI": "runwell.providers.google.chat",
    "ChatVertexAI": "runwell.providers.google.chat",
    "GoogleGenerativeAIEmbeddings": "runwell.providers.google.embeddings",
}

__all__ = ["ChatGoogleGenerativeAI", "ChatVertexAI", "GoogleGenerativeAIEmbeddings"]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
