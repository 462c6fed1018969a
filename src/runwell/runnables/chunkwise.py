"""A step that sees its input chunk by chunk: what its streams have in common."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from runwell.observe.context import CURRENT
from runwell.observe.run import open_run
from runwell.runnables.bridges import alone
from runwell.runnables.config import RunnableConfig
from runwell.runnables.runnable import Input, Output, Runnable

__all__ = ["ChunkwiseRunnable"]


class ChunkwiseRunnable(Runnable[Input, Output]):
    """Writes `_flow` and `_aflow`, which turn an input stream into an output stream; the four public streams follow."""

    def _flow(self, source: Iterator[Any], kwargs: dict[str, Any]) -> Iterator[Output]:
        raise NotImplementedError

    def _aflow(self, source: AsyncIterator[Any], kwargs: dict[str, Any]) -> AsyncIterator[Output]:
        raise NotImplementedError

    def stream(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Output]:
        return self._streamed(iter((input,)), input, config, kwargs)

    def transform(
        self, input: Iterator[Input], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Output]:
        return self._streamed(input, None, config, kwargs)

    def _streamed(
        self, source: Iterator[Any], told: Any, config: RunnableConfig | None, kwargs: dict[str, Any]
    ) -> Iterator[Output]:
        if config or CURRENT.get() is not None:
            run = open_run("chain", self, told, config)
            if run is not None:
                return run.watch(lambda: self._flow(source, kwargs), self._whole)
        return self._flow(source, kwargs)

    def astream(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Output]:
        return self._astreamed(alone(input), input, config, kwargs)

    def atransform(
        self, input: AsyncIterator[Input], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Output]:
        return self._astreamed(input, None, config, kwargs)

    def _astreamed(
        self, source: AsyncIterator[Any], told: Any, config: RunnableConfig | None, kwargs: dict[str, Any]
    ) -> AsyncIterator[Output]:
        if config or CURRENT.get() is not None:
            run = open_run("chain", self, told, config)
            if run is not None:
                return run.awatch(lambda: self._aflow(source, kwargs), self._whole)
        return self._aflow(source, kwargs)
