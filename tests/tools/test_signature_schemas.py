"""Every shape of signature and the exact schema the model sees for it."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NotRequired, Optional, Union, Unpack
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, conint
from typing_extensions import TypedDict

from runwell.errors import ToolDefinitionError, UsageError
from runwell.tools import (
    InjectedState,
    InjectedStore,
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    ToolRuntime,
    create_schema_from_function,
    tool,
)


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Job(BaseModel):
    """A job to do."""

    n: int
    what: str = Field(description="What to do.")
    kind: Color = Color.RED


class Plan(BaseModel):
    jobs: list[Job]


class Node(BaseModel):
    value: int
    children: list[Node] = []


@dataclass
class Point:
    x: float
    y: float = 0.0
    tags: list[str] = field(default_factory=list)


class Options(TypedDict, total=False):
    limit: int
    order: Literal["up", "down"]


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    barks: bool


def no_arguments(): ...
def untyped(x, y=1): ...
def scalars(a: str, b: int, c: float, d: bool): ...
def defaults(a: str = "x", b: int = 3, c: bool = False, d: float | None = None): ...
def optional_required(a: Optional[int]): ...  # noqa: UP045
def union(a: int | str, b: Union[int, list[str]] = 1): ...  # noqa: UP007
def literals(a: Literal["x", "y"], b: Literal[1, 2] = 1, c: Literal["only"] = "only"): ...
def enums(a: Color, b: Level = Level.LOW): ...
def containers(
    a: list[str], b: dict[str, int], c: set[int], d: tuple[int, str], e: tuple[int, ...], f: list, g: dict
): ...
def sequence(a: Sequence[float]): ...
def nested(a: list[list[int]], b: dict[str, list[Color]]): ...
def annotated(a: Annotated[int, Field(ge=1, le=10, description="How many.")], b: Annotated[str, "A word."] = "w"): ...
def field_default(a: int = Field(5, description="Top k.", le=20), b: list[str] = Field(default_factory=list)): ...
def constrained(a: conint(gt=0), b: Annotated[str, Field(pattern="^a", min_length=2, max_length=5)]): ...
def special(a: dt.date, b: dt.datetime, c: UUID, d: bytes): ...
def model(job: Job): ...
def models(plan: Plan): ...
def recursive(node: Node): ...
def a_dataclass(p: Point): ...
def typed_dict(o: Options): ...
def discriminated(pet: Annotated[Cat | Dog, Field(discriminator="kind")]): ...
def open_object(kind: str, **kw): ...
def typed_open(kind: str, **kw: int): ...
def unpacked(q: str, **kw: Unpack[Options]): ...
def keyword_only(*, a: int, b: str = "z"): ...
def positional_only(a: int, b: int = 2, /, c: int = 3): ...
def anything(a: Any): ...
def awkward(
    args: list[str],
    kwargs: dict[str, int],
    config: str,
    callbacks: int,
    schema: str,
    self: bool,
    copy: int = 1,
    model_config: str = "m",
    _x: int = 0,
    title: str = "",
): ...
def injected(
    q: str,
    state: Annotated[dict, InjectedState],
    store: Annotated[Any, InjectedStore()],
    user: Annotated[str, InjectedToolArg],
    call: Annotated[str, InjectedToolCallId],
    rt: ToolRuntime,
    maybe: ToolRuntime | None = None,
    runtime=None,
): ...
def film(runtime: int): ...


S, INT, N, B = {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}
JOB = {
    "type": "object",
    "description": "A job to do.",
    "properties": {
        "n": INT,
        "what": {"type": "string", "description": "What to do."},
        "kind": {"type": "string", "enum": ["red", "blue"], "default": "red"},
    },
    "required": ["n", "what"],
}
NULL = {"type": "null"}


def obj(required: list[str] | None = None, extra: Any = None, /, **properties: Any) -> dict[str, Any]:
    made = {"type": "object", "properties": properties}
    if required:
        made["required"] = required
    if extra is not None:
        made["additionalProperties"] = extra
    return made


TABLE = [
    (no_arguments, obj()),
    (untyped, obj(["x"], x={}, y={"default": 1})),
    (scalars, obj(["a", "b", "c", "d"], a=S, b=INT, c=N, d=B)),
    (
        defaults,
        obj(
            a={**S, "default": "x"},
            b={**INT, "default": 3},
            c={**B, "default": False},
            d={"anyOf": [N, NULL], "default": None},
        ),
    ),
    (optional_required, obj(["a"], a={"anyOf": [INT, NULL]})),
    (union, obj(["a"], a={"anyOf": [INT, S]}, b={"anyOf": [INT, {"type": "array", "items": S}], "default": 1})),
    (
        literals,
        obj(
            ["a"],
            a={"type": "string", "enum": ["x", "y"]},
            b={"type": "integer", "enum": [1, 2], "default": 1},
            c={"type": "string", "const": "only", "default": "only"},
        ),
    ),
    (
        enums,
        obj(["a"], a={"type": "string", "enum": ["red", "blue"]}, b={"type": "integer", "enum": [1, 2], "default": 1}),
    ),
    (
        containers,
        obj(
            ["a", "b", "c", "d", "e", "f", "g"],
            a={"type": "array", "items": S},
            b={"type": "object", "additionalProperties": INT},
            c={"type": "array", "items": INT, "uniqueItems": True},
            d={"type": "array", "prefixItems": [INT, S], "minItems": 2, "maxItems": 2},
            e={"type": "array", "items": INT},
            f={"type": "array", "items": {}},
            g={"type": "object", "additionalProperties": True},
        ),
    ),
    (sequence, obj(["a"], a={"type": "array", "items": N})),
    (
        nested,
        obj(
            ["a", "b"],
            a={"type": "array", "items": {"type": "array", "items": INT}},
            b={
                "type": "object",
                "additionalProperties": {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}},
            },
        ),
    ),
    (
        annotated,
        obj(
            ["a"],
            a={"type": "integer", "minimum": 1, "maximum": 10, "description": "How many."},
            b={"type": "string", "description": "A word.", "default": "w"},
        ),
    ),
    (
        field_default,
        obj(
            a={"type": "integer", "maximum": 20, "default": 5, "description": "Top k."}, b={"type": "array", "items": S}
        ),
    ),
    (
        constrained,
        obj(
            ["a", "b"],
            a={"type": "integer", "exclusiveMinimum": 0},
            b={"type": "string", "pattern": "^a", "minLength": 2, "maxLength": 5},
        ),
    ),
    (
        special,
        obj(
            ["a", "b", "c", "d"],
            a={"type": "string", "format": "date"},
            b={"type": "string", "format": "date-time"},
            c={"type": "string", "format": "uuid"},
            d={"type": "string", "format": "binary"},
        ),
    ),
    (model, obj(["job"], job=JOB)),
    (models, obj(["plan"], plan=obj(["jobs"], jobs={"type": "array", "items": JOB}))),
    (
        recursive,
        {
            **obj(["node"], node={"$ref": "#/$defs/Node"}),
            "$defs": {
                "Node": obj(
                    ["value"], value=INT, children={"type": "array", "items": {"$ref": "#/$defs/Node"}, "default": []}
                )
            },
        },
    ),
    (a_dataclass, obj(["p"], p=obj(["x"], False, x=N, y={**N, "default": 0.0}, tags={"type": "array", "items": S}))),
    (typed_dict, obj(["o"], o=obj(None, False, limit=INT, order={"type": "string", "enum": ["up", "down"]}))),
    (
        discriminated,
        obj(
            ["pet"],
            pet={
                "oneOf": [
                    obj(["kind", "lives"], kind={"type": "string", "const": "cat"}, lives=INT),
                    obj(["kind", "barks"], kind={"type": "string", "const": "dog"}, barks=B),
                ],
            },
        ),
    ),
    (open_object, obj(["kind"], True, kind=S)),
    (typed_open, obj(["kind"], INT, kind=S)),
    (unpacked, obj(["q"], q=S, limit=INT, order={"type": "string", "enum": ["up", "down"]})),
    (keyword_only, obj(["a"], a=INT, b={**S, "default": "z"})),
    (positional_only, obj(["a"], a=INT, b={**INT, "default": 2}, c={**INT, "default": 3})),
    (anything, obj(["a"], a={})),
    (
        awkward,
        obj(
            ["args", "kwargs", "config", "callbacks", "schema", "self"],
            args={"type": "array", "items": S},
            kwargs={"type": "object", "additionalProperties": INT},
            config=S,
            callbacks=INT,
            schema=S,
            self=B,
            copy={**INT, "default": 1},
            model_config={**S, "default": "m"},
            _x={**INT, "default": 0},
            title={**S, "default": ""},
        ),
    ),
    (injected, obj(["q"], q=S)),
    (film, obj(["runtime"], runtime=INT)),
    (functools.partial(scalars, b=3), obj(["a", "c", "d"], a=S, c=N, d=B)),
]


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

    with pytest.raises(ToolDefinitionError, match="Opaque") as caught:
        tool(run)
    assert __file__ in str(caught.value)


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
