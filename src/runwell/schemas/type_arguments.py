"""What the type parameters of a generic class stand for in an instance: `Box[int]()`, `class IntBox(Box[int])`."""

from __future__ import annotations

import inspect
import typing
from functools import partial
from typing import Any

__all__ = ["Known", "owner_of", "substituted", "type_arguments"]

Known = dict[Any, Any]
"""Types by type parameter."""


def type_arguments(instance: Any, owner: type | None) -> Known:
    """What the parameters of `owner`, a class that `instance` is one of, are in it, as far as it says so.

    An instance made by calling `Box[int]` knows it once its `__init__` is over; a subclass of `Box[int]` always does.
    """
    if owner is None or isinstance(instance, type):
        return {}
    kind = type(instance)
    found: dict[type, Known] = {}
    said = typing.get_args(getattr(instance, "__orig_class__", None))
    _visit(kind, _paired(kind, said), found)
    return found.get(owner, {})


def owner_of(method: Any) -> tuple[Any, type | None]:
    """The instance that a method is bound to, and the class that defines it; (None, None) of anything else."""
    while isinstance(method, partial):
        method = method.func
    if not inspect.ismethod(method):
        return None, None
    function, instance = method.__func__, method.__self__
    kinds = instance.__mro__ if isinstance(instance, type) else type(instance).__mro__
    for kind in kinds:
        for declared in kind.__dict__.values():
            if function in (declared, getattr(declared, "func", None), getattr(declared, "coroutine", None)):
                return instance, kind
    return instance, None


def substituted(annotation: Any, known: Known) -> Any:
    """The annotation with types in the place of type parameters, wherever in it they stand."""
    if annotation.__class__ is typing.TypeVar:
        return known.get(annotation, annotation)
    parameters = getattr(annotation, "__parameters__", ()) or _of_model(annotation).get("parameters", ())
    if isinstance(parameters, tuple) and any(each in known for each in parameters):
        return annotation[tuple(known.get(each, each) for each in parameters)]
    return annotation


def _visit(kind: type, known: Known, found: dict[type, Known]) -> None:
    """Note what the parameters of a class are, and of its bases."""
    if kind in found and (found[kind] or not known):
        return
    found[kind] = known
    model = _of_model(kind)
    if model.get("origin") is not None:  # pydantic makes a class of its own of each
        _visit(model["origin"], _paired(model["origin"], model["args"]), found)
    for base in kind.__dict__.get("__orig_bases__", kind.__bases__):
        origin = typing.get_origin(base) or base
        if isinstance(origin, type) and origin not in (typing.Generic, object):
            _visit(origin, _paired(origin, [substituted(each, known) for each in typing.get_args(base)]), found)


def _paired(kind: type, types: Any) -> Known:
    parameters = getattr(kind, "__parameters__", ()) or _of_model(kind).get("parameters", ())
    plain = all(each.__class__ is typing.TypeVar for each in parameters)
    return dict(zip(parameters, types, strict=True)) if plain and len(parameters) == len(types) else {}


def _of_model(kind: Any) -> dict[str, Any]:
    """What pydantic knows of a generic model."""
    found = getattr(kind, "__dict__", {}).get("__pydantic_generic_metadata__") if isinstance(kind, type) else None
    return found or {}
