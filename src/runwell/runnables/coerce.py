"""Making a runnable of what can be one: functions, generator functions, dicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runwell.errors import InvalidInput
from runwell.runnables.forms import form
from runwell.runnables.parameters import generates
from runwell.runnables.runnable import Runnable, not_runnable

__all__ = ["coerce_to_runnable"]


def coerce_to_runnable(thing: Any, where: str = "A step") -> Runnable[Any, Any]:
    """A runnable of `thing`; `where` names it in the error when that cannot be.

    A generator function is given the stream of its input's chunks; other callables get the whole input; a dict runs
    its values side by side.
    """
    if isinstance(thing, Runnable):
        return thing
    if isinstance(thing, Mapping):
        _refuse_circle(thing, where, ())
        return form("RunnableParallel")(thing)  # type: ignore[no-any-return]
    if not callable(thing):
        if callable(getattr(thing, "invoke", None)):
            return form("RunnableLambda")(thing)  # type: ignore[no-any-return]
        raise not_runnable(thing, where)
    if any(generates(thing)):
        return form("RunnableGenerator")(thing)  # type: ignore[no-any-return]
    return form("RunnableLambda")(thing)  # type: ignore[no-any-return]


def _refuse_circle(thing: Mapping[str, Any], where: str, around: tuple[int, ...]) -> None:
    if id(thing) in around:
        raise InvalidInput(f"{where} is a dict that contains itself.", hint="A chain ends: write each dict once.")
    for value in thing.values():
        if isinstance(value, Mapping):
            _refuse_circle(value, where, (*around, id(thing)))
