"""TypedDicts as pydantic can read them.

Before Python 3.12 pydantic refuses `typing.TypedDict` (it does not record enough about required keys), and plain
strings inside `Annotated` mean nothing to it. Here such a class is rebuilt, nested ones included.
"""

from __future__ import annotations

import types
import typing
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typing_extensions

from runwell.errors import InvalidInput

__all__ = ["is_typed_dict", "readable"]


def is_typed_dict(schema: Any) -> bool:
    """Whether it is a TypedDict class, of whichever module."""
    return typing_extensions.is_typeddict(schema)


def readable(schema: Any) -> Any:
    """`schema` with each TypedDict in it in a form pydantic reads; a string in `Annotated` becomes a description."""
    return _rebuild(schema, ())


def _rebuild(hint: Any, inside: tuple[Any, ...]) -> Any:
    if is_typed_dict(hint):
        return _rebuild_class(hint, inside)
    origin = get_origin(hint)
    if origin is None or origin is typing.Literal:
        return hint
    if origin is Annotated:
        inner, *notes = get_args(hint)
        return Annotated[(_rebuild(inner, inside), *_described(notes))]
    arguments = get_args(hint)
    rebuilt = tuple(_rebuild(argument, inside) for argument in arguments)
    if all(new is old for new, old in zip(rebuilt, arguments, strict=True)):
        return hint
    if origin is Union or origin is types.UnionType:
        return Union[rebuilt]  # noqa: UP007  built from a tuple
    return origin[rebuilt]


def _described(notes: list[Any]) -> list[Any]:
    """The notes without plain strings and `...`; the last string is the field's description."""
    texts = [note for note in notes if isinstance(note, str)]
    kept = [note for note in notes if not isinstance(note, str) and note is not ... and note is not None]
    if texts:
        from pydantic import Field

        kept.append(Field(description=texts[-1]))
    return kept


def _rebuild_class(schema: Any, inside: tuple[Any, ...]) -> Any:
    if schema in inside:
        raise InvalidInput(
            f"The TypedDict {schema.__name__} contains itself, which cannot be read from a TypedDict.",
            hint="Write it as a pydantic model or a dataclass.",
        )
    try:
        hints = get_type_hints(schema, include_extras=True)
    except NameError as error:
        raise InvalidInput(
            f"An annotation of {schema.__name__} names {error.name!r}, which is not defined where it was written.",
            hint="Import the name at module level, outside `if TYPE_CHECKING:`.",
        ) from error
    fields: dict[str, Any] = {}
    for key, hint in hints.items():
        origin = get_origin(hint)
        if origin in _MARKS:
            (hint,) = get_args(hint)
        rebuilt = _rebuild(hint, (*inside, schema))
        required = key in schema.__required_keys__ if origin not in _MARKS else origin in _REQUIRED
        fields[key] = rebuilt if required else typing_extensions.NotRequired[rebuilt]
    rebuilt_class: Any = _make_typed_dict(schema.__name__, fields)
    rebuilt_class.__doc__ = schema.__doc__
    rebuilt_class.__module__ = schema.__module__
    return rebuilt_class


_make_typed_dict: Any = typing_extensions.TypedDict
_REQUIRED = (typing.Required, typing_extensions.Required)
_MARKS = (*_REQUIRED, typing.NotRequired, typing_extensions.NotRequired)
