"""OpenAI's completion models, and every server that speaks the completions API: a text in, what goes on from it out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from runwell.errors import ModelConnectionError, UnsupportedByProvider
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.message import AIMessage, BaseMessage
from runwell.models.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from runwell.providers.clients import Clients
from runwell.providers.openai.azure import AzureClients, AzureResource
from runwell.providers.openai.clients import OpenAIClients
from runwell.providers.openai.wire import metadata_from_wire, usage_from_wire
from runwell.providers.stainless import StainlessModel
from runwell.providers.vendor_llm import Prompts, VendorLLM
from runwell.providers.vendor_model import CLIENT, PROXY

__all__ = ["AzureOpenAI", "OpenAI"]

_PASSED = (
    *("temperature", "max_tokens", "top_p", "seed", "presence_penalty", "frequency_penalty", "logprobs"),
    *("logit_bias", "best_of", "suffix", "user"),
)
_SENT_APART = frozenset({"timeout", "extra_body", "extra_headers", "extra_query"})


class _Completions(StainlessModel, Prompts):
    model: str = "gpt-3.5-turbo-instruct"
    organization: str | None = None
    project: str | None = None
    temperature: float | None = None
    max_tokens: int | None = 256
    top_p: float | None = None
    seed: int | None = None
    stop: list[str] | str | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logprobs: int | None = None
    logit_bias: dict[str, int] | None = None
    best_of: int | None = None
    suffix: str | None = None
    user: str | None = None
    stream_usage: bool = True

    provider: ClassVar[str] = "openai"
    _aliases: ClassVar[dict[str, str]] = {
        "model_name": "model",
        "openai_api_key": "api_key",
        "openai_api_base": "base_url",
        "openai_organization": "organization",
        "request_timeout": "timeout",
        "stop_sequences": "stop",
    }
    _not_here: ClassVar[Mapping[str, str]] = {"openai_proxy": PROXY, "root_client": CLIENT, "root_async_client": CLIENT}

    sdk: ClassVar[str] = "openai"
    extra: ClassVar[str] = "openai"
    default_base_url: ClassVar[str] = "https://api.openai.com/v1"
    url_variable: ClassVar[str] = "OPENAI_BASE_URL"
    key_variable: ClassVar[str] = "OPENAI_API_KEY"
    key_may_be_a_function: ClassVar[bool] = True
    clients: ClassVar[type[Clients]] = OpenAIClients
    http_library: ClassVar[tuple[str, ...]] = ("httpx2", "httpx")
    answers_with: ClassVar[str] = "a completion"
    path: ClassVar[str] = "/completions"
    wanted: ClassVar[str] = "choices"

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        if self.base_url == _Completions.default_base_url:  # account settings, which are no other server's business
            self.organization = self.organization or os.environ.get("OPENAI_ORG_ID")
            self.project = self.project or os.environ.get("OPENAI_PROJECT_ID")

    @property
    def _sent_model(self) -> str:
        return self.model

    def _request(
        self, messages: list[BaseMessage], stop: Any, kwargs: Mapping[str, Any], stream: bool
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        from openai import Timeout

        prompts = [message.text for message in messages]
        body: dict[str, Any] = {"model": self._sent_model, "prompt": prompts[0] if len(prompts) == 1 else prompts}
        body |= {name: getattr(self, name) for name in _PASSED if getattr(self, name) is not None}
        stop = stop if stop is not None else self.stop
        if stop:
            body["stop"] = [stop] if isinstance(stop, str) else list(stop)
        body.update(self.model_kwargs)
        body |= {name: value for name, value in kwargs.items() if name not in _SENT_APART and value is not None}
        if body.get("n", 1) != 1:
            raise UnsupportedByProvider(
                f"A call gives one answer; got n={body['n']!r}.", hint="For several: model.generate([prompt] * n)."
            )
        if stream:
            body["stream"] = True
            if self.stream_usage:
                body["stream_options"] = {"include_usage": True}
        body.update(self.extra_body)
        body.update(kwargs.get("extra_body") or {})
        options = {"security": {"bearer_auth": True}, "timeout": self._timeout(kwargs.get("timeout"), Timeout)}
        for ours, theirs in (("extra_headers", "headers"), ("extra_query", "params")):
            if kwargs.get(ours):
                options[theirs] = kwargs[ours]
        return body, options

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
    model: str = ""
    azure_endpoint: str | None = None
    azure_deployment: str | None = None
    api_version: str | None = None
    azure_ad_token: Any = None
    azure_ad_token_provider: Any = None

    provider: ClassVar[str] = "azure_openai"
    _aliases: ClassVar[dict[str, str]] = {**_Completions._aliases, **AzureResource.azure_aliases}
    default_base_url: ClassVar[str] = ""
    url_variable: ClassVar[str] = "AZURE_OPENAI_ENDPOINT"
    key_variable: ClassVar[str] = "AZURE_OPENAI_API_KEY"
    clients: ClassVar[type[Clients]] = AzureClients


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
