"""The protocol that every part speaks: call it with one input, with many, or as a stream, in either colour."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast, overload

from runwell.drivers.closing import aclose
from runwell.drivers.other_colour import answer_in_both, beneath
from runwell.effects import Callee
from runwell.errors import InvalidInput, UsageError
from runwell.observe.context import CURRENT
from runwell.observe.run import open_run
from runwell.runnables.addable import add_all
from runwell.runnables.bridges import STREAMS, TRANSFORMS
from runwell.runnables.composing import Composable, Input, Other, Output
from runwell.runnables.config import RunnableConfig
from runwell.runnables.describing import Described
from runwell.runnables.forms import form
from runwell.runnables.own import as_written, is_own, observe

if TYPE_CHECKING:
    from runwell.runnables.batch import AsyncBatchItems, BatchItems, OnResult, Progress

__all__ = ["Input", "Other", "Output", "Runnable", "RunnableLike", "Snapshots"]

_PROTOCOL = ("invoke", "ainvoke", "stream", "astream", "transform", "atransform")


class Runnable(Composable[Input, Output], Described):
    """A part of a program: `part.invoke(x)`, `await part.ainvoke(x)`, `part.batch(xs)`, `part.stream(x)`, `a | b`.

    A subclass writes any one of `invoke`, `ainvoke`, `transform` and `atransform` and gets all the others, in both
    colours; it may write more of them where it can do better. Calls are safe from several threads at once when the
    written method is. The second argument of every call is a `RunnableConfig`; nested calls inherit it.
    """

    name: str | None = None
    """What it is called in traces; the class's name when None."""

    run_kind: ClassVar[str] = "chain"
    """What kind of run a call is told as: chain, chat_model, llm, tool, retriever, prompt, parser."""
    never_blocks: bool = False
    """`invoke` only computes, briefly: `ainvoke` may run it on the event loop, without a worker thread."""
    streams_snapshots: bool = False
    """Each chunk replaces the one before it, instead of being added to it."""

    _written: ClassVar[frozenset[str]] = frozenset()
    _own_config: Mapping[str, Any] | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        answer_in_both(cls, {"invoke": "ainvoke"}, Runnable)
        answer_in_both(cls, {"batch": "abatch"})
        answer_in_both(cls, {"stream": "astream"}, Runnable, STREAMS)
        answer_in_both(cls, {"transform": "atransform"}, Runnable, TRANSFORMS)
        cls._written = frozenset(name for name in _PROTOCOL if as_written(cls, name) is not getattr(Runnable, name))
        if cls._written and is_own(cls, Runnable, _PROTOCOL):
            observe(cls, Runnable, _PROTOCOL)

    # -- one input

    def invoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        """The output for one input."""
        written = self._written
        if "ainvoke" in written:
            from runwell.drivers.sync import call_sync

            return call_sync(Callee(None, beneath(self, "ainvoke")), input, config, **kwargs)  # type: ignore[no-any-return]
        if written:
            return self._whole(list(self.stream(input, config, **kwargs)))  # type: ignore[no-any-return]
        raise self._nothing_written()

    async def ainvoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        """The output for one input. What is written in plain code runs in a worker thread."""
        written = self._written
        if "invoke" not in written and ("atransform" in written or "astream" in written):
            chunks = [chunk async for chunk in self.astream(input, config, **kwargs)]
            return self._whole(chunks)  # type: ignore[no-any-return]
        if self.never_blocks:
            return beneath(self, "invoke")(input, config, **kwargs)  # type: ignore[no-any-return]
        if not written:
            raise self._nothing_written()
        from runwell.drivers.aio import call_async

        return await call_async(Callee(beneath(self, "invoke"), None), input, config, **kwargs)

    # -- streams

    def stream(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Output]:
        """The output for one input, chunk by chunk where that is possible. Closing the iterator ends the work."""
        written = self._written
        if "transform" in written:
            return self.transform(iter((input,)), config, **kwargs)
        if "atransform" in written or "astream" in written:
            from runwell.drivers.streams import iterate_sync

            return iterate_sync(beneath(self, "astream")(input, config, **kwargs))
        return self._once(input, config, kwargs)

    def _once(self, input: Any, config: RunnableConfig | None, kwargs: dict[str, Any]) -> Iterator[Output]:
        from runwell.drivers.sync import call_sync

        yield call_sync(Callee(self.invoke, None), input, config, **kwargs)

    def astream(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Output]:
        """`stream` for `async for`."""
        written = self._written
        if "atransform" in written:
            from runwell.runnables.bridges import alone

            return self.atransform(alone(input), config, **kwargs)
        if "transform" in written or "stream" in written:
            from runwell.runnables.bridges import in_place, in_thread

            def start() -> Iterator[Output]:
                return beneath(self, "stream")(input, config, **kwargs)  # type: ignore[no-any-return]

            return in_place(start) if self.never_blocks else in_thread(start)
        return self._aonce(input, config, kwargs)

    async def _aonce(self, input: Any, config: RunnableConfig | None, kwargs: dict[str, Any]) -> AsyncIterator[Output]:
        from runwell.drivers.aio import call_async

        yield await call_async(Callee(None, self.ainvoke), input, config, **kwargs)

    def transform(
        self, input: Iterator[Input], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Output]:
        """Output chunks for an input that itself arrives chunk by chunk. By default it is awaited whole first."""
        if "atransform" in self._written:
            from runwell.runnables.bridges import through_loop

            return through_loop(lambda chunks: beneath(self, "atransform")(chunks, config, **kwargs), input)
        return self._gathered(input, config, kwargs)

    def _gathered(
        self, input: Iterator[Any], config: RunnableConfig | None, kwargs: dict[str, Any]
    ) -> Iterator[Output]:
        chunks = list(input)
        if chunks:
            yield from self.stream(_joined(chunks, input), config, **kwargs)

    def atransform(
        self, input: AsyncIterator[Input], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Output]:
        """`transform` for async iterators."""
        if "transform" in self._written:
            from runwell.runnables.bridges import through_thread

            return through_thread(lambda source: beneath(self, "transform")(source, config, **kwargs), input)
        return self._agathered(input, config, kwargs)

    async def _agathered(
        self, input: AsyncIterator[Any], config: RunnableConfig | None, kwargs: dict[str, Any]
    ) -> AsyncIterator[Output]:
        chunks = [chunk async for chunk in input]
        if chunks:
            stream = self.astream(_joined(chunks, input), config, **kwargs)
            try:
                async for chunk in stream:
                    yield chunk
            finally:
                await aclose(stream)

    def astream_events(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        version: Literal["v2"] = "v2",
        include_names: Sequence[str] | None = None,
        include_types: Sequence[str] | None = None,
        include_tags: Sequence[str] | None = None,
        exclude_names: Sequence[str] | None = None,
        exclude_types: Sequence[str] | None = None,
        exclude_tags: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[dict[str, Any]]:
        """Everything that happens inside, as it happens: dicts with `event` (`on_chain_start`,
        `on_chat_model_stream`, ...), `name`, `run_id`, `parent_ids`, `tags`, `metadata` and `data`.

        The filters keep, or drop, events by the name, kind or tags of the run they are about.
        """
        if version != "v2":
            raise UsageError(f"There is no event format {version!r}.", hint='Leave version out, or pass version="v2".')
        chosen = (include_names, include_types, include_tags), (exclude_names, exclude_types, exclude_tags)
        return cast(AsyncIterator[dict[str, Any]], form("StreamEvents")(self, input, config, kwargs, *chosen))

    # -- many inputs

    @overload
    def batch(
        self,
        inputs: Sequence[Input],
        config: RunnableConfig | Sequence[RunnableConfig | None] | None = None,
        *,
        return_exceptions: Literal[False] = False,
        on_result: OnResult | None = None,
        progress: bool | Progress = False,
        **kwargs: Any,
    ) -> list[Output]: ...
    @overload
    def batch(
        self,
        inputs: Sequence[Input],
        config: RunnableConfig | Sequence[RunnableConfig | None] | None = None,
        *,
        return_exceptions: bool,
        on_result: OnResult | None = None,
        progress: bool | Progress = False,
        **kwargs: Any,
    ) -> list[Output | Exception]: ...
    def batch(
        self,
        inputs: Sequence[Input],
        config: RunnableConfig | Sequence[RunnableConfig | None] | None = None,
        *,
        return_exceptions: bool = False,
        on_result: OnResult | None = None,
        progress: bool | Progress = False,
        **kwargs: Any,
    ) -> Any:
        """The outputs for many inputs, in their order, worked on side by side.

        At most `max_concurrency` at once (16 unless the config says; None is no bound). `config` may be a list with
        one for each input. `on_result(index, output_or_exception)`, plain or `async`, is called as each item ends, in
        the thread it ended in: what it saves outlives a crash. `progress=True` shows a bar (the extra `cli`); a plain
        function is called with how many have ended, and of how many.

        When an item fails, nothing more is started and the first failed item's own error is raised, with `.batch`
        (a `BatchResult`) holding what the other items gave. With `return_exceptions` failures are returned in place.
        """
        from runwell.runnables.batch import run_batch

        return run_batch(self, inputs, config, return_exceptions, on_result, progress, kwargs)

    @overload
    async def abatch(
        self,
        inputs: Sequence[Input],
        config: RunnableConfig | Sequence[RunnableConfig | None] | None = None,
        *,
        return_exceptions: Literal[False] = False,
        on_result: OnResult | None = None,
        progress: bool | Progress = False,
        **kwargs: Any,
    ) -> list[Output]: ...
    @overload
    async def abatch(
        self,
        inputs: Sequence[Input],
        config: RunnableConfig | Sequence[RunnableConfig | None] | None = None,
        *,
        return_exceptions: bool,
        on_result: OnResult | None = None,
        progress: bool | Progress = False,
        **kwargs: Any,
    ) -> list[Output | Exception]: ...
    async def abatch(
        self,
        inputs: Sequence[Input],
        config: RunnableConfig | Sequence[RunnableConfig | None] | None = None,
        *,
        return_exceptions: bool = False,
        on_result: OnResult | None = None,
        progress: bool | Progress = False,
        **kwargs: Any,
    ) -> Any:
        """`batch` on the running event loop. A failure, or cancelling it, also cancels the items under way."""
        from runwell.runnables.batch import arun_batch

        return await arun_batch(self, inputs, config, return_exceptions, on_result, progress, kwargs)

    def batch_as_completed(
        self,
        inputs: Sequence[Input],
        config: RunnableConfig | Sequence[RunnableConfig | None] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> BatchItems:
        """(index, output) of each input as it ends. Leaving the loop early, or closing it, ends the rest."""
        from runwell.runnables.batch import BatchItems

        return BatchItems(self, inputs, config, return_exceptions, kwargs)

    def abatch_as_completed(
        self,
        inputs: Sequence[Input],
        config: RunnableConfig | Sequence[RunnableConfig | None] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> AsyncBatchItems:
        """`batch_as_completed` for `async for`."""
        from runwell.runnables.batch import AsyncBatchItems

        return AsyncBatchItems(self, inputs, config, return_exceptions, kwargs)

    # -- for subclasses

    def _whole(self, chunks: Sequence[Any]) -> Any:
        """The output that these chunks of it make up."""
        return (chunks[-1] if chunks else None) if self.streams_snapshots else add_all(chunks)

    def _call_with_config(
        self,
        func: Callable[..., Other],
        input: Any,
        config: RunnableConfig | None = None,
        run_type: str | None = None,
        **kwargs: Any,
    ) -> Other:
        """`func(input, **kwargs)` as a run of this runnable, or as a part of the one that is open around its method."""
        around = CURRENT.get()
        if around is not None and around.owner == id(self):
            return func(input, **kwargs)
        run = open_run(run_type or self.run_kind, self, input, config)
        return func(input, **kwargs) if run is None else run.call(func, input, **kwargs)

    async def _acall_with_config(
        self,
        func: Callable[..., Awaitable[Other]],
        input: Any,
        config: RunnableConfig | None = None,
        run_type: str | None = None,
        **kwargs: Any,
    ) -> Other:
        """`_call_with_config` for `async` code."""
        around = CURRENT.get()
        if around is not None and around.owner == id(self):
            return await func(input, **kwargs)
        run = open_run(run_type or self.run_kind, self, input, config)
        return await func(input, **kwargs) if run is None else await run.acall(func, input, **kwargs)

    def _with_name(self, name: str | None) -> Self:
        self.name = name
        return self

    def _nothing_written(self) -> UsageError:
        return UsageError(
            f"{type(self).__name__} does not say what it does.",
            hint="Write one of its methods: invoke, ainvoke, transform or atransform.",
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}()" if self.name is None else f"{type(self).__name__}(name={self.name!r})"


class Snapshots(Iterator[Other], AsyncIterator[Other]):
    """A stream whose last chunk is its whole: what a step that `streams_snapshots` hands to the next."""

    __slots__ = ("_source",)

    def __init__(self, source: Any) -> None:
        self._source = source

    def __next__(self) -> Other:
        return next(self._source)  # type: ignore[no-any-return]

    async def __anext__(self) -> Other:
        return await self._source.__anext__()  # type: ignore[no-any-return]

    def close(self) -> None:
        self._source.close()

    async def aclose(self) -> None:
        await self._source.aclose()


RunnableLike = (
    Runnable[Input, Output]
    | Callable[..., Output]
    | Callable[..., Awaitable[Output]]
    | Callable[[Iterator[Any]], Iterator[Output]]
    | Callable[[AsyncIterator[Any]], AsyncIterator[Output]]
    | Mapping[str, Any]
)
"""What `|` takes: a runnable, a function, a generator function, or a dict of them."""


def _joined(chunks: list[Any], source: Any) -> Any:
    return chunks[-1] if isinstance(source, Snapshots) else add_all(chunks)


def not_runnable(thing: Any, where: str) -> InvalidInput:
    """For something that cannot be a part of a chain."""
    return InvalidInput(
        f"{where} is {thing!r:.200}, which cannot be called.",
        hint="Give a runnable, a function, or a dict of them; wrap a constant as `lambda _: value`.",
    )
