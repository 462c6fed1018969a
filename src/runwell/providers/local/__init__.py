"""Models that run in this process: a bundled chat model, bundled embeddings, or any .gguf file.

Needs `pip install "runwell[local]"`. Weights are fetched once into a shared cache and verified.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.providers.local.catalogue import MODELS
    from runwell.providers.local.chat import LocalChatModel
    from runwell.providers.local.completion import LocalRuntime
    from runwell.providers.local.embeddings import LocalEmbeddings
    from runwell.providers.local.serve import LocalServer

_HOME = {
    "MODELS": "runwell.providers.local.catalogue",
    "LocalChatModel": "runwell.providers.local.chat",
    "LocalEmbeddings": "runwell.providers.local.embeddings",
    "LocalRuntime": "runwell.providers.local.completion",
    "LocalServer": "runwell.providers.local.serve",
}

__all__ = ["MODELS", "LocalChatModel", "LocalEmbeddings", "LocalRuntime", "LocalServer"]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
