"""Amazon Bedrock's models, on Amazon's own SDK; each class is imported at first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.providers.bedrock.chat import ChatBedrockConverse
    from runwell.providers.bedrock.embeddings import BedrockEmbeddings

_HOME = {
    "BedrockEmbeddings": "runwell.providers.bedrock.embeddings",
    "ChatBedrockConverse": "runwell.providers.bedrock.chat",
}

__all__ = ["BedrockEmbeddings", "ChatBedrockConverse"]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
