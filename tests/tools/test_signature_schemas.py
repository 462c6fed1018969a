"""Every shape of signature and the exact schema the model sees for it."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from runwell.errors import InvalidInput, ToolArgumentsError, ToolDefinitionError, UsageError
from runwell.tools import (
    StructuredTool,
    create_schema_from_function,
    tool,
    tool_cost,
)

sys.path.insert(0, str(Path(__file__).parent))
from signature_shapes import INT, TABLE, S, obj, recursive, scalars


@pytest.mark.parametrize(("function", "schema"), TABLE, ids=lambda each: getattr(each, "__name__", None))
def test_the_schema_of_a_signature_is_exact(function: Any, schema: dict[str, Any]) -> None:
    made = StructuredTool.from_function(function, description="Does it.")
    assert made.json_schema() == schema
    assert made.args == schema["properties"]


def test_the_model_of_a_function_alone() -> None:
    made = create_schema_from_function("Scalars", scalars)
    assert (made.__name__, set(made.model_fields)) == ("Scalars", {"a", "b", "c", "d"})


def test_a_schema_handed_out_is_the_callers_to_change() -> None:
    made = tool(scalars, description="d")
    made.json_schema()["properties"].clear()
    assert set(made.args) == {"a", "b", "c", "d"}


def test_tool_01_parameters_with_awkward_names_are_plain_arguments_and_the_call_works() -> None:
    @tool(description="Run.")
    def run(args: list[str], schema: str = "s", _hidden: int = 0) -> Any:
        return args, schema, _hidden

    assert set(run.args) == {"args", "schema", "_hidden"}
    assert run.invoke({"args": ["a"]}) == (["a"], "s", 0)
    assert run.invoke({"args": ["a"], "schema": "t", "_hidden": 4}) == (["a"], "t", 4)


def test_tool_02_extra_keywords_reach_a_kwargs_tool() -> None:
    @tool(description="q")
    def q(kind: str, **kw: Any) -> Any:
        return kind, kw

    call = {"type": "tool_call", "name": "q", "id": "1", "args": {"kind": "exact", "city": "Lyon"}}
    assert q.invoke(call).content == '["exact",{"city":"Lyon"}]'
    assert q.json_schema()["additionalProperties"] is True

    @tool(description="p")
    def p(input: str, **kw: Any) -> Any:
        return input, kw

    assert p.invoke("Hello", a=1, b=2) == ("Hello", {"a": 1, "b": 2})
    assert p.invoke({"input": "Hello", "a": 1, "b": 2}) == ("Hello", {"a": 1, "b": 2})


def test_tool_04_a_set_of_literals_is_an_array_of_enum_items() -> None:
    class Args(BaseModel):
        size: Literal["s", "m", "l"]
        tags: set[Literal["red", "blue"]]

    @tool(args_schema=Args, description="d")
    def order(size: str, tags: set[str]) -> Any:
        return sorted(tags)

    assert order.args["tags"] == {
        "type": "array",
        "items": {"type": "string", "enum": ["red", "blue"]},
        "uniqueItems": True,
    }
    assert order.json_schema()["required"] == ["size", "tags"]
    assert order.invoke({"size": "s", "tags": ["red", "red"]}) == ["red"]


def test_tool_05_a_list_of_nested_models_with_an_enum() -> None:
    class Kind(Enum):
        A = "a"
        B = "b"
        C = "c"

    class Inner(BaseModel):
        n: int
        what: str
        kind: Kind

    class Outer(BaseModel):
        jobs: list[Inner]

    @tool(args_schema=Outer, description="d")
    def run(jobs: list[Inner]) -> Any:
        return jobs[0].kind

    items = run.args["jobs"]["items"]
    assert items["type"] == "object"
    assert items["properties"]["kind"] == {"type": "string", "enum": ["a", "b", "c"]}
    assert run.invoke({"jobs": [{"n": 1, "what": "x", "kind": "b"}]}) is Kind.B


def test_tool_06_a_default_factory_is_not_required_and_gives_a_fresh_list_each_call() -> None:
    class Args(BaseModel):
        tags: list[str] = Field(default_factory=list)

    @tool(args_schema=Args, description="d")
    def run(tags: list[str]) -> Any:
        tags.append("x")
        return tags

    assert "required" not in run.json_schema()
    assert run.invoke({}) == ["x"]
    assert run.invoke({}) == ["x"]

    @tool(description="d")
    def mutable(tags: list[str] = []) -> Any:  # noqa: B006
        tags.append("x")
        return tags

    assert mutable.invoke({}) == ["x"]
    assert mutable.invoke({}) == ["x"]


def test_tool_07_recursion_stays_a_reference() -> None:
    made = tool(recursive, description="d")
    assert made.json_schema()["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}

    tree = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["name"],
    }

    @tool(args_schema=tree, description="d")
    def walk(name: str, children: list[Any] | None = None) -> Any:
        return name, children

    assert walk.json_schema() == tree
    assert walk.invoke({"name": "a", "children": [{"name": "b"}]}) == ("a", [{"name": "b"}])
    with pytest.raises(Exception, match=r"children\[0\]\.name: missing"):
        walk.invoke({"name": "a", "children": [{}]})


def test_definitions_that_double_at_every_level_stay_references() -> None:
    definitions = {f"L{n}": obj(a={"$ref": f"#/$defs/L{n + 1}"}, b={"$ref": f"#/$defs/L{n + 1}"}) for n in range(30)}
    definitions["L30"] = {"type": "string"}
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/L0"}}, "$defs": definitions}

    @tool(args_schema=schema, description="d")
    def run(x: Any = None) -> Any:
        return x

    assert len(run.json_schema()["$defs"]) == 31


@pytest.mark.parametrize("ref", ["#/$defs/Missing", "https://example.com/schema.json", "other.json#/x"])
def test_a_reference_to_nothing_local_is_refused_at_the_declaration(ref: str) -> None:
    with pytest.raises(ToolDefinitionError, match="points to nothing"):
        tool(args_schema={"type": "object", "properties": {"x": {"$ref": ref}}}, description="d")(untyped_x)


def untyped_x(x: Any = None) -> Any:
    return x


def test_types_declared_beside_the_tool_in_a_function_are_found() -> None:
    class Local(BaseModel):
        n: int

    @tool(description="d")
    def run(item: Local) -> Any:
        return item.n

    assert run.invoke({"item": {"n": 3}}) == 3


@tool(description="Uses a type declared further down.")
def forward(item: Later) -> Any:
    return item.n


class Later(BaseModel):
    n: int


def test_a_forward_reference_is_read_on_first_use() -> None:
    assert forward.invoke({"item": {"n": 3}}) == 3
    assert forward.args["item"]["properties"] == {"n": INT}


def test_a_name_that_never_comes_is_refused_naming_it() -> None:
    @tool(description="d")
    def run(item: Nowhere) -> Any:  # noqa: F821
        return item

    with pytest.raises(ToolDefinitionError, match="Nowhere"):
        run.invoke({"item": 1})


def test_args_are_refused_with_the_alternative() -> None:
    def run(*names: str) -> None:
        """Run."""

    with pytest.raises(ToolDefinitionError, match=r"cannot take \*names") as caught:
        tool(run)
    assert "names: list[str]" in str(caught.value)
    assert __file__ in str(caught.value)


def test_a_type_without_json_form_is_refused_naming_function_and_file() -> None:
    class Opaque: ...

    def run(x: Opaque) -> None:
        """Run."""

    with pytest.raises(ToolDefinitionError, match=r"the argument 'x' is of type \S*Opaque, which has no") as caught:
        tool(run)
    assert __file__ in str(caught.value)

    def other(a: int, b: list[type]) -> None:
        """Run."""

    with pytest.raises(ToolDefinitionError, match=r"the argument 'b' is of type list\[type\], which has no"):
        tool(other)


def test_items_of_an_iterable_are_checked_before_the_tool_runs() -> None:
    @tool(description="d")
    def total(numbers: Iterable[int], groups: dict[str, Iterable[str]] | None = None) -> Any:
        return sum(numbers) + sum(numbers), groups  # twice: it is a list

    assert total.invoke({"numbers": [1, 2], "groups": {"a": ["x"]}}) == (6, {"a": ["x"]})
    with pytest.raises(ToolArgumentsError, match=r'numbers\[1\]: got "x"; expected integer'):
        total.invoke({"numbers": [1, "x"]})


def test_methods_partials_and_callable_objects_are_tools() -> None:
    class Shop:
        def __init__(self, stock: int) -> None:
            self.stock = stock

        def take(self, n: int) -> int:
            """Take some."""
            return self.stock - n

        @tool
        def add(self, n: int) -> int:
            """Add some."""
            return self.stock + n

        @tool
        async def later(self, n: int) -> int:
            """Add some later."""
            return self.stock + n

        @tool
        @staticmethod
        def double(n: int) -> int:
            """Double."""
            return 2 * n

    class Greeter:
        def __call__(self, who: str) -> str:
            """Greet someone."""
            return f"Hi {who}"

    def power(base: int, exponent: int) -> int:
        """Raise to a power."""
        return int(base**exponent)

    assert tool(Shop(5).take).invoke({"n": 2}) == 3
    assert Shop(5).add.invoke({"n": 2}) == 7
    assert Shop(9).add.invoke({"n": 2}) == 11
    assert Shop(5).later.invoke({"n": 2}) == 7
    assert Shop.double.invoke({"n": 2}) == 4
    assert set(Shop.add.args) == {"n"}
    with pytest.raises(UsageError, match="is a method and has no instance"):
        Shop.add.invoke({"n": 2})
    greeter = tool(Greeter())
    assert (greeter.name, greeter.description, greeter.invoke({"who": "you"})) == (
        "Greeter",
        "Greet someone.",
        "Hi you",
    )
    square = tool("square", description="Square.")(functools.partial(power, exponent=2))
    assert set(square.args) == {"base"}
    assert square.invoke({"base": 3}) == 9
    unnamed = tool(functools.partial(power, exponent=2))
    assert (unnamed.name, unnamed.description) == ("power", "Raise to a power.")


def test_positional_only_parameters_are_passed_by_position() -> None:
    @tool(description="d")
    def run(a: int, b: int = 2, /, c: int = 3) -> Any:
        return a, b, c

    assert run.invoke({"a": 1}) == (1, 2, 3)
    assert run.invoke({"c": 9, "b": 5, "a": 1}) == (1, 5, 9)


class Search(TypedDict):
    """Search the catalogue."""

    query: Annotated[str, "What to look for."]
    limit: NotRequired[int]


def test_a_typed_dict_as_args_schema_leaves_out_what_the_model_leaves_out() -> None:
    @tool(args_schema=Search)
    def search(query: str, limit: int = 7) -> Any:
        return query, limit

    assert search.description == "Search the catalogue."
    assert search.json_schema() == obj(["query"], query={**S, "description": "What to look for."}, limit=INT)
    assert search.invoke({"query": "x"}) == ("x", 7)
    assert search.invoke({"query": "x", "limit": 1}) == ("x", 1)
    with pytest.raises(Exception, match='limit: got "many"; expected integer'):
        search.invoke({"query": "x", "limit": "many"})


@dataclass
class Range:
    """A range of days."""

    start: int
    end: int = 10

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise ValueError("end is before start")


def test_a_dataclass_as_args_schema_runs_its_own_check() -> None:
    @tool(args_schema=Range)
    def days(start: int, end: int) -> Any:
        return end - start

    assert days.description == "A range of days."
    assert days.json_schema() == obj(["start"], start=INT, end={**INT, "default": 10})
    assert days.invoke({"start": 3}) == 7
    with pytest.raises(Exception, match="end is before start"):
        days.invoke({"start": 11})


def test_a_schema_that_the_function_cannot_take_is_refused() -> None:
    class Args(BaseModel):
        query: str
        limit: int

    def search(query: str, top: int) -> None:
        """Search."""

    with pytest.raises(ToolDefinitionError, match=r"takes no 'limit'.*lacks 'top'"):
        tool(args_schema=Args)(search)
    with pytest.raises(ToolDefinitionError, match="does not require 'top'"):
        tool(args_schema=obj(["query"], query=S, top=INT))(search)
    with pytest.raises(ToolDefinitionError, match="is no schema"):
        tool(args_schema=3)(search)
    with pytest.raises(ToolDefinitionError, match="not a valid JSON schema"):
        tool("x", args_schema={"type": "object", "properties": {"a": {"type": "nonsense"}}})(lambda **kw: kw)
    with pytest.raises(ToolDefinitionError, match="arguments of a tool are an object"):
        tool("x", args_schema={"type": "array"})(lambda **kw: kw)


class Linked(TypedDict):
    value: int
    next: NotRequired[Linked]


def test_a_typed_dict_that_holds_itself_is_checked_all_the_way_down() -> None:
    @tool(description="d")
    def total(a: Linked) -> int:
        rest = a.get("next")
        return a["value"] + (total.func(rest) if rest else 0)

    assert total.invoke({"a": {"value": 1, "next": {"value": 2, "next": {"value": 3}}}}) == 6
    with pytest.raises(Exception, match=r'a\.next\.next\.value: got "x"; expected integer'):
        total.invoke({"a": {"value": 1, "next": {"value": 2, "next": {"value": "x"}}}})


@pytest.mark.parametrize(
    "options",
    [
        {"exclusive": "yes"},
        {"timeout": "3"},
        {"timeout": True},
        {"handle_tool_error": 3},
        {"tags": "web"},
        {"metadata": ["x"]},
        {"read_only": 1},
        {"return_direct": "False"},
    ],
    ids=lambda options: "-".join(map(str, *options.items())),
)
def test_options_of_the_wrong_kind_are_refused_naming_tool_and_option(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(InvalidInput, match=f"Tool 'scalars': {name}="):
        tool(description="d", **options)(scalars)


def test_one_tool_is_no_list_of_tools() -> None:
    with pytest.raises(InvalidInput, match="no list of tools"):
        tool_cost(tool(scalars, description="d"))


def test_a_default_that_json_cannot_write_is_not_shown() -> None:
    @tool
    def near(most: float = float("inf"), places: tuple[float, float] = (0.0, float("nan"))) -> float:
        """Look around."""
        return most

    json.dumps(near.json_schema(), allow_nan=False)
    assert "default" not in near.args["most"]
    assert "default" not in near.args["places"]
    assert near.invoke({}) == float("inf")


def test_a_class_as_an_argument_is_refused() -> None:
    def make(kind: type[int]) -> str:
        """Make one."""
        return ""

    with pytest.raises(ToolDefinitionError, match="'kind' is of type type"):
        tool(make)
