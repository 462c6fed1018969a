"""Steps side by side on the same input: `{"a": first, "b": second}`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, cast

from runwell.errors import InvalidInput
from runwell.observe.context import CURRENT, UNSET
from runwell.observe.run import open_run
from runwell.runnables.addable import AddableDict, ReplacingDict, add_dicts
from runwell.runnables.bridges import alone
from runwell.runnables.coerce import coerce_to_runnable
from runwell.runnables.config import RunnableConfig
from runwell.runnables.interleave import _raise_first, ainterleave, interleave
from runwell.runnables.notes import note_entry
from runwell.runnables.runnable import Input, Runnable

__all__ = ["RunnableMap", "RunnableParallel", "branch_limit", "labelled"]


class RunnableParallel(Runnable[Input, dict[str, Any]]):
    """A dict of each step's output for the same input, its keys in the order given.

    Steps run at the same time: plain ones in threads, `async` ones as tasks; those that never block, and a single one
    that may, in the caller's own thread. `max_concurrency` bounds how many. When some fail, the first of them in order
    is raised. As a stream, chunks come as `AddableDict`s with one key, as soon as any step has one.
    """

    def __init__(self, steps__: Mapping[str, Any] | None = None, name: str | None = None, **steps: Any) -> None:
        if steps__ is not None and not isinstance(steps__, Mapping):
            raise InvalidInput(
                f"A parallel step is made of a dict, not {steps__!r:.200}.", hint='Write it as {"name": step}.'
            )
        given = {**(steps__ or {}), **steps}
        if not given:
            raise InvalidInput("A parallel step needs at least one entry.", hint='Write it as {"name": step}.')
        for key in given:
            if not isinstance(key, str):
                raise InvalidInput(f"The keys of a parallel step are strings, not {key!r}.")
        self.steps__: dict[str, Runnable[Any, Any]] = {
            key: coerce_to_runnable(step, f"The entry {key!r} of a parallel step") for key, step in given.items()
        }
        self.name = name
        self._fast = tuple((key, step) for key, step in self.steps__.items() if step.never_blocks)
        self._slow = tuple((key, step) for key, step in self.steps__.items() if not step.never_blocks)
        self.never_blocks = not self._slow

    @property
    def steps(self) -> Mapping[str, Runnable[Any, Any]]:
        """The steps by key."""
        return self.steps__

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        return super().get_name(suffix, name=name or self.name or f"RunnableParallel<{','.join(self.steps__)}>")

    # -- one input

    def invoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        if config or CURRENT.get() is not None:
            run = open_run("chain", self, input, config)
            if run is not None:
                return run.call(self._all, input)
        return self._all(input)

    def _all(self, given: Any) -> dict[str, Any]:
        slow = self._slow
        found = {}
        try:
            for key, step in self.steps__.items() if len(slow) <= 1 else self._fast:
                found[key] = step.invoke(given)
        except Exception as error:
            note_entry(error, self, key, step, given, False)
            raise
        if len(slow) <= 1:
            return found
        from runwell.drivers.threads import fan_out

        outcomes: list[Any] = fan_out(
            [lambda step=step: step.invoke(given) for _, step in slow],  # type: ignore[misc]
            branch_limit(),
            stop_on_error=True,
        )
        return self._ordered(given, found, outcomes)

    def _ordered(self, given: Any, found: dict[str, Any], outcomes: list[Any]) -> dict[str, Any]:
        for (key, step), outcome in zip(self._slow, outcomes, strict=True):
            if isinstance(outcome.error, Exception):
                note_entry(outcome.error, self, key, step, given, False)
                break
        _raise_first(outcomes)
        for (key, _), outcome in zip(self._slow, outcomes, strict=True):
            found[key] = outcome.value
        return {key: found[key] for key in self.steps__}

    async def ainvoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        if config or CURRENT.get() is not None:
            run = open_run("chain", self, input, config)
            if run is not None:
                return await run.acall(self._aall, input)
        return await self._aall(input)

    async def _aall(self, given: Any) -> dict[str, Any]:
        slow = self._slow
        found = {}
        try:
            for key, step in self._fast:
                found[key] = step.invoke(given)
            if len(slow) <= 1:
                for key, step in slow:
                    found[key] = await step.ainvoke(given)
                return {key: found[key] for key in self.steps__}
        except Exception as error:
            note_entry(error, self, key, step, given, False)
            raise
        from runwell.drivers.aio import afan_out

        outcomes = await afan_out(
            [lambda step=step: step.ainvoke(given) for _, step in slow],  # type: ignore[misc]
            branch_limit(),
            stop_on_error=True,
        )
        return self._ordered(given, found, outcomes)

    # -- streams

    def stream(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[dict[str, Any]]:
        return self._streamed(iter((input,)), input, config, True)

    def transform(
        self, input: Iterator[Input], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[dict[str, Any]]:
        return self._streamed(input, None, config, False)

    def _streamed(
        self, source: Iterator[Any], told: Any, config: RunnableConfig | None, alone: bool
    ) -> Iterator[dict[str, Any]]:
        if config or CURRENT.get() is not None:
            run = open_run("chain", self, told, config)
            if run is not None:
                return run.watch(lambda: self._flow(source, alone), add_dicts)
        return self._flow(source, alone)

    def _flow(self, source: Iterator[Any], alone: bool) -> Iterator[dict[str, Any]]:
        merged = interleave(self.steps__, source, alone, branch_limit(), self)
        try:
            for key, chunk in merged:
                yield labelled(self.steps__[key], key, chunk)
        finally:
            cast(Any, merged).close()

    def astream(
        self, input: Input, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[dict[str, Any]]:
        return self._astreamed(alone(input), input, config)

    def atransform(
        self, input: AsyncIterator[Input], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[dict[str, Any]]:
        return self._astreamed(input, None, config)

    def _astreamed(
        self, source: AsyncIterator[Any], told: Any, config: RunnableConfig | None
    ) -> AsyncIterator[dict[str, Any]]:
        if config or CURRENT.get() is not None:
            run = open_run("chain", self, told, config)
            if run is not None:
                return run.awatch(lambda: self._aflow(source), add_dicts)
        return self._aflow(source)

    async def _aflow(self, source: AsyncIterator[Any]) -> AsyncIterator[dict[str, Any]]:
        merged = ainterleave(self.steps__, source, branch_limit(), self)
        try:
            async for key, chunk in merged:
                yield labelled(self.steps__[key], key, chunk)
        finally:
            await cast(Any, merged).aclose()

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{key!r}: {step!r}" for key, step in self.steps__.items()) + "}"


RunnableMap = RunnableParallel


def labelled(step: Runnable[Any, Any], key: str, chunk: Any) -> AddableDict:
    """A branch's chunk as a chunk of the whole."""
    return ReplacingDict({key: chunk}) if step.streams_snapshots else AddableDict({key: chunk})


def branch_limit() -> int | None:
    """How many branches may run at once: what the config says, else all."""
    run = CURRENT.get()
    if run is None or run.max_concurrency is UNSET:
        return None
    return cast("int | None", run.max_concurrency)
