"""What a key of a state may be said to be, beside a reducer: `Annotated[T, EphemeralValue]` and the like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runwell.errors import GraphError

__all__ = [
    "BinaryOperatorAggregate",
    "DeltaChannel",
    "EphemeralValue",
    "LastValue",
    "Topic",
    "UntrackedValue",
]


class _Kind:
    """Written as the class or as an instance; `typ` is taken for what it says to a reader, the annotation decides."""

    def __init__(self, typ: Any = None) -> None:
        self.typ = typ


class LastValue(_Kind):
    """What a key without reducer is anyway: a write replaces the value, and a step may write it once."""


class EphemeralValue(_Kind):
    """Seen in the step after the one that wrote it, then gone."""


class UntrackedValue(_Kind):
    """Not saved: kept within a run, and absent when a thread is taken up again. For what cannot be stored, such as a
    connection."""


class BinaryOperatorAggregate(_Kind):
    """A reducer, said the long way: `operator(what is there, what comes)`."""

    def __init__(self, typ: Any = None, operator: Callable[[Any, Any], Any] | None = None) -> None:
        super().__init__(typ)
        if not callable(operator):
            raise GraphError(
                f"BinaryOperatorAggregate got operator={operator!r}.", hint="Give a function of two values."
            )
        self.operator = operator


class DeltaChannel(_Kind):
    """A reducer, `reducer(what is there, what comes)`. Savers here store what changed of every list, so this is no
    other way of storing; `snapshot_frequency` is taken and not needed."""

    def __init__(
        self, reducer: Callable[[Any, Any], Any], typ: Any = None, *, snapshot_frequency: int | None = None
    ) -> None:
        super().__init__(typ)
        if not callable(reducer):
            raise GraphError(f"DeltaChannel got reducer={reducer!r}.", hint="Give a function of two values.")
        self.operator = reducer
        self.snapshot_frequency = snapshot_frequency


class Topic(_Kind):
    """A list of all that a step's tasks wrote, each a value or a list of them; gone after the next step, unless
    `accumulate`."""

    def __init__(self, typ: Any = None, accumulate: bool = False) -> None:
        super().__init__(typ)
        self.accumulate = accumulate

    @staticmethod
    def operator(there: list[Any], comes: Any) -> list[Any]:
        """What is there with what comes behind it."""
        return [*there, *comes] if isinstance(comes, list) else [*there, comes]


def kind_of(note: Any) -> _Kind | None:
    """The kind that an annotation's note says, as an instance; None for any other note."""
    if isinstance(note, _Kind):
        return note
    if isinstance(note, type) and issubclass(note, _Kind):
        if note in (BinaryOperatorAggregate, DeltaChannel):
            raise GraphError(f"{note.__name__} needs its reducer.", hint=f"Write {note.__name__}(...).")
        return note()
    return None
