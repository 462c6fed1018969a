"""Which classes a state schema can hold: a graph's own allow-list, read from its annotations."""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Iterator
from enum import Enum
from typing import Any, ForwardRef, Literal, TypeVar, get_args, get_origin, get_type_hints

import typing_extensions
from typing_extensions import TypeAliasType, is_typeddict

from runwell.persistence.serialization.objects import can_be_allowed, pydantic_model

__all__ = ["reachable_types"]


def reachable_types(schema: Any) -> frozenset[type]:
    """The enums, dataclasses, Pydantic models and named tuples that values of `schema` may consist of.

    `schema` is a TypedDict, dataclass, Pydantic model or any annotation. The annotations of every class found are
    followed, inside generics, unions, `Annotated`, `Literal`, aliases and type variables' bounds. Subclasses are not:
    a field `Shape` allows Shape alone. An annotation that cannot be resolved allows nothing.
    """
    found: set[type] = set()
    seen: set[Any] = set()
    waiting = [schema]
    while waiting:
        annotation = waiting.pop()
        try:
            if annotation in seen:
                continue
            seen.add(annotation)
        except TypeError:  # unhashable, such as Annotated with a list in it: it cannot contain itself
            pass
        waiting += _inside(annotation)
        if can_be_allowed(annotation):
            found.add(annotation)
    return frozenset(found)


def _inside(annotation: Any) -> Iterator[Any]:
    origin = get_origin(annotation)
    if origin is Literal or origin is typing_extensions.Literal:
        yield from map(type, get_args(annotation))
    elif origin is not None:
        yield origin
        for argument in get_args(annotation)[: 1 if hasattr(annotation, "__metadata__") else None]:
            yield from argument if isinstance(argument, list) else (argument,)
    elif isinstance(annotation, TypeVar):
        yield from (annotation.__bound__, *annotation.__constraints__)
    elif isinstance(annotation, TypeAliasType) or type(annotation).__name__ == "TypeAliasType":
        yield annotation.__value__
    elif hasattr(annotation, "__supertype__"):  # NewType
        yield annotation.__supertype__
    elif isinstance(annotation, type) and _has_fields(annotation):
        yield from _hints(annotation)


def _has_fields(cls: type) -> bool:
    if issubclass(cls, Enum):
        return False
    return is_typeddict(cls) or dataclasses.is_dataclass(cls) or pydantic_model(cls) or hasattr(cls, "_fields")


def _hints(cls: Any) -> Iterator[Any]:
    if pydantic_model(cls):
        # Pydantic has resolved these already: type parameters filled in, names local to a function found.
        yield from (field.annotation for field in cls.model_fields.values())
        yield from (argument for argument in cls.__pydantic_generic_metadata__["args"])
    try:
        yield from get_type_hints(cls, include_extras=True).values()
    except (NameError, AttributeError, TypeError):  # some name is unknown here: take what can be resolved
        for base in cls.__mro__:
            namespace = {**vars(sys.modules.get(base.__module__, typing)), **vars(base)}
            for hint in vars(base).get("__annotations__", {}).values():
                yield from _resolved(hint, namespace)


def _resolved(hint: Any, namespace: dict[str, Any]) -> Iterator[Any]:
    text = hint.__forward_arg__ if isinstance(hint, ForwardRef) else hint
    if not isinstance(text, str):
        yield hint
        return
    holder = type("_", (), {"__annotations__": {"it": text}})
    try:
        yield get_type_hints(holder, namespace, include_extras=True)["it"]
    except (NameError, AttributeError, TypeError, SyntaxError):
        return
