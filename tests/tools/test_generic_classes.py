"""Tools that are methods of generic classes: what a type parameter is, where the instance says so."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Generic, TypeVar

import pytest
from pydantic import BaseModel

from runwell.agents import create_agent
from runwell.errors import ToolArgumentsError
from runwell.messages import AIMessage
from runwell.testing.models import FakeChatModel
from runwell.tools import convert_to_openai_tool, tool

T = TypeVar("T")
Key = TypeVar("Key", bound=str)
Number = TypeVar("Number", int, float)
ANY: dict[str, Any] = {}
INTEGER = {"type": "integer"}


class Page(BaseModel, Generic[T]):
    items: list[T]


class Box(Generic[T]):
    def __init__(self) -> None:
        self.kept: list[Any] = []

    @tool
    def put(self, what: T, many: list[T] | None = None) -> str:
        """Put something in."""
        self.kept.append(what)
        return f"{what!r} {many!r}"

    @tool("all_of")
    async def several(self, page: Page[T], named: Annotated[dict[str, T], "By name."]) -> str:
        """Put several in."""
        return f"{page.items!r} {named!r}"

    def plain(self, what: T) -> str:
        """Say it."""
        return repr(what)


class IntBox(Box[int]):
    """A class of its own."""


class Shelf(Box[T], Generic[Key, T]):
    @tool
    def find(self, key: Key, instead: T) -> str:
        """Find something."""
        return f"{key} {instead!r}"


class IntShelf(Shelf[str, int]):
    """Both said."""


def properties(made: Any) -> Any:
    return convert_to_openai_tool(made)["function"]["parameters"]["properties"]


@pytest.mark.parametrize("kind", ["Box[int]", "IntBox", "IntShelf", "Shelf[str, int]"])
def test_what_the_class_says_is_in_the_schema_and_is_checked(driver: Any, kind: str) -> None:
    box = {"Box[int]": Box[int], "IntBox": IntBox, "IntShelf": IntShelf, "Shelf[str, int]": Shelf[str, int]}[kind]()
    shown = properties(box.put)
    assert shown["what"] == INTEGER
    assert {"type": "array", "items": INTEGER} in shown["many"]["anyOf"]
    assert properties(box.several)["named"] == {
        "type": "object",
        "additionalProperties": INTEGER,
        "description": "By name.",
    }
    assert properties(tool(box.plain))["what"] == INTEGER
    assert driver.invoke(box.put, {"what": 3, "many": [1]}) == "3 [1]"
    assert driver.invoke(box.several, {"page": {"items": [1]}, "named": {"a": 2}}) == "[1] {'a': 2}"
    assert box.kept == [3]
    for made, bad in ((box.put, {"what": "x"}), (box.several, {"page": {"items": ["x"]}, "named": {}})):
        with pytest.raises(ToolArgumentsError):
            driver.invoke(made, bad)


def test_each_instance_has_its_own(driver: Any) -> None:
    texts, numbers, unsaid = Box[str](), Box[int](), Box()  # type: ignore[var-annotated]
    assert [properties(box.put)["what"] for box in (texts, numbers, unsaid)] == [{"type": "string"}, INTEGER, ANY]
    assert properties(Box.put)["what"] == ANY
    assert driver.invoke(texts.put, {"what": "a"}) == "'a' None"
    assert properties(Box[int]().put) == properties(numbers.put)


def test_bounds_and_constraints_hold_where_nothing_is_said(driver: Any) -> None:
    class Sums(Generic[Number]):
        @tool
        def add(self, what: Number) -> str:
            """Add."""
            return repr(what)

    assert properties(Sums().add)["what"] == {"anyOf": [INTEGER, {"type": "number"}]}
    assert properties(Sums[int]().add)["what"] == INTEGER
    assert properties(Shelf().find)["key"] == {"type": "string"}
    with pytest.raises(ToolArgumentsError):
        driver.invoke(Sums().add, {"what": "x"})


def test_a_generic_model_with_a_tool(driver: Any) -> None:
    class Bag(BaseModel, Generic[T]):
        owner: str = "me"

        def keep(self, what: T) -> str:
            """Keep something."""
            return f"{self.owner} {what!r}"

    assert properties(tool(Bag[int]().keep))["what"] == INTEGER
    assert properties(tool(Bag().keep))["what"] == ANY


def test_an_agent_is_offered_what_the_instance_says(driver: Any) -> None:
    box = Box[int]()
    asked = AIMessage("", tool_calls=[{"name": "put", "args": {"what": "x"}, "id": "1"}])
    again = AIMessage("", tool_calls=[{"name": "put", "args": {"what": 3}, "id": "2"}])
    result = driver.invoke(create_agent(FakeChatModel([asked, again, "done"]), [box.put]), {"messages": "go"})
    assert [message.status for message in result["messages"] if message.type == "tool"] == ["error", "success"]
    assert box.kept == [3]


SOURCE = """
{future}
from runwell.tools import tool
class Box[Only: (int, str)]:
    @tool
    def put(self, what: Only, many: list[Only] | None = None) -> str:
        '''Put something in.'''
        return repr(what)
    def plain(self, what: Only) -> str:
        '''Say it.'''
        return repr(what)
class IntBox(Box[int]):
    pass
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is of Python 3.12")
@pytest.mark.parametrize("future", ["", "from __future__ import annotations"])
def test_the_syntax_of_python_3_12(future: str) -> None:
    names: dict[str, Any] = {"__name__": "generic_classes"}
    exec(SOURCE.format(future=future), names)
    box = names["Box"]
    for made in (box[int](), names["IntBox"]()):
        assert properties(made.put)["what"] == properties(tool(made.plain))["what"] == INTEGER
    assert properties(box().put)["what"] == {"anyOf": [INTEGER, {"type": "string"}]}
    assert properties(tool(box().plain))["what"] == {"anyOf": [INTEGER, {"type": "string"}]}
