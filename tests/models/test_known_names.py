"""Small names that people import from elsewhere, doing what they do there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from runwell.errors import InvalidInput, ModelError
from runwell.messages import AIMessageChunk, convert_to_openai_data_block, convert_to_openai_image_block
from runwell.models import (
    BaseLanguageModel,
    ChatGenerationChunk,
    LanguageModelLike,
    agenerate_from_stream,
    generate_from_stream,
)
from runwell.testing import FakeChatModel, FakeListChatModel, FakeListChatModelError, FakeListLLM


def test_any_language_model_is_one() -> None:
    assert isinstance(FakeChatModel(responses=["a"]), BaseLanguageModel)
    assert isinstance(FakeListLLM(responses=["a"]), BaseLanguageModel)
    assert not isinstance("a", BaseLanguageModel)
    assert LanguageModelLike is not None


def test_a_stream_is_a_result() -> None:
    chunks = [
        ChatGenerationChunk(AIMessageChunk("Hel")),
        ChatGenerationChunk(AIMessageChunk("lo"), {"finish_reason": "stop"}),
    ]

    async def later() -> AsyncIterator[ChatGenerationChunk]:
        for chunk in chunks:
            yield chunk

    for result in (generate_from_stream(iter(chunks)), asyncio.run(agenerate_from_stream(later()))):
        [generation] = result.generations
        assert generation.text == "Hello"
        assert generation.generation_info == {"finish_reason": "stop"}
    with pytest.raises(ModelError):
        generate_from_stream([])


def test_blocks_in_openais_form() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    written = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    assert convert_to_openai_image_block(picture) == convert_to_openai_data_block(picture) == written
    assert convert_to_openai_data_block({"type": "file", "file_id": "f"}) == {"type": "file", "file": {"file_id": "f"}}
    with pytest.raises(InvalidInput, match="is no picture"):
        convert_to_openai_image_block({"type": "text", "text": "a"})
    with pytest.raises(InvalidInput, match="holds no media"):
        convert_to_openai_data_block({"type": "text", "text": "a"})


def test_a_fake_models_failure_has_a_name() -> None:
    with pytest.raises(FakeListChatModelError, match="chunk 1 failed"):
        list(FakeListChatModel(responses=["abc"], error_on_chunk_number=1).stream("Hi"))
