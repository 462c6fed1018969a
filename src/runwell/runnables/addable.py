"""Adding up the chunks of a stream, in linear time."""

from __future__ import annotations

import operator
from collections.abc import AsyncIterable, Iterable, Sequence
from functools import reduce
from itertools import chain
from typing import Any

from runwell.errors import InvalidInput

__all__ = ["AddableDict", "aadd", "add", "add_all"]


class AddableDict(dict[str, Any]):
    """A dict chunk: adding two joins their keys, and adds the values of a key that both have."""

    __slots__ = ()

    def __add__(self, other: Any) -> AddableDict:
        return add_dicts((self, other)) if isinstance(other, dict) else NotImplemented

    def __radd__(self, other: Any) -> AddableDict:
        return add_dicts((other, self)) if isinstance(other, dict) else NotImplemented


class ReplacingDict(AddableDict):
    """A dict chunk whose values take the place of earlier ones: of a branch that streams snapshots."""

    __slots__ = ()


def add_dicts(chunks: Iterable[dict[str, Any]]) -> AddableDict:
    """The sum of dict chunks. A later value that cannot be added to the earlier ones takes their place."""
    pieces: dict[str, list[Any]] = {}
    for chunk in chunks:
        for key, value in chunk.items():
            if key not in pieces or isinstance(chunk, ReplacingDict):
                pieces[key] = [value]
            elif value is not None:
                pieces[key].append(value)
    return AddableDict({key: _value(values) for key, values in pieces.items()})


def _value(values: list[Any]) -> Any:
    values = [value for value in values if value is not None] or values[:1]
    try:
        return add_all(values)
    except InvalidInput:
        return values[-1]


def add_all(chunks: Sequence[Any]) -> Any:
    """The sum of all chunks; None of none, the chunk itself of one.

    Texts are joined, lists and tuples concatenated, `AddableDict`s added key by key, anything else added with `+` (or
    by its class's `add_chunks(chunks)`, where adding one by one would not be linear).
    """
    if not chunks:
        return None
    first = chunks[0]
    if len(chunks) == 1:
        return first
    if isinstance(first, str):
        try:
            return "".join(chunks)
        except TypeError:
            raise _unaddable(chunks) from None
    if isinstance(first, AddableDict):
        return add_dicts(chunks)
    if type(first) is list and all(type(chunk) is list for chunk in chunks):
        return list(chain.from_iterable(chunks))
    together = getattr(type(first), "add_chunks", None)
    if together is not None:
        return together(chunks)
    if not getattr(type(first), "adds_up", True):  # it knows `+`, to another end
        raise _unaddable(chunks)
    try:
        return reduce(operator.add, chunks)
    except TypeError:
        raise _unaddable(chunks) from None


def _unaddable(chunks: Sequence[Any]) -> InvalidInput:
    kinds = list(dict.fromkeys(type(chunk).__name__ for chunk in chunks))
    return InvalidInput(
        f"{len(chunks)} chunks cannot be added up: {' and '.join(kinds)}, the first {_short(chunks[0])}.",
        hint=(
            "Yield chunks that `+` joins: strings, lists, message chunks, or AddableDict instead of dict. If each "
            "chunk replaces the one before it, set `streams_snapshots = True` on the runnable that yields them."
        ),
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def add(addables: Iterable[Any]) -> Any:
    """The sum of an iterable of chunks; None when it is empty."""
    return add_all(list(addables))


async def aadd(addables: AsyncIterable[Any]) -> Any:
    """`add` for an async iterable."""
    return add_all([chunk async for chunk in addables])
