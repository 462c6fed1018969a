"""Telling that a node changed a value of the state in place and did not return it: such a change would not be saved.

A run that goes on in memory would see it and one that goes on from the saver would not. So it is refused, where it can
be told for a microsecond or two a step: a container that has another length, or that holds others than before, itself
or in a container right inside it, in as many places as `MOST`; another content or other calls of the newest message.
`debug` compares all contents, which costs as much as packing the state twice a step. See
design/0008-values-in-a-state-are-fixed.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from operator import ne
from typing import Any

from runwell.errors import InvalidUpdateError
from runwell.messages.history import MessageList
from runwell.messages.message import AIMessage

__all__ = ["Watch"]

_SIZED = frozenset({list, dict, set, bytearray, deque, MessageList})
_INSIDE = frozenset({list, dict, set})
MOST = 32
"""Places of a container that are looked at: the last of a list (of messages fewer), and no dict or set with more."""

Kept = tuple[int, Any, Any]
"""A container's length, a copy of what is looked at, and what stands inside: (container, copy) each; or the newest
message, with its content and calls."""


class Watch:
    """The values of a state as they are before a step."""

    __slots__ = ("contents", "kept", "own", "pack", "sizes")

    def __init__(self, values: Mapping[str, Any], pack: Any = None, own: frozenset[str] = frozenset()) -> None:
        """`pack` makes bytes of a value (None where it cannot), for all contents to be compared. Of keys that are the
        graph's `own`, which no code of a program's is meant to see, lengths are enough."""
        self.own = own
        self.pack = pack
        self.kept: dict[str, Kept] = {}
        self.sizes: dict[str, int] = {}
        """The lengths of `own` keys."""
        self.after({name: (None, value) for name, value in values.items()})
        self.contents = {} if pack is None else {name: pack(value) for name, value in values.items()}

    def after(self, changes: Mapping[str, tuple[Any, Any]]) -> None:
        """What is watched is the state after a step, which changed so much. Not for all contents."""
        for name, (_, new) in changes.items():
            if name in self.own:
                if type(new) in _SIZED:
                    self.sizes[name] = len(new)
                else:
                    self.sizes.pop(name, None)
            elif type(new) in _SIZED:
                self.kept[name] = _look(new)
            else:
                self.kept.pop(name, None)

    def check(
        self,
        done: Iterable[tuple[str, Any]],
        values: Mapping[str, Any],
        changes: Mapping[str, tuple[Any, Any]],
        unsaved: frozenset[str],
    ) -> None:
        """Raise InvalidUpdateError for what nodes, of `done` as (node, writes), changed in place and `changes` lacks.

        The very same object, returned, counts as a change: it is saved whole. In another one around it what is inside
        counts as it was.
        """
        try:
            found = _changed(self.kept, values, changes, ne)
        except (ValueError, TypeError):  # arrays, of which nobody knows whether they differ
            found = _changed(self.kept, values, changes, _differ)
        for name, size in self.sizes.items():
            if len(values[name]) != size and name not in changes:
                found.append((name, f"{size} items became {len(values[name])}"))
        for name, what in found:
            if name not in unsaved:
                raise _refused(done, name, what)
        for name, before in self.contents.items():
            returned = name in changes and changes[name][1] is values[name]
            if not returned and name not in unsaved and self.pack(values[name]) != before:
                raise _refused(done, name, "its contents are others than before the step")


def _changed(
    kept: Mapping[str, Kept],
    values: Mapping[str, Any],
    changes: Mapping[str, tuple[Any, Any]],
    differ: Callable[[Any, Any], Any],
) -> list[tuple[str, str]]:
    """The keys whose values were changed in place, and what in them."""
    found: list[tuple[str, str]] = []
    for name, (size, top, inside) in kept.items():
        value = values[name]
        change = changes.get(name)
        if change is None:
            if len(value) != size:
                found.append((name, f"{size} items became {len(value)}"))
                continue
            if top is not None:
                now = value if type(top) is not list else value[-len(top) :] if top else []
                if differ(now, top):
                    found.append((name, _where(value, top)))
                    continue
        elif change[1] is value:
            continue
        if inside:
            if type(inside) is tuple:
                message, content, calls = inside
                if message.content is not content or (calls is not None and message.tool_calls is not calls):
                    found.append((name, f"{_MESSAGE} {message.id!r} says"))
            else:
                for each, before in inside:
                    if differ(each, before):
                        found.append((name, f"inside it {before!r:.100} became {each!r:.100}"))
    return found


def _look(value: Any) -> Kept:
    """What is kept of a container."""
    kind, size = type(value), len(value)
    if kind is list:
        top: Any = value[-MOST:]
        return size, top, [(each, each.copy()) for each in top if type(each) in _INSIDE and len(each) <= MOST]
    if kind is MessageList:
        if not size:
            return 0, None, None
        newest = value[-1]
        calls = newest.tool_calls if type(newest) is AIMessage else None
        return size, value[-8:], (newest, newest.content, calls)
    if size > MOST or kind is bytearray or kind is deque:
        return size, None, None
    if kind is dict:
        inner = value.values()
        return (
            size,
            value.copy(),
            [(each, each.copy()) for each in inner if type(each) in _INSIDE and len(each) <= MOST],
        )
    return size, value.copy(), None


def _differ(now: Any, before: Any) -> bool:
    """Whether one of them holds another object that is not equal. Objects that cannot be compared are not equal."""
    try:
        return bool(now != before)
    except (ValueError, TypeError):  # arrays
        return True


def _where(value: Any, before: Any) -> str:
    """The first place at which a container holds another thing than before."""
    if isinstance(value, dict):
        for key, old in before.items():
            if key not in value or _differ([value[key]], [old]):
                return f"{key!r}, which was {old!r:.100}"
    elif isinstance(value, list):
        first = len(value) - len(before)
        for place, old in enumerate(before):
            if _differ([value[first + place]], [old]):
                return f"item {first + place}, which was {old!r:.100}"
    return f"it was {before!r:.100}"


_MESSAGE = "what message"


def _refused(done: Iterable[tuple[str, Any]], name: str, what: str) -> InvalidUpdateError:
    who = ", ".join(map(repr, dict(done)))
    if what.startswith(_MESSAGE):
        return InvalidUpdateError(
            f"Node {who} changed {name!r} in place ({what}): that would not be saved, returned or not.",
            hint="Return a changed copy, which has the same id and takes its place: message.model_copy(update={...}).",
        )
    return InvalidUpdateError(
        f"Node {who} changed {name!r} in place ({what}) and did not return it, so it would not be saved.",
        hint=f"Return a new value, as in {{{name!r}: [*state[{name!r}], new]}}: values in a state are fixed.",
    )
