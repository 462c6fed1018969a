"""What all parsers have in common: text or a message in, a value out, as a step of a chain."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from runwell.drivers.other_colour import beneath
from runwell.errors import InvalidInput
from runwell.messages.message import BaseMessage
from runwell.observe.context import CURRENT
from runwell.observe.run import open_run
from runwell.runnables.config import RunnableConfig
from runwell.runnables.runnable import Runnable, Snapshots

__all__ = ["BaseOutputParser", "BaseTransformOutputParser", "Feed", "text_of"]

T = TypeVar("T")


def text_of(given: Any) -> str:
    """The text of what a model gave: a string, a message (or a piece of one), or a generation."""
    if isinstance(given, str):
        return given
    if isinstance(given, BaseMessage):
        return given.text
    text = getattr(given, "text", None)  # a generation, or a prompt value
    if isinstance(text, str):
        return text
    raise InvalidInput(
        f"A parser takes a text or a message, not {given!r:.200}.",
        hint="Put it behind a model, or behind a step that gives a string.",
    )


class Feed(Generic[T]):
    """One stream being parsed: takes its pieces and gives values as soon as they are there."""

    def feed(self, piece: Any) -> Iterator[T]:
        """What can be given now that this piece is here (a text, unless the parser's `_piece` says otherwise)."""
        raise NotImplementedError

    def finish(self) -> Iterator[T]:
        """There are no more pieces: what is left."""
        return iter(())


class BaseOutputParser(Runnable[Any, T]):
    """Text, or a message's text, to a value. A subclass implements `parse` (and `aparse`, where it has to wait).

    In a stream the default waits for the whole text; see `BaseTransformOutputParser`.
    """

    run_kind = "parser"

    def parse(self, text: str) -> T:
        """The value. Raises `OutputParserException`, with the text in `.llm_output`, when there is none."""
        raise NotImplementedError

    async def aparse(self, text: str) -> T:
        """As `parse`."""
        return self.parse(text)

    def parse_result(self, result: Sequence[Any], *, partial: bool = False) -> T:
        """The value of a model's generations, of which the first is read."""
        if not result:
            raise InvalidInput("There is no generation to parse.")
        return self._parse_input(getattr(result[0], "message", result[0]))

    def parse_with_prompt(self, completion: str, prompt: Any) -> T:
        """The value of `completion`; `prompt` is for parsers that ask again."""
        return self.parse(completion)

    def get_format_instructions(self) -> str:
        """What to say in the prompt so that the model writes what this parser reads."""
        raise NotImplementedError(f"{type(self).__name__} has no format instructions")

    def _parse_input(self, given: Any) -> T:
        """The value of what a model gave. Parsers that read more of a message than its text override this."""
        return self.parse(text_of(given))

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> T:
        """The value of a text or message. Raises `OutputParserException` when there is none."""
        if config or CURRENT.get() is not None:
            run = open_run("parser", self, input, config)
            if run is not None:
                return run.call(self._parse_input, input)
        return self._parse_input(input)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> T:
        if self.never_blocks:
            return beneath(self, "invoke")(input, config)  # type: ignore[no-any-return]
        if type(self).aparse is BaseOutputParser.aparse:
            return await super().ainvoke(input, config)
        run = open_run("parser", self, input, config)
        if run is not None:
            return await run.acall(lambda: self.aparse(text_of(input)))
        return await self.aparse(text_of(input))

    @property
    def OutputType(self) -> Any:
        for each in type(self).__mro__:
            for base in getattr(each, "__orig_bases__", ()):
                arguments: tuple[Any, ...] = getattr(base, "__args__", ())
                if len(arguments) == 1 and not isinstance(arguments[0], TypeVar):
                    return arguments[0]
        return Any


class BaseTransformOutputParser(BaseOutputParser[T]):
    """A parser that gives values while the text is still coming. A subclass implements `parse`, and `_feed`; by
    default each piece of text is parsed on its own."""

    def _feed(self) -> Feed[T]:
        """A new stream to parse."""
        return _EachPiece(self.parse)

    def _piece(self, given: Any) -> Any:
        """What the feed takes of a piece of a stream: its text."""
        return text_of(given)

    def transform(self, input: Iterator[Any], config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[T]:
        """Values for a text that arrives in pieces."""
        if config or CURRENT.get() is not None:
            run = open_run("parser", self, None, config)
            if run is not None:
                return run.watch(lambda: self._flow(input), lambda values: self._whole(list(values)))
        return self._flow(input)

    def _flow(self, source: Iterator[Any]) -> Iterator[T]:
        feed = self._feed()
        if isinstance(source, Snapshots):  # each piece replaces the one before it
            source = iter(list(source)[-1:])
        for piece in source:
            yield from feed.feed(self._piece(piece))
        yield from feed.finish()

    def atransform(
        self, input: AsyncIterator[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[T]:
        if config or CURRENT.get() is not None:
            run = open_run("parser", self, None, config)
            if run is not None:
                return run.awatch(lambda: self._aflow(input), lambda values: self._whole(list(values)))
        return self._aflow(input)

    async def _aflow(self, source: AsyncIterator[Any]) -> AsyncIterator[T]:
        feed = self._feed()
        last: Any = _NOTHING
        replaced = isinstance(source, Snapshots)
        async for piece in source:
            if replaced:
                last = piece
                continue
            for value in feed.feed(self._piece(piece)):
                yield value
        if last is not _NOTHING:
            for value in feed.feed(self._piece(last)):
                yield value
        for value in feed.finish():
            yield value


class _EachPiece(Feed[T]):
    def __init__(self, parse: Callable[[str], T]) -> None:
        self._parse = parse

    def feed(self, piece: str) -> Iterator[T]:
        yield self._parse(piece)


_NOTHING = object()
