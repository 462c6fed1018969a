"""A runnable applied to every item of a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runwell.runnables.config import RunnableConfig
from runwell.runnables.runnable import Input, Output, Runnable

__all__ = ["RunnableEach"]


class RunnableEach(Runnable[Sequence[Input], list[Output]]):
    """A list of inputs in, the list of their outputs out, in order, at most `max_concurrency` (16) at once."""

    def __init__(self, bound: Runnable[Input, Output], *, name: str | None = None) -> None:
        self.bound = bound
        self.name = name

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        return super().get_name(suffix, name=name or self.name or f"RunnableEach<{self.bound.get_name()}>")

    def invoke(self, input: Sequence[Input], config: RunnableConfig | None = None, **kwargs: Any) -> list[Output]:
        return self._call_with_config(lambda items: self.bound.batch(items, **kwargs), input, config)

    async def ainvoke(
        self, input: Sequence[Input], config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[Output]:
        return await self._acall_with_config(lambda items: self.bound.abatch(items, **kwargs), input, config)

    def __repr__(self) -> str:
        return f"{self.bound!r}.map()"
