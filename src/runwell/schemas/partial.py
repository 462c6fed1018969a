"""Answers while they are still being written: values of a type with what there is."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict

__all__ = ["unchecked"]


def unchecked(kind: Any, value: Any) -> Any:
    """A value of the type `kind` with what `value` (decoded JSON) has of it, not checked and not converted.

    Fields of pydantic models and dataclasses that are not there are None. Of a union, the member whose fields fit is
    taken once only one does; until then, and for every other type, the value stays as it is.
    """
    origin = get_origin(kind)
    if origin is Annotated:
        return unchecked(get_args(kind)[0], value)
    if origin in (Union, UnionType):
        fitting = [each for each in get_args(kind) if each is not NoneType and _may_be(each, value)]
        return unchecked(fitting[0], value) if len(fitting) == 1 else value
    if isinstance(value, list):
        (item,) = get_args(kind)[:1] or (Any,)
        return [unchecked(item, each) for each in value] if origin in (list, Sequence, set, tuple) else value
    if not isinstance(value, Mapping):
        return value
    if origin in (dict, Mapping):
        return {key: unchecked(get_args(kind)[1], each) for key, each in value.items()}
    fields = _fields(kind)
    if fields is None:
        return value
    there = {name: unchecked(hint, value[key]) for name, (key, hint) in fields.items() if key in value}
    if is_typeddict(kind):
        return there
    if dataclasses.is_dataclass(kind):
        made: Any = object.__new__(cast("type", kind))
        for name in fields:
            object.__setattr__(made, name, there.get(name))
        return made
    return kind.model_construct(_fields_set=set(there), **{name: there.get(name) for name in fields})


def _fields(kind: Any) -> dict[str, tuple[str, Any]] | None:
    """Name → (key in JSON, type) of a class with fields; None for any other type."""
    if not isinstance(kind, type):
        return None
    model_fields = getattr(kind, "model_fields", None)
    if isinstance(model_fields, dict) and not getattr(kind, "__pydantic_root_model__", False):
        return {name: (field.alias or name, field.annotation) for name, field in model_fields.items()}
    if is_typeddict(kind) or dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        names = hints if is_typeddict(kind) else [field.name for field in dataclasses.fields(kind)]
        return {name: (name, hints[name]) for name in names}
    return None


def _may_be(kind: Any, value: Any) -> bool:
    """Whether a value that is not whole may become one of `kind`."""
    if get_origin(kind) is Annotated:
        return _may_be(get_args(kind)[0], value)
    if isinstance(value, Mapping):
        if get_origin(kind) in (dict, Mapping) or kind is dict:
            return True
        fields = _fields(kind)
        if fields is None:
            return False
        keys = dict(fields.values())
        return value.keys() <= keys.keys() and all(
            get_origin(keys[key]) is not Literal or each in get_args(keys[key]) for key, each in value.items()
        )
    if isinstance(value, list):
        return get_origin(kind) in (list, Sequence, set, tuple) or kind in (list, set, tuple)
    return _fields(kind) is None and get_origin(kind) not in (list, dict, set, tuple)
