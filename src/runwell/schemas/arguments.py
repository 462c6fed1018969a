"""Arguments of constructors, held against their annotations: what cannot be meant is refused where it is given."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache, wraps
from types import FunctionType, NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, cast, get_args, get_origin

from runwell.errors import InvalidInput

__all__ = ["check_fields", "checked_arguments", "misfits"]

P = ParamSpec("P")
R = TypeVar("R")


def checked_arguments(init: Callable[P, R]) -> Callable[P, R]:
    """An `__init__` that refuses arguments of the wrong kind, all of them in one InvalidInput.

    Annotations say what fits; names that exist for type checkers only let anything pass. True and False are no
    numbers, NaN is none, and a text is no list of texts.
    """
    function = cast("FunctionType", init)
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    positional = names[: code.co_argcount]

    @wraps(init)
    def construct(*args: P.args, **kwargs: P.kwargs) -> R:
        hints = _hints_of(function)
        given = {**dict(zip(positional, args, strict=False)), **kwargs}
        problems = misfits({name: value for name, value in given.items() if name in hints}, hints)
        if problems:
            owner = type(args[0]).__name__ if args else init.__qualname__
            raise InvalidInput(f"{owner}: {'; '.join(problems)}.", hint=_hint(problems))
        return init(*args, **kwargs)

    return construct


def check_fields(value: Any) -> None:
    """The same for a dataclass, from its `__post_init__`."""
    cls: Any = type(value)
    hints = _fields_of(cls)
    problems = misfits({name: getattr(value, name) for name in hints if hasattr(value, name)}, hints)
    if problems:
        raise InvalidInput(f"{cls.__name__}: {'; '.join(problems)}.", hint=_hint(problems))


def _hint(problems: list[str]) -> str:
    return "Correct each of these." if len(problems) > 1 else "Correct it."


def misfits(given: Mapping[str, Any], hints: Mapping[str, Any]) -> list[str]:
    """What is wrong with these values, one text each."""
    problems: list[str] = []
    for name, value in given.items():
        if name in hints and not _fits(value, hints[name]):
            entries = [kind for each in (hints[name], *get_args(hints[name])) if (kind := _entries(each))]
            if isinstance(value, Mapping) and entries:  # what it holds may be secret: only keys are quoted
                key_kind, kind = entries[0]
                problems += [f"{name} has the key {key!r:.100}" for key in value if not _fits(key, key_kind)]
                problems += [
                    f"{name}[{key!r:.100}] is a {type(held).__name__}, not {_said(kind)}"
                    for key, held in value.items()
                    if not _fits(held, kind)
                ]
            else:
                problems.append(f"{name}={_shown(name, value)} is not {_said(hints[name])}")
    return problems


def _entries(hint: Any) -> tuple[Any, ...]:
    """Of the annotation of a dict the kinds of its keys and values, of any other nothing."""
    origin = get_origin(hint)
    return get_args(hint) if isinstance(origin, type) and issubclass(origin, Mapping) else ()


def _shown(name: str, value: Any) -> str:
    """A value as an error may quote it: what may hold secrets is not."""
    return f"<{type(value).__name__}>" if name == "key" or isinstance(value, Mapping) else f"{value!r:.100}"


class _Names(dict[str, Any]):
    """The names an annotation may use; those that only type checkers know mean Any."""

    def __missing__(self, name: str) -> Any:
        if name.startswith("__"):  # what debuggers and test runners look for in a frame's locals
            raise KeyError(name)
        return getattr(builtins, name, Any)


def _resolved(annotations: Mapping[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    known, hints = _Names(names), {}
    for name, hint in annotations.items():
        if isinstance(hint, str):
            try:
                hint = eval(hint, {"__builtins__": vars(builtins)}, known)  # noqa: S307  # our own annotations
            except (TypeError, AttributeError):
                continue
        hints[name] = hint
    return hints


@lru_cache(maxsize=256)
def _hints_of(function: FunctionType) -> dict[str, Any]:
    hints = _resolved(function.__annotations__, function.__globals__)
    hints.pop("return", None)
    return hints


@lru_cache(maxsize=256)
def _fields_of(cls: type) -> dict[str, Any]:
    import sys

    hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        known = getattr(base, "__dataclass_fields__", {})
        own = {name: hint for name, hint in vars(base).get("__annotations__", {}).items() if name in known}
        hints.update(_resolved(own, vars(sys.modules[base.__module__])))
    fields = getattr(cls, "__dataclass_fields__", {})
    return {name: hint for name, hint in hints.items() if name in fields and fields[name].init}


def _fits(value: Any, hint: Any) -> bool:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is None or hint is NoneType:
        return value is None
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in inner)
    if origin is Literal:
        return any(value is each or (type(value) is type(each) and value == each) for each in inner)
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    kind = origin or hint
    if kind is Callable:
        return callable(value)
    if kind is type:
        return isinstance(value, type)
    if not isinstance(kind, type) or kind is Any:
        return True
    if kind is tuple:
        fixed = bool(inner) and inner[-1] is not Ellipsis
        if not isinstance(value, (tuple, list)) or (fixed and len(value) != len(inner)):
            return False
        return all(map(_fits, value, inner if fixed else [inner[0]] * len(value))) if inner else True
    if issubclass(kind, Mapping):
        if not isinstance(value, Mapping):
            return False
        return not inner or all(_fits(k, inner[0]) and _fits(v, inner[1]) for k, v in value.items())
    if kind not in (str, bytes) and issubclass(kind, Iterable) and kind.__module__ in _LISTS:
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            return False
        return not inner or not isinstance(value, Collection) or all(_fits(each, inner[0]) for each in value)
    if hasattr(kind, "__total__") and hasattr(kind, "__required_keys__"):  # a TypedDict
        return isinstance(value, Mapping)
    if getattr(kind, "_is_protocol", False):
        return True
    return isinstance(value, kind)


_LISTS = ("builtins", "collections.abc")


def _said(hint: Any) -> str:
    """An annotation in words."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_said(each) for each in inner))
    if hint is None or hint is NoneType:
        return "None"
    if origin is Literal:
        return " or ".join(f'"{each}"' if isinstance(each, str) else repr(each) for each in inner)
    kind = origin or hint
    if kind is Callable:
        return "a function"
    words = {int: "a whole number", float: "a number", str: "a text", bool: "True or False", bytes: "bytes"}
    if kind in words:
        return words[kind]
    if kind is tuple or (isinstance(kind, type) and kind.__module__ == "collections.abc" and inner):
        listed = [each for each in inner if each is not Ellipsis]
        if kind is not tuple and issubclass(kind, Mapping):
            return "a dict"
        of = "" if Any in listed else f" of {' and '.join(_said(each) for each in listed)}"
        return f"a {'pair' if kind is tuple and len(listed) == 2 else 'list'}{of}"
    return f"a {getattr(kind, '__name__', kind)}"
