"""Examples of tool calls as messages."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from runwell.errors import InvalidInput
from runwell.messages import validate_history
from runwell.tools import tool_example_to_messages


class Person(BaseModel):
    """A person."""

    name: str
    age: int | None = None


def test_an_example_is_a_valid_piece_of_history() -> None:
    calls = [Person(name="Ann"), {"name": "search", "args": {"q": "Bo"}}]
    messages = tool_example_to_messages("Ann and Bo", calls, ai_response="Two people.")
    assert [each.type for each in messages] == ["human", "ai", "tool", "tool", "ai"]
    assert [(call["name"], call["args"]) for call in messages[1].tool_calls] == [
        ("Person", {"name": "Ann", "age": None}),
        ("search", {"q": "Bo"}),
    ]
    assert [each.tool_call_id for each in messages[2:4]] == [call["id"] for call in messages[1].tool_calls]
    assert {each.text for each in messages[2:4]} == {"You have correctly called this tool."}
    assert messages == tool_example_to_messages("Ann and Bo", calls, ai_response="Two people.")
    assert validate_history(messages) in (None, [])


def test_outputs_are_one_for_each_call() -> None:
    messages = tool_example_to_messages("x", [Person(name="Ann")], ["found"])
    assert (messages[-1].type, messages[-1].text) == ("tool", "found")
    with pytest.raises(InvalidInput, match="1 tool calls and 2 outputs"):
        tool_example_to_messages("x", [Person(name="Ann")], ["a", "b"])
    with pytest.raises(InvalidInput, match="is no tool call"):
        tool_example_to_messages("x", ["Ann"])
