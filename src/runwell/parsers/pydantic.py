"""`PydanticOutputParser`: JSON out of what a model wrote, checked against a type."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from runwell.errors import InvalidConfig, OutputParserException
from runwell.parsers.instructions import schema_instructions
from runwell.parsers.json_finder import JsonFinder, find_json
from runwell.parsers.parser import BaseTransformOutputParser, Feed

__all__ = ["PydanticOutputParser"]

T = TypeVar("T")


class PydanticOutputParser(BaseTransformOutputParser[T], Generic[T]):
    """JSON, alone or inside prose and code fences, to a value of `pydantic_object`: a pydantic model, a
    dataclass, a TypedDict or any other type pydantic can check.

    A stream gives the value once, as soon as its JSON is whole: half a value is never checked or given.
    """

    never_blocks = True

    def __init__(self, pydantic_object: type[T], *, name: str | None = None) -> None:
        if pydantic_object is None:
            raise InvalidConfig("PydanticOutputParser needs the type of the answer.", hint="pydantic_object=MyModel")
        self.pydantic_object = pydantic_object
        self.name = name

    @cached_property
    def _adapter(self) -> TypeAdapter[T]:
        return TypeAdapter(self.pydantic_object)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_adapter"}

    @property
    def OutputType(self) -> Any:
        return self.pydantic_object

    def parse(self, text: str) -> T:
        """The value. Raises `OutputParserException` that says what does not fit, and where."""
        return self._check(find_json(text), text)

    def get_format_instructions(self) -> str:
        return schema_instructions(self._adapter.json_schema())

    def _check(self, value: Any, text: str) -> T:
        try:
            # as JSON, so that strict types still take dates and the like in the form JSON has for them
            return self._adapter.validate_json(to_json(value, inf_nan_mode="constants"))
        except ValidationError as error:
            name = getattr(self.pydantic_object, "__name__", str(self.pydantic_object))
            faults = "; ".join(
                f"{'.'.join(map(str, fault['loc'])) or 'the answer'}: {fault['msg']} (got {fault['input']!r:.80})"
                for fault in error.errors(include_url=False, include_context=False)
            )
            raise OutputParserException(f"The answer is no {name}: {faults}.", llm_output=text) from error

    def _feed(self) -> Feed[T]:
        return _CheckedFeed(self)


class _CheckedFeed(Feed[T]):
    def __init__(self, parser: PydanticOutputParser[T]) -> None:
        self._parser = parser
        self._finder = JsonFinder()
        self._given = False

    def feed(self, piece: str) -> Iterator[T]:
        finder = self._finder
        if not self._given:
            finder.feed(piece)
            if finder.done:
                self._given = True
                yield self._parser._check(finder.value(), finder.text)

    def finish(self) -> Iterator[T]:
        if not self._given:
            yield self._parser._check(self._finder.finish(), self._finder.text)
