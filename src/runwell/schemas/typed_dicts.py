"""TypedDicts, and a few other types, as pydantic can read them.

Before Python 3.12 pydantic refuses `typing.TypedDict` (it does not record enough about required keys), and plain
strings inside `Annotated` mean nothing to it. Here such a class is rebuilt, nested ones and those that hold themselves
included.
"""

from __future__ import annotations

import collections.abc
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
    """`schema` with each TypedDict in it in a form pydantic reads; a string in `Annotated` becomes a description.

    An `Iterable` is a list: otherwise pydantic checks its items only as they are taken, where nobody expects an error.
    """
    return _rebuild(schema, {})


def _rebuild(hint: Any, known: dict[Any, Any]) -> Any:
    """`known`: the classes that were rebuilt, or are being rebuilt further out."""
    if is_typed_dict(hint):
        return known[hint] if hint in known else _rebuild_class(hint, known)
    origin = get_origin(hint)
    if origin is None or origin is typing.Literal:
        return hint
    if origin is Annotated:
        inner, *notes = get_args(hint)
        return Annotated[(_rebuild(inner, known), *_described(notes))]
    if origin is collections.abc.Iterable:
        origin = list
        hint = list[get_args(hint)]  # type: ignore[misc]
    arguments = get_args(hint)
    rebuilt = tuple(_rebuild(argument, known) for argument in arguments)
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


def _rebuild_class(schema: Any, known: dict[Any, Any]) -> Any:
    try:
        hints = get_type_hints(schema, include_extras=True)
    except NameError as error:
        raise InvalidInput(
            f"An annotation of {schema.__name__} names {error.name!r}, which is not defined where it was written.",
            hint="Import the name at module level, outside `if TYPE_CHECKING:`.",
        ) from error
    needed: dict[str, bool] = {}
    for key, hint in hints.items():
        origin = get_origin(hint)
        if origin in _MARKS:
            (hints[key],) = get_args(hint)
        needed[key] = key in schema.__required_keys__ if origin not in _MARKS else origin in _REQUIRED
    made: Any = _make_typed_dict(schema.__name__, {key: _field(Any, must) for key, must in needed.items()})
    made.__doc__ = schema.__doc__
    made.__module__ = schema.__module__
    known[schema] = made  # before its fields, so that they can be of it
    made.__annotations__ = {key: _field(_rebuild(hint, known), needed[key]) for key, hint in hints.items()}
    return made


def _field(hint: Any, required: bool) -> Any:
    return hint if required else typing_extensions.NotRequired[hint]


_make_typed_dict: Any = typing_extensions.TypedDict
_REQUIRED = (typing.Required, typing_extensions.Required)
_MARKS = (*_REQUIRED, typing.NotRequired, typing_extensions.NotRequired)
