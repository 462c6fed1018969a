"""Lists in the forms models write them. Each item is passed on as soon as it is whole."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from runwell.parsers.parser import BaseTransformOutputParser, Feed

__all__ = [
    "CommaSeparatedListOutputParser",
    "ListOutputParser",
    "MarkdownListOutputParser",
    "NumberedListOutputParser",
]


class ListOutputParser(BaseTransformOutputParser[list[str]]):
    """Text to a list of strings. A stream gives lists of one item, which add up to the whole list.

    A subclass says where items end (`_cut`) and how they are read (`_items`).
    """

    never_blocks = True

    def __init__(self, *, name: str | None = None) -> None:
        self.name = name

    def _cut(self, text: str, start: int, quoted: bool) -> tuple[int, bool]:
        """Where the last item that is surely whole ends in `text` (0: nowhere), looking from `start` on.

        `quoted` says whether `start` stands within quotes; the second value is the same for the end of `text`.
        """
        raise NotImplementedError

    def _items(self, text: str) -> list[str]:
        """The items in a text that holds only whole ones."""
        raise NotImplementedError

    def parse(self, text: str) -> list[str]:
        """The items, without the spaces around them; empty ones are left out."""
        return self._items(text)

    def _feed(self) -> Feed[list[str]]:
        return _ItemFeed(self)


class _ItemFeed(Feed[list[str]]):
    def __init__(self, parser: ListOutputParser) -> None:
        self._parser = parser
        self._held = ""
        self._quoted = False
        self._empty = True

    def feed(self, piece: str) -> Iterator[list[str]]:
        start = len(self._held)
        self._held += piece
        cut, self._quoted = self._parser._cut(self._held, start, self._quoted)
        if cut:
            whole, self._held = self._held[:cut], self._held[cut:]
            yield from self._single(self._parser._items(whole))

    def finish(self) -> Iterator[list[str]]:
        yield from self._single(self._parser._items(self._held))
        if self._empty:
            yield []

    def _single(self, items: list[str]) -> Iterator[list[str]]:
        for item in items:
            self._empty = False
            yield [item]


class CommaSeparatedListOutputParser(ListOutputParser):
    """`red, "light blue", green` to `["red", "light blue", "green"]`; quotes protect commas, as in CSV."""

    def get_format_instructions(self) -> str:
        return "Answer with a list of values separated by commas and nothing else, for example: `red, blue, green`"

    def _cut(self, text: str, start: int, quoted: bool) -> tuple[int, bool]:
        cut = 0
        for match in _COMMA_OR_QUOTE.finditer(text, start):
            if match.group() == '"':
                quoted = not quoted
            elif not quoted:
                cut = match.end()
        return cut, quoted

    def _items(self, text: str) -> list[str]:
        text = text.strip().strip("`")
        rows = csv.reader(text.splitlines(), skipinitialspace=True)
        return [item.strip() for row in rows for item in row if item.strip()]


class LineListOutputParser(ListOutputParser):
    line: re.Pattern[str]

    def _cut(self, text: str, start: int, quoted: bool) -> tuple[int, bool]:
        return text.rfind("\n", start) + 1, False

    def _items(self, text: str) -> list[str]:
        found = (self.line.match(line) for line in text.splitlines())
        return [match.group(1) for match in found if match is not None]


class NumberedListOutputParser(LineListOutputParser):
    """Lines such as `1. red` or `2) blue` to their texts; other lines are left out."""

    line = re.compile(r"\s*\d+[.)]\s+(\S.*?)\s*$")

    def get_format_instructions(self) -> str:
        return "Answer with a numbered list, one item on each line, for example:\n\n1. red\n2. blue\n3. green"


class MarkdownListOutputParser(LineListOutputParser):
    """Lines such as `- red` or `* blue` to their texts; other lines are left out."""

    line = re.compile(r"\s*[-*+]\s+(\S.*?)\s*$")

    def get_format_instructions(self) -> str:
        return "Answer with a markdown list, one item on each line, for example:\n\n- red\n- blue\n- green"


_COMMA_OR_QUOTE = re.compile(r'[,"\n]')
