"""Finds the JSON value in what a model wrote, while it is being written.

The value is the first object or list that stands at the beginning of a line, or behind a code fence; within
a line of prose, only one that plainly is JSON (`{"`, `["`, `[{`, `[[`), so that `[1]`, `{name}` and `{}`
in a sentence are taken for what they are. Fenced blocks of another language are passed over. Quotes are
respected, so a value may itself contain fences. Once a value has shown a first key or item, text that
breaks it is an error: a fragment from further down is never returned in its place.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic_core import from_json

from runwell.errors import OutputParserException
from runwell.parsers.json_reader import JsonReader, MalformedJson

__all__ = ["JsonFinder", "find_json"]

_MARK = re.compile(r"[\[{\n]")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})\s*([\w+#.-]*)\s*$")
_WHOLE_FENCE = re.compile(r"\s*(`{3,}|~{3,})[^\n]*\n(.*?)\n?\s*\1\s*$", re.DOTALL)
_JSON_FENCES = {"", "json", "jsonc", "json5", "jsonl", "ndjson", "javascript", "js", "text", "txt", "plaintext"}
_PROSE = "x"  # stands for a line's beginning that is longer than any fence
_MAX_FENCE = 64


class JsonFinder:
    """Feed it text in pieces; `value()` is what can be shown so far. Not safe to share between threads."""

    __slots__ = ("_foreign_fence", "_inline", "_line", "_opener", "_reader", "_texts", "changed")

    def __init__(self) -> None:
        self._reader: JsonReader | None = None
        self._texts: list[str] = []  # everything fed, for the error text
        self._line = ""  # the current line up to here
        self._foreign_fence = ""  # inside a fenced block of another language: its marks
        self._inline = False  # the candidate stands within a line of prose
        self._opener = ""  # an inline `{` or `[` whose next character is not here yet
        self.changed = False

    @property
    def started(self) -> bool:
        """Whether there is a value to show."""
        return self._reader is not None and self._reader.started

    @property
    def done(self) -> bool:
        """Whether the value is complete; what follows it is prose."""
        return self._reader is not None and self._reader.done

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def value(self) -> Any:
        """The value so far (see `JsonReader.value`), None when none has begun."""
        return None if self._reader is None else self._reader.value()

    def size(self) -> tuple[int, int]:
        """How many entries and characters `value()` copies."""
        return (0, 0) if self._reader is None else self._reader.size()

    def feed(self, piece: str) -> bool:
        """Read on; True when `value()` has changed. Raises `OutputParserException` for a broken value."""
        self.changed = False
        self._texts.append(piece)
        index, end = 0, len(piece)
        while index < end:
            reader = self._reader
            if reader is None:
                index = self._seek(piece, index)
                continue
            if reader.done:
                break
            try:
                index = reader.feed(piece, index)
            except MalformedJson as fault:
                if reader.shows_content:
                    raise self._broken(reader, fault) from None
                self._reader = None
                self._line = _PROSE
                index = fault.index
            else:
                self.changed = self.changed or reader.changed
        return self.changed

    def finish(self, *, allow_cut: bool = False) -> Any:
        """There is no more text: the value.

        Raises `OutputParserException` when there is none, or when it is cut off and `allow_cut` is false.
        """
        reader = self._reader
        if reader is None:
            return self._scalar()
        if reader.finish() or (allow_cut and reader.started):
            return reader.value()
        raise OutputParserException(
            f"The JSON is cut off {reader.where()}; the text ends with {self.text[-60:]!r}.",
            llm_output=self.text,
            hint="Raise the model's max_tokens; or take what is there with parse_partial_json(text) or "
            'JsonOutputParser(on_cut="keep").',
        )

    # -- looking for the beginning

    def _seek(self, piece: str, index: int) -> int:
        """Look for a candidate from `index` on; returns where to go on (a reader is set if one was found)."""
        if self._opener:
            return self._decide_inline(piece, index)
        match = _MARK.search(piece, index)
        if match is None:
            self._extend_line(piece[index:])
            return len(piece)
        at = match.start()
        self._extend_line(piece[index:at])
        if piece[at] == "\n":
            self._end_line()
            return at + 1
        if self._foreign_fence:
            self._line = _PROSE
            return at + 1
        fence = _FENCE.match(self._line)
        if not self._line.strip() or (fence is not None and fence.group(2).lower() in _JSON_FENCES):
            self._begin(piece[at])
            return at + 1
        self._opener = piece[at]
        return at + 1

    def _decide_inline(self, piece: str, index: int) -> int:
        while index < len(piece) and piece[index] in " \t\r\n":
            index += 1
        if index == len(piece):
            return index
        opener, self._opener = self._opener, ""
        self._line = _PROSE
        if piece[index] in ('"' if opener == "{" else '"{['):
            self._begin(opener)
        return index

    def _begin(self, opener: str) -> None:
        self._reader = JsonReader()
        self._reader.feed(opener)
        self.changed = True

    def _extend_line(self, text: str) -> None:
        self._line = (self._line + text) if len(self._line) + len(text) <= _MAX_FENCE else _PROSE

    def _end_line(self) -> None:
        fence = _FENCE.match(self._line)
        self._line = ""
        if fence is None:
            return
        marks, language = fence.groups()
        if self._foreign_fence:
            if marks.startswith(self._foreign_fence) and not language:
                self._foreign_fence = ""
        elif language.lower() not in _JSON_FENCES:
            self._foreign_fence = marks

    # -- endings

    def _scalar(self) -> Any:
        """No object or list: the whole text may still be a string, number or literal."""
        text = self.text
        fenced = _WHOLE_FENCE.match(text)
        try:
            return from_json(fenced.group(2) if fenced else text.strip())
        except ValueError:
            raise OutputParserException(
                f"There is no JSON in the text: {text[:200]!r}.",
                llm_output=text,
                hint="Ask for JSON in the prompt (parser.get_format_instructions()), or use "
                "model.with_structured_output(schema).",
            ) from None

    def _broken(self, reader: JsonReader, fault: MalformedJson) -> OutputParserException:
        text = self.text
        at = len(text) - len(self._texts[-1]) + fault.index
        line = text.count("\n", 0, at) + 1
        column = at - (text.rfind("\n", 0, at) + 1) + 1
        return OutputParserException(
            f"The JSON breaks at line {line}, column {column}, {reader.where()}: {fault.problem}. "
            f"Around it: {text[max(0, at - 40) : at + 20]!r}.",
            llm_output=text,
            hint="Let a model repair it with OutputFixingParser, or use model.with_structured_output(schema).",
        )


def find_json(text: str, *, allow_cut: bool = False) -> Any:
    """The JSON value in `text`: the whole text, or the first one in its prose or code fences.

    Raises `OutputParserException` when there is none, it is broken, or it is cut off (unless `allow_cut`:
    then what is there, by the rules of `JsonReader`). Linear in the length of the text.
    """
    try:
        return from_json(text)
    except ValueError:
        finder = JsonFinder()
        finder.feed(text)
        return finder.finish(allow_cut=allow_cut)
