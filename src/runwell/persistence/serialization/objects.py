"""Classes that are saved once they are allowed: enums, dataclasses, Pydantic models and named tuples.

A value is taken apart into its attributes and put together again without running the class's own code: no
`__init__`, no `__post_init__`, no validator. What was saved comes back exactly, whatever those would make of it now; a
field that the class has gained meanwhile gets its default.
"""

from __future__ import annotations

import dataclasses
import sys
from enum import Enum, Flag
from functools import cached_property
from importlib import import_module
from typing import Any

from runwell.errors import SerializationError
from runwell.persistence.serialization.kinds import Kind

__all__ = [
    "OBJECT_CODES",
    "can_be_allowed",
    "object_kind",
    "own_kind",
    "own_type",
    "pydantic_model",
    "type_id",
]

ENUM, DATACLASS, MODEL, NAMED_TUPLE = 40, 41, 42, 43
OBJECT_CODES = {ENUM: "an enum", DATACLASS: "a dataclass", MODEL: "a Pydantic model", NAMED_TUPLE: "a named tuple"}
"""Parts are a list whose first item is the type's id."""

_BUILTINS = (int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, BaseException)

# Our own values, always allowed. A closed table, so that the name in a file can only ever lead to these classes; by
# name, because this room does not import its siblings.
_OWN = {
    "ChatGeneration": "runwell.models.outputs",
    "Command": "runwell.ports.command",
    "Document": "runwell.documents.document",
    "Generation": "runwell.models.outputs",
    "Interrupt": "runwell.ports.command",
    "Overwrite": "runwell.ports.command",
    "PlannedTask": "runwell.ports.saver",
    "Principal": "runwell.ports.runtime",
    "Send": "runwell.ports.command",
    "TaskRecord": "runwell.ports.saver",
}


def type_id(kind: type) -> str:
    """What a file calls the type: only ever looked up among the allowed ones, never imported."""
    return f"{kind.__module__}:{kind.__qualname__}"


def pydantic_model(kind: Any) -> bool:
    """Whether it is a subclass of Pydantic's BaseModel; does not import Pydantic."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def _named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple) and kind.__bases__ == (tuple,)


def can_be_allowed(kind: Any) -> bool:
    """Whether values of the class can be saved exactly when it is on the allow-list."""
    if not isinstance(kind, type):
        return False
    if issubclass(kind, Enum) or pydantic_model(kind) or _named_tuple(kind):
        return True
    return dataclasses.is_dataclass(kind) and not issubclass(kind, _BUILTINS)


def object_kind(kind: type, name: str | None = None) -> Kind:
    """How values of an allowed class are saved. `name` is its id in the file."""
    name = name or type_id(kind)
    if issubclass(kind, Enum):
        return _enum(kind, name)
    if _named_tuple(kind):
        return _tuple_kind(kind, name)
    return _model(kind, name) if pydantic_model(kind) else _dataclass(kind, name)


def own_kind(kind: type) -> Kind | None:
    """The kind of one of runwell's own values, None for any other class."""
    name = kind.__name__
    return object_kind(kind, f"runwell:{name}") if _OWN.get(name) == kind.__module__ else None


def own_type(name: str) -> type | None:
    """The class for the id of one of runwell's own values."""
    room, _, name = name.partition(":")
    module = _OWN.get(name) if room == "runwell" else None
    return None if module is None else getattr(import_module(module), name)


def _enum(kind: type[Enum], name: str) -> Kind:
    members = kind.__members__

    def parts(value: Any) -> list[Any]:
        label = value._name_
        if label is not None and members.get(label) is value:
            return [name, label]
        return [name, None, value._value_]  # a combination of flags has no name of its own

    def build(parts: list[Any]) -> Any:
        if parts[1] is None and issubclass(kind, Flag):
            return kind(parts[2])
        try:
            return members[parts[1]]
        except KeyError:
            raise SerializationError(
                f"The saved value is {kind.__qualname__}.{parts[1]}, which {name} no longer has.",
                hint="Keep old members in the enum as long as threads that use them are kept.",
            ) from None

    return Kind(ENUM, parts, build)


def _tuple_kind(kind: Any, name: str) -> Kind:
    fields: tuple[str, ...] = kind._fields

    def build(parts: list[Any]) -> Any:
        values = {**kind._field_defaults, **parts[1]}
        if values.keys() != set(fields):
            raise _outgrown(name, set(fields) - values.keys(), values.keys() - set(fields))
        return tuple.__new__(kind, [values[field] for field in fields])

    return Kind(NAMED_TUPLE, lambda value: [name, dict(zip(fields, value, strict=True))], build, "object")


def _outgrown(name: str, missing: Any, extra: Any = ()) -> SerializationError:
    said = [f"needs {sorted(missing)}"] * bool(missing) + [f"has no {sorted(extra)}"] * bool(extra)
    return SerializationError(
        f"A saved {name} does not fit the class as it is now, which {' and '.join(said)}.",
        hint="Give new fields a default, and keep old fields as long as threads that hold them are kept.",
    )


def _cached_names(kind: type) -> frozenset[str]:
    """Attributes that hold what a cached_property worked out: left out, they are worked out again."""
    return frozenset(
        name for base in kind.__mro__ for name, value in vars(base).items() if type(value) is cached_property
    )


def _slots(kind: type) -> tuple[str, ...]:
    names: list[str] = []
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _dataclass(kind: type, name: str) -> Kind:
    fields = {field.name: field for field in dataclasses.fields(kind)}
    slots, cached = _slots(kind), _cached_names(kind)
    has_dict = getattr(kind, "__dictoffset__", 0) != 0
    unset = object()
    needed = fields.keys()

    def slotted_parts(value: Any) -> list[Any]:
        attributes = {slot: found for slot in slots if (found := getattr(value, slot, unset)) is not unset}
        if has_dict:
            attributes.update(value.__dict__)
        for hidden in cached:
            attributes.pop(hidden, None)
        return [name, attributes]

    def plain_parts(value: Any) -> list[Any]:
        if cached:
            return [name, {key: item for key, item in value.__dict__.items() if key not in cached}]
        return [name, value.__dict__]

    def build(parts: list[Any]) -> Any:
        attributes = parts[1]
        value: Any = object.__new__(kind)
        if not attributes.keys() >= needed:
            attributes = {**_defaults(attributes), **attributes}
        if slots:
            try:
                for key, item in attributes.items():
                    object.__setattr__(value, key, item)
            except AttributeError:
                raise _outgrown(name, (), attributes.keys() - set(slots)) from None
        else:
            value.__dict__.update(attributes)
        return value

    def _defaults(attributes: dict[str, Any]) -> dict[str, Any]:
        gained: dict[str, Any] = {}
        for key in needed - attributes.keys():
            field = fields[key]
            if field.default is not dataclasses.MISSING:
                gained[key] = field.default
            elif field.default_factory is not dataclasses.MISSING:
                gained[key] = field.default_factory()
            elif field.init:
                raise _outgrown(name, [key])
        return gained

    return Kind(DATACLASS, slotted_parts if slots else plain_parts, build, "object")


def _model(kind: Any, name: str) -> Kind:
    from pydantic import BaseModel
    from pydantic_core import PydanticUndefined

    cached = _cached_names(kind)
    needed = kind.model_fields.keys()

    def parts(value: Any) -> list[Any]:
        state = value.__dict__
        if cached:
            state = {key: item for key, item in state.items() if key not in cached}
        private = value.__pydantic_private__
        if private:
            private = {key: item for key, item in private.items() if item is not PydanticUndefined}
        extra = value.__pydantic_extra__
        return [name, state, extra, sorted(value.__pydantic_fields_set__), private]

    def build(parts: list[Any]) -> Any:
        _, state, extra, fields_set, private = parts
        if not state.keys() >= needed:
            for key in needed - state.keys():
                field = kind.model_fields[key]
                if field.is_required():
                    raise _outgrown(name, [key])
                state[key] = field.get_default(call_default_factory=True, validated_data=state)
        value = kind.__new__(kind)
        BaseModel.__setstate__(
            value,
            {
                "__dict__": state,
                "__pydantic_extra__": extra,
                "__pydantic_fields_set__": set(fields_set),
                "__pydantic_private__": private,
            },
        )
        return value

    return Kind(MODEL, parts, build, "object")
