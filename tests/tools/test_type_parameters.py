"""Tools that are generic functions: `def look[T: (int, str)](what: T)` of Python 3.12."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from runwell import tool
from runwell.errors import ToolArgumentsError
from runwell.tools import convert_to_openai_tool


def as_python_3_12_makes_it() -> Callable[..., Any]:
    """A function whose parameter knows the name of its type from `__type_params__` alone."""

    def look(what, many):  # type: ignore[no-untyped-def]
        """Look."""
        return f"{what!r} {many!r}"

    look.__annotations__ = {"what": "Only", "many": "list[Only]", "return": "str"}
    look.__type_params__ = (TypeVar("Only", int, str),)  # type: ignore[attr-defined]
    return look


def in_its_syntax() -> Callable[..., Any]:
    source = '''
from __future__ import annotations
def look[Only: (int, str)](what: Only, many: list[Only]) -> str:
    """Look."""
    return f"{what!r} {many!r}"
'''
    names: dict[str, Any] = {"__name__": "generic"}
    exec(source, names)
    return names["look"]  # type: ignore[no-any-return]


WAYS = [as_python_3_12_makes_it, *([in_its_syntax] if sys.version_info >= (3, 12) else [])]


@pytest.mark.parametrize("make", WAYS)
def test_a_generic_function_is_a_tool(make: Callable[[], Callable[..., Any]]) -> None:
    look = tool(make())
    parameters = convert_to_openai_tool(look)["function"]["parameters"]
    either = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert parameters["properties"] == {"what": either, "many": {"type": "array", "items": either}}
    assert look.invoke({"what": "a", "many": [1, "b"]}) == "'a' [1, 'b']"
    with pytest.raises(ToolArgumentsError, match="many"):
        look.invoke({"what": 1, "many": [[]]})
