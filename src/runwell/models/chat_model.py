"""What all chat models share: one way to call them, whatever a subclass writes."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, closing
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from runwell.drivers.closing import aclose
from runwell.drivers.colour import RETOLD, told_apart
from runwell.drivers.other_colour import answer_in_both
from runwell.errors import InvalidInput, OutsideError, UsageError
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.convert import convert_to_messages
from runwell.messages.deep_calls import without_deep_calls
from runwell.messages.history import MessageList
from runwell.messages.message import AIMessage, BaseMessage
from runwell.models.counting import Counted, CountedChunks, acounted, counted
from runwell.models.outputs import ChatGeneration, ChatGenerationChunk, ChatResult, LLMResult
from runwell.models.reply import (
    as_chunk,
    as_result,
    caught_up,
    from_cache,
    from_plain,
    from_thread,
    in_place,
    message_of,
    new_id,
    nothing_came,
    piece_of,
    reporter_of,
    text_of,
    whole,
)
from runwell.models.retry import RetryPolicy
from runwell.models.settings import check_retries
from runwell.observe.run import OpenRun, Run, enter_run, fail_run, leave_run, open_run, watched
from runwell.ports.runtime import spending
from runwell.runnables.bridges import STREAMS
from runwell.runnables.fields import KeywordFields
from runwell.runnables.runnable import Runnable

if TYPE_CHECKING:
    from runwell.models.bound import BoundModel
    from runwell.models.cache import BaseCache
    from runwell.models.profile import ModelProfile
    from runwell.models.rate_limits import BaseRateLimiter

__all__ = ["HARMLESS", "BaseChatModel", "LanguageModelInput"]

LanguageModelInput = Any
"""What a model takes: a text, a list of messages (or texts, pairs and dicts that stand for them), or a prompt value."""

HARMLESS = frozenset(
    ("cache", "rate_limiter", "disable_streaming", "max_retries", "tags", "metadata", "callbacks", "name")
)
"""Arguments that do not change an answer."""

NO_KWARGS: Any = MappingProxyType({})
"""Of all calls that wait without any."""
AT_ONCE = 64
"""Chunks that an async model may hand on before it looks whether their reader keeps up."""
_WRITTEN = ("_generate", "_agenerate", "_stream", "_astream")


def _limits() -> Any:
    """What a model with a rate limiter needs."""
    from runwell.models import rate_limits

    return rate_limits


_GENERATIONS = (ChatGenerationChunk, ChatGeneration)


class BaseChatModel(KeywordFields, Runnable[Any, AIMessage]):
    """A chat model. A subclass writes one of `_generate`, `_agenerate`, `_stream`, `_astream`; callers get
    `invoke, ainvoke, stream, astream, batch, ...` from it, in both colours.

    Annotated attributes of a subclass are keyword arguments of its constructor (see `KeywordFields`). What a call asks
    for beyond the messages (tools, stop, temperature, ...) reaches the written method as keyword arguments.

    `max_retries` times a failure that may pass (an `OutsideError` with `.retryable`) is tried again, as `retry_policy`
    says; a stream only before its first chunk. Instances hold no state of a call, and may be shared between threads.
    """

    cache: BaseCache | None = None
    rate_limiter: BaseRateLimiter | None = None
    """Asked for leave before each attempt."""
    disable_streaming: bool | Literal["tool_calling"] = False
    """True: `stream` gives the whole answer as one chunk. "tool_calling": only where tools are bound."""
    max_retries: int = 2
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    callbacks: Any = None
    profile: ModelProfile | None = None

    run_kind: ClassVar[str] = "chat_model"
    provider: ClassVar[str] = ""
    """Stands in `response_metadata["model_provider"]`."""
    retry_policy: ClassVar[RetryPolicy] = RetryPolicy()
    structured_methods: ClassVar[tuple[str, ...]] = ("json_schema", "function_calling", "json_mode")
    """Ways to ask for an answer in a shape that the model understands."""

    _not_here: ClassVar[Mapping[str, str]] = {
        "streaming": "call stream() or astream(); an agent or chain that is streamed streams its model by itself. "
        "disable_streaming=True keeps it from that.",
        "verbose": "callbacks=[...] of a call, or set the level of the logger 'runwell'.",
        "callback_manager": "callbacks=[...].",
        "output_version": "leave it out: content_blocks has the standard blocks, whatever the vendor.",
        "custom_get_token_ids": "subclass the model and write get_num_tokens(text).",
        "tools": "model.bind_tools([...]), or create_agent(model, [...]).",
        "tool_choice": "model.bind_tools([...], tool_choice=...).",
        "strict": "model.bind_tools([...], strict=...), or with_structured_output(..., strict=...).",
        "response_format": "model.with_structured_output(schema), or create_agent(response_format=schema).",
        "system": "a SystemMessage before the others, or create_agent(system_prompt=...).",
        "system_prompt": "a SystemMessage before the others, or create_agent(system_prompt=...).",
    }
    _fields: ClassVar[dict[str, Any]] = {"name": None}
    _writes: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        answer_in_both(cls, {"generate": "agenerate"})
        answer_in_both(cls, {"_generate": "_agenerate"}, BaseChatModel)
        answer_in_both(cls, {"_stream": "_astream"}, BaseChatModel, STREAMS)
        cls._writes = frozenset(name for name in _WRITTEN if getattr(cls, name) is not getattr(BaseChatModel, name))

    def __init__(self, **given: Any) -> None:
        if not self._writes:
            raise UsageError(
                f"{type(self).__name__} writes none of {', '.join(_WRITTEN)}.",
                hint="Write one of them; everything else follows from it.",
            )
        super().__init__(**given)
        check_retries(type(self).__name__, self.max_retries)
        cache: Any = self.cache
        if cache is False:  # none for this model, as programs write it
            self.cache = None
        elif cache is not None and not callable(getattr(cache, "lookup", None)):
            raise InvalidInput(
                f"{type(self).__name__} got cache={cache!r:.100}.",
                hint="Pass InMemoryCache(), SqliteCache(path) or RedisCache(url); None keeps no answers.",
            )
        if self.rate_limiter is not None and not callable(getattr(self.rate_limiter, "acquire", None)):
            raise InvalidInput(
                f"{type(self).__name__} got rate_limiter={self.rate_limiter!r}.",
                hint="Pass InMemoryRateLimiter(requests_per_second=...), or a RedisRateLimiter shared by processes.",
            )

    # -- what a subclass writes one of

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        """The whole answer."""
        raise NotImplementedError

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        """The whole answer."""
        raise NotImplementedError

    def _stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        """The answer in pieces."""
        raise NotImplementedError

    def _astream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        """The answer in pieces."""
        raise NotImplementedError

    # -- what it may write

    @property
    def _llm_type(self) -> str:
        """A short name of the kind of model, for records."""
        return self.provider or type(self).__name__

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """What decides the answer besides the messages: part of a cache key and of records. Holds no secrets."""
        return {name: value for name, value in self._shown() if name not in HARMLESS and name != "profile"}

    # -- calling

    def invoke(
        self,
        input: LanguageModelInput,
        config: Mapping[str, Any] | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AIMessage:
        """The model's answer. `stop`: texts that end it. Other keywords go to the provider."""
        messages = self._messages(input)
        if config or self.tags or self.metadata or self.callbacks:
            opened = self._open(messages, config)
            if opened is None:
                return self._answer(messages, stop, kwargs, None)
            with opened:
                return opened.end(self._answer(messages, stop, kwargs, opened))
        if not watched():
            return self._answer(messages, stop, kwargs, None)
        run = enter_run("chat_model", self.get_name(), messages, serialized=self._described)  # as in an agent's turns
        assert run is not None
        try:
            answer = self._answer(messages, stop, kwargs, run)
        except BaseException as error:
            fail_run(run, error)
            raise
        leave_run(run, answer)
        return answer

    async def ainvoke(
        self,
        input: LanguageModelInput,
        config: Mapping[str, Any] | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AIMessage:
        """As `invoke`."""
        return await self._going(input, config, stop, kwargs)

    def _begin_acall(self, input: LanguageModelInput, **kwargs: Any) -> Coroutine[Any, Any, AIMessage]:
        """`ainvoke` as a plain function that gives what to await: a caller that waits long has a coroutine less."""
        if getattr(self.ainvoke, "__func__", None) is not BaseChatModel.ainvoke:  # somebody's own
            return self.ainvoke(input, **kwargs)
        return self._going(input, None, kwargs.pop("stop", None), kwargs)

    def _going(
        self,
        input: LanguageModelInput,
        config: Mapping[str, Any] | None,
        stop: list[str] | None,
        kwargs: dict[str, Any],
    ) -> Coroutine[Any, Any, AIMessage]:
        messages = self._messages(input)
        run = self._open(messages, config)
        if run is None:
            return self._aanswer(messages, stop, kwargs, None)
        return run.acall(self._aanswer, messages, stop, kwargs, run)

    def stream(
        self,
        input: LanguageModelInput,
        config: Mapping[str, Any] | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> Iterator[AIMessageChunk]:
        """The answer in chunks that add up to it. Closing the iterator ends the call at the provider."""
        messages = self._messages(input)
        run = self._open(messages, config)
        if run is None:
            return self._counted(messages, stop, kwargs, None)
        return run.watch(partial(self._counted, messages, stop, kwargs, run), whole, text_of)

    def astream(
        self,
        input: LanguageModelInput,
        config: Mapping[str, Any] | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[AIMessageChunk]:
        """As `stream`."""
        messages = self._messages(input)
        run = self._open(messages, config)
        if run is None:
            return self._acounted(messages, stop, kwargs, None)
        return run.awatch(partial(self._acounted, messages, stop, kwargs, run), whole, text_of)

    def generate(
        self,
        messages: Sequence[LanguageModelInput],
        stop: list[str] | None = None,
        callbacks: Any = None,
        **kwargs: Any,
    ) -> LLMResult:
        """The answers to several inputs, as generations."""
        config: Any = {"callbacks": callbacks} if callbacks else None
        return as_result(self.batch(list(messages), config, stop=stop, **kwargs))

    async def agenerate(
        self,
        messages: Sequence[LanguageModelInput],
        stop: list[str] | None = None,
        callbacks: Any = None,
        **kwargs: Any,
    ) -> LLMResult:
        """As `generate`."""
        config: Any = {"callbacks": callbacks} if callbacks else None
        return as_result(await self.abatch(list(messages), config, stop=stop, **kwargs))

    # -- deriving

    def bind(self, **kwargs: Any) -> BoundModel:
        """This model with keyword arguments that each call adds."""
        from runwell.models.bound import BoundModel

        return BoundModel(bound=self, kwargs=kwargs)

    def bind_tools(
        self,
        tools: Sequence[Any],
        *,
        tool_choice: Any = None,
        strict: bool | None = None,
        parallel_tool_calls: bool | None = None,
        **kwargs: Any,
    ) -> BoundModel:
        """This model with tools it may call: tools, functions, classes whose fields are the parameters, schema dicts.

        `tool_choice`: "auto" (the model decides), "none", "any" or True (it must call one), or the name of the one it
        must call. `strict` holds arguments to the schema; `parallel_tool_calls=False` allows one call a turn. Raises
        UnsupportedByProvider here for what the provider is known not to do.
        """
        from runwell.models.tool_choice import check_binding, check_bound

        check_binding(tools, strict, parallel_tool_calls)
        bound = self._tool_kwargs(tools, tool_choice, strict, parallel_tool_calls)
        check_bound(bound["tools"], bound.get("tool_choice"))
        return self.bind(**bound, **kwargs)

    def _tool_kwargs(
        self, tools: Sequence[Any], tool_choice: Any, strict: bool | None, parallel_tool_calls: bool | None
    ) -> dict[str, Any]:
        from runwell.models.tool_choice import tool_choice_for
        from runwell.schemas.dialects import function_definition

        definitions = [function_definition(tool, strict=strict, rewrite=self._strict_schema) for tool in tools]
        for definition in definitions:
            self._check_tool(definition)
        kwargs: dict[str, Any] = {"tools": definitions}
        if tool_choice is not None:
            kwargs["tool_choice"] = tool_choice_for(tool_choice, definitions)
        if parallel_tool_calls is not None:
            kwargs["parallel_tool_calls"] = parallel_tool_calls
        return kwargs

    def _bound_tools(self, tools: Any) -> Any:
        """What `bind(tools=...)` hands on: definitions of tools, functions and classes. Names and dicts go as they are:
        they may be in a form that this model's own API has."""
        from runwell.schemas.dialects import function_definition

        if isinstance(tools, str) or not isinstance(tools, Iterable):
            return tools
        return [tool if isinstance(tool, str | Mapping) else function_definition(tool) for tool in tools]

    def _strict_schema(self, schema: dict[str, Any], whose: str) -> dict[str, Any]:
        """For subclasses: the schema as the provider holds calls and answers to it. As it stands, OpenAI's subset.

        Raises UnsupportedByProvider, naming `whose` schema it is, the provider and the place, for what it cannot hold.
        """
        from runwell.schemas.strict import strict_schema

        return strict_schema(schema, whose)

    def _check_tool(self, definition: Mapping[str, Any]) -> None:
        """For subclasses: raise UnsupportedByProvider, naming the tool and the argument, for what the provider is known
        not to take. It is asked when tools are bound."""

    def _check_answer(self, described: Mapping[str, Any]) -> None:
        """As `_check_tool`, for the `name` and `schema` of an answer. It is asked by `with_structured_output`."""

    def _check_together(self, kwargs: Mapping[str, Any]) -> None:
        """As `_check_tool`, for arguments that the provider is known not to take with one another, such as `tools` and
        `response_format`. It is asked when they are bound, and when an agent is made."""

    def with_structured_output(
        self,
        schema: Any,
        *,
        method: Literal["json_schema", "function_calling", "json_mode"] | None = None,
        include_raw: bool = False,
        strict: bool | None = None,
        retries: int = 0,
        **kwargs: Any,
    ) -> Runnable[Any, Any]:
        """A runnable that answers in the shape of `schema`: a pydantic model, dataclass, TypedDict, JSON schema dict,
        or any other type.

        `method`: "json_schema" (the provider holds the answer to the schema), "function_calling" (the answer is a call
        of a tool made from it), "json_mode" (valid JSON; you say the shape in the prompt). By default json_schema if
        the model's profile says it can and the provider takes the schema, otherwise function_calling. `strict=None` is
        strict where the schema allows.

        An answer that does not fit is asked for again up to `retries` times, with what is wrong with it.

        With `include_raw` the result is `{"raw": message, "parsed": value or None, "parsing_error": error or None}`;
        without, an answer that does not fit raises OutputParserException.
        """
        return self.bind(**kwargs).with_structured_output(
            schema, method=method, include_raw=include_raw, strict=strict, retries=retries
        )

    def _retries(self, kwargs: dict[str, Any]) -> int | None:
        """What a call says, which is taken out of its arguments; else what the model does."""
        if "max_retries" not in kwargs:
            return self.max_retries
        return check_retries(type(self).__name__, kwargs.pop("max_retries"))

    def with_max_retries(self, retries: int) -> BaseChatModel:
        """This model with another number of retries."""
        check_retries(type(self).__name__, retries)
        return self.model_copy(update={"max_retries": retries})  # type: ignore[no-any-return]

    def get_num_tokens_from_messages(self, messages: Sequence[Any], tools: Sequence[Any] | None = None) -> int:
        """About how many tokens the messages are; an adapter with a tokenizer counts exactly."""
        from runwell.messages import count_tokens_approximately

        return int(count_tokens_approximately(convert_to_messages(messages), tools=list(tools) if tools else None))

    def get_num_tokens(self, text: str) -> int:
        """About how many tokens a text is."""
        return self.get_num_tokens_from_messages([text])

    # -- one call

    def _messages(self, input: LanguageModelInput) -> list[BaseMessage]:
        if type(input) is MessageList and input.places is not None:  # a graph's history: messages that were looked at
            messages: list[BaseMessage] = list(input)
        else:
            messages = convert_to_messages(input)
        if not messages:
            raise InvalidInput(f"{type(self).__name__} got no messages.", hint="Pass a text or at least one message.")
        return messages

    def _placed(self, messages: list[BaseMessage]) -> list[BaseMessage]:
        """The messages where the model takes them: asked for inside its run, whose handlers are told."""
        if self.profile is not None and self.profile.get("system_in_middle") is False:
            from runwell.models.system_place import system_first

            return system_first(messages, self)
        return messages

    def _open(self, messages: list[BaseMessage], config: Mapping[str, Any] | None) -> OpenRun | None:
        if self.tags or self.metadata or self.callbacks:
            from runwell.runnables.config import merge_configs

            own = {"tags": self.tags, "metadata": self.metadata, "callbacks": self.callbacks}
            config = merge_configs({key: value for key, value in own.items() if value}, config)
        return open_run("chat_model", self, messages, config, serialized=self._described)

    def _described(self) -> dict[str, Any]:
        return {"name": self.get_name(), "provider": self._llm_type, "kwargs": self._identifying_params}

    def _answer(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any], run: Run | None
    ) -> AIMessage:
        if self.profile is not None:
            messages = self._placed(messages)
        key = None
        if self.cache is not None:
            key = self._cache_key(messages, stop, kwargs)
            found = self.cache.lookup(*key)
            if found:
                return from_cache(found, run)
        if run is not None and run.inherited.wants_tokens and self._streams(kwargs):
            tell = run.teller(text_of)
            with CountedChunks(self) as streamed, closing(self._chunks(messages, stop, kwargs, run)) as chunks:
                for chunk in chunks:
                    tell(chunk)
                    streamed.chunks.append(chunk)
                message = whole(streamed.chunks)
                streamed.usage = message.usage_metadata
        else:
            retries = self._retries(kwargs)
            attempt = partial(self._attempt, messages, stop, kwargs, run)
            with Counted(self) as count:
                try:
                    result = attempt()
                except OutsideError as error:
                    result = self.retry_policy.go_on(error, attempt, run.retried if run else None, retries)
                message = self._finished(result, run)
                count.usage = message.usage_metadata
            if self.rate_limiter is not None:
                _limits().settle(self, messages, kwargs, message.usage_metadata)
        if key is not None and self.cache is not None:
            self.cache.update(*key, [ChatGeneration(message)])
        return message

    def _aanswer(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any], run: Run | None
    ) -> Coroutine[Any, Any, AIMessage]:
        """As `_answer`, in one coroutine: a call is mostly waiting, and what it holds meanwhile counts."""
        if self.profile is not None:
            messages = self._placed(messages)
        if self.cache is not None:
            return self._acached(self.cache, messages, stop, kwargs, run)
        if run is None:
            return self._asked(messages, stop, kwargs or NO_KWARGS, None)
        return self._afresh(messages, stop, kwargs, run)

    def _afresh(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any], run: Run | None
    ) -> Coroutine[Any, Any, AIMessage]:
        if run is not None and run.inherited.wants_tokens and self._streams(kwargs):
            return self._atold(messages, stop, kwargs, run)
        return self._asked(messages, stop, kwargs or NO_KWARGS, run)

    async def _acached(
        self,
        cache: BaseCache,
        messages: list[BaseMessage],
        stop: list[str] | None,
        kwargs: dict[str, Any],
        run: Run | None,
    ) -> AIMessage:
        key = self._cache_key(messages, stop, kwargs)
        found = await cache.alookup(*key)
        if found:
            return from_cache(found, run)
        message = await self._afresh(messages, stop, kwargs, run)
        await cache.aupdate(*key, [ChatGeneration(message)])
        return message

    async def _atold(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any], run: Run
    ) -> AIMessage:
        """The answer, whose chunks the run's handlers are told as they come."""
        tell = run.teller(text_of)
        with CountedChunks(self) as streamed:
            said = streamed.chunks
            async with aclosing(self._achunks(messages, stop, kwargs, run)) as chunks:
                async for chunk in chunks:
                    tell(chunk)
                    said.append(chunk)
                    if not len(said) % AT_ONCE:  # a model that never waits is not to run away
                        await caught_up()
            message = whole(said)
            streamed.usage = message.usage_metadata
        return message

    async def _asked(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any], run: Run | None
    ) -> AIMessage:
        retries = self._retries(kwargs) if kwargs else self.max_retries
        spends = spending()
        if spends is not None:
            spends.before(self)
        try:  # `with Counted(self)`, written out: two objects less while it waits
            try:
                message: Any = await self._abegun(messages, stop, kwargs, run)
            except OutsideError as error:
                message = await self._agoing_on(error, messages, stop, kwargs, run, retries)
            message = self._finished(message, run)
        except BaseException as error:
            if spends is not None:
                spends.failed()
            if (told := told_apart(error)) is not error:
                raise told  # noqa: B904 - it has its cause
            raise
        if spends is not None:
            spends.after(self, message.usage_metadata)
        if self.rate_limiter is not None:
            await _limits().asettle(self, messages, kwargs, message.usage_metadata)
        return message  # type: ignore[no-any-return]

    def _attempt(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any], run: Run | None
    ) -> Any:
        writes = self._writes
        if self.rate_limiter is not None:
            _limits().take_turn(self, messages, kwargs)
        if "_generate" in writes:
            try:
                return self._generate(messages, stop=stop, run_manager=reporter_of(run), **kwargs)
            except RETOLD as error:
                raise told_apart(error)  # noqa: B904 - it has its cause
        if "_agenerate" in writes and "_stream" not in writes:
            return from_plain(partial(self._agenerate, messages, stop=stop, run_manager=reporter_of(run), **kwargs))
        return whole([self._chunk(piece, "", False) for piece in self._pieces(messages, stop, kwargs)])

    def _agoing_on(
        self,
        error: OutsideError,
        messages: list[BaseMessage],
        stop: list[str] | None,
        kwargs: dict[str, Any],
        run: Run | None,
        retries: int | None,
    ) -> Awaitable[Any]:
        again = partial(self._abegun, messages, stop, kwargs, run)
        return self.retry_policy.ago_on(error, again, run.retried if run else None, retries)

    def _abegun(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any], run: Run | None
    ) -> Awaitable[Any]:
        """One attempt under way."""
        if self.rate_limiter is None and "_agenerate" in self._writes:
            if not kwargs:  # `**` would make a dict to be kept
                return self._agenerate(messages, stop=stop, run_manager=None if run is None else reporter_of(run))
            return self._agenerate(messages, stop=stop, run_manager=reporter_of(run), **kwargs)
        return self._aattempt(messages, stop, kwargs, run)

    async def _aattempt(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any], run: Run | None
    ) -> Any:
        writes = self._writes
        if self.rate_limiter is not None:
            await _limits().atake_turn(self, messages, kwargs)
        if "_agenerate" in writes:
            return await self._agenerate(messages, stop=stop, run_manager=reporter_of(run), **kwargs)
        if "_generate" in writes and "_astream" not in writes:
            call = partial(self._generate, messages, stop=stop, run_manager=reporter_of(run), **kwargs)
            return call() if self.never_blocks else await from_thread(call)
        return whole([self._chunk(piece, "", False) async for piece in self._apieces(messages, stop, kwargs)])

    def _streams(self, kwargs: Mapping[str, Any]) -> bool:
        """Whether the answer to this call can come in pieces."""
        off = self.disable_streaming
        return off is not True and not (off and kwargs.get("tools")) and bool(self._writes & {"_stream", "_astream"})

    def _pieces(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> Iterator[ChatGenerationChunk]:
        if "_stream" in self._writes:
            return iter(self._stream(messages, stop=stop, **kwargs))
        from runwell.drivers.streams import iterate_sync

        return iterate_sync(self._astream(messages, stop=stop, **kwargs))

    def _apieces(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> AsyncIterator[ChatGenerationChunk]:
        if "_astream" in self._writes:
            return self._astream(messages, stop=stop, **kwargs).__aiter__()
        source = self._stream(messages, stop=stop, **kwargs)
        if self.never_blocks:
            return in_place(source)
        from runwell.drivers.streams import iterate_async

        return iterate_async(source)

    def _counted(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any], run: Run | None
    ) -> Iterator[AIMessageChunk]:
        spends, whole_answer = spending(), self.cache is not None or not self._streams(kwargs)  # that counts itself
        chunks = self._chunks(messages, stop, kwargs, run)
        if self.rate_limiter is not None and not whole_answer and _limits().counts_tokens(self.rate_limiter):
            chunks = _limits().settled(chunks, self, messages, kwargs)
        return chunks if spends is None or whole_answer else counted(chunks, self, spends)

    def _acounted(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any], run: Run | None
    ) -> AsyncIterator[AIMessageChunk]:
        spends, whole_answer = spending(), self.cache is not None or not self._streams(kwargs)
        chunks = self._achunks(messages, stop, kwargs, run)
        if self.rate_limiter is not None and not whole_answer and _limits().counts_tokens(self.rate_limiter):
            chunks = _limits().asettled(chunks, self, messages, kwargs)
        return chunks if spends is None or whole_answer else acounted(chunks, self, spends)

    def _chunks(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any], run: Run | None
    ) -> Generator[AIMessageChunk, None, None]:
        messages = self._placed(messages)
        if self.cache is not None or not self._streams(kwargs):
            yield as_chunk(self._answer(messages, stop, kwargs, None))
            return
        retries = self._retries(kwargs)

        def start() -> tuple[Iterator[ChatGenerationChunk], ChatGenerationChunk | None]:
            if self.rate_limiter is not None:
                _limits().take_turn(self, messages, kwargs)
            pieces = self._pieces(messages, stop, kwargs)
            return pieces, next(pieces, None)

        try:
            pieces, piece = start()
        except OutsideError as error:
            pieces, piece = self.retry_policy.go_on(error, start, run.retried if run else None, retries)
        if piece is None:
            raise nothing_came(self)
        chunk_id = new_id(run)
        try:
            yield self._chunk(piece, chunk_id, True)
            for piece in pieces:
                yield self._chunk(piece, chunk_id, False)
        finally:
            close = getattr(pieces, "close", None)
            if close is not None:
                close()

    async def _achunks(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any], run: Run | None
    ) -> AsyncGenerator[AIMessageChunk, None]:
        messages = self._placed(messages)
        if self.cache is not None or not self._streams(kwargs):
            yield as_chunk(await self._aanswer(messages, stop, kwargs, None))
            return
        retries = self._retries(kwargs)

        async def start() -> tuple[AsyncIterator[ChatGenerationChunk], ChatGenerationChunk | None]:
            if self.rate_limiter is not None:
                await _limits().atake_turn(self, messages, kwargs)
            pieces = self._apieces(messages, stop, kwargs)
            return pieces, await anext(pieces, None)

        try:
            pieces, piece = await start()
        except OutsideError as error:
            pieces, piece = await self.retry_policy.ago_on(error, start, run.retried if run else None, retries)
        if piece is None:
            raise nothing_came(self)
        chunk_id = new_id(run)
        try:
            yield self._chunk(piece, chunk_id, True)
            async for piece in pieces:
                yield self._chunk(piece, chunk_id, False)
        finally:
            await aclose(pieces)

    # -- what comes back

    def _chunk(self, piece: Any, chunk_id: str, first: bool) -> AIMessageChunk:
        """The message of a piece, under the id that all pieces of an answer share."""
        chunk: Any
        if type(piece) is ChatGenerationChunk or isinstance(piece, _GENERATIONS):
            chunk, about = piece.message, piece.generation_info
        else:
            chunk, about = piece, None
        if type(chunk) is not AIMessageChunk:
            chunk = piece_of(chunk)
        if about:
            chunk.response_metadata = {**about, **chunk.response_metadata}
        if chunk_id:
            chunk.belong_to(chunk_id)
        if first:
            self._name_model(chunk)
        return chunk  # type: ignore[no-any-return]

    def _finished(self, result: Any, run: Run | None) -> AIMessage:
        """The first answer of a result, with its id and the model's name."""
        if isinstance(result, ChatResult):
            generation = result.generations[0]
            message: Any = generation.message
            if type(message) is not AIMessage:
                message = message_of(message)
            if generation.generation_info:
                message.response_metadata = {**generation.generation_info, **message.response_metadata}
        else:
            message = message_of(result)
        if type(message) is not AIMessage and isinstance(message, AIMessageChunk):
            message = message.to_message()
        if message.tool_calls:
            message = without_deep_calls(message)
        if message.id is None:
            message.id = new_id(run)
        self._name_model(message)
        return message  # type: ignore[no-any-return]

    def _name_model(self, message: AIMessage) -> None:
        known = message._facts or ()
        if self.provider and "model_provider" not in known:
            message.response_metadata["model_provider"] = self.provider
        if "model_name" not in known:
            model = getattr(self, "model", None)
            if model is not None:
                message.response_metadata["model_name"] = model

    def _cache_key(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any]
    ) -> tuple[str, str]:
        from runwell.models.cache import cache_key

        return cache_key(messages, self._llm_type, self._identifying_params, stop, kwargs)
