"""A completion model's calls as those of a chat model, which knows about retries, caches, turns and both colours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from runwell.errors import UsageError
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.message import AIMessage, BaseMessage
from runwell.models.chat_model import BaseChatModel
from runwell.models.outputs import ChatGeneration, ChatGenerationChunk, ChatResult, GenerationChunk, LLMResult

__all__ = ["Completing"]


_COUNTS = (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))


class Completing(BaseChatModel):
    """Made for a call of `llm`. A subclass takes those of the methods ending in `_text` that the model writes."""

    llm: Any

    @property
    def _llm_type(self) -> str:
        return str(self.llm._llm_type)

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return dict(self.llm._identifying_params)

    @property
    def retry_policy(self) -> Any:  # type: ignore[override]
        return getattr(self.llm, "retry_policy", BaseChatModel.retry_policy)

    def get_num_tokens_from_messages(self, messages: Sequence[Any], tools: Sequence[Any] | None = None) -> int:
        return sum(int(self.llm.get_num_tokens(message.text)) for message in messages)

    def _generate_text(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        prompts = [message.text for message in messages]
        return self._result(self.llm._generate(prompts, stop=stop, run_manager=run_manager, **kwargs), len(prompts))

    async def _agenerate_text(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        prompts = [message.text for message in messages]
        result = await self.llm._agenerate(prompts, stop=stop, run_manager=run_manager, **kwargs)
        return self._result(result, len(prompts))

    def _stream_text(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        for piece in self.llm._stream(messages[0].text, stop=stop, run_manager=run_manager, **kwargs):
            yield self._piece(piece)

    async def _astream_text(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        async for piece in self.llm._astream(messages[0].text, stop=stop, run_manager=run_manager, **kwargs):
            yield self._piece(piece)

    def _result(self, result: Any, asked: int) -> ChatResult:
        """The answer to one prompt; to several, a message with a block for each."""
        if not isinstance(result, LLMResult) or len(result.generations) < asked or not all(result.generations):
            raise UsageError(
                f"{type(self.llm).__name__} gave {result!r:.200}.",
                hint="`_generate` returns LLMResult([[Generation(text=...)]]); for one text, write `LLM._call`.",
            )
        firsts = [each[0] for each in result.generations[:asked]]
        for first in firsts:
            if not isinstance(first.text, str):
                raise UsageError(f"{type(self.llm).__name__} gave {first.text!r:.200}, which is no text.")
        content: Any = firsts[0].text if asked == 1 else [{"type": "text", "text": first.text} for first in firsts]
        about = result.llm_output or {}
        usage = about.get("usage_metadata") or _usage_of(about.get("token_usage"))
        told = (
            {"model_name": about["model_name"], **(firsts[0].generation_info or {})}
            if about.get("model_name")
            else None
        )
        return ChatResult([ChatGeneration(AIMessage(content, usage_metadata=usage), told or firsts[0].generation_info)])

    def _piece(self, piece: Any) -> ChatGenerationChunk:
        if not isinstance(piece, GenerationChunk):
            raise UsageError(
                f"{type(self.llm).__name__} gave {piece!r:.200}.", hint="`_stream` yields GenerationChunk(text=...)."
            )
        about = dict(piece.generation_info or {})
        usage = about.pop("usage_metadata", None)
        return ChatGenerationChunk(AIMessageChunk(piece.text, usage_metadata=usage), about or None)


def _usage_of(told: Any) -> Any:
    """Token counts in the words that completion models have for them."""
    if not isinstance(told, Mapping):
        return None
    found = [told.get(theirs, told.get(ours)) for theirs, ours in _COUNTS]
    if not all(isinstance(each, int) for each in found):
        return None
    return {"input_tokens": found[0], "output_tokens": found[1], "total_tokens": told.get("total_tokens", sum(found))}
