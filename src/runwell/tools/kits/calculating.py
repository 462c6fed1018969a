"""A calculator."""

from __future__ import annotations

from typing import Annotated

from runwell.tools.decorator import tool
from runwell.tools.kits.arithmetic import evaluate

__all__ = ["calculator"]


@tool(read_only=True, idempotent=True, open_world=False)
def calculator(
    expression: Annotated[str, "Numbers, pi, e, + - * / // ** %, parentheses, and functions such as sqrt and log."],
) -> str:
    """Work out an arithmetic expression. Use it for any calculation."""
    value = evaluate(expression)
    return str(value) if isinstance(value, int) else f"{value:.15g}"
