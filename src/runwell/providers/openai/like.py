"""Servers that speak OpenAI's chat completions API: where each is, what it can do and how its models' thoughts travel.

A server that is not here is `ChatOpenAI` with its `base_url`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from runwell.errors import UnsupportedByProvider
from runwell.messages.message import BaseMessage, HumanMessage
from runwell.models.media_kinds import Sources
from runwell.providers.openai.chat import PASSED, ChatOpenAI

__all__ = [
    "ChatDeepSeek",
    "ChatFireworks",
    "ChatGroq",
    "ChatLMStudio",
    "ChatLlamaServer",
    "ChatOpenRouter",
    "ChatTogether",
    "ChatVLLM",
    "ChatXAI",
    "OpenAILike",
]


class OpenAILike(ChatOpenAI):
    """What these servers share. What a model thought is `additional_kwargs["reasoning_content"]`, a reasoning block in
    `content_blocks`; it goes back only where the server wants it (`wants_thoughts`), and only to the vendor it is of.
    """

    model: str = ""

    chooses_api: ClassVar[bool] = False
    needs_key: ClassVar[bool] = True
    wants_thoughts: ClassVar[str] = "never"
    """"never", "in the turn" (of answers with calls, until the next message of the user's) or "always"."""
    refuses: ClassVar[tuple[str, ...]] = ()
    """Arguments that the server is known to refuse."""
    takes_names: ClassVar[bool] = True
    media: ClassVar[tuple[str, ...]] = ("image",)

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        self._check({name: getattr(self, name, None) for name in self.refuses})

    def _resolve_key(self) -> Any:
        if not self.needs_key and self.api_key is None and not os.environ.get(self.key_variable):
            self.api_key = "none"
        return super()._resolve_key()

    @property
    def _at_openai(self) -> bool:
        return False

    @property
    def _is_strict(self) -> bool:
        return True

    def _check(self, asked: Mapping[str, Any]) -> None:
        for name in self.refuses:
            value = asked.get(name)
            if value is not None and value is not False and not (name == "n" and value == 1):
                raise UnsupportedByProvider(f"{type(self).__name__}: its server takes no {name!r}; got {value!r}.")

    def _request(self, messages: list[BaseMessage], stop: Any, kwargs: Mapping[str, Any], stream: bool) -> Any:
        self._check({**self.model_kwargs, **kwargs})
        return super()._request(messages, stop, kwargs, stream)

    def _wire(self, messages: list[BaseMessage]) -> list[dict[str, Any]]:
        wire = super()._wire(messages)
        if self.wants_thoughts != "never":
            self._add_thoughts(messages, [each for each in wire if each["role"] == "assistant"])
        for each in wire:
            if each["role"] == "developer":  # OpenAI's own word
                each["role"] = "system"
            if not self.takes_names:
                each.pop("name", None)
        return wire

    def _add_thoughts(self, messages: list[BaseMessage], answers: list[dict[str, Any]]) -> None:
        turn = max((place for place, each in enumerate(messages) if isinstance(each, HumanMessage)), default=-1)
        said = [(place, each) for place, each in enumerate(messages) if _is_answer(each)]
        for (place, message), answer in zip(said, answers, strict=True):
            if (message._facts or {}).get("model_provider", self.provider) != self.provider:
                continue
            if self.wants_thoughts == "always" or (place > turn and answer.get("tool_calls")):
                self._add_thought(message.additional_kwargs, answer)

    def _add_thought(self, kept: Mapping[str, Any], answer: dict[str, Any]) -> None:
        if kept.get("reasoning_content"):
            answer[self.thoughts] = kept["reasoning_content"]


def _is_answer(message: BaseMessage) -> bool:
    return message.type in ("ai", "AIMessageChunk") or getattr(message, "role", None) == "assistant"


# -- on this machine, or one's own


class ChatVLLM(OpenAILike):
    """A model that vLLM serves, at http://127.0.0.1:8000/v1 unless `base_url` says otherwise."""

    provider: ClassVar[str] = "vllm"
    default_base_url: ClassVar[str] = "http://127.0.0.1:8000/v1"
    url_variable: ClassVar[str] = "VLLM_BASE_URL"
    key_variable: ClassVar[str] = "VLLM_API_KEY"
    needs_key: ClassVar[bool] = False
    thoughts: ClassVar[str] = "reasoning"
    wants_thoughts: ClassVar[str] = "in the turn"
    media: ClassVar[tuple[str, ...]] = ("image", "audio")


class ChatLlamaServer(OpenAILike):
    """A model that llama.cpp's server serves, at http://127.0.0.1:8080/v1 unless `base_url` says otherwise."""

    provider: ClassVar[str] = "llamacpp"
    default_base_url: ClassVar[str] = "http://127.0.0.1:8080/v1"
    no_limit: ClassVar[tuple[int, ...]] = (-1,)
    url_variable: ClassVar[str] = "LLAMACPP_BASE_URL"
    key_variable: ClassVar[str] = "LLAMACPP_API_KEY"
    needs_key: ClassVar[bool] = False
    wants_thoughts: ClassVar[str] = "in the turn"
    media: ClassVar[tuple[str, ...]] = ("image", "audio")


class ChatLMStudio(OpenAILike):
    """A model that LM Studio serves, at http://127.0.0.1:1234/v1 unless `base_url` says otherwise."""

    provider: ClassVar[str] = "lmstudio"
    default_base_url: ClassVar[str] = "http://127.0.0.1:1234/v1"
    no_limit: ClassVar[tuple[int, ...]] = (-1,)
    url_variable: ClassVar[str] = "LMSTUDIO_BASE_URL"
    key_variable: ClassVar[str] = "LMSTUDIO_API_KEY"
    needs_key: ClassVar[bool] = False
    tool_choices: ClassVar[tuple[str, ...]] = ("auto", "none", "any")


# -- hosts


class ChatDeepSeek(OpenAILike):
    """DeepSeek's models. `thinking={"type": "enabled"}` has those think that can; their thoughts go back while they
    work on a turn with tools, as DeepSeek wants it, and not later."""

    thinking: dict[str, Any] | None = None

    provider: ClassVar[str] = "deepseek"
    _aliases: ClassVar[dict[str, str]] = {**ChatOpenAI._aliases, "api_base": "base_url", "deepseek_api_key": "api_key"}
    default_base_url: ClassVar[str] = "https://api.deepseek.com"
    url_variable: ClassVar[str] = "DEEPSEEK_API_BASE"
    key_variable: ClassVar[str] = "DEEPSEEK_API_KEY"
    passed: ClassVar[tuple[str, ...]] = (*PASSED, "thinking")
    wants_thoughts: ClassVar[str] = "in the turn"
    structured_methods: ClassVar[tuple[str, ...]] = ("function_calling", "json_mode")
    strict_tools: ClassVar[bool] = False
    turns_parallel_off: ClassVar[bool] = False
    media: ClassVar[tuple[str, ...]] = ()


class ChatGroq(OpenAILike):
    """Models that Groq serves. `reasoning_format="parsed"` tells thoughts apart from the answer."""

    reasoning_format: str | None = None
    max_media_bytes: int = 4_000_000

    provider: ClassVar[str] = "groq"
    _aliases: ClassVar[dict[str, str]] = {
        **ChatOpenAI._aliases,
        "groq_api_key": "api_key",
        "groq_api_base": "base_url",
    }
    default_base_url: ClassVar[str] = "https://api.groq.com/openai/v1"
    url_variable: ClassVar[str] = "GROQ_API_BASE"
    key_variable: ClassVar[str] = "GROQ_API_KEY"
    passed: ClassVar[tuple[str, ...]] = (*PASSED, "reasoning_format")
    thoughts: ClassVar[str] = "reasoning"
    refuses: ClassVar[tuple[str, ...]] = ("logprobs", "top_logprobs", "logit_bias", "n")
    takes_names: ClassVar[bool] = False


class ChatXAI(OpenAILike):
    """xAI's models. `search_parameters` asks for a search first; what it used is in `response_metadata["citations"]`.
    `use_responses_api=True` speaks xAI's Responses API."""

    search_parameters: dict[str, Any] | None = None
    max_media_bytes: int = 20_000_000

    provider: ClassVar[str] = "xai"
    _aliases: ClassVar[dict[str, str]] = {**ChatOpenAI._aliases, "xai_api_key": "api_key", "xai_api_base": "base_url"}
    default_base_url: ClassVar[str] = "https://api.x.ai/v1"
    url_variable: ClassVar[str] = "XAI_API_BASE"
    key_variable: ClassVar[str] = "XAI_API_KEY"
    passed: ClassVar[tuple[str, ...]] = (*PASSED, "search_parameters")


class ChatTogether(OpenAILike):
    """Models that Together serves."""

    provider: ClassVar[str] = "together"
    _aliases: ClassVar[dict[str, str]] = {**ChatOpenAI._aliases, "together_api_key": "api_key"}
    default_base_url: ClassVar[str] = "https://api.together.xyz/v1"
    url_variable: ClassVar[str] = "TOGETHER_API_BASE"
    key_variable: ClassVar[str] = "TOGETHER_API_KEY"
    thoughts: ClassVar[str] = "reasoning"


class ChatFireworks(OpenAILike):
    """Models that Fireworks serves."""

    provider: ClassVar[str] = "fireworks"
    _aliases: ClassVar[dict[str, str]] = {**ChatOpenAI._aliases, "fireworks_api_key": "api_key"}
    default_base_url: ClassVar[str] = "https://api.fireworks.ai/inference/v1"
    url_variable: ClassVar[str] = "FIREWORKS_API_BASE"
    key_variable: ClassVar[str] = "FIREWORKS_API_KEY"
    wants_thoughts: ClassVar[str] = "in the turn"


class ChatOpenRouter(OpenAILike):
    """Models of many vendors through OpenRouter.

    `reasoning` is OpenRouter's own (`{"effort": "high"}`, `{"max_tokens": 2000}`); thoughts go back with the details
    that the vendor behind needs to know them again. `openrouter_provider` says who may serve a request
    (`{"order": [...], "allow_fallbacks": False, "data_collection": "deny"}`), `models` who else, `plugins` what is done
    to it. `app_url` and `app_title` name the program on OpenRouter's pages. The price is in
    `response_metadata["cost"]`, who served it in `["provider"]`.
    """

    openrouter_provider: dict[str, Any] | None = None
    models: list[str] | None = None
    plugins: list[dict[str, Any]] | None = None
    app_url: str | None = None
    app_title: str | None = None

    provider: ClassVar[str] = "openrouter"
    _aliases: ClassVar[dict[str, str]] = {**ChatOpenAI._aliases, "openrouter_api_key": "api_key"}
    default_base_url: ClassVar[str] = "https://openrouter.ai/api/v1"
    url_variable: ClassVar[str] = "OPENROUTER_API_BASE"
    key_variable: ClassVar[str] = "OPENROUTER_API_KEY"
    passed: ClassVar[tuple[str, ...]] = (*PASSED, "reasoning", "models", "plugins")
    thoughts: ClassVar[str] = "reasoning"
    wants_thoughts: ClassVar[str] = "always"
    media: ClassVar[tuple[str, ...]] = ("image", "audio", "file")
    media_given: ClassVar[Sources] = {**ChatOpenAI.media_given, "file": frozenset(("base64", "url"))}

    def _request(self, messages: list[BaseMessage], stop: Any, kwargs: Mapping[str, Any], stream: bool) -> Any:
        body, options = super()._request(messages, stop, kwargs, stream)
        if self.openrouter_provider is not None:
            body.setdefault("provider", self.openrouter_provider)
        named = {"HTTP-Referer": self.app_url, "X-Title": self.app_title}
        named = {name: value for name, value in named.items() if value}
        if named:
            options["headers"] = {**named, **(options.get("headers") or {})}
        return body, options

    def _add_thought(self, kept: Mapping[str, Any], answer: dict[str, Any]) -> None:
        if kept.get("reasoning_details"):
            answer["reasoning_details"] = kept["reasoning_details"]
        else:
            super()._add_thought(kept, answer)
