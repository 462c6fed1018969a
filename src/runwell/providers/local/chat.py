"""The chat model that runs in this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any, ClassVar

from runwell.errors import InvalidInput, UnsupportedByProvider
from runwell.messages.calls import tool_call_chunk
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.message import BaseMessage
from runwell.models.blanks import without_blanks
from runwell.models.chat_model import BaseChatModel
from runwell.models.described_calls import as_ordinary_calls
from runwell.models.media_kinds import only_kinds
from runwell.models.outgoing import check_outgoing
from runwell.models.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from runwell.models.own_blocks import Fitting
from runwell.models.profile import ModelProfile
from runwell.models.settings import check_settings
from runwell.models.tool_choice import as_definitions
from runwell.providers.local.catalogue import DEFAULT_CHAT, MODELS, find, is_gguf_path, own_file
from runwell.providers.local.completion import Call, Calls, LocalRuntime, Settings, Text
from runwell.providers.local.runtime import (
    DEFAULT_CONTEXT,
    DEFAULT_MAX_TOKENS,
    DEFAULT_SLOTS,
    DEFAULT_TIMEOUT_S,
    EngineOptions,
)
from runwell.providers.openai.wire import message_from_wire, messages_to_wire, usage_from_wire

__all__ = ["LocalChatModel"]

_SETTINGS = frozenset(("max_tokens", "temperature", "seed", "timeout", "cache_prompt", "top_p"))
_REQUEST = frozenset(("tools", "tool_choice", "parallel_tool_calls", "response_format"))


class LocalChatModel(BaseChatModel):
    """A small language model in this process: a bundled one by name, or any .gguf file.

    Nothing leaves the machine. The weights of a bundled model are fetched at first use if they are not here yet
    (`FetchError` if that fails). Models of the same file and options share one engine; calls from several threads or
    tasks run on its `slots`, and more of them queue.

    `max_tokens` bounds each answer and each decision. `context` is in tokens, shared by the calls that run at once.
    `timeout` is in seconds per generation (`ModelTimeout`). Answers are at temperature 0 by default; `seed` and
    `cache_prompt=False` make equal calls exactly equal. A prompt that does not fit is a `ContextOverflow`.

    Tool calls are constrained to the tools' schemas, so their form is always right; the choice is as good as the model
    (docs/local-models.md has the measurements). One call a step, unless `parallel_tool_calls=True` is bound.
    """

    model: str = DEFAULT_CHAT
    max_tokens: int = DEFAULT_MAX_TOKENS
    temperature: float = 0.0
    seed: int = 0
    top_p: float | None = None
    timeout: float = DEFAULT_TIMEOUT_S
    context: int = DEFAULT_CONTEXT
    slots: int = DEFAULT_SLOTS
    threads: int | None = None
    cache_prompt: bool = True
    max_retries: int = 0

    provider: ClassVar[str] = "local"

    def model_post_init(self, context: Any) -> None:
        self.model = os.fspath(self.model)
        if is_gguf_path(self.model):
            own_file(self.model)
            known = None
        else:
            known = find(self.model)
            self.model = known.name
            if known.kind != "chat":
                raise InvalidInput(
                    f"{self.model!r} makes embeddings, not answers.",
                    hint=f"Use LocalEmbeddings({self.model!r}), or a chat model: "
                    + ", ".join(name for name, each in MODELS.items() if each.kind == "chat"),
                )
        for name, value in check_settings("LocalChatModel", {each: getattr(self, each) for each in _SETTINGS}).items():
            setattr(self, name, value)
        for name in ("max_tokens", "context", "slots"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise InvalidInput(f"LocalChatModel's {name} must be at least 1; got {value!r}.")
        if self.profile is None:
            self.profile = ModelProfile(
                max_input_tokens=self.context,
                max_output_tokens=self.max_tokens,
                image_inputs=False,
                audio_inputs=False,
                reasoning_output=False,
                tool_calling=known is None or known.calls_tools,
                tool_choice=True,
                parallel_tool_calls=True,
                structured_output=True,
                system_in_middle=True,
            )

    @property
    def _runtime(self) -> LocalRuntime:
        options = EngineOptions(self.context, self.slots, self.threads)
        held: LocalRuntime | None = self.__dict__.get("_held")
        if held is None or held.model != self.model or held.options != options:  # also after model_copy(update=...)
            held = self.__dict__["_held"] = LocalRuntime(self.model, options)
        return held

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.model, **super()._identifying_params}

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        if self.profile is not None and self.profile.get("tool_calling") is False:
            raise UnsupportedByProvider(
                f"{self.model} is too small to choose tools.",
                hint=f'Use "local:{DEFAULT_CHAT}", or pass profile={{"tool_calling": True}} to try all the same.',
            )
        return super().bind_tools(tools, **kwargs)

    def _bound_tools(self, tools: Any) -> Any:
        return as_definitions(tools)

    def load(self) -> None:
        """Fetch and load the model now, so that the first answer does not wait for it."""
        self._runtime.engine()

    def _wire(self, messages: list[BaseMessage]) -> list[dict[str, Any]]:
        """The messages as the engine takes them: texts alone."""
        messages = as_ordinary_calls(messages) or messages
        if not check_outgoing(messages, largest=sys.maxsize, pairs=False):
            fitted = Fitting(type(self).__name__, self.provider, lambda block: False, passes=False).fit(messages)
            messages = list(only_kinds(without_blanks(fitted), type(self).__name__, (), {}))
        return messages_to_wire(messages)

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        text, calls, end = self._runtime.complete(self._wire(messages), **self._options(stop, kwargs))
        wire = {"content": text, "tool_calls": [_call(call) for call in calls]}
        message = message_from_wire(wire, end.usage.to_wire())
        return ChatResult([ChatGeneration(message, {"finish_reason": end.reason})])

    def _stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        options = self._options(stop, kwargs)
        with closing(self._runtime.stream(self._wire(messages), **options)) as events:  # type: ignore[type-var]
            for event in events:
                if isinstance(event, Text):
                    yield ChatGenerationChunk(AIMessageChunk(event.text))
                elif isinstance(event, Calls):
                    for index, call in enumerate(event.calls):
                        chunk = tool_call_chunk(name=call.name, args=call.arguments, id=call.id, index=index)
                        yield ChatGenerationChunk(AIMessageChunk("", tool_call_chunks=[chunk]))
                else:
                    last = AIMessageChunk("", usage_metadata=usage_from_wire(event.usage.to_wire()))
                    yield ChatGenerationChunk(last, {"finish_reason": event.reason})

    def _options(self, stop: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        unknown = set(kwargs) - _SETTINGS - _REQUEST
        if unknown:
            raise InvalidInput(
                f"LocalChatModel takes no {', '.join(map(repr, sorted(unknown)))}.",
                hint=f"A call takes stop, {', '.join(sorted(_SETTINGS | _REQUEST))}.",
            )
        kwargs = {**kwargs, **check_settings("LocalChatModel", {**kwargs, "stop": stop})}
        settings = {name: kwargs[name] if name in kwargs else getattr(self, name) for name in _SETTINGS}
        request = {name: kwargs[name] for name in _REQUEST & set(kwargs) if kwargs[name] is not None}
        return {
            "settings": Settings(stop=(stop,) if isinstance(stop, str) else tuple(stop or ()), **settings),
            **request,
        }


def _call(call: Call) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
