"""Single values: one of a set, yes or no, a date, or the groups of a regular expression."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from enum import Enum
from typing import Any

from runwell.errors import InvalidInput, OutputParserException
from runwell.parsers.parser import BaseOutputParser

__all__ = ["BooleanOutputParser", "DatetimeOutputParser", "EnumOutputParser", "RegexParser"]


class EnumOutputParser(BaseOutputParser[Enum]):
    """One of an enum's values, spaces and quotes around it aside, to its member."""

    never_blocks = True

    def __init__(self, enum: type[Enum], *, name: str | None = None) -> None:
        given: Any = enum
        if not (isinstance(given, type) and issubclass(given, Enum)):
            raise InvalidInput(f"enum is an Enum class, not {enum!r:.200}.", hint="EnumOutputParser(enum=Colour)")
        self.enum = enum
        self.name = name
        self._members = {str(member.value): member for member in enum}
        if len(self._members) < len(list(enum)):
            raise InvalidInput(f"Two members of {enum.__name__} have values that are written alike.")

    @property
    def OutputType(self) -> Any:
        return self.enum

    def parse(self, text: str) -> Enum:
        """The member. Raises `OutputParserException` that lists the values."""
        found = text.strip().strip("\"'`").strip()
        if found in self._members:
            return self._members[found]
        raise OutputParserException(
            f"{found[:200]!r} is not one of {', '.join(map(repr, self._members))}.", llm_output=text
        )

    def get_format_instructions(self) -> str:
        return f"Answer with one of these values and nothing else: {', '.join(self._members)}"


class BooleanOutputParser(BaseOutputParser[bool]):
    """A text that says YES or NO, in any case, to True or False. One that says both, or neither, is refused."""

    never_blocks = True

    def __init__(self, true_val: str = "YES", false_val: str = "NO", *, name: str | None = None) -> None:
        self.true_val = true_val
        self.false_val = false_val
        self.name = name

    def parse(self, text: str) -> bool:
        """True or False. Raises `OutputParserException` when the text says both or neither."""
        true, false = (bool(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.I)) for word in self._words())
        if true != false:
            return true
        raise OutputParserException(
            f"The text says {'both' if true else 'neither'} {self.true_val!r} {'and' if true else 'nor'} "
            f"{self.false_val!r}: {text[:200]!r}.",
            llm_output=text,
        )

    def _words(self) -> tuple[str, str]:
        return self.true_val, self.false_val

    def get_format_instructions(self) -> str:
        return f"Answer with {self.true_val} or {self.false_val} and nothing else."


class DatetimeOutputParser(BaseOutputParser[datetime]):
    """A moment written in `format` (the codes of `datetime.strptime`) to a datetime."""

    never_blocks = True

    def __init__(self, format: str = "%Y-%m-%dT%H:%M:%S.%fZ", *, name: str | None = None) -> None:
        self.format = format
        self.name = name

    def parse(self, text: str) -> datetime:
        """The moment; without a time zone unless the format holds `%z`. Raises `OutputParserException`."""
        try:
            return datetime.strptime(text.strip().strip("\"'`"), self.format)
        except ValueError as error:
            raise OutputParserException(f"This is no moment: {error}.", llm_output=text) from error

    def get_format_instructions(self) -> str:
        examples = [datetime(2024, 3, 1, 9, 30, 15, 250000), datetime(1999, 12, 31, 23, 59, 59, 1)]
        written = " or ".join(moment.strftime(self.format) for moment in examples)
        return f"Answer with a moment in the format {self.format!r} and nothing else, for example {written}"


class RegexParser(BaseOutputParser[dict[str, str]]):
    """The groups of a regular expression, by the names in `output_keys`.

    Text that does not match raises, unless `default_output_key` names the key that then takes all of it.
    """

    never_blocks = True

    def __init__(
        self,
        regex: str,
        output_keys: Sequence[str],
        default_output_key: str | None = None,
        *,
        name: str | None = None,
    ) -> None:
        self.regex = regex
        self.output_keys = list(output_keys)
        self.default_output_key = default_output_key
        self.name = name
        try:
            self._pattern = re.compile(regex)
        except re.error as error:
            raise InvalidInput(f"{regex!r} is no regular expression: {error}.") from error
        if self._pattern.groups < len(self.output_keys):
            raise InvalidInput(
                f"{regex!r} has {self._pattern.groups} groups, which cannot fill {len(self.output_keys)} keys."
            )

    def parse(self, text: str) -> dict[str, str]:
        """The groups' texts, empty for a group that took no part. Raises `OutputParserException`."""
        match = self._pattern.search(text)
        if match is not None:
            return {key: match.group(number) or "" for number, key in enumerate(self.output_keys, 1)}
        if self.default_output_key is None:
            raise OutputParserException(f"The text does not match {self.regex!r}: {text[:200]!r}.", llm_output=text)
        return {key: text if key == self.default_output_key else "" for key in self.output_keys}
