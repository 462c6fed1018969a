"""Telling that a node changed a value of the state in place and did not return it: such a change would not be saved.

A run that goes on in memory would see it and one that goes on from the saver would not. So it is refused, where it can
be told for next to nothing: a list, dict or set that has another length after the step. `debug` compares contents as
well, which costs as much as packing the state twice a step. See design/0008-values-in-a-state-are-fixed.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from runwell.errors import InvalidUpdateError
from runwell.messages.history import MessageList

__all__ = ["Watch"]

_SIZED = frozenset({list, dict, set, bytearray, deque, MessageList})


class Watch:
    """The values of a state as they are before a step."""

    __slots__ = ("contents", "pack", "sizes")

    def __init__(self, values: Mapping[str, Any], pack: Any = None) -> None:
        """`pack` makes bytes of a value (None where it cannot), for contents to be compared as well."""
        self.sizes = {name: len(value) for name, value in values.items() if type(value) in _SIZED}
        self.pack = pack
        self.contents = {} if pack is None else {name: pack(value) for name, value in values.items()}

    def after(self, changes: Mapping[str, tuple[Any, Any]]) -> None:
        """What is watched is the state after a step, which changed so much. Not for contents."""
        for name, (_, new) in changes.items():
            if type(new) in _SIZED:
                self.sizes[name] = len(new)
            else:
                self.sizes.pop(name, None)

    def check(
        self,
        nodes: Iterable[str],
        values: Mapping[str, Any],
        changes: Mapping[str, tuple[Any, Any]],
        unsaved: frozenset[str],
    ) -> None:
        """Raise InvalidUpdateError for what `nodes` changed in place and `changes` does not have.

        The very same object, returned, counts as a change: it is saved whole.
        """
        for name, size in self.sizes.items():
            if len(values[name]) != size and name not in changes and name not in unsaved:
                raise _refused(nodes, name, f"{size} items became {len(values[name])}")
        for name, before in self.contents.items():
            returned = name in changes and changes[name][1] is values[name]
            if not returned and name not in unsaved and self.pack(values[name]) != before:
                raise _refused(nodes, name, "its contents are others than before the step")


def _refused(nodes: Iterable[str], name: str, what: str) -> InvalidUpdateError:
    who = ", ".join(map(repr, dict.fromkeys(nodes)))
    return InvalidUpdateError(
        f"Node {who} changed {name!r} in place ({what}) and did not return it, so it would not be saved.",
        hint=f"Return a new value, as in {{{name!r}: [*state[{name!r}], new]}}: values in a state are fixed.",
    )
