"""The lines of a trace: their fields, and their text as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any, Final

import msgspec

__all__ = [
    "Custom",
    "Decided",
    "Ended",
    "Failed",
    "Line",
    "NotFinite",
    "Retried",
    "Started",
    "as_json",
    "encode_lines",
    "plain",
]


class Line(msgspec.Struct, tag_field="event", tag="", gc=False):
    """A line about a run. `content` is what a function that redacts is given, under another name in each."""

    time: float
    run_id: Any
    parent_id: Any
    name: str
    kind: str


class Started(Line, tag="start", rename={"content": "inputs"}, gc=False):
    content: Any
    tags: Any = msgspec.UNSET
    metadata: Any = msgspec.UNSET


class Ended(Line, tag="end", rename={"content": "outputs"}, gc=False):
    seconds: float
    content: Any
    usage: Any = msgspec.UNSET


class Decided(Line, tag="decision", rename={"content": "outcome"}, gc=False):
    seat: str
    holder: str
    content: Any
    reason: Any


class Failed(Line, tag="error", rename={"content": "error"}, gc=False):
    seconds: float
    error_type: str
    content: Any


class Retried(Line, tag="retry", rename={"content": "error"}, gc=False):
    attempt: int
    wait: float
    content: Any


class Custom(Line, tag="custom", rename={"content": "data"}, gc=False):
    custom: str
    content: Any


class NotFinite(float):
    """An infinite number, or none: written as Python does it, which the grammar of JSON does not know."""

    __slots__ = ()


_NOT_FINITE: Final = {"inf": msgspec.Raw(b"Infinity"), "-inf": msgspec.Raw(b"-Infinity"), "nan": msgspec.Raw(b"NaN")}


def plain(value: Any) -> Any:
    """A value that JSON has no form for, as one that it has: a model's or message's dump, else its `repr`."""
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump()
    if isinstance(value, float):  # of a class of its own, as NumPy's
        number = float(value)
        return number if isfinite(number) else _NOT_FINITE[repr(number)]
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    return repr(value)


_encoder: Final = msgspec.json.Encoder(enc_hook=plain)
encode_lines: Final[Callable[[Sequence[Line]], bytes]] = _encoder.encode_lines


def as_json(value: Any) -> bytes:
    """A value as JSON, whatever is in it."""
    try:
        return _encoder.encode(value)
    except (TypeError, ValueError, OverflowError):  # a key that is no text, half a character
        return json.dumps(_in_full(value), default=lambda each: _in_full(_natural(each))).encode()


def _natural(value: Any) -> Any:
    """What `json` has no form for: a line, a part of one, what the other encoder has one for, anything else."""
    if isinstance(value, msgspec.Raw):
        return json.loads(bytes(value))
    if isinstance(value, msgspec.Struct):
        fields = zip(value.__struct_encode_fields__, msgspec.structs.astuple(value), strict=True)
        tag = {value.__struct_config__.tag_field: value.__struct_config__.tag} if isinstance(value, Line) else {}
        return {**tag, **{name: each for name, each in fields if each is not msgspec.UNSET}}
    try:
        return json.loads(_encoder.encode(value))
    except (TypeError, ValueError, OverflowError):
        return plain(value)


def _in_full(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _in_full(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_in_full(each) for each in value]
    return value
