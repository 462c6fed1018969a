"""Parsers: from what a model wrote to values, whole or while it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.errors import OutputParserException
    from runwell.parsers.json import JsonOutputParser, SimpleJsonOutputParser
    from runwell.parsers.lists import (
        CommaSeparatedListOutputParser,
        ListOutputParser,
        MarkdownListOutputParser,
        NumberedListOutputParser,
    )
    from runwell.parsers.parser import BaseOutputParser, BaseTransformOutputParser
    from runwell.parsers.partial_json import parse_json_markdown, parse_partial_json
    from runwell.parsers.pydantic import PydanticOutputParser
    from runwell.parsers.repair import OutputFixingParser, RetryOutputParser, RetryWithErrorOutputParser
    from runwell.parsers.scalars import BooleanOutputParser, DatetimeOutputParser, EnumOutputParser, RegexParser
    from runwell.parsers.text import StrOutputParser
    from runwell.parsers.tools import (
        JsonOutputKeyToolsParser,
        JsonOutputToolsParser,
        PydanticToolsParser,
        parse_tool_call,
    )
    from runwell.parsers.xml import XMLOutputParser

_HOME = {
    "BaseOutputParser": "runwell.parsers.parser",
    "BaseTransformOutputParser": "runwell.parsers.parser",
    "BooleanOutputParser": "runwell.parsers.scalars",
    "CommaSeparatedListOutputParser": "runwell.parsers.lists",
    "DatetimeOutputParser": "runwell.parsers.scalars",
    "EnumOutputParser": "runwell.parsers.scalars",
    "JsonOutputKeyToolsParser": "runwell.parsers.tools",
    "JsonOutputParser": "runwell.parsers.json",
    "JsonOutputToolsParser": "runwell.parsers.tools",
    "ListOutputParser": "runwell.parsers.lists",
    "MarkdownListOutputParser": "runwell.parsers.lists",
    "NumberedListOutputParser": "runwell.parsers.lists",
    "OutputFixingParser": "runwell.parsers.repair",
    "OutputParserException": "runwell.errors",
    "PydanticOutputParser": "runwell.parsers.pydantic",
    "PydanticToolsParser": "runwell.parsers.tools",
    "RegexParser": "runwell.parsers.scalars",
    "RetryOutputParser": "runwell.parsers.repair",
    "RetryWithErrorOutputParser": "runwell.parsers.repair",
    "SimpleJsonOutputParser": "runwell.parsers.json",
    "StrOutputParser": "runwell.parsers.text",
    "XMLOutputParser": "runwell.parsers.xml",
    "parse_json_markdown": "runwell.parsers.partial_json",
    "parse_partial_json": "runwell.parsers.partial_json",
    "parse_tool_call": "runwell.parsers.tools",
}

__all__ = [
    "BaseOutputParser",
    "BaseTransformOutputParser",
    "BooleanOutputParser",
    "CommaSeparatedListOutputParser",
    "DatetimeOutputParser",
    "EnumOutputParser",
    "JsonOutputKeyToolsParser",
    "JsonOutputParser",
    "JsonOutputToolsParser",
    "ListOutputParser",
    "MarkdownListOutputParser",
    "NumberedListOutputParser",
    "OutputFixingParser",
    "OutputParserException",
    "PydanticOutputParser",
    "PydanticToolsParser",
    "RegexParser",
    "RetryOutputParser",
    "RetryWithErrorOutputParser",
    "SimpleJsonOutputParser",
    "StrOutputParser",
    "XMLOutputParser",
    "parse_json_markdown",
    "parse_partial_json",
    "parse_tool_call",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
