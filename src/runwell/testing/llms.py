"""Completion models that give what a test scripts."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from runwell.models.llm import LLM
from runwell.models.outputs import GenerationChunk

__all__ = ["FakeListLLM", "FakeStreamingListLLM"]


class FakeListLLM(LLM):
    """Gives `responses` in turn, and starts over after the last. `sleep` is seconds before each."""

    responses: list[str]
    sleep: float | None = None
    i: int = 0

    def _next(self) -> str:
        response = self.responses[self.i]
        self.i = (self.i + 1) % len(self.responses)
        return response

    def _call(self, prompt: str, stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any) -> str:
        if self.sleep:
            time.sleep(self.sleep)
        return self._next()

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"responses": self.responses}


class FakeStreamingListLLM(FakeListLLM):
    """As `FakeListLLM`, streamed a character at a time."""

    error_on_chunk_number: int | None = None
    """Raise RuntimeError instead of giving this chunk (the first is 0)."""

    def _stream(
        self, prompt: str, stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[GenerationChunk]:
        for number, letter in enumerate(self._next()):
            if self.sleep:
                time.sleep(self.sleep)
            self._fail(number)
            yield GenerationChunk(letter)

    async def _astream(
        self, prompt: str, stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[GenerationChunk]:
        for number, letter in enumerate(self._next()):
            if self.sleep:
                import asyncio

                await asyncio.sleep(self.sleep)
            self._fail(number)
            yield GenerationChunk(letter)

    def _fail(self, number: int) -> None:
        if number == self.error_on_chunk_number:
            raise RuntimeError(f"chunk {number} failed, as error_on_chunk_number asks")
