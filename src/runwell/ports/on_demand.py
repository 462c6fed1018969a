"""Parts of an object that most never need, made when they are first asked for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["OnDemand", "Rarely"]

T = TypeVar("T")

_making = threading.RLock()  # what is made may be kept in a `Rarely`, which makes its dict


def _forked() -> None:
    """A forked child may have the lock as another thread of the parent held it."""
    global _making
    _making = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class OnDemand(Generic[T]):
    """An attribute that `make()` makes when it is first read, from any thread. It is kept in `slot`: None until then,
    which who must not make it may look at."""

    __slots__ = ("make", "slot")

    def __init__(self, slot: str, make: Callable[[], T]) -> None:
        self.slot = slot
        self.make = make

    def __get__(self, owner: Any, kind: Any = None) -> T:
        found: T | None = getattr(owner, self.slot)
        if found is None:
            with _making:
                found = getattr(owner, self.slot)
                if found is None:
                    found = self.make()
                    setattr(owner, self.slot, found)
        return found

    def __set__(self, owner: Any, value: T) -> None:
        setattr(owner, self.slot, value)


class Rarely(Generic[T]):
    """An attribute that most objects of a class never set: `default` until then, and no room of its own.

    What was set is kept in the owner's `more`, a dict that is None before."""

    __slots__ = ("default", "name")

    def __init__(self, default: T) -> None:
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, owner: Any, kind: Any = None) -> T:
        more = owner.more
        return self.default if more is None else more.get(self.name, self.default)

    def __set__(self, owner: Any, value: T) -> None:
        more = owner.more
        if more is None:
            with _making:
                more = owner.more
                if more is None:
                    more = owner.more = {}
        more[self.name] = value
