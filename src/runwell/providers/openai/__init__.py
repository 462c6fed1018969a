"""OpenAI's models, on its own SDK; each class is imported at first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.providers.openai.azure import AzureChatOpenAI
    from runwell.providers.openai.azure_embeddings import AzureOpenAIEmbeddings
    from runwell.providers.openai.chat import ChatOpenAI
    from runwell.providers.openai.completions import AzureOpenAI, OpenAI
    from runwell.providers.openai.embeddings import OpenAIEmbeddings
    from runwell.providers.openai.like import (
        ChatDeepSeek,
        ChatFireworks,
        ChatGroq,
        ChatLlamaServer,
        ChatLMStudio,
        ChatOpenRouter,
        ChatTogether,
        ChatVLLM,
        ChatXAI,
    )

_HOME = {
    "AzureChatOpenAI": "runwell.providers.openai.azure",
    "AzureOpenAI": "runwell.providers.openai.completions",
    "AzureOpenAIEmbeddings": "runwell.providers.openai.azure_embeddings",
    "ChatDeepSeek": "runwell.providers.openai.like",
    "ChatFireworks": "runwell.providers.openai.like",
    "ChatGroq": "runwell.providers.openai.like",
    "ChatLMStudio": "runwell.providers.openai.like",
    "ChatLlamaServer": "runwell.providers.openai.like",
    "ChatOpenAI": "runwell.providers.openai.chat",
    "ChatOpenRouter": "runwell.providers.openai.like",
    "ChatTogether": "runwell.providers.openai.like",
    "ChatVLLM": "runwell.providers.openai.like",
    "ChatXAI": "runwell.providers.openai.like",
    "OpenAI": "runwell.providers.openai.completions",
    "OpenAIEmbeddings": "runwell.providers.openai.embeddings",
}

__all__ = [
    "AzureChatOpenAI",
    "AzureOpenAI",
    "AzureOpenAIEmbeddings",
    "ChatDeepSeek",
    "ChatFireworks",
    "ChatGroq",
    "ChatLMStudio",
    "ChatLlamaServer",
    "ChatOpenAI",
    "ChatOpenRouter",
    "ChatTogether",
    "ChatVLLM",
    "ChatXAI",
    "OpenAI",
    "OpenAIEmbeddings",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
