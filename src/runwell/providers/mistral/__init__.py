"""Mistral's models, on its own SDK; each class is imported at first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.providers.mistral.chat import ChatMistralAI
    from runwell.providers.mistral.embeddings import MistralAIEmbeddings

_HOME = {
    "ChatMistralAI": "runwell.providers.mistral.chat",
    "MistralAIEmbeddings": "runwell.providers.mistral.embeddings",
}

__all__ = ["ChatMistralAI", "MistralAIEmbeddings"]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
