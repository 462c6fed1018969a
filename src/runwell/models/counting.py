"""Calls of models inside an agent's run count for its budget, whoever makes them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Self

from runwell.drivers.closing import aclose
from runwell.messages.usage import UsageMetadata, add_usage
from runwell.ports.runtime import Spending, spending

__all__ = ["Counted", "acounted", "counted"]


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
