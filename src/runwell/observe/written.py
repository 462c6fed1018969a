"""The form in which content is written to a trace: each message once, and what is not JSON as something that is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import lru_cache
from itertools import chain
from math import isfinite
from operator import attrgetter
from typing import Any, Final

import msgspec

from runwell.observe.lines import NotFinite

__all__ = ["Apart", "Form", "Written", "form_of"]

_AS_IT_IS: Final = frozenset((type(None), str, int, bool))
_TEXT: Final = frozenset((str,))
_FLOATS: Final = frozenset((float,))
_PLAIN: Final = _AS_IT_IS | {float, dict, list}
_MADE_LATE: Final = ("additional_kwargs", "response_metadata")
"""Fields of messages that are made when they are first read: looking is not to make them."""
_NOTHING: Final = msgspec.Raw(b"{}")
_HISTORIES: Final = 8
"""How many lists of messages are held: an agent's, that with its instructions in front, those of agents in it."""


def _key(key: Any) -> str:
    """A key as JSON has it: one form, whatever else is in its line."""
    if isinstance(key, str):
        return str.__str__(key)
    if not isinstance(key, int | float):
        with suppress(TypeError, ValueError):
            key = msgspec.to_builtins(key)  # a date, an id
    return str(key)


def _with_any_number(data: Any) -> Any:
    kind = type(data)
    if kind is dict:
        if not _TEXT.issuperset(map(type, data)):
            data = {_key(key): each for key, each in data.items()}
        return {key: each if type(each) is str else _with_any_number(each) for key, each in data.items()}
    if kind is list or kind is tuple:
        return [each if type(each) is str else _with_any_number(each) for each in data]
    return NotFinite(data) if kind is float and not isfinite(data) else data


class Again(msgspec.Struct, gc=False):
    """Stands in a list for so many messages that were written, up to the one with that id."""

    again: int
    to: str | int


class Written:
    """The messages that were written in a run and the runs inside it: by id, and the lists of them."""

    __slots__ = ("histories", "known", "refs", "said", "unnamed")

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        self.said: set[int] = set()
        """The `id()` of each that is known, and kept by that."""
        self.unnamed: list[Any] = []
        self.refs: dict[int, int] = {}
        """What those are called that have no id, by `id()`."""
        self.histories: dict[int, list[Any]] = {}
        """Lists of nothing but known ones, each the longest that begins with the one it does."""

    def tree(self, value: Any) -> Any:
        """`value` in a form that JSON is quickly made of, and parts of which it shares.

        Messages become known; those of a list that are so stand there in short.
        """
        kind: Any = type(value)
        return form_of(kind)(self, value)

    def _fields(self, value: dict[Any, Any]) -> dict[Any, Any]:
        if len(value) == 1:  # nearly always what a step gave
            ((key, each),) = value.items()
            kind: Any = type(each)
            return value if kind in _AS_IT_IS else {key: form_of(kind)(self, each)}
        if _AS_IT_IS.issuperset(map(type, chain.from_iterable(value.items()))):
            return value
        if not _TEXT.issuperset(map(type, value)):  # before a message becomes known that another of that name replaces
            value = {_key(key): each for key, each in value.items()}
        shown: dict[Any, Any] | None = None  # the dict itself, where all in it can stand as it is
        for key, each in value.items():
            kind = type(each)
            if kind not in _AS_IT_IS:
                form = form_of(kind)(self, each)
                if form is not each:
                    if shown is None:
                        shown = value.copy()
                    shown[key] = form
        return value if shown is None else shown

    def _items(self, values: Sequence[Any]) -> Sequence[Any]:
        length = len(values)
        if length == 1:
            first = values[0]
            if id(first) in self.said:  # nearly always what a step gave, written when it was made
                return [Again(1, first.id)]
        elif not length:
            return values
        else:
            history = self.histories.get(id(values[0]))
            if history is not None and (count := len(history)) <= length:
                # Nearly always a list is one that was there and what is new. Equal messages may stand for each other.
                if count == length:
                    if history == values:
                        return [Again(length, history[-1].id)]
                elif history == values[:count]:
                    new = values[count:]
                    if not self.said.issuperset(map(id, new)):
                        return self._each(new, count, history[-1].id)
                    history.extend(new)
                    return [Again(length, history[-1].id)]
            if self.said.issuperset(map(id, values)):
                if len(self.histories) == _HISTORIES:
                    del self.histories[next(iter(self.histories))]
                self.histories[id(values[0])] = list(values)
                return [Again(length, values[-1].id)]
            if id(values[1]) in self.said and getattr(values[0], "id", "") is None:  # an agent's instructions
                return [*self._each(values[:1], 0, ""), *self._items(values[1:])]
        kinds = set(map(type, values))
        if _AS_IT_IS.issuperset(kinds) or (kinds == _FLOATS and all(map(isfinite, values))):
            return values  # words, a vector
        return self._each(values, 0, "")

    def _each(self, values: Sequence[Any], again: int, last: str | int) -> list[Any]:
        """Items one by one, after so many of them, up to the `last`, that are known."""
        shown: list[Any] = []
        known = self.known
        for value in values:
            id_ = None if type(value) in _PLAIN else getattr(value, "id", None)
            if type(id_) is str and known.get(id_) is value:
                again, last = again + 1, id_
                continue
            if again:
                shown.append(Again(again, last))
                again = 0
            ref = self.refs.get(id(value)) if id_ is None else None
            kind: Any = type(value)  # `tree`, written out: lists in lists may be deep
            shown.append(form_of(kind)(self, value) if ref is None else Again(1, ref))
        if again:
            shown.append(Again(again, last))
        return shown

    def _number(self, value: float) -> float:
        return float(value) if isfinite(value) else NotFinite(value)  # NumPy's, too

    def _other(self, value: Any) -> Any:
        if isinstance(value, type):
            return value
        dump = getattr(value, "model_dump", None)
        if not callable(dump):
            if is_dataclass(value):
                return self._fields({field.name: getattr(value, field.name, None) for field in fields(value)})
            return value  # how it is written is for who encodes it to say
        id_ = getattr(value, "id", None)
        if type(id_) is str and hasattr(value, "content"):
            self.know(id_, value)
        return self.tree(dump())

    def refer_to(self, message: Any) -> Any:
        """A message is written that has no id: what it is called where it stands again."""
        ref = self.refs.get(id(message))
        if ref is None:
            self.unnamed.append(message)
            ref = self.refs[id(message)] = len(self.unnamed)
        return ref

    def know(self, id_: str, message: Any) -> None:
        """A message of that id is written."""
        before = self.known.get(id_)
        if before is not message:
            self.known[id_] = message
            self.said.add(id(message))
            if before is not None:
                self.said.discard(id(before))
                self.histories.clear()  # what is in them may be another message by now


class Apart(Written):
    """What is written by itself, as metadata is: nothing refers to a message in it that has no id."""

    __slots__ = ()

    def refer_to(self, message: Any) -> Any:
        return msgspec.UNSET


Form = Callable[[Written, Any], Any]


@lru_cache(maxsize=256)  # the classes of what is written are few
def form_of(kind: Any) -> Form:
    """What gives values of a class their form."""
    dump = getattr(kind, "model_dump", None)
    if getattr(dump, "__module__", "") == "runwell.messages.message":
        return _message_form(kind)
    if issubclass(kind, list | tuple):
        return Written._items
    if issubclass(kind, float):
        return Written._number
    if kind in _AS_IT_IS or issubclass(kind, str | int):
        return lambda written, value: value
    if kind is dict:
        return Written._fields
    if issubclass(kind, dict):
        return lambda written, value: written._fields(dict(value))
    return Written._other


def _message_form(kind: Any) -> Form:
    """That of a class of messages: what its dump is, read without one."""
    names = ("type", *(name for name in kind._fields if name not in _MADE_LATE))
    read = attrgetter(*names)
    speaks, makes_calls, has_artifact = "content" in names, "tool_calls" in names, "artifact" in names
    late = [(name, Any, _NOTHING) for name in _MADE_LATE if name in kind._fields]
    made: Any = msgspec.defstruct(kind.__name__, [*names, *late, ("ref", Any, msgspec.UNSET)], gc=False)

    def form(written: Written, message: Any) -> Any:
        id_ = message.id
        if id_ is not None:
            known = written.known
            if id_ in known:
                written.know(id_, message)
            else:  # as nearly always
                known[id_] = message
                written.said.add(id(message))
        shown = made(*read(message))
        if id_ is None:
            shown.ref = written.refer_to(message)
        if not speaks:  # it takes another away
            return shown
        if type(shown.content) is not str:
            shown.content = _with_any_number(shown.content)
        if message._kwargs or message._facts:
            shown.additional_kwargs = _with_any_number(message._kwargs or {})
            shown.response_metadata = _with_any_number(message._facts or {})
        if makes_calls and shown.tool_calls:
            for call in shown.tool_calls:
                if not _AS_IT_IS.issuperset(map(type, call["args"].values())):
                    shown.tool_calls = _with_any_number(shown.tool_calls)
                    break
        if has_artifact and shown.artifact is not None:
            shown.artifact = written.tree(shown.artifact)
        return shown

    return form
