"""What changed between two values of a channel, and when to store the whole value again. Pure.

A list that grew is stored as its new items, a dict as its new entries. Whether an item is still the same is told by
identity (and equality only for text and bytes, whose equality says all), so that a class's own `__eq__` can never
make a change look like none.

A value is read by replaying its changes from the last whole one. The chain is cut, by storing the value whole, when
reading it would cost more than about twice what the value itself costs. A conversation that only grows never reaches
that, so none of it is ever written twice; a list whose items are edited in place is rewritten every so often, which
adds a constant factor and never more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress, count
from operator import is_not
from typing import Any, NamedTuple, TypeAlias

from runwell.messages.history import MessageList
from runwell.ports.saver import GONE

__all__ = ["WHOLE", "Chain", "Change", "Patch", "Replace", "Splice", "apply", "difference", "from_stored", "to_stored"]


@dataclass(slots=True)
class Replace:
    """The value as a whole."""

    value: Any


@dataclass(slots=True)
class Splice:
    """In a list: the `delete` items from `start` on give way to `items`."""

    start: int
    delete: int
    items: list[Any]


@dataclass(slots=True)
class Patch:
    """In a dict with text keys: entries to set (new ones go to the end) and keys to drop."""

    put: dict[str, Any]
    drop: list[str]


Change: TypeAlias = Replace | Splice | Patch

_LISTS = frozenset({list, MessageList})
_COUNTED = _LISTS | {dict}
_NUMBERS = frozenset({type(None), bool, int, float})
FEW = 8
"""Numbers by name that are stored whole rather than compared one by one. Chosen."""
_SURE = frozenset({str, bytes})
_FIXED = frozenset({type(None), bool, int, float, complex, str, bytes})


def _same(old: Any, new: Any) -> bool:
    return old is new or (type(old) in _SURE and type(new) is type(old) and bool(old == new))


def _alike(old: Sequence[Any], new: Sequence[Any]) -> int:
    """How many items at the front are the same."""
    shorter = min(len(old), len(new))
    if not any(map(is_not, old, new)):  # it grew, as most do
        return shorter
    at = next(compress(count(), map(is_not, old, new)), shorter)
    while at < shorter and _same(old[at], new[at]):
        at += 1
    return at


def difference(old: Any, new: Any) -> Change | None:
    """The smallest change known to lead from `old` to `new`; None when there is none. `new` is not GONE.

    The very same list, dict or other mutable object on both sides has been changed in place, if at all, so what it was
    cannot be known: it counts as replaced.
    """
    if old is new:
        return None if type(new) in _FIXED else Replace(new)
    if type(new) is MessageList and new.left is old and old and new[: len(old)] == old:
        start = len(old)  # compared all the same, as fast as C does: `list.sort(history)` tells the history nothing
        return Splice(start, 0, list(new[start:])) if start < len(new) else None
    if type(old) in _LISTS and type(new) in _LISTS:
        start = _alike(old, new)
        end_old, end_new = len(old), len(new)
        if start == end_old and start and start < end_new:  # it grew, as most do
            return Splice(start, 0, list(new[start:]))
        while end_old > start and end_new > start and _same(old[end_old - 1], new[end_new - 1]):
            end_old -= 1
            end_new -= 1
        if end_old == start == end_new:
            return None
        return Splice(start, end_old - start, list(new[start:end_new])) if start or end_old < len(old) else Replace(new)
    if type(old) is dict and type(new) is dict:
        return _dict_difference(old, new)
    return None if old is not GONE and _same(old, new) else Replace(new)


def _dict_difference(old: dict[Any, Any], new: dict[Any, Any]) -> Change | None:
    if not old or not {str}.issuperset(map(type, old)) or not {str}.issuperset(map(type, new)):
        return Replace(new)
    if len(new) <= FEW and _NUMBERS.issuperset(map(type, new.values())):  # whole, it is as small as what changed
        same = len(old) == len(new) and not any(map(is_not, old.values(), new.values())) and list(old) == list(new)
        return None if same else Replace(new)
    put = {key: value for key, value in new.items() if key not in old or not _same(old[key], value)}
    if len(put) == len(new) and new:
        return Replace(new)
    drop = [key for key in old if key not in new]
    order = [key for key in old if key in new] + [key for key in put if key not in old]
    if order != list(new):
        return Replace(new)
    return Patch(put, drop) if put or drop else None


def apply(value: Any, change: Change) -> Any:
    """The value after the change. A list or dict is changed in place; raises when the change does not fit it."""
    if type(change) is Replace:
        return change.value
    if type(change) is Splice and type(value) is list:
        end = change.start + change.delete
        if not 0 <= change.start <= end <= len(value):
            raise ValueError(f"items {change.start}:{end} of {len(value)}")
        value[change.start : end] = change.items
        return value
    if type(change) is Patch and type(value) is dict:
        for key in change.drop:
            del value[key]
        value.update(change.put)
        return value
    raise ValueError(f"a {type(change).__name__} of a {type(value).__name__}")


# Stored form: a number for the kind and plain data. Part of the file format.

WHOLE = frozenset({0, 3})
"""Kinds of a value as a whole. 3 says that an equal one may be kept once."""


def to_stored(change: Change) -> tuple[int, Any]:
    if type(change) is Splice:
        return 1, [change.start, change.delete, change.items]
    if type(change) is Patch:
        return 2, [change.put, change.drop]
    assert type(change) is Replace
    return 0, change.value


def from_stored(kind: int, data: Any) -> Change:
    if kind in WHOLE:
        return Replace(data)
    if kind == 1:
        return Splice(*data)
    if kind == 2:
        return Patch(*data)
    raise ValueError(f"unknown kind of change: {kind}")


ROW = 64
"""Bytes that a row costs beside its data. Chosen, not measured."""
SLACK = 4096
"""Below this much, a chain is not worth cutting."""


class Chain(NamedTuple):
    """What is stored of a channel: a whole value at commit `base` and the changes since.

    `rows` and `cost` are how many those are, and the bytes to read them. `size` estimates the bytes of the value whole;
    `length` is its number of items, 0 when it has none.
    """

    base: int
    rows: int
    cost: int
    size: int
    length: int

    @classmethod
    def start(cls, seq: int, value: Any, stored: int) -> Chain:
        """A chain that begins with the value whole, in `stored` bytes."""
        return cls(seq, 1, stored + ROW, stored, items(value))

    def extended(self, change: Splice | Patch, new: Any, stored: int) -> Chain | None:
        """With one more change, in `stored` bytes; None when it is time to store the value whole instead."""
        base, rows, cost, size, length = self
        gone = change.delete if type(change) is Splice else _displaced(change, len(new), length)
        if gone and length:
            size -= size * gone // length
        size += stored
        cost += stored + ROW
        # `Chain(...)`, without a call of Python's for it
        return None if cost > 2 * size + SLACK else tuple.__new__(Chain, (base, rows + 1, cost, size, items(new)))


def _displaced(change: Any, after: int, before: int) -> int:
    """How many of a dict's old entries a patch drops or overwrites."""
    added = after - before + len(change.drop)
    return len(change.drop) + len(change.put) - added


def items(value: Any) -> int:
    """The number of items of a list or dict, 0 for anything else."""
    return len(value) if type(value) in _COUNTED else 0
