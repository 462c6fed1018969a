"""Completion models: a text in, the text that goes on from it out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from inspect import iscoroutinefunction
from typing import Any, ClassVar

from runwell.drivers.closing import aclose
from runwell.drivers.other_colour import answer_in_both
from runwell.errors import InvalidInput, UsageError
from runwell.messages.message import HumanMessage
from runwell.messages.usage import add_usage
from runwell.models.chat_model import HARMLESS
from runwell.models.completing import Completing
from runwell.models.outputs import (
    Generation,
    GenerationChunk,
    LLMResult,
)
from runwell.models.rate_limits import BaseRateLimiter
from runwell.models.reply import from_plain, from_thread
from runwell.models.settings import check_retries
from runwell.observe.llm_result import completed
from runwell.observe.run import OpenRun, open_run
from runwell.runnables.bridges import STREAMS
from runwell.runnables.fields import KeywordFields
from runwell.runnables.runnable import Runnable

__all__ = ["LLM", "BaseLLM"]

_WRITTEN = ("_generate", "_agenerate", "_stream", "_astream")


class BaseLLM(KeywordFields, Runnable[Any, str]):
    """A completion model: a text (or a prompt, or messages, as one transcript) in, a text out.

    A subclass writes one of `_generate`, `_agenerate` (a list of prompts to an LLMResult), `_stream`, `_astream` (a
    prompt to GenerationChunks), in either colour; callers get `invoke, ainvoke, stream, astream, batch, generate`. To
    go from one prompt to one text, subclass `LLM`. Retries, cache, rate limiter and callbacks are as on a chat model.

    Each prompt is a call of its own: `batch` and `generate` make as many at once as `max_concurrency` allows.
    """

    cache: Any = None
    rate_limiter: BaseRateLimiter | None = None
    max_retries: int = 2
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    callbacks: Any = None

    run_kind: ClassVar[str] = "llm"
    _fields: ClassVar[dict[str, Any]] = {"name": None}
    _engine: ClassVar[type[Completing]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        answer_in_both(cls, {"generate": "agenerate"})
        answer_in_both(cls, {"_generate": "_agenerate"}, BaseLLM)
        answer_in_both(cls, {"_stream": "_astream"}, BaseLLM, STREAMS)
        written = [name for name in _WRITTEN if getattr(cls, name) is not getattr(BaseLLM, name)]
        body = {name: getattr(Completing, f"{name}_text") for name in written}
        cls._engine = type(f"{cls.__name__}Completing", (Completing,), body)

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        check_retries(type(self).__name__, self.max_retries)
        if not self._engine._writes:
            raise UsageError(
                f"{type(self).__name__} writes none of {', '.join(_WRITTEN)}.",
                hint="Write one of them; or subclass LLM and write _call.",
            )

    # -- what a subclass writes one of

    def _generate(
        self, prompts: list[str], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> LLMResult:
        """The answers to prompts: `generations[i]` are the candidates for prompt `i`."""
        raise NotImplementedError

    async def _agenerate(
        self, prompts: list[str], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> LLMResult:
        """As `_generate`."""
        raise NotImplementedError

    def _stream(
        self, prompt: str, stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[GenerationChunk]:
        """The answer to one prompt, in pieces."""
        raise NotImplementedError

    def _astream(
        self, prompt: str, stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[GenerationChunk]:
        """As `_stream`."""
        raise NotImplementedError

    # -- what it may write

    @property
    def _llm_type(self) -> str:
        """A short name of the kind of model, for records."""
        return type(self).__name__

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        """What decides the answer besides the prompt: part of a cache key and of records. Holds no secrets."""
        return {name: value for name, value in self._shown() if name not in HARMLESS}

    # -- calling

    def invoke(
        self, input: Any, config: Mapping[str, Any] | None = None, *, stop: list[str] | None = None, **kwargs: Any
    ) -> str:
        """The text that goes on from the input. `stop`: texts that end it."""
        prompt = self._prompt(input)
        run, engine = self._open(prompt, config)
        if run is None:
            return engine._answer([HumanMessage(prompt)], stop, kwargs, None).text
        with run:
            message = engine._answer([HumanMessage(prompt)], stop, kwargs, run)
            run.end(completed(message.text, message.response_metadata, message.usage_metadata))
            return message.text

    async def ainvoke(
        self, input: Any, config: Mapping[str, Any] | None = None, *, stop: list[str] | None = None, **kwargs: Any
    ) -> str:
        """As `invoke`."""
        prompt = self._prompt(input)
        run, engine = self._open(prompt, config)
        if run is None:
            return (await engine._aanswer([HumanMessage(prompt)], stop, kwargs, None)).text
        async with run:
            message = await engine._aanswer([HumanMessage(prompt)], stop, kwargs, run)
            run.end(completed(message.text, message.response_metadata, message.usage_metadata))
            return message.text

    def stream(
        self, input: Any, config: Mapping[str, Any] | None = None, *, stop: list[str] | None = None, **kwargs: Any
    ) -> Iterator[str]:
        """The text in pieces that add up to it."""
        prompt = self._prompt(input)
        run, engine = self._open(prompt, config)
        beside = _Beside()

        def pieces() -> Iterator[str]:
            chunks = engine._counted([HumanMessage(prompt)], stop, kwargs, run)
            try:
                for chunk in chunks:
                    beside.take(chunk)
                    if chunk.text:
                        yield chunk.text
            finally:
                chunks.close()  # type: ignore[attr-defined]

        return pieces() if run is None else run.watch(pieces, beside.whole, str)

    def astream(
        self, input: Any, config: Mapping[str, Any] | None = None, *, stop: list[str] | None = None, **kwargs: Any
    ) -> AsyncIterator[str]:
        """As `stream`."""
        prompt = self._prompt(input)
        run, engine = self._open(prompt, config)
        beside = _Beside()

        async def pieces() -> AsyncIterator[str]:
            chunks = engine._acounted([HumanMessage(prompt)], stop, kwargs, run)
            try:
                async for chunk in chunks:
                    beside.take(chunk)
                    if chunk.text:
                        yield chunk.text
            finally:
                await aclose(chunks)

        return pieces() if run is None else run.awatch(pieces, beside.whole, str)

    def generate(
        self, prompts: Sequence[str], stop: list[str] | None = None, callbacks: Any = None, **kwargs: Any
    ) -> LLMResult:
        """The answers to several prompts, as generations."""
        config: Any = {"callbacks": callbacks} if callbacks else None
        return _generations(self.batch(_texts(prompts), config, stop=stop, **kwargs))

    async def agenerate(
        self, prompts: Sequence[str], stop: list[str] | None = None, callbacks: Any = None, **kwargs: Any
    ) -> LLMResult:
        """As `generate`."""
        config: Any = {"callbacks": callbacks} if callbacks else None
        return _generations(await self.abatch(_texts(prompts), config, stop=stop, **kwargs))

    def get_num_tokens(self, text: str) -> int:
        """About how many tokens a text is; one with a tokenizer counts exactly."""
        from runwell.messages.count import count_tokens_approximately

        return int(count_tokens_approximately([HumanMessage(text)]))

    # -- one call

    def _prompt(self, input: Any) -> str:
        if isinstance(input, str):
            return input
        if hasattr(input, "to_string"):
            return str(input.to_string())
        if isinstance(input, list | tuple):
            from runwell.messages.transcript import get_buffer_string

            return get_buffer_string(input)
        raise InvalidInput(
            f"{type(self).__name__} got {input!r:.200}.", hint="Pass a text, a prompt value, or a list of messages."
        )

    def _open(self, prompt: str | list[str], config: Mapping[str, Any] | None) -> tuple[OpenRun | None, Completing]:
        if self.tags or self.metadata or self.callbacks:
            from runwell.runnables.config import merge_configs

            own = {"tags": self.tags, "metadata": self.metadata, "callbacks": self.callbacks}
            config = merge_configs({key: value for key, value in own.items() if value}, config)
        run = open_run("llm", self, prompt, config)
        if run is not None and run.watched:
            run.serialized = {
                "name": self.get_name(),
                "provider": self._llm_type,
                "kwargs": dict(self._identifying_params),
            }
        return run, self._engine(
            llm=self, cache=self.cache, rate_limiter=self.rate_limiter, max_retries=self.max_retries
        )


class _Beside:
    """What the chunks of a stream say beside their texts."""

    __slots__ = ("_metadata", "_usage")

    def __init__(self) -> None:
        self._metadata: dict[str, Any] = {}
        self._usage: Any = None

    def take(self, chunk: Any) -> None:
        if chunk.response_metadata:
            self._metadata |= chunk.response_metadata
        if chunk.usage_metadata:
            self._usage = add_usage(self._usage, chunk.usage_metadata)

    def whole(self, texts: Sequence[str]) -> str:
        """The run's output."""
        return completed("".join(texts), self._metadata, self._usage)  # type: ignore[no-any-return]


class LLM(BaseLLM):
    """A completion model whose subclass writes `_call`, plain or `async`: a prompt to a text."""

    def __init__(self, **given: Any) -> None:
        if type(self)._call is LLM._call:
            raise UsageError(f"{type(self).__name__} does not write _call.", hint="def _call(self, prompt, **kwargs).")
        super().__init__(**given)

    def _call(self, prompt: str, stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any) -> str:
        """The text that goes on from the prompt."""
        raise NotImplementedError

    def _generate(
        self, prompts: list[str], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> LLMResult:
        def call(prompt: str) -> Any:
            if iscoroutinefunction(self._call):
                return from_plain(lambda: self._call(prompt, stop=stop, run_manager=run_manager, **kwargs))
            return self._call(prompt, stop=stop, run_manager=run_manager, **kwargs)

        return _generations([call(prompt) for prompt in prompts])

    async def _agenerate(
        self, prompts: list[str], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> LLMResult:
        async def call(prompt: str) -> Any:
            if iscoroutinefunction(self._call):
                return await self._call(prompt, stop=stop, run_manager=run_manager, **kwargs)
            return await from_thread(lambda: self._call(prompt, stop=stop, run_manager=run_manager, **kwargs))

        return _generations([await call(prompt) for prompt in prompts])


def _texts(prompts: Any) -> list[Any]:
    if isinstance(prompts, str):
        raise InvalidInput("generate() takes a list of prompts, and got a text.", hint="[prompt], or invoke(prompt).")
    return list(prompts)


def _generations(texts: Sequence[Any]) -> LLMResult:
    return LLMResult([[Generation(text)] for text in texts])
