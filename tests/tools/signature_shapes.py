"""Every shape of signature, and the exact JSON schema a model sees for it."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, Optional, Union, Unpack
from uuid import UUID

from pydantic import BaseModel, Field, conint
from typing_extensions import TypedDict

from runwell.tools import (
    InjectedState,
    InjectedStore,
    InjectedToolArg,
    InjectedToolCallId,
    ToolRuntime,
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
