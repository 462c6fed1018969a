"""Completion models behind a vendor's SDK: retries, caches and runs are a completion model's, the way to the vendor is
that of its chat models."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from runwell.errors import InvalidInput
from runwell.messages.message import BaseMessage, HumanMessage
from runwell.models.llm import BaseLLM
from runwell.models.outgoing import check_outgoing
from runwell.models.outputs import Generation, GenerationChunk, LLMResult
from runwell.models.settings import check_settings
from runwell.observe.llm_result import completed
from runwell.providers.sent_apart import check_dicts
from runwell.providers.vendor_model import VendorModel

__all__ = ["Prompts", "VendorLLM"]


class Prompts(VendorModel):
    """The half of a completion model that speaks to the vendor: messages stand for prompts, each for one."""

    def _checked(self, messages: list[Any], stop: Any, kwargs: Mapping[str, Any], stream: bool) -> Any:
        numbers = check_settings(type(self).__name__, {**kwargs, "stop": stop}, no_limit=self.no_limit)
        check_dicts(type(self).__name__, kwargs)
        check_outgoing(messages, largest=self.max_media_bytes, pairs=False)
        for place, message in enumerate(messages):
            if not message.text:
                raise InvalidInput(f"Prompt {place} is empty.", hint="Say what is to be gone on from.")
        return self._request(messages, stop, {**kwargs, **numbers}, stream)


class VendorLLM(BaseLLM):
    """A completion model behind a vendor's SDK. Arguments that are not every completion model's (`cache`,
    `max_retries`, `callbacks`, ...) are those of `speaks`, and can be read from it."""

    speaks: ClassVar[type[VendorModel]]
    """What speaks to the vendor, made under this class's name."""
    batch_size: int = 1
    """How many prompts `generate` sends in one request."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "speaks" in vars(cls):  # its errors name the class that the program made
            cls.speaks = type(cls.__name__, (cls.speaks,), {"__module__": cls.__module__, "__doc__": cls.__doc__})

    def __init__(self, **given: Any) -> None:
        own = {name: given.pop(name) for name in list(given) if name in self._fields}
        super().__init__(**own)
        if type(self.batch_size) is not int or self.batch_size < 1:
            raise InvalidInput(f"batch_size={self.batch_size!r}: how many prompts a request holds, 1 or more.")
        self.speaking = self.speaks(**given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "speaking":
            raise AttributeError(name)
        return getattr(self.speaking, name)

    def __repr__(self) -> str:
        return repr(self.speaking)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "speaking": self.speaking.__getstate__()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        speaking = object.__new__(self.speaks)
        speaking.__setstate__(state["speaking"])
        self.__dict__.update(state, speaking=speaking)

    @property
    def _llm_type(self) -> str:
        return self.speaking.provider

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        return self.speaking._identifying_params

    # -- calling

    def generate(
        self, prompts: Sequence[str], stop: list[str] | None = None, callbacks: Any = None, **kwargs: Any
    ) -> LLMResult:
        """The answers to several prompts, `batch_size` of them in a request; each by itself where there is a cache."""
        if self.cache is not None or self.batch_size == 1:
            return super().generate(prompts, stop, callbacks, **kwargs)
        found = [self._several(some, stop, callbacks, kwargs) for some in self._slices(prompts)]
        return _joined(found)

    async def agenerate(
        self, prompts: Sequence[str], stop: list[str] | None = None, callbacks: Any = None, **kwargs: Any
    ) -> LLMResult:
        """As `generate`."""
        if self.cache is not None or self.batch_size == 1:
            return await super().agenerate(prompts, stop, callbacks, **kwargs)
        return _joined([await self._aseveral(some, stop, callbacks, kwargs) for some in self._slices(prompts)])

    def _slices(self, prompts: Sequence[str]) -> Iterator[list[str]]:
        texts = [self._prompt(prompt) for prompt in _listed(prompts)]
        return (texts[at : at + self.batch_size] for at in range(0, len(texts), self.batch_size))

    def _several(self, prompts: list[str], stop: Any, callbacks: Any, kwargs: dict[str, Any]) -> Any:
        run, engine = self._open(prompts, {"callbacks": callbacks} if callbacks else None)
        said: list[BaseMessage] = [HumanMessage(prompt) for prompt in prompts]
        if run is None:
            return engine._answer(said, stop, dict(kwargs), None)
        with run:
            message = engine._answer(said, stop, dict(kwargs), run)
            run.end(completed(_texts_of(message), message.response_metadata, message.usage_metadata))
            return message

    async def _aseveral(self, prompts: list[str], stop: Any, callbacks: Any, kwargs: dict[str, Any]) -> Any:
        run, engine = self._open(prompts, {"callbacks": callbacks} if callbacks else None)
        said: list[BaseMessage] = [HumanMessage(prompt) for prompt in prompts]
        if run is None:
            return await engine._aanswer(said, stop, dict(kwargs), None)
        async with run:
            message = await engine._aanswer(said, stop, dict(kwargs), run)
            run.end(completed(_texts_of(message), message.response_metadata, message.usage_metadata))
            return message

    # -- one request

    def _generate(
        self, prompts: list[str], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> LLMResult:
        return self._read(self.speaking._generate([HumanMessage(each) for each in prompts], stop, **kwargs))

    async def _agenerate(
        self, prompts: list[str], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> LLMResult:
        return self._read(await self.speaking._agenerate([HumanMessage(each) for each in prompts], stop, **kwargs))

    def _stream(
        self, prompt: str, stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[GenerationChunk]:
        for piece in self.speaking._stream([HumanMessage(prompt)], stop, **kwargs):
            yield self._chunk(piece.message)

    async def _astream(
        self, prompt: str, stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[GenerationChunk]:
        async for piece in self.speaking._astream([HumanMessage(prompt)], stop, **kwargs):
            yield self._chunk(piece.message)

    def _read(self, result: Any) -> LLMResult:
        messages = [generation.message for generation in result.generations]
        for message in messages:
            self.speaking._name_model(message)
        found = [[Generation(message.text, _about(message))] for message in messages]
        usage = next((message.usage_metadata for message in messages if message.usage_metadata), None)
        return LLMResult(found, {"usage_metadata": usage})

    def _chunk(self, message: Any) -> GenerationChunk:
        about = _about(message)
        if message.usage_metadata:
            self.speaking._name_model(message)
            about = {**_about(message), "usage_metadata": message.usage_metadata}
        return GenerationChunk(message.text, about or None)


def _about(message: Any) -> dict[str, Any]:
    thought = message.additional_kwargs.get("reasoning_content")
    return {**message.response_metadata, **({"reasoning_content": thought} if thought else {})}


def _texts_of(message: Any) -> list[str]:
    content = message.content
    return [content] if isinstance(content, str) else [block["text"] for block in content]


def _listed(prompts: Any) -> list[Any]:
    if isinstance(prompts, str):
        raise InvalidInput("generate() takes a list of prompts, and got a text.", hint="[prompt], or invoke(prompt).")
    return list(prompts)


def _joined(messages: list[Any]) -> LLMResult:
    from runwell.messages.usage import add_usage

    usage = None
    for message in messages:
        usage = add_usage(usage, message.usage_metadata) if usage else message.usage_metadata
    about = {"model_name": messages[0].response_metadata.get("model_name")} if messages else {}
    return LLMResult(
        [[Generation(text)] for message in messages for text in _texts_of(message)], {**about, "token_usage": usage}
    )
