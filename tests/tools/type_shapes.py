"""Every kind of type that an argument may have. The schemas are in `dialect_table.json`."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import pathlib
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypeVar,
    Union,
)

from pydantic import AnyUrl, BaseModel, Field, Json, RootModel, SecretStr
from typing_extensions import TypeAliasType, TypedDict

T = TypeVar("T")
Money = NewType("Money", int)
Alias = TypeAliasType("Alias", int | str)
"""What `type Alias = int | str` makes."""
Tree = TypeAliasType("Tree", "dict[str, Tree] | int")
Pair = TypeAliasType("Pair", tuple[T, T], type_params=(T,))


class Shade(enum.StrEnum):
    DARK = "dark"
    LIGHT = "light"


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


class Point(NamedTuple):
    x: int
    y: int = 0


class Wheel(BaseModel):
    model_config = {"extra": "forbid"}

    size: int = Field(ge=10, le=30, description="In inches.")


class Bike(BaseModel):
    """A bicycle."""

    wheels: list[Wheel] = Field(min_length=2, max_length=2)
    name: str | None = None
    price: Annotated[float, Field(gt=0)] = 1.5


class Page(BaseModel, Generic[T]):
    items: list[T]
    next: int | None = None


class Aliased(BaseModel):
    kind: str = Field(alias="type")


class Names(RootModel[list[str]]):
    """Some names."""


class Ping(BaseModel):
    pong: Pong | None = None


class Pong(BaseModel):
    ping: Ping | None = None


class Linked(TypedDict):
    value: int
    next: NotRequired[Linked]


class Partly(TypedDict, total=False):
    must: Required[int]
    may: str


@dataclass
class Leaf:
    name: str
    parent: Leaf | None = None


class Free(BaseModel):
    model_config = {"extra": "allow"}

    a: int


class Square(BaseModel):
    kind: Literal["square"] = "square"
    side: float


class Circle(BaseModel):
    kind: Literal["circle"] = "circle"
    radius: float


def forward_reference(a: Below, b: "list[Below]", c: Optional["Below"] = None): ...  # noqa: UP037, UP045


class Below(BaseModel):
    n: int


def alias(a: Alias): ...
def recursive_alias(a: Tree): ...
def generic_alias(a: Pair[int]): ...
def new_type(a: Money): ...
def unions(a: int | None, b: Union[int, str, None], c: list[int] | dict[str, int] | None = None): ...  # noqa: UP007
def bool_or_text(a: bool | str): ...
def model_or_text(a: Square | str): ...
def either_model(a: Square | Circle): ...
def more_literals(a: Literal["x", None], b: Literal[True, "no"], c: Literal[1, 2.5] = 1): ...  # noqa: PYI061
def more_enums(a: Shade, b: Mixed, c: Shade | None = None, d: list[Shade] = [Shade.DARK]): ...  # noqa: B006
def times(a: dt.time, b: dt.timedelta, c: dt.date = dt.date(2020, 1, 2)): ...
def numbers(a: decimal.Decimal, b: decimal.Decimal = decimal.Decimal("1.5")): ...
def texts(a: pathlib.Path, b: AnyUrl, c: SecretStr): ...
def json_in_text(a: Json[list[int]]): ...
def raw_bytes(a: bytes = b"x"): ...
def collections_of(a: frozenset[str], b: deque[int], c: Iterable[int], d: Mapping[str, bool], e: tuple[()]): ...
def bounded_items(
    a: Annotated[list[Annotated[int, Field(gt=0)]], Field(min_length=1, max_length=3)],
    b: dict[str, Annotated[str, Field(max_length=5)]],
): ...
def multiples(a: Annotated[int, Field(multiple_of=5)], b: Annotated[float, Field(gt=0, lt=1)] = 0.5): ...
def named_tuple(a: Point): ...
def nested_model(a: Bike): ...
def generic_model(a: Page[int]): ...
def aliased(a: Aliased): ...
def root_model(a: Names): ...
def mutual(a: Ping): ...
def linked(a: Linked): ...
def partly(a: Partly): ...
def recursive_dataclass(a: Leaf): ...
def free_model(a: Free): ...
def nothing_but_none(a: None = None): ...
def anything_inside(a: list[Any], b: dict[str, Any], c: object = None): ...
def described(a: Annotated[int | None, Field(description="How many.", examples=[3])] = None): ...


TYPES = {
    each.__name__: each
    for each in (
        forward_reference,
        alias,
        recursive_alias,
        generic_alias,
        new_type,
        unions,
        bool_or_text,
        model_or_text,
        either_model,
        more_literals,
        more_enums,
        times,
        numbers,
        texts,
        json_in_text,
        raw_bytes,
        collections_of,
        bounded_items,
        multiples,
        named_tuple,
        nested_model,
        generic_model,
        aliased,
        root_model,
        mutual,
        linked,
        partly,
        recursive_dataclass,
        free_model,
        nothing_but_none,
        anything_inside,
        described,
    )
}
