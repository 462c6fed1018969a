"""What is printed is printed as it is, and is JSON where JSON was asked for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from runwell.cli.screen import jsonable, one_line, safe, short
from runwell.messages import HumanMessage


@given(st.text())
def test_safe_text_steers_nothing_and_loses_nothing_visible(text: str) -> None:
    shown = safe(text)
    assert not any((ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 for c in shown)
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    if text.isprintable():
        assert shown == text


def test_text_that_steers_is_written_out() -> None:
    assert safe("a\x1b[2Jb\u202ec\r\nd\te") == "a\\x1b[2Jb\\u202ec\nd\te"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers() | st.tuples(st.text()), inner),
        max_leaves=10,
    )
)
def test_any_value_becomes_json(value: Any) -> None:
    json.dumps(jsonable(value), allow_nan=False)


def test_values_keep_their_fields() -> None:
    @dataclass
    class Point:
        x: int
        inside: Any

    class Person(BaseModel):
        name: str

    assert jsonable(Point(1, Person(name="Ada"))) == {"x": 1, "inside": {"name": "Ada"}}
    assert jsonable({"m": HumanMessage("hi")})["m"]["content"] == "hi"


def test_short_is_one_line_of_at_most_its_width() -> None:
    assert short("a\n b   c") == "a b c"
    assert short("x" * 200, 10) == "x" * 9 + "…"
    assert one_line({"a": [1, "é"]}) == '{"a": [1, "é"]}'
