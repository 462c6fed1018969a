"""Whatever JSON a model sends, to whatever kind of argument, nothing but ToolArgumentsError comes of it (SEATS E2)."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Required

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator, model_validator
from typing_extensions import TypedDict

from runwell.errors import ToolArgumentsError
from runwell.schemas.json_schema import resolve_pointer
from runwell.tools import InjectedToolArg, StructuredTool

sys.path.insert(0, str(Path(__file__).parent))
from callable_shapes import CALLABLES
from signature_shapes import TABLE
from type_shapes import TYPES, Bike, Leaf, Linked, Point

ODD_TEXTS = ["", "\x00", "\ud800", "‮", "1e400", "nan", "null", "2024-02-30", "25:61", "P99999999999Y", "a" * 5_000]
ODD_TEXTS += ["2024-01-01", "12:00:00", "PT5M", "12", "0x10", "1_0", "٣", "red", "dark", "square", "https://[", "🦊"]
ODD_NUMBERS = [0, -1, 10**25, -(10**400), 0.1, 1e308, math.inf, -math.inf, math.nan, 2**63, True]
SCALAR = st.none() | st.booleans() | st.sampled_from(ODD_NUMBERS) | st.sampled_from(ODD_TEXTS) | st.text(max_size=3)
JSON = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def like(root: dict[str, Any], part: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values that nearly fit a schema: of its kind, or now and then of any."""
    if not isinstance(part, dict) or not part or depth > 3:
        return JSON
    if "$ref" in part:
        return st.deferred(lambda: like(root, resolve_pointer(root, part["$ref"]), depth + 1))
    for key in ("anyOf", "oneOf"):
        if key in part:
            return st.one_of([like(root, each, depth + 1) for each in part[key]])
    return fitting(root, part, depth) | JSON if depth else fitting(root, part, depth)


def fitting(root: dict[str, Any], part: dict[str, Any], depth: int) -> st.SearchStrategy[Any]:
    if "enum" in part or "const" in part:
        return st.sampled_from(part.get("enum", [part.get("const")]))
    kind = part.get("type")
    if kind == "object":
        known = {name: like(root, each, depth + 1) for name, each in part.get("properties", {}).items()}
        needed = {name: each for name, each in known.items() if name in part.get("required", ())}
        given = st.fixed_dictionaries(needed, optional={name: known[name] for name in known if name not in needed})
        further = st.dictionaries(
            st.text(max_size=3), like(root, part.get("additionalProperties"), depth + 1), max_size=2
        )
        return st.builds(
            lambda first, more: {**more, **first}, given, further if part.get("additionalProperties") else st.just({})
        )
    if kind == "array":
        if "prefixItems" in part:
            return st.tuples(*(like(root, each, depth + 1) for each in part["prefixItems"])).map(list)
        return st.lists(like(root, part.get("items"), depth + 1), max_size=4)
    if kind == "integer":
        return st.integers(-3, 40)
    if kind == "number":
        return st.floats(-2, 40)
    if kind == "boolean":
        return st.booleans()
    if kind == "null":
        return st.none()
    return st.sampled_from(ODD_TEXTS) | st.text(max_size=6)


def shapes() -> Iterator[tuple[str, Any]]:
    for function, _ in TABLE:
        yield getattr(function, "__name__", "partial"), function
    for name, (function, _) in CALLABLES.items():
        yield name, function
    yield from TYPES.items()


SHAPES = dict(shapes())
RUNTIME = {"state": {}, "store": None, "user": "ann", "call": "1", "rt": None}
"""For parameters that the program fills."""


def used(value: Any) -> None:
    """What a tool does with its arguments: look at all of them."""
    if isinstance(value, dict):
        for key, each in value.items():
            used(key)
            used(each)
    elif not isinstance(value, (str, bytes)) and hasattr(value, "__iter__"):
        for each in value:
            used(each)


def hold(made: StructuredTool) -> None:
    """Send the tool all kinds of JSON, and look at what it makes of it."""
    schema = made.json_schema()
    named = st.dictionaries(st.sampled_from([*schema["properties"], "other"]), JSON)

    @given(like(schema, schema) | named | JSON)
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    def check(args: Any) -> None:
        told = f"The arguments for the tool {made.name!r} do not fit"
        try:
            for value in made.prepare(args, RUNTIME).values():
                used(value)
        except ToolArgumentsError as error:
            told = str(error)
        assert told.startswith(f"The arguments for the tool {made.name!r} do not fit")
        told.encode()  # it can be sent

    check()


@pytest.mark.parametrize("shape", SHAPES)
def test_no_json_raises_anything_but_tool_arguments_error(shape: str) -> None:
    hold(StructuredTool.from_function(SHAPES[shape], name=shape, description="d"))


def takes_all(**arguments: Any) -> None: ...


@pytest.mark.parametrize("shape", SHAPES)
def test_nor_does_a_tool_declared_by_the_json_schema(shape: str) -> None:
    schema = StructuredTool.from_function(SHAPES[shape], name=shape, description="d").json_schema()
    hold(StructuredTool.from_function(takes_all, name=shape, description="d", args_schema=schema))


class Declared(BaseModel):
    """With what a signature cannot say: aliases, checks of its own, a strict part, injected fields."""

    model_config = {"populate_by_name": True}

    kind: str = Field(alias="type")
    both: dict[str, Bike | Leaf] = {}
    strict: Annotated[int, Field(strict=True)] = 1
    when: dt.datetime | dt.timedelta | None = None
    secret: Annotated[str, InjectedToolArg] = ""

    @field_validator("kind")
    @classmethod
    def not_empty(cls, value: str) -> str:
        if not value:
            raise ValueError("it is empty")
        return value

    @model_validator(mode="after")
    def together(self) -> Declared:
        assert self.strict != 7, "seven is taken"
        return self


class DeclaredDict(TypedDict, total=False):
    point: Required[Point]
    linked: Linked
    money: decimal.Decimal


@dataclass
class DeclaredData:
    leaf: Leaf
    tags: set[frozenset[str]]
    raw: bytes = b""

    def __post_init__(self) -> None:
        if len(self.tags) > 2:
            raise ValueError("two tags at most")


@pytest.mark.parametrize("schema", [Declared, DeclaredDict, DeclaredData], ids=lambda each: each.__name__)
def test_nor_does_a_tool_declared_by_a_class(schema: Any) -> None:
    hold(StructuredTool.from_function(takes_all, name="declared", description="d", args_schema=schema))
