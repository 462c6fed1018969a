"""From a tool's return value to the message's content (SEATS B8, E9)."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from runwell.tools import ToolError, tool
from runwell.tools.result import to_content


class Color(str, Enum):  # noqa: UP042 - the form most programs have
    RED = "red"


class Plain(Enum):
    RED = 1


class Model(BaseModel):
    n: int
    day: dt.date


@dataclass
class Data:
    n: int
    inner: Any


class Opaque:
    def __repr__(self) -> str:
        return "<opaque>"


IMAGE = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
TEXT = {"type": "text", "text": "hi"}
LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text", "text"),
        ("", ""),
        ([TEXT, IMAGE], [TEXT, IMAGE]),
        (["a", "b"], [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        (["a", IMAGE], [{"type": "text", "text": "a"}, IMAGE]),
        ([], "[]"),
        ([1, 2], "[1,2]"),
        (["a", 1], '["a",1]'),
        ([{"type": "file", "name": "x"}], '[{"type":"file","name":"x"}]'),
        ([{"type": "invoice", "text": "x"}], '[{"type":"invoice","text":"x"}]'),
        (TEXT, '{"type":"text","text":"hi"}'),
        ({"name": "Zoë", "city": "東京"}, '{"name":"Zoë","city":"東京"}'),
        (5, "5"),
        (1.5, "1.5"),
        (float("nan"), "NaN"),
        (True, "true"),
        (None, "null"),
        (Color.RED, "red"),
        (Plain.RED, "1"),
        ({"c": Color.RED}, '{"c":"red"}'),
        (Model(n=1, day=dt.date(2024, 2, 1)), '{"n":1,"day":"2024-02-01"}'),
        (Data(1, {"a": (1, 2)}), '{"n":1,"inner":{"a":[1,2]}}'),
        (dt.datetime(2024, 2, 1, 12, 30), '"2024-02-01T12:30:00"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (Decimal("1.10"), '"1.10"'),
        ({"a": b"\xff\x00"}, '{"a":"_wA="}'),
        (Opaque(), "<opaque>"),
        ({"a": Opaque()}, '{"a":"<opaque>"}'),
        (Data(1, Opaque()), '{"n":1,"inner":"<opaque>"}'),
        (LOOP, "[[...]]"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_content(value: Any, content: Any) -> None:
    assert to_content(value) == content


def test_a_string_of_a_class_of_its_own_becomes_plain() -> None:
    class Sub(str): ...

    assert type(to_content(Sub("x"))) is str


def test_numpy_values_are_written_as_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    assert to_content({"a": numpy.float32(0.5), "b": numpy.array([1, 2])}) == '{"a":0.5,"b":[1,2]}'
    assert to_content(numpy.array([1, 2])) == "[1,2]"


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@given(st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10))
def test_json_values_come_back_as_they_were(value: Any) -> None:
    content = to_content(value)
    if isinstance(value, str):
        assert content == value
    elif isinstance(content, list):
        assert [
            each["text"] if isinstance(item, str) else each for each, item in zip(content, value, strict=True)
        ] == value
    else:
        assert json.loads(content) == value


@given(
    st.from_type(type).flatmap(lambda kind: st.just(kind))
    | st.functions()
    | st.binary()
    | st.complex_numbers()
    | st.sets(st.integers())
)
def test_nothing_a_tool_returns_raises(value: type | Callable[..., Any] | Any) -> None:
    assert isinstance(to_content(value), str)


HALF = "name\ud800 é"


@pytest.mark.parametrize(
    "result",
    [HALF, {"name": HALF}, [HALF, "b"], [{"type": "text", "text": HALF}], HALF.encode("utf-8", "surrogatepass")],
    ids=["text", "dict", "texts", "block", "bytes"],
)
def test_half_a_character_is_spelled_out_so_that_the_history_can_be_sent(result: Any) -> None:
    @tool(description="d")
    def look(fail: bool = False) -> Any:
        if fail:
            raise ToolError(HALF)
        return result

    answer = look.invoke({"type": "tool_call", "name": "look", "args": {}, "id": "1"})
    json.dumps(answer.content, ensure_ascii=False).encode()
    told = look.model_copy(update={"handle_tool_error": True})
    failed = told.invoke({"type": "tool_call", "name": "look", "args": {"fail": True}, "id": "1"})
    assert failed.text == "name\\ud800 é"
