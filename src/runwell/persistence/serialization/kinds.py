"""The standard types that are always saved, each as an own kind of msgpack extension.

A kind has a code, a function that takes a value apart into plain data, and one that builds it again. Only exact types
are listed: a subclass is another type. The codes are part of the file format: never change or reuse one.
"""

from __future__ import annotations

import pathlib
import re
import sys
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, NamedTuple
from uuid import UUID, SafeUUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from runwell.errors import SerializationError

__all__ = [
    "BIG_INT",
    "MAPPING",
    "NESTED",
    "STANDARD",
    "STANDARD_BY_CODE",
    "SURROGATES",
    "Kind",
    "Refused",
    "flat",
    "unflat",
]

Style = Literal["leaf", "sequence", "mapping", "object"]


class Refused(Exception):
    """A value that cannot be saved exactly; the text says why."""


class Kind(NamedTuple):
    """How one type is saved. `style` says how an error names a place inside it."""

    code: int
    parts: Callable[[Any], Any]
    build: Callable[[Any], Any]
    style: Style = "leaf"


# Codes that stand for what msgpack itself cannot hold.
BIG_INT, SURROGATES, MAPPING, NESTED = 1, 2, 3, 4


def flat(mapping: dict[Any, Any]) -> list[Any]:
    """[key, value, key, value, ...]: msgpack maps only hold text keys, a list holds any."""
    return [side for pair in mapping.items() for side in pair]


def unflat(pairs: list[Any]) -> dict[Any, Any]:
    items = iter(pairs)
    return dict(zip(items, items, strict=True))


def _time_parts(value: Any) -> list[Any]:
    return [value.hour, value.minute, value.second, value.microsecond, value.fold, value.tzinfo]


def _datetime_parts(value: datetime) -> list[Any]:
    return [value.year, value.month, value.day, *_time_parts(value)]


def _datetime(parts: list[Any]) -> datetime:
    year, month, day, hour, minute, second, micro, fold, zone = parts
    return datetime(year, month, day, hour, minute, second, micro, zone, fold=fold)


def _time(parts: list[Any]) -> time:
    hour, minute, second, micro, fold, zone = parts
    return time(hour, minute, second, micro, zone, fold=fold)


def _timezone_parts(value: tzinfo) -> Any:
    if value is UTC:
        return None
    return list(value.__reduce__()[1])  # (offset,) or (offset, name): the public arguments, so a name is kept


def _timezone(parts: Any) -> timezone:
    return UTC if parts is None else timezone(*parts)


def _zone_parts(value: ZoneInfo) -> str:
    if value.key is None:
        raise Refused("a time zone read from a file has no key to find it by again")
    return value.key


def _zone(key: str) -> ZoneInfo:
    try:
        return ZoneInfo(key)
    except ZoneInfoNotFoundError as error:
        raise SerializationError(
            f"The saved value uses the time zone {key!r}, which this machine does not know.",
            hint="Install the time zone database: pip install tzdata",
        ) from error


def _uuid_parts(value: UUID) -> Any:
    return value.bytes if value.is_safe is SafeUUID.unknown else [value.bytes, value.is_safe.value]


def _uuid(parts: Any) -> UUID:
    return UUID(bytes=parts) if type(parts) is bytes else UUID(bytes=parts[0], is_safe=SafeUUID(parts[1]))


_PATHS = {
    each.__name__: each
    for each in (
        pathlib.PurePosixPath,
        pathlib.PureWindowsPath,
        pathlib.PosixPath,
        pathlib.WindowsPath,
    )
}


def _path(parts: list[str]) -> Any:
    name, text = parts
    try:
        return _PATHS[name](text)
    except NotImplementedError as error:  # a WindowsPath on POSIX or the reverse
        raise SerializationError(
            f"The saved value is a {name} ({text!r}), which cannot exist on {sys.platform}.",
            hint="Keep paths in the state as PurePosixPath, PureWindowsPath or text when threads move between systems.",
        ) from error


def _pattern_parts(value: re.Pattern[Any]) -> list[Any]:
    return [value.pattern, value.flags & ~int(re.DEBUG)]  # DEBUG would print on load


_FACTORIES = {
    each.__name__: each
    for each in (bool, bytearray, bytes, complex, dict, float, frozenset, int, list, set, str, tuple)
}


def _defaultdict_parts(value: defaultdict[Any, Any]) -> list[Any]:
    factory: Any = value.default_factory
    if factory is None:
        return [None, *flat(value)]
    name = getattr(factory, "__name__", "")
    if _FACTORIES.get(name) is not factory:
        raise Refused(f"its default_factory {factory!r} is code; only a builtin type such as list or int can be saved")
    return [name, *flat(value)]


def _defaultdict(parts: list[Any]) -> defaultdict[Any, Any]:
    name, *pairs = parts
    return defaultdict(None if name is None else _FACTORIES[name], unflat(pairs))


def _deque_parts(value: deque[Any]) -> list[Any]:
    return [value.maxlen, *value]


def _deque(parts: list[Any]) -> deque[Any]:
    return deque(parts[1:], parts[0])


def _counter(pairs: list[Any]) -> Counter[Any]:
    counter: Counter[Any] = Counter()
    counter.update(unflat(pairs))  # as one mapping: counts are taken as they are
    return counter


def _ordered(pairs: list[Any]) -> OrderedDict[Any, Any]:
    return OrderedDict(unflat(pairs))


def _kinds() -> Iterable[tuple[type, Kind]]:
    yield tuple, Kind(5, list, tuple, "sequence")
    yield set, Kind(6, list, set, "sequence")
    yield frozenset, Kind(7, list, frozenset, "sequence")
    yield bytearray, Kind(8, bytes, bytearray)
    yield complex, Kind(9, lambda value: [value.real, value.imag], lambda parts: complex(*parts))
    yield range, Kind(10, lambda value: [value.start, value.stop, value.step], lambda parts: range(*parts))
    yield datetime, Kind(11, _datetime_parts, _datetime, "sequence")
    yield date, Kind(12, date.toordinal, date.fromordinal)
    yield time, Kind(13, _time_parts, _time, "sequence")
    yield (
        timedelta,
        Kind(14, lambda value: [value.days, value.seconds, value.microseconds], lambda parts: timedelta(*parts)),
    )
    yield timezone, Kind(15, _timezone_parts, _timezone)
    yield ZoneInfo, Kind(16, _zone_parts, _zone)
    yield UUID, Kind(17, _uuid_parts, _uuid)
    yield Decimal, Kind(18, str, Decimal)
    yield (
        Fraction,
        Kind(19, lambda value: [value.numerator, value.denominator], lambda parts: Fraction(parts[0], parts[1])),
    )
    for path in _PATHS.values():
        yield path, Kind(20, lambda value: [type(value).__name__, str(value)], _path)
    yield re.Pattern, Kind(21, _pattern_parts, lambda parts: re.compile(parts[0], parts[1]))
    yield deque, Kind(22, _deque_parts, _deque, "sequence")
    yield defaultdict, Kind(23, _defaultdict_parts, _defaultdict, "mapping")
    yield Counter, Kind(24, flat, _counter, "mapping")
    yield OrderedDict, Kind(25, flat, _ordered, "mapping")
    yield array, Kind(28, lambda value: [value.typecode, value.tolist()], lambda parts: array(parts[0], parts[1]))


STANDARD: dict[type, Kind] = dict(_kinds())
"""Exact type to kind."""


# numpy, when a program uses it: arrays and scalars of plain numbers, text, times and bytes. Never objects.


def _array_parts(value: Any) -> list[Any]:
    return [_dtype(value.dtype), list(value.shape), value.tobytes("F" if value.flags.fnc else "C"), value.flags.fnc]


def _dtype(dtype: Any) -> str:
    if dtype.hasobject:
        raise Refused("its items are Python objects; give it a numeric dtype, or save a list")
    if dtype.names is not None or dtype.subdtype is not None or dtype.str[1] == "V":
        raise Refused("its dtype has fields; save its columns instead")
    return str(dtype.str)


def _array(parts: list[Any]) -> Any:
    dtype, shape, data, fortran = parts
    buffer = bytearray(data)  # so that the array can be written to
    return _numpy().ndarray(tuple(shape), dtype=_checked(dtype), buffer=buffer, order="F" if fortran else "C")


def _scalar(parts: list[Any]) -> Any:
    return _numpy().ndarray((), dtype=_checked(parts[0]), buffer=parts[1])[()]


def _checked(dtype: str) -> str:
    if re.fullmatch(r"[<>|=][biufcSUmM][0-9]+(\[[0-9A-Za-z]+\])?", dtype) is None:
        raise ValueError(f"a dtype that is never written: {dtype!r}")
    return dtype


def _numpy() -> Any:
    try:
        import numpy
    except ImportError as error:
        raise SerializationError(
            "The saved value holds a numpy array, and numpy is not installed.", hint="pip install numpy"
        ) from error
    return numpy


def numpy_kind(cls: type) -> Kind | None:
    """How numpy's arrays and scalars are saved; None for any other class. Does not import numpy."""
    if cls.__module__ != "numpy" or "numpy" not in sys.modules:
        return None
    numpy = _numpy()
    if cls is numpy.ndarray:
        return Kind(26, _array_parts, _array)
    if issubclass(cls, numpy.generic) and getattr(numpy, cls.__name__, None) is cls:
        return Kind(27, lambda value: [_dtype(value.dtype), value.tobytes()], _scalar)
    return None


STANDARD_BY_CODE: dict[int, Callable[[Any], Any]] = {
    **{kind.code: kind.build for kind in STANDARD.values()},
    26: _array,
    27: _scalar,
}
