"""Every kind of callable, and the exact JSON schema a model sees for it."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Generic, TypeVar

from signature_shapes import INT, S, obj

T = TypeVar("T")
Bounded = TypeVar("Bounded", bound=int)


async def coroutine(a: int, b: str = "x") -> str: ...  # type: ignore[empty-body]
def generator(a: int) -> Iterator[str]:
    yield "half"
    return "done"


async def async_generator(a: int) -> AsyncIterator[str]:
    yield "half"


class Shop:
    def method(self, a: int) -> None: ...
    async def async_method(self, a: int) -> None: ...
    @classmethod
    def class_method(cls, a: int) -> None: ...
    @staticmethod
    def static_method(a: int) -> None: ...


class Greeter:
    def __call__(self, who: str, times: int = 1) -> str: ...  # type: ignore[empty-body]


class Box(Generic[T]):
    def put(self, item: T) -> None: ...


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


@logged
def wrapped(a: int, b: str = "x") -> None: ...
def generic(items: list[T], first: Bounded) -> None: ...
def two(a: int, b: str, c: str = "c") -> None: ...
def positional(a: int, b: str, /) -> None: ...


JUST_A = obj(["a"], a=INT)
CALLABLES: dict[str, tuple[Any, dict[str, Any]]] = {
    "coroutine": (coroutine, obj(["a"], a=INT, b={**S, "default": "x"})),
    "generator": (generator, JUST_A),
    "async_generator": (async_generator, JUST_A),
    "bound_method": (Shop().method, JUST_A),
    "async_bound_method": (Shop().async_method, JUST_A),
    "class_method": (Shop.class_method, JUST_A),
    "static_method": (Shop.static_method, JUST_A),
    "callable_object": (Greeter(), obj(["who"], who=S, times={**INT, "default": 1})),
    "wrapped": (wrapped, obj(["a"], a=INT, b={**S, "default": "x"})),
    "generic": (generic, obj(["items", "first"], items={"type": "array", "items": {}}, first=INT)),
    "generic_method": (Box[int]().put, obj(["item"], item=INT)),
    "partial_by_position": (functools.partial(two, 1), obj(["b"], b=S, c={**S, "default": "c"})),
    "partial_by_name": (functools.partial(two, c="z"), obj(["a", "b"], a=INT, b=S)),
    "partial_of_a_partial": (functools.partial(functools.partial(two, 1), b="y"), obj(c={**S, "default": "c"})),
    "partial_of_positional_only": (functools.partial(positional, 1), obj(["b"], b=S)),
    "partial_method": (functools.partial(Shop().method), JUST_A),
}
