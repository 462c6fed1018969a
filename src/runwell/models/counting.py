"""Calls of models inside an agent's run count for its budget, whoever makes them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Self

from runwell.drivers.closing import aclose
from runwell.messages.usage import UsageMetadata, add_usage
from runwell.ports.runtime import Spending, spending

__all__ = ["Counted", "CountedChunks", "acounted", "counted"]


class Counted:
    """`with Counted(model) as count: count.usage = ...` around one call; nothing where no budget is about."""

    __slots__ = ("model", "spends", "usage")

    def __init__(self, model: Any) -> None:
        self.model = model
        self.spends = spending()
        self.usage: Any = None

    def __enter__(self) -> Self:
        if self.spends is not None:
            self.spends.before(self.model)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self.spends is not None:
            if error is None:
                self.spends.after(self.model, self.usage)
            else:
                self.spends.failed()


class CountedChunks:
    """`with CountedChunks(model) as count:` around one call whose chunks go to `count.chunks`, and their sum's usage to
    `count.usage`. One that breaks off counts for what had come."""

    __slots__ = ("chunks", "model", "spends", "usage")

    def __init__(self, model: Any) -> None:
        self.model = model
        self.spends = spending() if model.cache is None else None  # what a cache does not have is counted where it asks
        self.chunks: list[Any] = []
        self.usage: Any = None

    def __enter__(self) -> Self:
        if self.spends is not None:
            self.spends.before(self.model)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self.spends is None:
            return
        if error is not None:
            for chunk in self.chunks:
                self.usage = add_usage(self.usage, chunk.usage_metadata) if chunk.usage_metadata else self.usage
        self.spends.after(self.model, self.usage)


def counted(chunks: Iterator[Any], model: Any, spends: Spending) -> Iterator[Any]:
    """The chunks of one call, counted."""
    spends.before(model)
    used: UsageMetadata | None = None
    try:
        for chunk in chunks:
            used = add_usage(used, chunk.usage_metadata) if chunk.usage_metadata else used
            yield chunk
    finally:
        chunks.close()  # type: ignore[attr-defined]
        spends.after(model, used)


async def acounted(chunks: AsyncIterator[Any], model: Any, spends: Spending) -> AsyncIterator[Any]:
    """As `counted`."""
    spends.before(model)
    used: UsageMetadata | None = None
    try:
        async for chunk in chunks:
            used = add_usage(used, chunk.usage_metadata) if chunk.usage_metadata else used
            yield chunk
    finally:
        await aclose(chunks)
        spends.after(model, used)
