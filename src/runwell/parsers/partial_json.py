"""Reading JSON that may be cut off."""

from __future__ import annotations

from typing import Any

from runwell.errors import OutputParserException
from runwell.parsers.json_finder import find_json
from runwell.parsers.json_reader import JsonReader, MalformedJson

__all__ = ["parse_json_markdown", "parse_partial_json"]


def parse_partial_json(text: str, *, strict: bool = False) -> Any:
    """The value in `text`, which is JSON from its first character and may end anywhere.

    A string that is cut off is kept as far as it goes (an unfinished escape is left out), a key without a
    value is left out, and so is a number or literal that may not be complete: `{"a": 12` gives `{}`, because
    the next digit would change it. None for a text with nothing to show. With `strict`, a text that is cut
    off raises. Raises `OutputParserException` for text that cannot be JSON.
    """
    reader = JsonReader()
    try:
        end = reader.feed(text)
        complete = reader.finish()
    except MalformedJson as fault:
        raise OutputParserException(
            f"This is no JSON, not even cut off: {fault.problem}, at character {fault.index}, "
            f"near {text[max(0, fault.index - 40) : fault.index + 20]!r}.",
            llm_output=text,
        ) from None
    if complete and text[end:].strip():
        raise OutputParserException(
            f"Something follows the JSON value: {text[end : end + 60]!r}.",
            llm_output=text,
            hint="To find JSON inside other text, use parse_json_markdown(text).",
        )
    if strict and not complete:
        raise OutputParserException(f"The JSON is cut off {reader.where()}.", llm_output=text)
    return reader.value()


def parse_json_markdown(text: str) -> Any:
    """The first whole JSON value in `text`, inside prose or code fences or standing alone.

    Raises `OutputParserException` when there is none, it is broken, or it is cut off.
    """
    return find_json(text)
