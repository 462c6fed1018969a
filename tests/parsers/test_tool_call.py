"""One call in the form that providers send."""

from __future__ import annotations

import pytest

from runwell.errors import InvalidInput, OutputParserException
from runwell.parsers import parse_tool_call


def raw(arguments):
    return {"id": "c1", "type": "function", "function": {"name": "look", "arguments": arguments}}


def test_a_call_is_read():
    call = {"name": "look", "args": {"x": 1}, "id": "c1", "type": "tool_call"}
    assert parse_tool_call(raw('{"x": 1}')) == parse_tool_call(raw({"x": 1})) == call
    assert parse_tool_call(raw('{"x": 1}'), return_id=False) == {"name": "look", "args": {"x": 1}}
    assert parse_tool_call(raw(""))["args"] == {}
    assert parse_tool_call(raw('{"x": "a\nb"}'))["args"] == {"x": "a\nb"}


@pytest.mark.parametrize("arguments", ['{"x": ', "[1]", "7", "{'x': 1}"])
def test_what_is_no_object_is_told_with_the_text(arguments):
    with pytest.raises(OutputParserException, match="'look'") as caught:
        parse_tool_call(raw(arguments))
    assert caught.value.llm_output == arguments


def test_half_a_call_is_read_as_far_as_it_goes():
    assert parse_tool_call(raw('{"x": "a", "y": '), partial=True)["args"] == {"x": "a"}
    assert parse_tool_call(raw(""), partial=True) is None
    assert parse_tool_call(raw("[1]"), partial=True) is None
    assert parse_tool_call({"id": "c1"}, partial=True) is None


def test_what_is_no_call_is_told():
    with pytest.raises(InvalidInput, match="no call"):
        parse_tool_call({"name": "look"})
    with pytest.raises(OutputParserException, match="control character"):
        parse_tool_call(raw('{"x": "a\nb"}'), strict=True)
