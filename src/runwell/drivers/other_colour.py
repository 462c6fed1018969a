"""Methods in the other colour than the one that a user's class writes anew.

A class of this package often has a method in both colours, each on its own. A user's class that puts one of its own in
place of either is to be asked through that one by callers of both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import wraps
from typing import Any

from runwell.effects import Callee

__all__ = ["Makers", "answer_in_both", "beneath", "writes"]

_PACKAGE = __name__.partition(".")[0]


Maker = Callable[[str, Callable[..., Any]], Callable[..., Any]]
Makers = tuple[Maker, Maker]
"""Of a coloured method, and of a plain one, each from the name of the method that it asks and from the one beneath."""

_INSIDE: ContextVar[frozenset[tuple[int, str]]] = ContextVar("runwell_other_colour", default=frozenset())
"""Whose written methods are asked in the other colour right now. What they ask in that colour themselves is beneath."""


def answer_in_both(cls: type, pairs: Mapping[str, str], root: type | None = None, makers: Makers | None = None) -> None:
    """Give `cls` the other one of each of the `pairs` (plain: coloured) that it, or a class of its user's, writes anew.

    What `root` has stays in a class of a user's made from it alone: it asks for what is written itself.
    """
    by_plain, by_coloured = makers or CALLS
    if root is not None and not any(_ours(each) for each in cls.__mro__[: cls.__mro__.index(root)]):
        return
    for plain, coloured in pairs.items():
        at, colour_at = _place(cls, plain), _place(cls, coloured)
        if at == colour_at:
            continue
        written, other = (plain, coloured) if at < colour_at else (coloured, plain)
        mine, theirs = cls.__mro__[min(at, colour_at)], cls.__mro__[max(at, colour_at)]
        if _ours(theirs) and not _ours(mine):
            original = vars(theirs)[other]
            make = by_plain if written == plain else by_coloured
            made: Any = wraps(original)(make(written, original))
            made._as_written = made._beneath = original
            setattr(cls, other, made)


def beneath(thing: Any, name: str) -> Any:
    """The method of `thing` for who gives one colour by the other: with `super()` it may be asked by what `name` would
    ask, and then it is the one beneath."""
    method = getattr(thing, name)
    original = getattr(method, "_beneath", None)
    return method if original is None else original.__get__(thing)


def writes(cls: type, name: str, root: type) -> bool:
    """Whether it, or a class between it and `root`, writes the method."""
    method = getattr(cls, name)
    return getattr(method, "_beneath", method) is not getattr(root, name)


def _place(cls: type, name: str) -> int:
    """Which of its classes writes the method."""
    for at, base in enumerate(cls.__mro__):
        if name in vars(base) and not hasattr(vars(base)[name], "_beneath"):
            return at
    return len(cls.__mro__) - 1


def _ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == _PACKAGE


def _by_coloured(written: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        inside = (id(self), written)
        if inside in _INSIDE.get():
            return original(self, *args, **kwargs)
        from runwell.drivers.sync import call_sync

        token = _INSIDE.set(_INSIDE.get() | {inside})
        try:
            return call_sync(Callee(None, getattr(self, written)), *args, **kwargs)
        finally:
            _INSIDE.reset(token)

    return call


def _by_plain(written: str, original: Callable[..., Any]) -> Callable[..., Any]:
    async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        inside = (id(self), written)
        if inside in _INSIDE.get():
            return await original(self, *args, **kwargs)
        from runwell.drivers.aio import call_async

        plain = Callee(getattr(self, written), None, cheap=getattr(self, "never_blocks", False))
        token = _INSIDE.set(_INSIDE.get() | {inside})
        try:
            return await call_async(plain, *args, **kwargs)
        finally:
            _INSIDE.reset(token)

    return call


CALLS: Makers = (_by_plain, _by_coloured)
"""For methods that give a value; the other colour of one that gives a stream is made otherwise."""
