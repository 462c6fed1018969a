"""Arguments that do not fit (SEATS E2): what the model is told, and that nothing else is ever raised."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator
from typing_extensions import TypedDict

from runwell.errors import ToolArgumentsError, ToolDefinitionError
from runwell.tools import BaseTool, ToolRuntime, tool


class Unit(Enum):
    C = "celsius"
    F = "fahrenheit"


class Filters(BaseModel):
    city: str
    tags: list[int] = []
    since: dt.date | None = None


@tool
def search(
    query: str, top_k: Annotated[int, Field(ge=1, le=10)] = 5, filters: Filters | None = None, unit: Unit = Unit.C
) -> Any:
    """Search."""
    return query, top_k, filters, unit


def told(made: BaseTool, args: Any) -> list[str]:
    """The lines about problems in what the model is told."""
    with pytest.raises(ToolArgumentsError) as caught:
        made.invoke(args)
    first, *lines, last = str(caught.value).splitlines()
    assert made.name in first
    assert last == "Correct them and call the tool again."
    return [line.removeprefix("- ") for line in lines]


@pytest.mark.parametrize(
    ("args", "lines"),
    [
        ({}, ["query: missing; expected string"]),
        ({"query": None}, ["query: missing; expected string"]),
        ({"query": 3}, ["query: got 3; expected string"]),
        ({"query": "x", "top_k": "ten"}, ['top_k: got "ten"; expected integer >= 1, <= 10']),
        ({"query": "x", "top_k": 11}, ["top_k: got 11; expected integer >= 1, <= 10"]),
        ({"query": "x", "topk": 1}, ["topk: unknown argument; did you mean 'top_k'?"]),
        ({"query": "x", "zzz": 1}, ["zzz: unknown argument; expected one of query, top_k, filters, unit"]),
        ({"query": "x", "unit": "kelvin"}, ['unit: got "kelvin"; expected one of "celsius", "fahrenheit"']),
        ({"query": "x", "filters": {}}, ["filters.city: missing; expected string"]),
        (
            {"query": "x", "filters": {"city": 1, "tags": [1, "two"], "since": "soon"}},
            [
                "filters.city: got 1; expected string",
                'filters.tags[1]: got "two"; expected integer',
                'filters.since: got "soon"; expected string (date) or null',
            ],
        ),
    ],
)
def test_each_problem_has_its_path_what_is_wrong_and_what_is_expected(args: Any, lines: list[str]) -> None:
    assert told(search, args) == lines


def test_json_schema_tools_say_the_same() -> None:
    schema = {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "top_k": {"type": "integer", "minimum": 1},
            "filters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "tags": {"type": "array", "items": {"type": "integer"}}},
                "required": ["city"],
            },
        },
        "required": ["query"],
    }

    @tool(args_schema=schema, description="d")
    def look(query: str, top_k: int = 3, filters: Any = None) -> Any:
        return query, top_k, filters

    assert look.invoke({"query": "x"}) == ("x", 3, None)
    assert set(told(look, {"top_k": "ten", "filters": {"tags": [1, "two"]}})) == {
        'filters.tags[1]: got "two"; expected integer',
        "filters.city: missing; expected string",
        'top_k: got "ten"; expected integer >= 1',
        "query: missing; expected string",
    }
    assert told(look, {"query": "x", "topk": 1}) == ["topk: unknown argument; did you mean 'top_k'?"]


def test_a_json_schema_with_free_keys_gives_them_to_a_kwargs_function() -> None:
    @tool(
        args_schema={"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": True},
        description="d",
    )
    def run(**kw: Any) -> Any:
        return kw

    @tool(
        args_schema={"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False},
        description="d",
    )
    def closed(**kw: Any) -> Any:
        return kw

    assert run.invoke({"a": 1, "b": 2}) == {"a": 1, "b": 2}
    assert told(closed, {"a": 1, "bb": 2}) == ["bb: unknown argument; expected one of a"]


def test_a_json_schemas_default_stands_in_where_the_function_has_none() -> None:
    schema = {"properties": {"x": {"type": "integer"}, "tags": {"type": "array", "default": ["a"]}}, "required": ["x"]}

    @tool(args_schema=schema)
    def run(x: int, tags: list[str]) -> list[str]:
        """Run."""
        tags.append("run")
        return tags

    assert run.invoke({"x": 1}) == ["a", "run"]
    assert run.invoke({"x": 1}) == ["a", "run"]
    assert run.invoke({"x": 1, "tags": ["b"]}) == ["b", "run"]


def test_a_json_schema_that_begins_with_a_reference() -> None:
    node = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}

    @tool(args_schema={"$ref": "#/$defs/Node", "$defs": {"Node": node}})
    def run(x: int) -> int:
        """Run."""
        return x

    assert run.args == {"x": {"type": "integer"}}
    assert run.invoke({"x": 1}) == 1
    assert told(run, {"x": "a"}) == ['x: got "a"; expected integer']


@pytest.mark.parametrize("schema", [{"properties": [1]}, {"properties": {"x": {}}, "required": "x"}])
def test_what_is_no_json_schema_is_refused(schema: dict[str, Any]) -> None:
    def run(x: int) -> int:
        """Run."""
        return x

    with pytest.raises(ToolDefinitionError, match="not a valid JSON schema"):
        tool(args_schema=schema)(run)


@pytest.mark.parametrize("depth", [150, 400, 50_000])
def test_however_deep_arguments_are_the_model_is_told(depth: int) -> None:
    @tool
    def typed(x: int, rest: dict[str, Any] | None = None) -> str:
        """Take a number."""
        return "taken"

    @tool(args_schema={"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]})
    def described(x: int) -> str:
        """Take a number."""
        return "taken"

    nested: dict[str, Any] = {}
    for _ in range(depth):
        nested = {"k": nested}
    for made in (typed, described):
        with pytest.raises(ToolArgumentsError, match=r"expected integer|nested more than 200 deep"):
            made.invoke({"x": nested})


@pytest.mark.parametrize("args", [None, 3, "text", ["a"], True])
def test_arguments_that_are_no_object(args: Any) -> None:
    with pytest.raises(ToolArgumentsError, match="expected an object"):
        search.prepare(args)
    with pytest.raises(ToolArgumentsError, match="expected an object"):
        search.invoke({"type": "tool_call", "name": "search", "id": "1", "args": args})


def test_null_for_an_optional_argument_is_not_given() -> None:
    assert search.invoke({"query": "x", "top_k": None, "filters": None, "unit": None}) == ("x", 5, None, Unit.C)
    assert search.invoke({"query": "x", "filters": {"city": "a", "tags": None}})[2] == Filters(city="a")


def test_null_for_an_optional_argument_of_a_json_schema_tool_is_not_given() -> None:
    inner = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"]}

    @tool(args_schema={"type": "object", "properties": {"n": {"type": "integer"}, "inner": inner}}, description="d")
    def run(n: int = 4, inner: Any = None) -> Any:
        return n, inner

    assert run.invoke({"n": None, "inner": {"a": 1, "b": None}}) == (4, {"a": 1})
    assert told(run, {"inner": {"a": None}}) == ["inner.a: missing; expected integer"]


def test_values_come_out_as_the_types_declared() -> None:
    query, top_k, filters, unit = search.invoke(
        {"query": "x", "top_k": "7", "filters": {"city": "a", "since": "2024-02-01"}, "unit": "fahrenheit"}
    )
    assert (query, top_k, unit) == ("x", 7, Unit.F)
    assert filters == Filters(city="a", since=dt.date(2024, 2, 1))


def test_a_models_own_checks_are_told_in_their_words() -> None:
    class Args(BaseModel):
        low: int
        high: int

        @field_validator("high")
        @classmethod
        def positive(cls, value: int) -> int:
            if value < 0:
                raise ValueError("must not be negative")
            return value

    @tool(args_schema=Args, description="d")
    def run(low: int, high: int) -> Any:
        return low, high

    assert told(run, {"low": 1, "high": -1}) == ["high: must not be negative; expected integer"]


def test_configuration_of_a_model_is_kept() -> None:
    class Strict(BaseModel):
        model_config = ConfigDict(strict=True)
        n: int
        day: dt.date

    class Ignoring(BaseModel):
        model_config = ConfigDict(extra="ignore")
        n: int

    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        n: int

    class Aliased(BaseModel):
        source: str = Field(alias="from")
        limit: int = Field(3, alias="max")

    @tool(args_schema=Strict, description="d")
    def strict(n: int, day: dt.date) -> Any:
        return n, day

    @tool(args_schema=Ignoring, description="d")
    def ignoring(n: int) -> Any:
        return n

    @tool(args_schema=Open, description="d")
    def opened(n: int, **more: Any) -> Any:
        return n, more

    @tool(args_schema=Open, description="d")
    def not_opened(n: int) -> Any:
        return n

    @tool(args_schema=Aliased, description="d")
    def aliased(source: str, limit: int) -> Any:
        return source, limit

    assert strict.invoke({"n": 1, "day": "2024-02-01"}) == (1, dt.date(2024, 2, 1))
    assert told(strict, {"n": "1", "day": "2024-02-01"}) == ['n: got "1"; expected integer']
    assert ignoring.invoke({"n": 1, "m": 2}) == 1
    assert opened.invoke({"n": 1, "m": 2}) == (1, {"m": 2})
    assert told(not_opened, {"n": 1, "mm": 2}) == ["mm: unknown argument; expected one of n"]
    assert list(aliased.args) == ["from", "max"]
    assert aliased.invoke({"from": "a"}) == ("a", 3)
    assert told(aliased, {"from": "a", "limit": 1}) == ["limit: unknown argument; expected one of from, max"]


def test_typed_extras_are_checked() -> None:
    @tool(description="d")
    def run(kind: str, **kw: int) -> Any:
        return kind, kw

    assert run.invoke({"kind": "a", "n": "3"}) == ("a", {"n": 3})
    assert told(run, {"kind": "a", "n": "x"}) == ['n: got "x"; expected integer']


def test_long_values_and_many_problems_are_cut() -> None:
    @tool(description="d")
    def run(items: list[int], text: int = 0) -> Any:
        return items

    lines = told(run, {"items": ["x"] * 30, "text": "y" * 10_000})
    assert len(lines) == 11
    assert lines[-1] == "and 21 more"
    assert max(map(len, told(run, {"items": [], "text": "y" * 10_000}))) < 150


def test_a_pydantic_1_model_is_refused() -> None:
    class Old:
        __fields__: dict[str, Any] = {}

        @classmethod
        def parse_obj(cls, value: Any) -> Any: ...

    with pytest.raises(ToolDefinitionError, match="Pydantic 1"):
        tool("x", args_schema=Old, description="d")(lambda: None)


# -- any JSON at all

json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["red", "2024-01-01", "1e400", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4) | st.sampled_from(["city", "n", "kind", "value"]), inner, max_size=3)
    ),
    max_leaves=12,
)


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    n: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tags: set[str] = set()


class Options(TypedDict, total=False):
    n: int
    city: str


@dataclass
class Point:
    n: float
    city: tuple[int, str] = (1, "a")
    value: list[Unit] = field(default_factory=list)


@tool(description="d")
def inferred(
    n: int,
    city: Literal["a", "b"] | list[dt.datetime] | None = None,
    value: Tree | dict[str, float] | None = None,
    kind: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None,
    options: Options | None = None,
    point: Point | None = None,
    x: tuple[int, ...] = (),
    runtime: ToolRuntime | None = None,
) -> str:
    return "ok"


@tool(description="d")
def opened(n: int = 0, **kw: int | list[Unit]) -> str:
    return "ok"


@tool(description="d", args_schema=Options)
def typed(**kw: Any) -> str:
    return "ok"


@tool(
    description="d",
    args_schema={
        "type": "object",
        "properties": {
            "n": {"type": "integer", "multipleOf": 3},
            "city": {"oneOf": [{"type": "string", "format": "date"}, {"$ref": "#/$defs/tree"}]},
            "value": {"type": "array", "items": {"$ref": "#"}, "uniqueItems": True},
        },
        "required": ["n"],
        "$defs": {"tree": {"type": "object", "properties": {"kind": {"$ref": "#/$defs/tree"}}, "minProperties": 1}},
    },
)
def by_schema(**kw: Any) -> str:
    return "ok"


names = st.sampled_from(["n", "city", "value", "kind", "options", "point", "x", "runtime", "other"]) | st.text(
    max_size=4
)


@given(json | st.dictionaries(names, json, max_size=6))
@settings(max_examples=300, deadline=None)
def test_no_json_raises_anything_but_tool_arguments_error(args: Any) -> None:
    for made in (inferred, opened, typed, by_schema):
        try:
            kwargs = made.prepare(args)
        except ToolArgumentsError as error:
            told_model = str(error)
        else:
            told_model = made.name
            assert made.callee.sync is not None
            assert made.callee.sync(**kwargs) == "ok"
        assert made.name in told_model
