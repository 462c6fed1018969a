"""Steps one after the other: `a | b | c`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from runwell.drivers.colour import told_apart
from runwell.errors import InvalidInput
from runwell.observe.context import CURRENT
from runwell.observe.resume import KeptAsyncIterator, KeptIterator
from runwell.observe.run import open_run
from runwell.runnables.bridges import aclosing_each, closing_each
from runwell.runnables.chunkwise import ChunkwiseRunnable
from runwell.runnables.coerce import coerce_to_runnable
from runwell.runnables.config import RunnableConfig
from runwell.runnables.notes import note_step
from runwell.runnables.runnable import Input, Output, Runnable, Snapshots

__all__ = ["RunnableSequence"]


class RunnableSequence(ChunkwiseRunnable[Input, Output]):
    """Each step's output is the next one's input. `steps` is flat: a sequence in a sequence is spliced in.

    As a stream, chunks flow through every step that can pass them on; a step that cannot waits for its whole input.
    Keyword arguments of a call go to the first step.
    """

    def __init__(
        self,
        *steps: Any,
        name: str | None = None,
        first: Any = None,
        middle: Sequence[Any] | None = None,
        last: Any = None,
    ) -> None:
        given = [*steps, *(middle or ())]
        if first is not None:
            given.insert(0, first)
        if last is not None:
            given.append(last)
        flat: list[Runnable[Any, Any]] = []
        for number, step in enumerate(given, 1):
            part = coerce_to_runnable(step, f"Step {number} of the chain")
            if isinstance(part, RunnableSequence):
                flat.extend(part.steps)
                name = name or part.name
            else:
                flat.append(part)
        if not flat:
            raise InvalidInput("A sequence needs at least one step.", hint="Compose it as `first | second`.")
        self.name = name
        self._numbered = tuple(enumerate(flat))
        self.steps: list[Runnable[Any, Any]] = flat
        self.never_blocks = all(step.never_blocks for step in flat)
        self.streams_snapshots = flat[-1].streams_snapshots

    @property
    def first(self) -> Runnable[Input, Any]:
        return self.steps[0]

    @property
    def middle(self) -> list[Runnable[Any, Any]]:
        return self.steps[1:-1]

    @property
    def last(self) -> Runnable[Any, Output]:
        return self.steps[-1]

    @property
    def InputType(self) -> Any:
        return self.steps[0].InputType

    @property
    def OutputType(self) -> Any:
        return self.steps[-1].OutputType

    # -- one input

    def invoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        if config or CURRENT.get() is not None:
            run = open_run("chain", self, input, config)
            if run is not None:
                return run.call(self._walk, input, kwargs)
        return self._walk(input, kwargs)

    def _walk(self, value: Any, kwargs: dict[str, Any]) -> Output:
        index, step = self._numbered[0]
        try:
            if kwargs:
                value = step.invoke(value, None, **kwargs)
                for index, step in self._numbered[1:]:  # noqa: B007 - told in the note
                    value = step.invoke(value)
            else:
                for index, step in self._numbered:  # noqa: B007 - told in the note
                    value = step.invoke(value)
        except Exception as error:
            told = told_apart(error)
            note_step(told, self, index, len(self.steps), step, value, False)
            if told is error:
                raise
            raise told from error
        return value  # type: ignore[no-any-return]

    async def ainvoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        if config or CURRENT.get() is not None:
            run = open_run("chain", self, input, config)
            if run is not None:
                return await run.acall(self._awalk, input, kwargs)
        return await self._awalk(input, kwargs)

    async def _awalk(self, value: Any, kwargs: dict[str, Any]) -> Output:
        index, step = self._numbered[0]
        try:
            for index, step in self._numbered:
                if kwargs and index == 0:
                    value = await step.ainvoke(value, None, **kwargs)
                elif step.never_blocks:
                    value = step.invoke(value)
                else:
                    value = await step.ainvoke(value)
        except Exception as error:
            told = told_apart(error)
            note_step(told, self, index, len(self.steps), step, value, False)
            if told is error:
                raise
            raise told from error
        return value  # type: ignore[no-any-return]

    # -- streams

    def _flow(self, source: Iterator[Any], kwargs: dict[str, Any]) -> Iterator[Output]:
        """Iterators, each reading the one before; all closed, the last first, when the reader goes."""
        iterators: list[Any] = [source]
        seen: list[Exception] = []
        kept = CURRENT.get() is not None
        try:
            for index, step in self._numbered:
                made = step.transform(iterators[-1], None, **(kwargs if index == 0 else {}))
                if kept:
                    made = KeptIterator(made)
                noted = self._noted(index, step, made, seen)
                iterators.append(Snapshots(noted) if step.streams_snapshots else noted)
            yield from iterators[-1]
        finally:
            closing_each(iterators)

    def _noted(
        self, index: int, step: Runnable[Any, Any], source: Iterator[Any], seen: list[Exception]
    ) -> Iterator[Any]:
        try:
            yield from source
        except Exception as error:
            if not any(error is known for known in seen):  # it passes through every later step
                seen.append(error)
                note_step(error, self, index, len(self.steps), step, None, True)
            raise

    async def _aflow(self, source: AsyncIterator[Any], kwargs: dict[str, Any]) -> AsyncIterator[Output]:
        iterators: list[Any] = [source]
        seen: list[Exception] = []
        kept = CURRENT.get() is not None
        try:
            for index, step in self._numbered:
                made = step.atransform(iterators[-1], None, **(kwargs if index == 0 else {}))
                if kept:
                    made = KeptAsyncIterator(made)
                noted = self._anoted(index, step, made, seen)
                iterators += [made, Snapshots(noted) if step.streams_snapshots else noted]
            async for chunk in iterators[-1]:
                yield chunk
        finally:
            await aclosing_each(iterators)

    async def _anoted(
        self, index: int, step: Runnable[Any, Any], source: AsyncIterator[Any], seen: list[Exception]
    ) -> AsyncIterator[Any]:
        try:
            async for chunk in source:
                yield chunk
        except Exception as error:
            if not any(error is known for known in seen):  # it passes through every later step
                seen.append(error)
                note_step(error, self, index, len(self.steps), step, None, True)
            raise

    def __repr__(self) -> str:
        chain = " | ".join(map(repr, self.steps))
        return (
            chain if self.name is None else f"RunnableSequence({', '.join(map(repr, self.steps))}, name={self.name!r})"
        )
