"""Runnables of a user's own classes: their calls are runs like any other's, and their config is checked and handed on.

A class writes `invoke` (or another method of the protocol) and knows nothing of runs. So each method of the protocol
that such a class has is put behind one that opens the run; with nobody watching and no config it only calls on.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from functools import update_wrapper
from typing import Any

from runwell.drivers.colour import RETOLD, told_apart
from runwell.observe.context import CURRENT
from runwell.observe.run import OpenRun, open_run
from runwell.runnables.config import ensure_config

__all__ = ["as_written", "is_own", "observe"]

_PACKAGE = __name__.partition(".")[0]


def as_written(cls: type, name: str) -> Any:
    """The method `name` of `cls` as its author wrote it."""
    method = getattr(cls, name)
    return getattr(method, "_as_written", method)


def is_own(cls: type, root: type, protocol: tuple[str, ...]) -> bool:
    """Whether nothing of this package stands between `cls` and `root`: what does opens its runs itself."""
    for base in cls.__mro__:
        if base is root:
            return True
        if base.__module__.partition(".")[0] == _PACKAGE and (
            base is cls or any(name in vars(base) for name in protocol)
        ):
            return False
    return False


def observe(cls: type, root: type, protocol: tuple[str, ...]) -> None:
    """Put a run around each method of `protocol` that `cls` writes or inherits from `root`."""
    for name in protocol:
        method = getattr(cls, name)
        if hasattr(method, "_as_written") or not inspect.isfunction(method) or not _takes_input(method):
            continue
        setattr(cls, name, _FORMS[name](name, method, method is not getattr(root, name)))


class _OwnRun(OpenRun):
    """A run around a method of a user's own class."""

    __slots__ = ("delegates", "owner")

    owner: int
    """The id of the runnable."""
    delegates: int
    """The same until its own code is reached, then 0."""


def _opened(self: Any, name: str, method: Any, written: bool, told: Any, config: Any) -> tuple[OpenRun | None, Any]:
    """The run for this call, and the config for the code in it. None: it is a part of the run that is current."""
    if getattr(type(self), name) is not method:  # super().invoke(...)
        return None, config
    around = CURRENT.get()
    if type(around) is _OwnRun and around.delegates == id(self):  # from a method of ours to the one that is written
        if written:
            around.delegates = 0
        return None, config
    run: Any = open_run(self.run_kind, self, told, config, made=_OwnRun)
    if run is None:
        return None, config if around is None else ensure_config(config)
    run.owner = id(self)
    run.delegates = 0 if written else run.owner
    return run, run.config


def _takes_input(method: Callable[..., Any]) -> bool:
    """Whether it is of the protocol, and not something else under one of its names."""
    try:
        inspect.signature(method).bind(None, None)
    except TypeError:
        return False
    return True


def _passing(method: Callable[..., Any]) -> Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]]:
    """How `method` takes a config: as (args, kwargs). One that declares none is given none."""
    parameters = inspect.signature(method).parameters.values()
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if len(positional) > 2 or any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return lambda config: ((config,), {})
    if any(one.kind is one.VAR_KEYWORD or one.name == "config" for one in parameters):
        return lambda config: ((), {"config": config})
    return lambda config: ((), {})


def _invoke(name: str, method: Callable[..., Any], written: bool) -> Callable[..., Any]:
    passing = _passing(method)

    def invoke(self: Any, input: Any, config: Any = None, **kwargs: Any) -> Any:
        run = None
        if config or CURRENT.get() is not None:
            run, config = _opened(self, name, invoke, written, input, config)
        args, more = passing(config)
        try:
            if run is None:
                return method(self, input, *args, **more, **kwargs)
            return run.call(method, self, input, *args, **more, **kwargs)
        except RETOLD as error:
            raise told_apart(error)  # noqa: B904 - it has its cause

    return _dressed(invoke, method)


def _ainvoke(name: str, method: Callable[..., Any], written: bool) -> Callable[..., Any]:
    passing = _passing(method)

    async def ainvoke(self: Any, input: Any, config: Any = None, **kwargs: Any) -> Any:
        run = None
        if config or CURRENT.get() is not None:
            run, config = _opened(self, name, ainvoke, written, input, config)
        args, more = passing(config)
        try:
            if run is None:
                return await method(self, input, *args, **more, **kwargs)
            return await run.acall(method, self, input, *args, **more, **kwargs)
        except (*RETOLD, RuntimeError) as error:
            raise told_apart(error)  # noqa: B904 - it has its cause

    return _dressed(ainvoke, method)


def _stream(name: str, method: Callable[..., Any], written: bool) -> Callable[..., Any]:
    passing = _passing(method)
    fed = name == "transform"

    def stream(self: Any, input: Any, config: Any = None, **kwargs: Any) -> Iterator[Any]:
        run = None
        if config or CURRENT.get() is not None:
            run, config = _opened(self, name, stream, written, None if fed else input, config)
        args, more = passing(config)
        if run is None:
            return method(self, input, *args, **more, **kwargs)  # type: ignore[no-any-return]
        return run.watch(lambda: method(self, input, *args, **more, **kwargs), self._whole)

    return _dressed(stream, method)


def _astream(name: str, method: Callable[..., Any], written: bool) -> Callable[..., Any]:
    passing = _passing(method)
    fed = name == "atransform"

    def astream(self: Any, input: Any, config: Any = None, **kwargs: Any) -> AsyncIterator[Any]:
        run = None
        if config or CURRENT.get() is not None:
            run, config = _opened(self, name, astream, written, None if fed else input, config)
        args, more = passing(config)
        if run is None:
            return method(self, input, *args, **more, **kwargs)  # type: ignore[no-any-return]
        return run.awatch(lambda: method(self, input, *args, **more, **kwargs), self._whole)

    return _dressed(astream, method)


def _dressed(wrapper: Any, method: Callable[..., Any]) -> Callable[..., Any]:
    update_wrapper(wrapper, method)
    wrapper._as_written = method
    return wrapper  # type: ignore[no-any-return]


_FORMS = {
    "invoke": _invoke,
    "ainvoke": _ainvoke,
    "stream": _stream,
    "transform": _stream,
    "astream": _astream,
    "atransform": _astream,
}
