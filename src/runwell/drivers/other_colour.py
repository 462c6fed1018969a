"""Methods in the other colour than the one that a user's class writes anew.

A class often has a method in both colours, each on its own. A user's class that puts one of its own in place of either
is to be asked through that one by callers of both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import wraps
from inspect import unwrap
from types import FrameType
from typing import Any

from runwell.effects import Callee

__all__ = [
    "Makers",
    "answer_in_both",
    "asks_itself",
    "beneath",
    "go_back_inside",
    "leave_inside",
    "stands_for_both",
    "writes",
]

_PACKAGE = __name__.partition(".")[0]

Asked = Callable[[Any], Any]
"""Gives the method of an object that is asked in the other colour."""
Maker = Callable[[str, Asked, Callable[..., Any]], Callable[..., Any]]
Makers = tuple[Maker, Maker]
"""Of a coloured method, and of a plain one: each from the name of what it asks, from that, and from what is beneath."""

_BETWEEN = (_PACKAGE, "asyncio")

Inside = frozenset[tuple[int, str]]
_NOBODY: Inside = frozenset()
_INSIDE: ContextVar[Inside] = ContextVar("runwell_other_colour", default=_NOBODY)
"""Whose written methods are asked in the other colour right now. What they ask in that colour themselves is beneath."""


def answer_in_both(cls: type, pairs: Mapping[str, str], root: type | None = None, makers: Makers | None = None) -> None:
    """Give `cls` the other one of each of the `pairs` (plain: coloured) of which it writes one for both.

    What `root` has stays in a class of a user's made from it alone: it asks for what is written itself.
    """
    by_plain, by_coloured = makers or CALLS
    for plain, coloured in pairs.items():
        written = stands_for_both(cls, plain, coloured, root)
        if written is None:
            continue
        other, make = (coloured, by_plain) if written == plain else (plain, by_coloured)
        original = vars(cls.__mro__[_place(cls, other, root)])[other]
        function = vars(cls.__mro__[_place(cls, written, root)])[written]
        made: Any = wraps(original)(make(written, _asking(written, function), original))
        made._as_written = made._beneath = original
        setattr(cls, other, made)


def stands_for_both(cls: type, plain: str, coloured: str, root: type | None = None) -> str | None:
    """The name of the two that a user's class writes anew, in place of what stood beside the other, or served for it.

    None where both stand: written in the same class, or one to go with the other.
    """
    at, colour_at = _place(cls, plain, root), _place(cls, coloured, root)
    if at == colour_at:
        return None
    name, nearer, further = (plain, at, colour_at) if at < colour_at else (coloured, colour_at, at)
    bases = cls.__mro__
    if _ours(bases[nearer]):
        return None
    if not _ours(bases[further]):
        return name if any(_wrote(base, name, root) for base in bases[nearer + 1 :]) else None
    alone = root is not None and bases[further] is root and not any(map(_ours, bases[: bases.index(root)]))
    return None if alone else name


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


def leave_inside() -> Inside:
    """A user's function begins, that of a tool, say. It may ask anything anew, also what it is called by: that is none
    of what the written methods around it ask themselves. Gives what `go_back_inside` takes at its end."""
    inside = _INSIDE.get()
    if inside:
        _INSIDE.set(_NOBODY)
    return inside


def go_back_inside(inside: Inside) -> None:
    """The function has ended."""
    if inside:
        _INSIDE.set(inside)


def asks_itself(thing: Any, written: str) -> bool:
    """Whether a method that is made here is called by the body of the written one, of the same object: then it is the
    one beneath that is meant. Our own code in between does not count, nor does an `asyncio.run`."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        frame = frame.f_back
    if frame is None:
        return False
    at = frame.f_code
    for cls in type(thing).__mro__:
        if written in vars(cls):
            code = getattr(unwrap(vars(cls)[written]), "__code__", None)
            if code is None or not code.co_argcount or code.co_filename != at.co_filename:
                continue
            if at is code or at.co_qualname.startswith(f"{code.co_qualname}.<locals>."):
                return frame.f_locals.get(code.co_varnames[0]) is thing
    return False


def _place(cls: type, name: str, root: type | None) -> int:
    """Which of its classes writes the method."""
    for at, base in enumerate(cls.__mro__):
        if base is root or _wrote(base, name, root):
            return at
    return len(cls.__mro__) - 1


def _wrote(base: type, name: str, root: type | None) -> bool:
    """Whether it is in the class itself: neither made here, nor the root's with a run around it."""
    method = vars(base).get(name)
    if method is None or base is root or hasattr(method, "_beneath"):
        return False
    return root is None or getattr(method, "_as_written", method) is not vars(root).get(name)


def _ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == _PACKAGE


def _asking(written: str, function: Callable[..., Any]) -> Asked:
    def asked(thing: Any) -> Any:
        method = getattr(thing, written)
        # made here too, in a class made from this one: then this class's own, as `super()` means it
        return function.__get__(thing) if hasattr(method, "_beneath") else method

    return asked


def _by_coloured(written: str, asked: Asked, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        inside = (id(self), written)
        if inside in _INSIDE.get() or asks_itself(self, written):
            return original(self, *args, **kwargs)
        from runwell.drivers.sync import call_sync

        token = _INSIDE.set(_INSIDE.get() | {inside})
        try:
            return call_sync(Callee(None, asked(self)), *args, **kwargs)
        finally:
            _INSIDE.reset(token)

    return call


def _by_plain(written: str, asked: Asked, original: Callable[..., Any]) -> Callable[..., Any]:
    async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        inside = (id(self), written)
        if inside in _INSIDE.get() or asks_itself(self, written):
            return await original(self, *args, **kwargs)
        from runwell.drivers.aio import call_async

        plain = Callee(asked(self), None, cheap=getattr(self, "never_blocks", False))
        token = _INSIDE.set(_INSIDE.get() | {inside})
        try:
            return await call_async(plain, *args, **kwargs)
        finally:
            _INSIDE.reset(token)

    return call


CALLS: Makers = (_by_plain, _by_coloured)
"""For methods that give a value; the other colour of one that gives a stream is made otherwise."""
