"""The form in which content is written to a trace: each message once, and what is not JSON as something that is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import isfinite
from operator import attrgetter
from typing import Any, Final

import orjson

__all__ = ["NotFinite", "Written", "plain"]


def plain(value: Any) -> Any:
    """A value that JSON has no form for, as one that it has: a model's or message's dump, else its `repr`."""
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump()
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    if isinstance(value, float):  # of a class of its own, as NumPy's
        number = float(value)
        return number if isfinite(number) else orjson.Fragment(_NOT_FINITE[repr(number)])
    return repr(value)


class NotFinite(float):
    """An infinite number, or none: written as Python does it, which the grammar of JSON does not know."""

    __slots__ = ()


_NOT_FINITE: Final = {"inf": b"Infinity", "-inf": b"-Infinity", "nan": b"NaN"}


_AS_IT_IS: Final = frozenset((type(None), str, int, bool))
_TEXT: Final = frozenset((str,))
_FLOATS: Final = frozenset((float,))
_PLAIN: Final = _AS_IT_IS | {float, dict, list}


@lru_cache(maxsize=256)  # the classes of messages are few
def _fields_of(kind: Any) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]] | None:
    """The fields of a message of a class whose dump is these, and what reads them; None for any other class."""
    dump = getattr(kind, "model_dump", None)
    if getattr(dump, "__module__", "") != "runwell.messages.message":
        return None
    names = ("type", *kind._fields)
    return names, attrgetter(*(_MADE_LATE.get(name, name) for name in names))


_MADE_LATE: Final = {"additional_kwargs": "_kwargs", "response_metadata": "_facts"}
"""Fields of messages that are made when they are first read: looking is not to make them."""
_NOTHING: Final[dict[str, Any]] = {}
_HOLD_NUMBERS: Final = ("content", "tool_calls", "additional_kwargs", "response_metadata")
"""Fields of messages that are plain data, of which a number may be more than JSON has."""


def _with_any_number(data: Any) -> Any:
    kind = type(data)
    if kind is dict:
        return {key: each if type(each) is str else _with_any_number(each) for key, each in data.items()}
    if kind is list or kind is tuple:
        return [each if type(each) is str else _with_any_number(each) for each in data]
    return NotFinite(data) if kind is float and not isfinite(data) else data


class Written:
    """The messages that were written in a run and the runs inside it: by id, and the longest list of them."""

    __slots__ = ("known", "longest")

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        self.longest: list[Any] = []

    def tree(self, value: Any) -> Any:
        """`value` in a form that JSON is quickly made of, and parts of which it shares.

        Messages become known; those of a list that are so stand there in short.
        """
        kind = type(value)
        if kind in _AS_IT_IS:
            return value
        if kind is dict:
            if not _TEXT.issuperset(map(type, value)):  # before a message in it becomes known
                value = {str(key): each for key, each in value.items()}
            made: dict[str, Any] | None = None  # the dict itself where all in it can stand as it is
            for key, each in value.items():
                kind = type(each)
                if kind not in _AS_IT_IS:
                    shown = self._items(each) if kind is list else self.tree(each)
                    if shown is not each:
                        if made is None:
                            made = value.copy()
                        made[key] = shown
            return value if made is None else made
        if kind is list:
            return self._items(value)
        fields = _fields_of(kind)  # type: ignore[arg-type]
        if fields is not None:
            id_ = value.id
            if id_ is not None and self.known.setdefault(id_, value) is not value:
                self._know(id_, value)
            names, read = fields
            # as many as each other, which is not checked
            shown = dict(zip(names, read(value)))  # noqa: B905
            for name in _MADE_LATE:
                if name in shown and shown[name] is None:
                    shown[name] = _NOTHING
            for name in _HOLD_NUMBERS:
                held = shown.get(name)
                if held and type(held) is not str:
                    shown[name] = _with_any_number(held)
            artifact = shown.get("artifact")
            if artifact is not None:
                shown["artifact"] = self.tree(artifact)
            return shown
        if isinstance(value, list | tuple):
            return self._items(value)
        if isinstance(value, float):
            return float(value) if isfinite(value) else NotFinite(value)  # NumPy's, too
        if isinstance(value, str | int):
            return value
        if isinstance(value, dict):
            return self.tree(dict(value))
        dumped = plain(value)
        if isinstance(dumped, str):
            return dumped
        id_ = getattr(value, "id", None)
        if type(id_) is str and hasattr(value, "content"):
            self._know(id_, value)
        return self.tree(dumped)

    def _know(self, id_: str, message: Any) -> None:
        if self.known.setdefault(id_, message) is not message:
            self.known[id_] = message
            self.longest = []  # what is in it may be another message by now

    def _items(self, values: Sequence[Any]) -> Sequence[Any]:
        known, longest = self.known, self.longest
        count, length, new = len(longest), len(values), values
        if length == 1:  # nearly always what a step gave, written when it was made
            id_ = getattr(values[0], "id", None)
            if type(id_) is str and known.get(id_) is values[0]:
                return [{"again": 1, "to": id_}]
        shown: list[Any] = []
        again, last, all_known = 0, "", True
        # Nearly always a list is the longest one so far and what is new. Equal messages may stand for each other.
        goes_on = 1 < count <= length and longest[0] is values[0]
        if goes_on and longest == (values if count == length else values[:count]):
            again, last = count, longest[-1].id
            if count == length:
                return [{"again": again, "to": last}]
            new = values[count:]
        elif _AS_IT_IS.issuperset(kinds := set(map(type, values))) or (kinds == _FLOATS and all(map(isfinite, values))):
            return values  # words, a vector
        else:
            goes_on = False
        for value in new:
            id_ = None if type(value) in _PLAIN else getattr(value, "id", None)
            if type(id_) is str and known.get(id_) is value:
                again, last = again + 1, id_
                continue
            if again:
                shown.append({"again": again, "to": last})
                again = 0
            shown.append(self.tree(value))
            all_known = all_known and type(id_) is str and known.get(id_) is value
        if again:
            shown.append({"again": again, "to": last})
        if all_known and length > count:
            if goes_on and self.longest is longest:
                longest.extend(new)
            else:
                self.longest = list(values)
        return shown
