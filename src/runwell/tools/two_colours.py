"""Tools written twice, plain and async: what each of the two is given, when they do not take the same."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from runwell.effects import Callee
from runwell.errors import ToolDefinitionError
from runwell.schemas.injection import NOTHING
from runwell.schemas.signature import Shape, describe_place, read_function

__all__ = ["joined", "suited", "written_out"]


def written_out(plain: Callable[..., Any] | None, aio: Callable[..., Any] | None) -> tuple[Any, Any]:
    """The two without the one that takes anything (`*args, **kwargs`) while the other says what: a stand-in.

    Such a one hands on to the other or raises NotImplementedError, and the other serves both kinds of callers.
    """
    if plain is not None and aio is not None:
        if _takes_anything(plain) and not _takes_anything(aio):
            return None, aio
        if _takes_anything(aio) and not _takes_anything(plain):
            return plain, None
    return plain, aio


def joined(callee: Callee[Any], shape: Shape, reserved: frozenset[str], *, hints: bool) -> dict[str, frozenset[str]]:
    """Add to `shape` what only the async one has injected; gives what each is not to be handed, by colour.

    Raises ToolDefinitionError when they want different arguments of the model.
    """
    if callee.sync is None or callee.aio is None or _takes_anything(callee.aio):
        return {}
    theirs = read_function(callee.aio, hints=hints, reserved=reserved)
    lacks = [] if theirs.extra is not NOTHING else sorted(shape.parameters.keys() - theirs.parameters.keys())
    needs = [] if shape.extra is not NOTHING else theirs.parameters.keys() - shape.parameters.keys()
    adds = sorted(name for name in needs if theirs.parameters[name].default is NOTHING)
    if lacks or adds:
        problems = [f"takes no {name!r}" for name in lacks] + [f"needs {name!r}" for name in adds]
        raise ToolDefinitionError(
            f"{shape.where}: its async form {describe_place(callee.aio)} {' and '.join(problems)}.",
            hint="Give both the same arguments.",
        )
    own = frozenset(shape.injected)
    shape.injected.update({name: each for name, each in theirs.injected.items() if name not in own})
    return {"sync": frozenset(shape.injected) - own, "aio": own - frozenset(theirs.injected)}


def suited(callee: Callee[Any], left_out: dict[str, frozenset[str]]) -> Callee[Any]:
    """The callee, each colour of which is handed what it takes."""
    if not any(left_out.values()):
        return callee
    return Callee(
        callee.sync and _without(callee.sync, left_out["sync"]),
        callee.aio and _without(callee.aio, left_out["aio"]),
        cheap=callee.cheap,
    )


def _without(function: Callable[..., Any], names: frozenset[str]) -> Callable[..., Any]:
    if not names:
        return function

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **{name: value for name, value in kwargs.items() if name not in names})

    return called


def _takes_anything(function: Callable[..., Any]) -> bool:
    kinds = {each.kind for each in inspect.signature(function).parameters.values() if each.name != "self"}
    return kinds == {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
