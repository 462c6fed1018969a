"""What strict providers make a model send for an optional key counts as not given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NotRequired, TypedDict

import pytest
from pydantic import BaseModel

from runwell.errors import OutputParserException
from runwell.schemas.strict import strict_schema
from runwell.schemas.structured import StructuredSchema


class Line(BaseModel):
    amount: int = 1
    note: str | None = "none"


class Order(BaseModel):
    lines: list[Line]
    urgent: bool = False


@dataclass
class Point:
    x: int
    tags: list[str] = field(default_factory=list)


class Typed(TypedDict):
    a: int
    b: NotRequired[int]


JSON = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("schema", "given", "value"),
    [
        (
            Order,
            {"lines": [{"amount": None, "note": None}], "urgent": None},
            Order(lines=[Line(amount=1, note=None)], urgent=False),
        ),
        (Point, {"x": 1, "tags": None}, Point(1, [])),
        (Typed, {"a": 1, "b": None}, {"a": 1}),
        (JSON, {"a": 1, "b": None}, {"a": 1}),
        (list[Line], {"value": [{"amount": None, "note": "x"}]}, [Line(note="x")]),
    ],
)
def test_a_null_is_not_given(schema: Any, given: Any, value: Any) -> None:
    read = StructuredSchema(schema)
    assert read.parse(given) == value
    assert set(strict_schema(read.json_schema, "It")["required"]) == set(given)


@pytest.mark.parametrize(("schema", "told"), [(Typed, "a: "), (Point, "x: "), (JSON, '"a" is a required property')])
def test_a_null_for_what_is_required_is_told(schema: Any, told: str) -> None:
    given = {"x": None} if schema is Point else {"a": None, "b": None}
    with pytest.raises(OutputParserException, match=told):
        StructuredSchema(schema).parse(given)
    assert None in given.values()
