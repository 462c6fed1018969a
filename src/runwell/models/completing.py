"""A completion model's calls as those of a chat model, which knows about retries, caches, turns and both colours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from runwell.errors import UsageError
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.message import AIMessage, BaseMessage
from runwell.models.chat_model import BaseChatModel
from runwell.models.outputs import ChatGeneration, ChatGenerationChunk, ChatResult, GenerationChunk, LLMResult

__all__ = ["Completing"]


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
        return self._result(self.llm._generate([messages[0].text], stop=stop, run_manager=run_manager, **kwargs))

    async def _agenerate_text(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return self._result(await self.llm._agenerate([messages[0].text], stop=stop, run_manager=run_manager, **kwargs))

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

    def _result(self, result: Any) -> ChatResult:
        if not isinstance(result, LLMResult) or not result.generations or not result.generations[0]:
            raise UsageError(
                f"{type(self.llm).__name__} gave {result!r:.200}.",
                hint="`_generate` returns LLMResult([[Generation(text=...)]]); for one text, write `LLM._call`.",
            )
        first = result.generations[0][0]
        if not isinstance(first.text, str):
            raise UsageError(f"{type(self.llm).__name__} gave {first.text!r:.200}, which is no text.")
        return ChatResult([ChatGeneration(AIMessage(first.text), first.generation_info)])

    def _piece(self, piece: Any) -> ChatGenerationChunk:
        if not isinstance(piece, GenerationChunk):
            raise UsageError(
                f"{type(self.llm).__name__} gave {piece!r:.200}.", hint="`_stream` yields GenerationChunk(text=...)."
            )
        return ChatGenerationChunk(AIMessageChunk(piece.text), piece.generation_info)
