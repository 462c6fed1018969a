"""Arithmetic from text, without evaluating code."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

from runwell.errors import ToolError

__all__ = ["evaluate"]

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: dict[type, Callable[[Any], Any]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}


def _round(number: int | float, digits: Any = 0) -> int | float:
    """As Python's, which for a thousand million digits before the point would run for ever."""
    if not isinstance(digits, int) or abs(digits) > _MOST_DIGITS:
        raise ToolError(f"round(number, digits) takes a whole number of digits, at most {_MOST_DIGITS} either way.")
    return round(number, digits) if digits else round(number)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "ceil": math.ceil,
    "cos": math.cos,
    "exp": math.exp,
    "floor": math.floor,
    "log": math.log,
    "log10": math.log10,
    "log2": math.log2,
    "max": max,
    "min": min,
    "round": _round,
    "sin": math.sin,
    "sqrt": math.sqrt,
    "tan": math.tan,
}
_CONSTANTS = {"pi": math.pi, "e": math.e}
_WRITTEN = str.maketrans({"×": "*", "·": "*", "÷": "/", "\N{MINUS SIGN}": "-", "^": "**"})
_MOST_BITS = 10_000
"""9**9**9 would run for ever."""
_MOST_DIGITS = 3_000
_MOST_CHARS = 2_000


def evaluate(expression: str) -> int | float:
    """The value of an arithmetic expression. Raises ToolError, in words for a model, for anything else.

    `×`, `÷`, `−` and `^` (a power) are understood, and commas between thousands. Angles are in radians.
    """
    if len(expression) > _MOST_CHARS:
        raise ToolError(f"The expression has {len(expression)} characters; at most {_MOST_CHARS} are worked out.")
    text = _without_thousands(expression.translate(_WRITTEN))
    try:
        value = _value(ast.parse(text.strip(), mode="eval").body)
    except SyntaxError as error:  # its text names a file and a line, and there are none
        raise ToolError(f"{expression!r:.200} cannot be worked out: {error.msg}") from error
    except (ArithmeticError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise ToolError(f"{expression!r:.200} cannot be worked out: {error}") from error
    if isinstance(value, complex) or (isinstance(value, float) and not math.isfinite(value)):
        raise ToolError(f"{expression!r:.200} is {value}, which is not a number on the line.")
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise ToolError(f"{expression!r:.200} is too large to write down.")
    return value


def _without_thousands(text: str) -> str:
    """Without the commas of 1,234,567. In the parentheses of a function a comma separates: max(1,200) is 200."""
    kept: list[str] = []
    inside: list[bool] = []
    for at, char in enumerate(text):
        if char == "(":
            inside.append("".join(kept).rstrip()[-1:].isalnum())
        elif char == ")" and inside:
            inside.pop()
        elif char == "," and not any(inside[-1:]):
            group = text[at + 1 : at + 4]
            after = text[at + 4 : at + 5]
            if text[at - 1 : at].isdigit() and len(group) == 3 and group.isdigit() and not after.isdigit():
                continue
        kept.append(char)
    return "".join(kept)


def _value(node: ast.AST) -> int | float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            first, second = _value(left), _value(right)
            if isinstance(op, ast.Pow) and _bits(first) * second > _MOST_BITS:
                raise ToolError("The power is too large to work out.")
            return _BINARY[type(op)](first, second)  # type: ignore[no-any-return]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](_value(operand))  # type: ignore[no-any-return]
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_value(each) for each in args))  # type: ignore[no-any-return]
        case _:
            raise ToolError(f"Only numbers, pi, e, + - * / // ** % and {', '.join(_FUNCTIONS)} are understood.")


def _bits(number: int | float) -> int:
    return number.bit_length() if isinstance(number, int) else 0  # floats overflow by themselves
