"""What a model implementation hands back: generations, and the results that hold them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from runwell.messages.chunks import AIMessageChunk
from runwell.messages.message import BaseMessage

__all__ = [
    "ChatGeneration",
    "ChatGenerationChunk",
    "ChatResult",
    "Generation",
    "GenerationChunk",
    "LLMResult",
]


def _merged(left: dict[str, Any] | None, right: dict[str, Any] | None) -> dict[str, Any] | None:
    if not right:
        return left
    return {**left, **right} if left else right


@dataclass(slots=True)
class Generation:
    """One answer of a completion model. `generation_info` is what the provider says about it (why it ended, ...)."""

    text: str = ""
    generation_info: dict[str, Any] | None = None


@dataclass(slots=True)
class GenerationChunk(Generation):
    """A piece of a completion model's answer; pieces add up with `+`."""

    def __add__(self, other: GenerationChunk) -> GenerationChunk:
        return GenerationChunk(self.text + other.text, _merged(self.generation_info, other.generation_info))


@dataclass(slots=True)
class ChatGeneration:
    """One answer of a chat model, as a message."""

    message: BaseMessage
    generation_info: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """The message's text."""
        return str(self.message.text)


@dataclass(slots=True)
class ChatGenerationChunk:
    """A piece of a chat model's answer; pieces add up with `+`."""

    message: AIMessageChunk
    generation_info: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """The piece's text."""
        return str(self.message.text)

    def __add__(self, other: ChatGenerationChunk) -> ChatGenerationChunk:
        info = _merged(self.generation_info, other.generation_info)
        return ChatGenerationChunk(self.message + other.message, info)


@dataclass(slots=True)
class ChatResult:
    """What a chat model's `_generate` gives: one generation, or several candidates of which the first is used.

    `llm_output` is what the provider says about the whole call, such as `{"model_name": ..., "token_usage": ...}`.
    """

    generations: list[ChatGeneration]
    llm_output: dict[str, Any] | None = None


@dataclass(slots=True)
class LLMResult:
    """The answers to several prompts: `generations[i]` are the candidates for prompt `i`."""

    generations: list[list[Any]] = field(default_factory=list)
    llm_output: dict[str, Any] | None = None
