"""A stream of generations as the result that it adds up to, for models that write only a stream."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable

from runwell.models.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from runwell.models.reply import whole

__all__ = ["agenerate_from_stream", "generate_from_stream"]


def generate_from_stream(stream: Iterable[ChatGenerationChunk]) -> ChatResult:
    """The result of a stream, read to its end. Raises ModelError for one that gives nothing."""
    return _result(list(stream))


async def agenerate_from_stream(stream: AsyncIterable[ChatGenerationChunk]) -> ChatResult:
    """As `generate_from_stream`."""
    return _result([chunk async for chunk in stream])


def _result(chunks: list[ChatGenerationChunk]) -> ChatResult:
    message = whole([chunk.message for chunk in chunks])
    about = {key: value for chunk in chunks for key, value in (chunk.generation_info or {}).items()}
    return ChatResult([ChatGeneration(message, about or None)])
