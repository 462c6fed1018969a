"""Chat models: one way to call them, whatever the provider; tools, structured answers, retries, profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.models.bound import BoundModel
    from runwell.models.cache import BaseCache, InMemoryCache
    from runwell.models.cached_embeddings import CacheBackedEmbeddings
    from runwell.models.chat_model import BaseChatModel, LanguageModelInput
    from runwell.models.configurable import ConfigurableModel
    from runwell.models.embeddings import init_embeddings
    from runwell.models.init import init_chat_model
    from runwell.models.language_model import BaseLanguageModel, LanguageModelLike
    from runwell.models.llm import LLM, BaseLLM
    from runwell.models.outputs import (
        ChatGeneration,
        ChatGenerationChunk,
        ChatResult,
        Generation,
        GenerationChunk,
        LLMResult,
    )
    from runwell.models.prices import Price, cost_of, price_of, price_table
    from runwell.models.profile import ModelProfile
    from runwell.models.rate_limits import BaseRateLimiter, InMemoryRateLimiter
    from runwell.models.redis_rate_limits import RedisRateLimiter
    from runwell.models.retry import RetryPolicy
    from runwell.models.simple import SimpleChatModel
    from runwell.models.streamed import agenerate_from_stream, generate_from_stream
    from runwell.ports.embeddings import Embeddings
    from runwell.schemas.structured import StructuredSchema

_HOME = {
    "generate_from_stream": "runwell.models.streamed",
    "agenerate_from_stream": "runwell.models.streamed",
    "CacheBackedEmbeddings": "runwell.models.cached_embeddings",
    "LanguageModelLike": "runwell.models.language_model",
    "BaseLanguageModel": "runwell.models.language_model",
    "BaseCache": "runwell.models.cache",
    "BaseChatModel": "runwell.models.chat_model",
    "BaseLLM": "runwell.models.llm",
    "BaseRateLimiter": "runwell.models.rate_limits",
    "BoundModel": "runwell.models.bound",
    "ChatGeneration": "runwell.models.outputs",
    "ChatGenerationChunk": "runwell.models.outputs",
    "ChatResult": "runwell.models.outputs",
    "ConfigurableModel": "runwell.models.configurable",
    "Embeddings": "runwell.ports.embeddings",
    "Generation": "runwell.models.outputs",
    "GenerationChunk": "runwell.models.outputs",
    "InMemoryCache": "runwell.models.cache",
    "InMemoryRateLimiter": "runwell.models.rate_limits",
    "LLM": "runwell.models.llm",
    "LLMResult": "runwell.models.outputs",
    "LanguageModelInput": "runwell.models.chat_model",
    "ModelProfile": "runwell.models.profile",
    "Price": "runwell.models.prices",
    "RedisRateLimiter": "runwell.models.redis_rate_limits",
    "RetryPolicy": "runwell.models.retry",
    "SimpleChatModel": "runwell.models.simple",
    "StructuredSchema": "runwell.schemas.structured",
    "cost_of": "runwell.models.prices",
    "init_chat_model": "runwell.models.init",
    "init_embeddings": "runwell.models.embeddings",
    "price_of": "runwell.models.prices",
    "price_table": "runwell.models.prices",
}

__all__ = [
    "generate_from_stream",
    "agenerate_from_stream",
    "CacheBackedEmbeddings",
    "LanguageModelLike",
    "BaseLanguageModel",
    "BaseCache",
    "BaseChatModel",
    "BaseLLM",
    "BaseRateLimiter",
    "BoundModel",
    "ChatGeneration",
    "ChatGenerationChunk",
    "ChatResult",
    "ConfigurableModel",
    "Embeddings",
    "Generation",
    "GenerationChunk",
    "InMemoryCache",
    "InMemoryRateLimiter",
    "LLM",
    "LLMResult",
    "LanguageModelInput",
    "ModelProfile",
    "Price",
    "RedisRateLimiter",
    "RetryPolicy",
    "SimpleChatModel",
    "StructuredSchema",
    "cost_of",
    "init_chat_model",
    "init_embeddings",
    "price_of",
    "price_table",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
