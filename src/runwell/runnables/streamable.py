"""A function of text that a stream need not stop at."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import update_wrapper
from re import Pattern
from typing import Any, overload

from runwell.drivers.colour import callee
from runwell.errors import InvalidInput
from runwell.observe.context import CURRENT
from runwell.runnables.chunkwise import ChunkwiseRunnable
from runwell.runnables.config import RunnableConfig
from runwell.runnables.hold import hold_of

__all__ = ["StreamableFunction", "streamable"]


@overload
def streamable(function: Callable[[str], str], /) -> StreamableFunction: ...
@overload
def streamable(
    *, hold: str | Pattern[str] | int | None = None
) -> Callable[[Callable[[str], str]], StreamableFunction]: ...
def streamable(function: Any = None, /, *, hold: Any = None) -> Any:
    """Say of a function from text to text that it may be given a stream piece by piece, so that it flows on.

    Without `hold` it is given each chunk as it comes. If what it looks for may be split over chunks, say what that
    is, as a regular expression, or how many characters it has at most: only what may still be the beginning of a
    match is kept back, until it is one or cannot become one.

        @streamable(hold=r"https?://\\S+")
        def strip_links(text: str) -> str:
            return re.sub(r"https?://\\S+", "[link]", text)

    It stays callable as before. The function must not look further than `hold` says, and must leave an empty text
    empty. What is kept back is bounded by the longest match, and by a quarter more if that is longer than a thousand
    characters; with a length the function is called several times for
    each chunk.
    """
    if function is None:
        kept = hold_of(hold)  # a wrong one is told of where it stands
        return lambda given: StreamableFunction(given, hold, kept)
    return StreamableFunction(function, hold)


class StreamableFunction(ChunkwiseRunnable[str, str]):
    """A function marked with `streamable`."""

    def __init__(self, function: Callable[[str], str], hold: Any = None, kept: Any = None) -> None:
        if not callable(function):
            raise InvalidInput(
                f"@streamable marks a function from text to text, not {function!r:.200}.",
                hint='With what it looks for: @streamable(hold="...").',
            )
        called: Any = callee(function)
        if called.sync is None:
            raise InvalidInput(
                f"{function!r} is `async`; a text function that only computes is a plain one.",
                hint="Write it with `def`, or make it a generator that reads its chunks.",
            )
        self.func = function
        self.hold = hold
        self._kept = kept if kept is not None else hold_of(hold)
        self.name = getattr(function, "__name__", None)
        self.never_blocks = called.cheap
        update_wrapper(self, function, updated=())

    def __call__(self, text: str) -> str:
        return self.func(text)

    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> str:
        if config or CURRENT.get() is not None:
            return self._call_with_config(self._whole_text, input, config)
        return self._whole_text(input)

    def _whole_text(self, text: Any) -> str:
        return self.func(_text(text, self))

    def _flow(self, source: Iterator[str], kwargs: dict[str, Any]) -> Iterator[str]:
        held, silent = _Held(self), True
        for chunk in source:
            ready = held.step(chunk)
            if ready:
                silent = False
                yield ready
        if held.size or silent:
            yield held.rest()

    async def _aflow(self, source: AsyncIterator[str], kwargs: dict[str, Any]) -> AsyncIterator[str]:
        """On the loop: a hop to a thread for each chunk would cost more than the function."""
        held, silent = _Held(self), True
        async for chunk in source:
            ready = held.step(chunk)
            if ready:
                silent = False
                yield ready
        if held.size or silent:
            yield held.rest()

    def __repr__(self) -> str:
        return f"streamable({self.name})" if self.hold is None else f"streamable(hold={self.hold!r})({self.name})"


class _Held:
    """What a stream has kept back."""

    __slots__ = ("_function", "_look", "_parts", "size")

    def __init__(self, function: StreamableFunction) -> None:
        self._function = function
        self._parts: list[str] = []
        self._look = 0
        self.size = 0

    def step(self, chunk: Any) -> str:
        """What is ready when `chunk` comes."""
        function = self._function
        self._parts.append(_text(chunk, function))
        self.size += len(chunk)
        if self.size < self._look:
            return ""
        text = "".join(self._parts)
        place = function._kept.cut(text, function.func)
        self._parts = [text[place:]]
        self.size = len(text) - place
        # One that is long already is not looked through again for every chunk, which would cost quadratic time.
        self._look = self.size + self.size // 4 if self.size > _LONG else 0
        return function.func(text[:place]) if place else ""

    def rest(self) -> str:
        """What is ready when nothing more comes."""
        return self._function.func("".join(self._parts))


_LONG = 1024
"""Characters kept back from which on a quarter more has to come before it is looked whether a match has ended."""


def _text(value: Any, function: StreamableFunction) -> str:
    if isinstance(value, str):
        return value
    raise InvalidInput(
        f"{function.name!r} works on text, not {value!r:.200}.", hint="Put a StrOutputParser() before it."
    )
