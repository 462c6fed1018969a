"""Providers on this machine: servers that speak their APIs and answer what a test scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.testing.wire.anthropic import AnthropicDialect
    from runwell.testing.wire.azure import AzureOpenAIDialect
    from runwell.testing.wire.bedrock import BedrockDialect
    from runwell.testing.wire.cohere import CohereDialect
    from runwell.testing.wire.google import GoogleDialect
    from runwell.testing.wire.mistral import MistralDialect
    from runwell.testing.wire.ollama import OllamaDialect
    from runwell.testing.wire.openai import OpenAIDialect
    from runwell.testing.wire.responses import ResponsesDialect
    from runwell.testing.wire.said import Asked, Call, Said, WireDialect
    from runwell.testing.wire.server import WireServer

_HOME = {
    "AnthropicDialect": "runwell.testing.wire.anthropic",
    "Asked": "runwell.testing.wire.said",
    "BedrockDialect": "runwell.testing.wire.bedrock",
    "AzureOpenAIDialect": "runwell.testing.wire.azure",
    "Call": "runwell.testing.wire.said",
    "CohereDialect": "runwell.testing.wire.cohere",
    "GoogleDialect": "runwell.testing.wire.google",
    "MistralDialect": "runwell.testing.wire.mistral",
    "OllamaDialect": "runwell.testing.wire.ollama",
    "OpenAIDialect": "runwell.testing.wire.openai",
    "ResponsesDialect": "runwell.testing.wire.responses",
    "Said": "runwell.testing.wire.said",
    "WireDialect": "runwell.testing.wire.said",
    "WireServer": "runwell.testing.wire.server",
}

__all__ = [
    "AnthropicDialect",
    "Asked",
    "BedrockDialect",
    "AzureOpenAIDialect",
    "Call",
    "CohereDialect",
    "GoogleDialect",
    "MistralDialect",
    "OllamaDialect",
    "OpenAIDialect",
    "ResponsesDialect",
    "Said",
    "WireDialect",
    "WireServer",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
