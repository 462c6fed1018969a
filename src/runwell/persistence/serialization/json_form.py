"""Packed bytes as JSON data and back: the same values, with their types beside them, in a form people can read.

What JSON holds by itself stands for itself. Everything else is an object with one key that begins with `$`: `$bytes`
(base64), `$float` (nan, inf, -inf), `$text` (text with lone surrogates, as base64 of UTF-8 that lets them pass), and
`$<name of a kind>` with its parts, such as `{"$tuple": [1, 2]}` or `{"$object": ["my.module:Ticket", {...}]}`. A dict
of the user's whose only key begins with `$` becomes `{"$dict": {...}}`.
"""

from __future__ import annotations

import base64
import math
from typing import Any

from ormsgpack import Ext, packb, unpackb

__all__ = ["pack_json", "unpack_json"]

_NAMES = {
    1: "int",
    2: "text",
    3: "mapping",
    4: "nested",
    5: "tuple",
    6: "set",
    7: "frozenset",
    8: "bytearray",
    9: "complex",
    10: "range",
    11: "datetime",
    12: "date",
    13: "time",
    14: "timedelta",
    15: "timezone",
    16: "zone",
    17: "uuid",
    18: "decimal",
    19: "fraction",
    20: "path",
    21: "pattern",
    22: "deque",
    23: "defaultdict",
    24: "counter",
    25: "ordered",
    26: "array",
    27: "scalar",
    28: "buffer",
    40: "enum",
    41: "object",
    42: "model",
    43: "namedtuple",
    50: "message",
}
_CODES = {name: code for code, name in _NAMES.items()}
_RAW = frozenset({1, 2})
"""Kinds whose extension holds bytes of its own, not a packed value."""


def unpack_json(data: bytes) -> Any:
    """Packed bytes as JSON data."""
    return _shown(unpackb(data, ext_hook=_tagged))


def pack_json(value: Any) -> bytes:
    """What `unpack_json` was given; raises ValueError or TypeError for what it never gives."""
    return packb(_packed(value))


class _Tagged:
    """An extension, before it becomes JSON."""

    __slots__ = ("code", "data")

    def __init__(self, code: int, data: bytes) -> None:
        self.code, self.data = code, data


def _tagged(code: int, data: bytes) -> _Tagged:
    return _Tagged(code, data)


def _shown(value: Any) -> Any:
    cls = type(value)
    if cls is _Tagged:
        name = _NAMES[value.code]
        if value.code == 1:
            return {"$int": str(int.from_bytes(value.data, "big", signed=True))}
        return {f"${name}": _base64(value.data) if value.code in _RAW else unpack_json(value.data)}
    if cls is bytes:
        return {"$bytes": _base64(value)}
    if cls is float and not math.isfinite(value):
        return {"$float": repr(value)}
    if cls is list:
        return [_shown(item) for item in value]
    if cls is dict:
        shown = {key: _shown(item) for key, item in value.items()}
        return {"$dict": shown} if len(shown) == 1 and next(iter(shown)).startswith("$") else shown
    return value


def _packed(value: Any) -> Any:
    cls = type(value)
    if cls is list:
        return [_packed(item) for item in value]
    if cls is not dict:
        if cls not in (str, int, float, bool, type(None)):
            raise TypeError(f"{value!r:.60} is not JSON")
        return value
    if len(value) != 1 or not next(iter(value)).startswith("$"):
        return {key: _packed(item) for key, item in value.items()}
    ((name, inner),) = value.items()
    if name == "$dict":
        return {key: _packed(item) for key, item in inner.items()}
    if name == "$bytes":
        return base64.b64decode(inner, validate=True)
    if name == "$float":
        return float(inner)
    code = _CODES.get(name[1:])
    if code is None:
        raise ValueError(f"unknown kind of value: {name!r}")
    if code == 1:
        number = int(inner)
        return Ext(1, number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True))
    return Ext(code, base64.b64decode(inner, validate=True) if code in _RAW else pack_json(inner))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
