"""The calculator: arithmetic from text, and nothing but arithmetic."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runwell.errors import ToolError
from runwell.tools.kits import calculator, evaluate


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("17.5 * 23", 402.5),
        ("2^10", 1024),
        ("1,234,567 + 1", 1234568),
        ("max(1,200)", 200),
        ("round(3.14159, 2)", 3.14),
        ("(1,000 + max(2, 3)) × 2", 2006),
        ("-7 // 2", -4),
        ("sqrt(2) ** 2", pytest.approx(2)),
        ("cos(pi) + log(e)", pytest.approx(0)),
        ("10 ÷ 4", 2.5),
        ("3 \N{MINUS SIGN} 5", -2),
        ("2 · 3", 6),
        ("7 % 4", 3),
    ],
)
def test_what_it_understands(text: str, value: Any) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "().__class__",
        "x + 1",
        "'a' * 3",
        "[1, 2]",
        "1,23",
        "1 / 0",
        "9 ** 9 ** 9",
        "(-8) ** 0.5",
        "exp(1000)",
        "sqrt(-1)",
        "lambda: 1",
        "True + 1",
        "sqrt(x=4)",
        "",
        "1 +",
        "(" * 300,
        "9" * 3000,
    ],
)
def test_everything_else_is_told_to_the_model(text: str) -> None:
    with pytest.raises(ToolError):
        evaluate(text)


def test_the_tool(driver: Any) -> None:
    assert driver.invoke(calculator, {"expression": "0.1 + 0.2"}) == "0.3"
    assert driver.invoke(calculator, {"expression": "2 ** 100"}) == "1267650600228229401496703205376"
    assert calculator.read_only
    answer = driver.invoke(
        calculator.model_copy(update={"handle_tool_error": True}),
        {"type": "tool_call", "name": "calculator", "id": "1", "args": {"expression": "1/0"}},
    )
    assert (answer.status, "division by zero" in answer.text) == ("error", True)


@given(st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9), st.sampled_from("+-*"))
def test_it_agrees_with_python_however_thousands_are_written(first: int, second: int, operator: str) -> None:
    assert evaluate(f"({first:,}) {operator} ({second:,})") == evaluate(f"({first}) {operator} ({second})")


NUMBERS = st.integers(-(10**30), 10**30) | st.floats() | st.sampled_from([10**9, -(10**9), 0, 1e308, 2**9999])
EXPRESSIONS = st.recursive(
    NUMBERS.map(lambda number: f"({number})"),
    lambda inner: st.one_of(
        st.builds(
            lambda a, op, b: f"({a}{op}{b})", inner, st.sampled_from(["+", "-", "*", "/", "//", "%", "**"]), inner
        ),
        st.builds(
            lambda name, args: f"{name}({','.join(args)})",
            st.sampled_from(["round", "log", "exp", "sqrt", "floor", "ceil", "max", "abs", "tan"]),
            st.lists(inner, max_size=3),
        ),
    ),
    max_leaves=8,
)


@example("round(10, -1000000000)")
@example("round(1.5, 1000000000)")
@example("(2**9000)*" * 190 + "1")
@example("(-1) ** 0.5 + max(1, (-2) ** 0.1)")
@given(EXPRESSIONS)
@settings(deadline=2_000)
def test_any_expression_is_done_at_once(text: str) -> None:
    try:
        value = evaluate(text)
    except ToolError:
        return
    assert math.isfinite(value)


@given(st.text(max_size=60))
def test_any_text_gives_a_number_or_a_tool_error(text: str) -> None:
    try:
        value = evaluate(text)
    except ToolError:
        return
    assert math.isfinite(value)


def test_what_cannot_be_read_is_told_without_a_file_and_a_line() -> None:
    with pytest.raises(ToolError, match=r"^'5!' cannot be worked out: invalid syntax$"):
        evaluate("5!")
