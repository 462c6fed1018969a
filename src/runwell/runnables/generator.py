"""A generator function as a step: it sees its input chunk by chunk."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from runwell.drivers.closing import aclose
from runwell.errors import InvalidInput
from runwell.runnables.addable import add_all
from runwell.runnables.bridges import through_loop, through_thread
from runwell.runnables.chunkwise import ChunkwiseRunnable
from runwell.runnables.config import RunnableConfig
from runwell.runnables.parameters import asked_for, generates, supplies
from runwell.runnables.runnable import Input, Output

__all__ = ["RunnableGenerator"]


class RunnableGenerator(ChunkwiseRunnable[Input, Output]):
    """`transform(chunks)`, a plain or `async` generator function, as a step; `invoke` adds up what it yields.

    A parameter named `config` or `runtime` (after the first) is filled in. `atransform` is its `async` form, if it
    has one: each colour of caller then uses its own.
    """

    def __init__(
        self,
        transform: Callable[..., Iterator[Any]] | Callable[..., AsyncIterator[Any]] | None = None,
        atransform: Callable[..., AsyncIterator[Any]] | None = None,
        *,
        name: str | None = None,
    ) -> None:
        plain: Callable[..., Iterator[Any]] | None = None
        asynchronous = atransform
        both: tuple[Any, ...] = (transform, atransform)
        for given in both:
            if given is not None and not callable(given):
                raise InvalidInput(
                    f"RunnableGenerator wants a generator function, not {given!r:.200}.",
                    hint="Pass `def step(chunks): yield ...`.",
                )
        if transform is not None:
            if generates(transform)[1]:
                asynchronous = transform  # type: ignore[assignment]
            else:
                plain = transform  # type: ignore[assignment]
        if plain is None and asynchronous is None:
            raise InvalidInput(
                "RunnableGenerator needs a generator function.", hint="Pass `def step(chunks): yield ...`."
            )
        self._plain = plain
        self._asynchronous = asynchronous
        self._asks = asked_for(plain) if plain is not None else ()
        self._aasks = asked_for(asynchronous) if asynchronous is not None else ()
        self.name = name or getattr(transform or atransform, "__name__", None)

    def invoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        return add_all(list(self.stream(input, config, **kwargs)))  # type: ignore[no-any-return]

    async def ainvoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        return add_all([chunk async for chunk in self.astream(input, config, **kwargs)])  # type: ignore[no-any-return]

    def _flow(self, source: Iterator[Any], kwargs: dict[str, Any]) -> Iterator[Output]:
        if self._plain is not None:
            yield from self._plain(source, **supplies(self._asks), **kwargs)
            return
        asynchronous = self._asynchronous
        assert asynchronous is not None
        filled = {**supplies(self._aasks), **kwargs}
        yield from through_loop(lambda chunks: asynchronous(chunks, **filled), source)

    async def _aflow(self, source: AsyncIterator[Any], kwargs: dict[str, Any]) -> AsyncIterator[Output]:
        if self._asynchronous is not None:
            stream = self._asynchronous(source, **supplies(self._aasks), **kwargs)
        else:
            plain = self._plain
            assert plain is not None
            filled = {**supplies(self._asks), **kwargs}
            stream = through_thread(lambda chunks: plain(chunks, **filled), source)
        try:
            async for chunk in stream:
                yield chunk
        finally:
            await aclose(stream)

    def __repr__(self) -> str:
        return f"RunnableGenerator({self.name})"
