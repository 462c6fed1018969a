"""Values of many fields, of which few are ever looked at: each is worked out when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

__all__ = ["WorkedOut"]


class WorkedOut:
    """The first base of a class whose second is a dataclass with slots, `_plain`; its slots hold what it is made of.

    What is not there yet is a slot without a value, which is when Python asks `__getattr__`; `_work` says how to get
    it. To everybody else it is a `_plain`: it is equal to one, prints as one, and is copied and pickled as one.
    """

    __slots__ = ()
    _plain: ClassVar[type[Any]]
    _work: ClassVar[dict[str, Callable[[Any], Any]]]
    """By name of a field, in the dataclass's order. A field without a function is always there."""

    def __init_subclass__(cls) -> None:
        cls.__qualname__ = cls._plain.__qualname__
        cls.__name__ = cls._plain.__name__

    def __getattr__(self, name: str) -> Any:
        work = self._work.get(name)
        if work is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = work(self)
        setattr(self, name, value)
        return value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, self._plain):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._plain.__match_args__)

    __hash__ = None  # type: ignore[assignment]  # as of any dataclass that can be changed

    def __reduce__(self) -> Any:
        return self._plain, tuple(getattr(self, name) for name in self._plain.__match_args__)
