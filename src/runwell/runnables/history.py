"""A chain that remembers its conversations."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from runwell.drivers.colour import callee
from runwell.effects import Callee
from runwell.errors import InvalidConfig, InvalidInput
from runwell.messages.chunks import BaseMessageChunk, message_chunk_to_message
from runwell.messages.convert import convert_to_messages
from runwell.messages.message import AIMessage, BaseMessage, HumanMessage
from runwell.observe.context import CURRENT
from runwell.observe.resume import InContext
from runwell.observe.run import open_run
from runwell.runnables.coerce import coerce_to_runnable
from runwell.runnables.config import RunnableConfig
from runwell.runnables.configurable_spec import ConfigurableFieldSpec
from runwell.runnables.runnable import Runnable
from runwell.runnables.turns import atake, aturn, inside, leave, take, turn
from runwell.runnables.wrapper import RunnableWrapper

__all__ = ["RunnableWithMessageHistory"]

_SESSION = ConfigurableFieldSpec("session_id", str, "Session ID", "Which conversation this is.", is_shared=True)


class RunnableWithMessageHistory(RunnableWrapper[Any, Any]):
    """`runnable` with the conversation so far put before each input, and input and answer added to it after.

    `get_session_history(session_id)` gives the conversation that `config={"configurable": {"session_id": ...}}` names:
    something with `messages` and `add_messages`, such as those of `runwell.chat_history`. With
    `history_factory_config` it is called with other values of `configurable`, by name.

    What comes in may be a text, a message, a list of them, or a dict that has one under `input_messages_key`. The
    conversation goes under `history_messages_key`, or before the input's own messages. What comes out may be a text, a
    message, a list of them, or a dict that has one under `output_messages_key`; a list that repeats the conversation is
    added from where it is new.

    A turn is added whole, once the answer is whole: nothing is added by a call that fails or a stream closed early.
    Turns of one conversation run one after the other in this process, those of different ones side by side.
    """

    def __init__(
        self,
        runnable: Any,
        get_session_history: Callable[..., Any],
        *,
        input_messages_key: str | None = None,
        output_messages_key: str | None = None,
        history_messages_key: str | None = None,
        history_factory_config: Sequence[ConfigurableFieldSpec] | None = None,
        name: str | None = None,
    ) -> None:
        if not callable(get_session_history):
            raise InvalidInput(
                f"get_session_history is a function from a session_id to a history, not {get_session_history!r:.200}.",
                hint="lambda session_id: SqliteChatMessageHistory(session_id, path)",
            )
        super().__init__(coerce_to_runnable(runnable, "The runnable with a history"))
        self.get_session_history = get_session_history
        self.input_messages_key = input_messages_key
        self.output_messages_key = output_messages_key
        self.history_messages_key = history_messages_key
        self.history_factory_config = tuple(history_factory_config) if history_factory_config else (_SESSION,)
        self.name = name or self.name
        self._make: Callee[Any] = callee(get_session_history)
        try:
            self._positional = len(inspect.signature(get_session_history).parameters) == 1
        except (TypeError, ValueError):  # a builtin without a signature
            self._positional = len(self.history_factory_config) == 1

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        return Runnable.get_name(self, suffix, name=name or self.name)

    def _own_specs(self) -> list[ConfigurableFieldSpec]:
        return list(self.history_factory_config)

    # -- the conversation

    def _named(self) -> dict[str, Any]:
        """What the config says of which conversation it is."""
        run = CURRENT.get()
        configurable = run.configurable if run is not None else {}
        values = {spec.id: configurable.get(spec.id, spec.default) for spec in self.history_factory_config}
        missing = [name for name, value in values.items() if value is None]
        if missing:
            example = ", ".join(f'"{name}": ...' for name in values)
            raise InvalidConfig(
                f"The config does not say which conversation this is: 'configurable' lacks {', '.join(missing)}.",
                hint=f'Call it with config={{"configurable": {{{example}}}}}.',
            )
        return values

    def _called(self, values: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (tuple(values.values()), {}) if self._positional and len(values) == 1 else ((), values)

    def _key(self, history: Any, values: dict[str, Any]) -> Hashable:
        readable = hasattr(type(history), "messages") or "messages" in getattr(history, "__dict__", {})
        if not readable or not callable(getattr(history, "add_messages", None)):
            raise InvalidInput(
                f"get_session_history gave {history!r:.200}, which has no `messages` and `add_messages`.",
                hint="Give one of runwell.chat_history, or a subclass of its BaseChatMessageHistory.",
            )
        own = getattr(history, "session_key", None)
        return own if own is not None else ("session", id(self.get_session_history), *map(repr, values.values()))

    def _open(self) -> tuple[Any, Hashable]:
        from runwell.drivers.sync import call_sync

        values = self._named()
        args, kwargs = self._called(values)
        history = call_sync(self._make, *args, **kwargs)
        return history, self._key(history, values)

    async def _aopen(self) -> tuple[Any, Hashable]:
        from runwell.drivers.aio import call_async

        values = self._named()
        args, kwargs = self._called(values)
        history = await call_async(self._make, *args, **kwargs)
        return history, self._key(history, values)

    # -- input and output

    def _fill(self, given: Any, before: list[BaseMessage]) -> tuple[Any, list[BaseMessage], list[BaseMessage]]:
        """(what the runnable gets, the input's own messages, all messages in what it gets)."""
        if isinstance(given, Mapping):
            key = self._input_key(given)
            new = _messages(given[key], HumanMessage, f"The input's {key!r}")
            if self.history_messages_key is not None:
                return {**given, self.history_messages_key: before}, new, []
            return {**given, key: [*before, *new]}, new, [*before, *new]
        if self.history_messages_key is not None or self.input_messages_key is not None:
            raise InvalidInput(
                f"With keys for messages the input must be a dict, not {given!r:.200}.",
                hint=f'Pass {{"{self.input_messages_key or "input"}": ...}}, or leave the keys out.',
            )
        new = _messages(given, HumanMessage, "The input")
        return [*before, *new], new, [*before, *new]

    def _input_key(self, given: Mapping[str, Any]) -> str:
        key = self.input_messages_key
        if key is None and len(given) == 1:
            return next(iter(given))
        if key is None:
            raise InvalidInput(
                f"The input has {', '.join(map(repr, given))}: which of them is what the user says?",
                hint='Pass input_messages_key="..." to RunnableWithMessageHistory.',
            )
        if key not in given:
            raise InvalidInput(
                f"The input has no {key!r}, which input_messages_key names.",
                hint=f"It has {', '.join(map(repr, given)) or 'nothing'}.",
            )
        return key

    def _said(self, output: Any, fed: list[BaseMessage]) -> list[BaseMessage]:
        """The messages of an output that are not yet in the conversation."""
        if isinstance(output, Mapping):
            key = self.output_messages_key or (next(iter(output)) if len(output) == 1 else None)
            if key is None or key not in output:
                raise InvalidInput(
                    f"The output has {', '.join(map(repr, output)) or 'nothing'}"
                    + (f", no {key!r}." if key else ": which of them is the answer?"),
                    hint='Pass output_messages_key="..." to RunnableWithMessageHistory.',
                )
            output = output[key]
        said = _messages(output, AIMessage, "The output")
        if fed and len(said) > len(fed) and all(map(_same, said, fed)):
            return said[len(fed) :]
        return said

    # -- calls

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return self._call_with_config(self._turn, input, config, **kwargs)

    def _turn(self, given: Any, **kwargs: Any) -> Any:
        history, key = self._open()
        with turn(key):
            filled, new, fed = self._fill(given, list(history.messages))
            output = self.bound.invoke(filled, None, **kwargs)
            history.add_messages([*new, *self._said(output, fed)])
        return output

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return await self._acall_with_config(self._aturn, input, config, **kwargs)

    async def _aturn(self, given: Any, **kwargs: Any) -> Any:
        history, key = await self._aopen()
        async with aturn(key):
            filled, new, fed = self._fill(given, await _aread(history))
            output = await self.bound.ainvoke(filled, None, **kwargs)
            await _aadd(history, [*new, *self._said(output, fed)])
        return output

    def stream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Any]:
        run = open_run("chain", self, input, config)
        return self._flow(input, kwargs) if run is None else run.watch(lambda: self._flow(input, kwargs), self._whole)

    def _flow(self, given: Any, kwargs: dict[str, Any]) -> Iterator[Any]:
        history, key = self._open()
        take(key)
        try:
            context = inside(key)
            filled, new, fed = self._fill(given, list(history.messages))
            source = context.run(self.bound.stream, filled, None, **kwargs)
            chunks = []
            try:
                for chunk in _within(context, source):
                    chunks.append(chunk)
                    yield chunk
            finally:
                close = getattr(source, "close", None)
                if close is not None:
                    context.run(close)
            history.add_messages([*new, *self._said(self._whole(chunks), fed)])
        finally:
            leave(key)

    def astream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Any]:
        run = open_run("chain", self, input, config)
        return (
            self._aflow(input, kwargs) if run is None else run.awatch(lambda: self._aflow(input, kwargs), self._whole)
        )

    async def _aflow(self, given: Any, kwargs: dict[str, Any]) -> AsyncIterator[Any]:
        history, key = await self._aopen()
        await atake(key)
        try:
            context = inside(key)
            filled, new, fed = self._fill(given, await _aread(history))
            source = context.run(self.bound.astream, filled, None, **kwargs)
            chunks = []
            try:
                while True:
                    try:
                        chunk = await InContext(context, source.__anext__())
                    except StopAsyncIteration:
                        break
                    chunks.append(chunk)
                    yield chunk
            finally:
                close = getattr(source, "aclose", None)
                if close is not None:
                    await InContext(context, close())
            await _aadd(history, [*new, *self._said(self._whole(chunks), fed)])
        finally:
            leave(key)

    def __repr__(self) -> str:
        keys = "".join(
            f", {name}={getattr(self, name)!r}"
            for name in ("input_messages_key", "output_messages_key", "history_messages_key")
            if getattr(self, name) is not None
        )
        factory = getattr(self.get_session_history, "__name__", repr(self.get_session_history))
        return f"RunnableWithMessageHistory({self.bound!r}, {factory}{keys})"


def _within(context: Any, source: Iterator[Any]) -> Iterator[Any]:
    while True:
        try:
            chunk = context.run(next, source)
        except StopIteration:
            return
        yield chunk


def _messages(value: Any, text_is: type[BaseMessage], what: str) -> list[BaseMessage]:
    """The messages that a value is or stands for; chunks become whole messages."""
    if isinstance(value, str):
        return [text_is(value)]
    if isinstance(value, BaseMessage):
        found = [value]
    elif isinstance(value, list | tuple) or hasattr(value, "to_messages"):
        found = convert_to_messages(value)
    else:
        raise InvalidInput(
            f"{what} is {value!r:.200}, which is no message.", hint="Give a text, a message or a list of messages."
        )
    return [message_chunk_to_message(each) if isinstance(each, BaseMessageChunk) else each for each in found]


def _same(first: BaseMessage, second: BaseMessage) -> bool:
    return first is second or (first.type == second.type and first.content == second.content)


async def _aread(history: Any) -> list[BaseMessage]:
    read = getattr(history, "aget_messages", None)
    if read is not None:
        return list(await read())
    from runwell.drivers.aio import in_worker

    return list(await in_worker(lambda: history.messages))


async def _aadd(history: Any, messages: list[BaseMessage]) -> None:
    add = getattr(history, "aadd_messages", None)
    if add is not None:
        await add(messages)
        return
    from runwell.drivers.aio import in_worker

    await in_worker(history.add_messages, messages)
