"""`JsonOutputParser`: JSON out of what a model wrote, also while it writes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from runwell.errors import InvalidConfig, OutputParserException
from runwell.parsers.instructions import ANY_JSON, schema_instructions
from runwell.parsers.json_diff import json_diff
from runwell.parsers.json_finder import JsonFinder, find_json
from runwell.parsers.pace import Pace
from runwell.parsers.parser import BaseTransformOutputParser, Feed

__all__ = ["JsonOutputParser", "SimpleJsonOutputParser"]

log = logging.getLogger(__name__)

_NOTHING = object()
_DIFF = 32
"""Comparing an entry takes this many times as long as copying it."""


class JsonOutputParser(BaseTransformOutputParser[Any]):
    """JSON, alone or inside prose and code fences, to dicts, lists, strings, numbers.

    A stream gives the value so far each time it grows (a long one less often, so that the work stays linear in the
    length of the text): keys are never lost again, strings lengthen, a number appears when it is whole. With `diff`,
    it gives the changes instead, as JSON Patch operations (RFC 6902).

    Text that breaks off in the middle of the JSON raises when it is parsed whole. A stream has shown what
    there is by then: it ends with that value, and a warning is logged. `on_cut="raise"` makes both raise,
    `on_cut="keep"` makes both keep what is there.

    `pydantic_object` (any type pydantic knows) is only for `get_format_instructions`; to check the answer
    against it, use `PydanticOutputParser`.
    """

    never_blocks = True

    def __init__(
        self,
        *,
        pydantic_object: Any = None,
        diff: bool = False,
        on_cut: Literal["raise", "keep"] | None = None,
        name: str | None = None,
    ) -> None:
        if on_cut not in ("raise", "keep", None):
            raise InvalidConfig(f"on_cut is 'raise', 'keep' or None, not {on_cut!r}.")
        self.pydantic_object = pydantic_object
        self.diff = diff
        self.streams_snapshots = not diff
        self.on_cut = on_cut
        self.name = name

    def parse(self, text: str) -> Any:
        """The value. Raises `OutputParserException` when there is none, it is broken, or it is cut off."""
        return find_json(text, allow_cut=self.on_cut == "keep")

    def get_format_instructions(self) -> str:
        schema = self.json_schema()
        return ANY_JSON if schema is None else schema_instructions(schema)

    def json_schema(self) -> Mapping[str, Any] | None:
        """The JSON Schema of `pydantic_object`, None without one. A dict is taken to be a schema."""
        wanted = self.pydantic_object
        if wanted is None or isinstance(wanted, Mapping):
            return wanted
        from runwell.schemas.type_schema import type_schema

        return type_schema(wanted, f"pydantic_object={wanted!r} has no JSON schema", "Use a type that JSON can say.")[0]

    def _feed(self) -> Feed[Any]:
        return _JsonFeed(self)


class _JsonFeed(Feed[Any]):
    def __init__(self, parser: JsonOutputParser) -> None:
        self._finder = JsonFinder()
        self._on_cut = parser.on_cut
        self._diff = parser.diff
        self._shown: Any = _NOTHING
        self._pace = Pace()
        self._more = False

    def feed(self, piece: str) -> Iterator[Any]:
        finder = self._finder
        self._pace.read(len(piece))
        self._more = finder.feed(piece) or self._more
        if self._more and finder.started and (finder.done or self._due()):
            self._more = False
            yield from self._show(finder.value())

    def _due(self) -> bool:
        entries, characters = self._finder.size()
        return self._pace.due(entries * _DIFF if self._diff else entries, characters)

    def finish(self) -> Iterator[Any]:
        finder = self._finder
        if self._more and finder.started:
            yield from self._show(finder.value())
        if not finder.started:
            yield from self._show(finder.finish(allow_cut=self._on_cut == "keep"))
        elif not finder.done and self._on_cut != "keep":
            try:
                finder.finish()
            except OutputParserException as error:
                if self._on_cut == "raise":
                    raise
                log.warning("A stream ended in the middle of its JSON: %s", error.message)

    def _show(self, value: Any) -> Iterator[Any]:
        if not self._diff:
            yield value
            return
        changes = json_diff(self._shown, value) if self._shown is not _NOTHING else [_whole(value)]
        self._shown = value
        if changes:
            yield changes


def _whole(value: Any) -> dict[str, Any]:
    return {"op": "replace", "path": "", "value": value}


SimpleJsonOutputParser = JsonOutputParser
