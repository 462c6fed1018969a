"""OpenAI's completion models, and every server that speaks the completions API: a text in, what goes on from it out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from runwell.errors import ModelConnectionError
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.message import AIMessage, BaseMessage
from runwell.models.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from runwell.providers.openai.account import SENT_APART, OpenAIAccount
from runwell.providers.openai.azure_resource import AzureResource
from runwell.providers.openai.wire import metadata_from_wire, usage_from_wire
from runwell.providers.vendor_llm import Prompts, VendorLLM

__all__ = ["AzureOpenAI", "OpenAI"]


class _Completions(OpenAIAccount, Prompts):
    model: str = "gpt-3.5-turbo-instruct"
    max_tokens: int | None = 256
    logprobs: int | None = None
    best_of: int | None = None
    suffix: str | None = None

    passed: ClassVar[tuple[str, ...]] = (
        *("temperature", "max_tokens", "top_p", "seed", "presence_penalty", "frequency_penalty", "logprobs"),
        *("logit_bias", "best_of", "suffix", "user"),
    )
    several: ClassVar[str] = "model.generate([prompt] * n)"
    answers_with: ClassVar[str] = "a completion"
    path: ClassVar[str] = "/completions"

    def _request(
        self, messages: list[BaseMessage], stop: Any, kwargs: Mapping[str, Any], stream: bool
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        prompts = [message.text for message in messages]
        body: dict[str, Any] = {"model": self._sent_model, "prompt": prompts[0] if len(prompts) == 1 else prompts}
        self._fill(body, stop)
        body |= {name: value for name, value in kwargs.items() if name not in SENT_APART and value is not None}
        self._finish(body, kwargs, stream)
        return body, self._options(kwargs)

    def _read(self, answer: Mapping[str, Any], headers: Mapping[str, str], request: Any) -> ChatResult:
        usage = answer.get("usage")
        generations: list[ChatGeneration] = []
        for choice in sorted(answer["choices"], key=lambda each: each.get("index") or 0):
            message = AIMessage(
                choice.get("text") or "", usage_metadata=usage_from_wire(usage) if usage and not generations else None
            )
            message.response_metadata = metadata_from_wire(answer, choice, headers.get("x-request-id"))
            generations.append(ChatGeneration(message))
        return ChatResult(generations, {"model_name": answer.get("model"), "token_usage": usage})

    def _reader(self, request: Any) -> Any:
        return _Reader()


class _Reader:
    """Reads the events of one streamed completion."""

    __slots__ = ("_metadata", "_usage")

    def __init__(self) -> None:
        self._metadata: dict[str, Any] = {}
        self._usage: Mapping[str, Any] | None = None

    def take(self, event: Any) -> Iterator[ChatGenerationChunk]:
        """The chunk in an event, if it says anything."""
        if not isinstance(event, dict):
            return
        self._usage = event.get("usage") or self._usage
        for choice in event.get("choices") or ():
            if choice.get("finish_reason"):
                self._metadata = metadata_from_wire(event, choice)
            if choice.get("text"):
                about = {"logprobs": choice["logprobs"]} if choice.get("logprobs") else None
                yield ChatGenerationChunk(AIMessageChunk(choice["text"], response_metadata=about))

    def end(self, who: str | None) -> ChatGenerationChunk:
        """The last chunk. Raises ModelConnectionError if the stream stopped before the answer was complete."""
        if not self._metadata:
            raise ModelConnectionError(f"{who} ended the stream before the answer was complete.")
        usage = usage_from_wire(self._usage) if self._usage else None
        self._metadata.pop("logprobs", None)
        return ChatGenerationChunk(
            AIMessageChunk("", response_metadata=self._metadata, usage_metadata=usage, chunk_position="last")
        )


class _AzureCompletions(AzureResource, _Completions):
    """The same in a resource of Azure's."""


class OpenAI(VendorLLM):
    """A completion model of OpenAI's (`gpt-3.5-turbo-instruct`), or of a server of its API at `base_url` (vLLM,
    llama.cpp, LM Studio). Address, key, timeouts and `model_kwargs` as for `ChatOpenAI`; an answer has at most
    `max_tokens` (256).

    `generate(prompts)` sends `batch_size` (20) of them in one request. For chat models use `ChatOpenAI`.
    """

    batch_size: int = 20

    speaks: ClassVar[Any] = _Completions


class AzureOpenAI(VendorLLM):
    """A completion model that is deployed in a resource of Azure's: `azure_endpoint`, `azure_deployment`, `api_version`
    and who pays as for `AzureChatOpenAI`, all else as for `OpenAI`."""

    batch_size: int = 20

    speaks: ClassVar[Any] = _AzureCompletions
