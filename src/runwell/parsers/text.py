"""`StrOutputParser`: the text and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from runwell.parsers.parser import BaseTransformOutputParser, text_of
from runwell.runnables.runnable import Snapshots

__all__ = ["StrOutputParser"]


class StrOutputParser(BaseTransformOutputParser[str]):
    """The text of a message, or a text as it is. In a stream, the text of each piece as it comes."""

    never_blocks = True

    def __init__(self, *, name: str | None = None) -> None:
        self.name = name

    def parse(self, text: str) -> str:
        """The text itself."""
        return text

    # The general way goes through a feed; here a piece is only unwrapped, and long answers have thousands.

    def _flow(self, source: Iterator[Any]) -> Iterator[str]:
        if isinstance(source, Snapshots):
            yield from super()._flow(source)
            return
        for piece in source:
            yield text_of(piece)

    async def _aflow(self, source: AsyncIterator[Any]) -> AsyncIterator[str]:
        if isinstance(source, Snapshots):
            async for text in super()._aflow(source):
                yield text
            return
        async for piece in source:
            yield text_of(piece)
