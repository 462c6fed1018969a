"""Ollama's models, on its own SDK; each class is imported at first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.providers.ollama.chat import ChatOllama
    from runwell.providers.ollama.embeddings import OllamaEmbeddings
    from runwell.providers.ollama.llm import OllamaLLM

_HOME = {
    "ChatOllama": "runwell.providers.ollama.chat",
    "OllamaEmbeddings": "runwell.providers.ollama.embeddings",
    "OllamaLLM": "runwell.providers.ollama.llm",
}

__all__ = ["ChatOllama", "OllamaEmbeddings", "OllamaLLM"]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
