"""What is told of a value that fits none of several schemas."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from runwell.schemas.branches import told_problems

ANSWER = {
    "anyOf": [
        {
            "type": "object",
            "properties": {
                "action": {"const": "accept"},
                "content": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
            },
            "required": ["action", "content"],
        },
        {"type": "object", "properties": {"action": {"enum": ["decline", "cancel"]}}, "required": ["action"]},
    ]
}
EXACT = {"oneOf": [{"type": "integer", "minimum": 3}, {"type": "string"}]}


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        (ANSWER, {"action": "accept", "content": {"n": "x"}}, [(("content", "n"), '"x" is not of type "integer"')]),
        (ANSWER, {"action": "accept", "content": {}}, [(("content",), '"n" is a required property')]),
        (ANSWER, {"action": "accept"}, [((), '"content" is a required property')]),
        (ANSWER, 3, [((), '3 is not of type "object"')]),
        (EXACT, 1, [((), "1 is less than the minimum of 3")]),
        (EXACT, None, [((), 'null is not of type "integer", or null is not of type "string"')]),
        ({"properties": {"a": ANSWER}}, {"a": {"action": "accept"}}, [(("a",), '"content" is a required property')]),
        (
            {"oneOf": [{"type": "integer"}, {"type": "number"}]},
            1,
            [((), "1 is valid under more than one of the schemas listed in the 'oneOf' keyword")],
        ),
        ({"type": "string"}, 1, [((), '1 is not of type "string"')]),
    ],
)
def test_the_branch_that_was_meant_is_told(schema: dict[str, Any], value: Any, told: Any) -> None:
    assert told_problems(jsonschema_rs.validator_for(schema).iter_errors(value)) == told
