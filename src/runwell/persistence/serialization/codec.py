"""Values to msgpack bytes and back, for one set of allowed classes.

What msgpack holds by itself (None, bool, 64-bit int, float, text, bytes, list, dict with text keys) goes straight
through; everything else becomes an extension with a code of its own. No key or text of a user can be mistaken for
an extension, so nothing needs escaping.

There are two ways to pack. The quick one lets ormsgpack walk the value and call back for what it does not know. What
that cannot do (keys that are not text, lone surrogates, very deep nesting, a bytearray kept apart from bytes) is done
by the thorough one, which walks in Python; both write the same format.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from ormsgpack import (
    OPT_PASSTHROUGH_BIG_INT,
    OPT_PASSTHROUGH_DATACLASS,
    OPT_PASSTHROUGH_DATETIME,
    OPT_PASSTHROUGH_ENUM,
    OPT_PASSTHROUGH_SUBCLASS,
    OPT_PASSTHROUGH_TUPLE,
    OPT_PASSTHROUGH_UUID,
    Ext,
    packb,
    unpackb,
)

from runwell.errors import ForbiddenType, InvalidConfig, SerializationError
from runwell.messages.convert import MESSAGE_TYPES
from runwell.messages.history import MessageList
from runwell.messages.record import from_record, to_record
from runwell.persistence.serialization.kinds import (
    BIG_INT,
    MAPPING,
    NESTED,
    STANDARD,
    STANDARD_BY_CODE,
    SURROGATES,
    Kind,
    Refused,
    flat,
    numpy_kind,
    unflat,
)
from runwell.persistence.serialization.objects import OBJECT_CODES, object_kind, own_kind, own_type, type_id

__all__ = ["Codec"]

_OPTIONS = (
    OPT_PASSTHROUGH_BIG_INT
    | OPT_PASSTHROUGH_DATACLASS
    | OPT_PASSTHROUGH_DATETIME
    | OPT_PASSTHROUGH_ENUM
    | OPT_PASSTHROUGH_SUBCLASS
    | OPT_PASSTHROUGH_TUPLE
    | OPT_PASSTHROUGH_UUID
)

_ATOMS = frozenset({type(None), bool, int, float, str, bytes})
_BUFFERS = frozenset({bytearray, memoryview})
_DEEP = 200  # containers within containers, below ormsgpack's own limit of 255
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1

MESSAGE = 50


class Codec:
    """Packs and unpacks values of the standard types, runwell's own, and `allowed` classes. Thread-safe."""

    def __init__(self, allowed: Iterable[type]) -> None:
        self._kinds: dict[type, Kind] = dict(STANDARD)
        self._by_id: dict[str, Kind] = {}
        self.allowed: dict[str, type] = {}
        for cls in allowed:
            if _message_kind(cls) or own_kind(cls):
                continue  # found when first met
            name = type_id(cls)
            if self.allowed.setdefault(name, cls) is not cls:
                raise InvalidConfig(
                    f"Two different classes are both called {name!r}, so a saved value could not be told to be of one.",
                    hint="Give one of them another name, or define it once at module level.",
                )
            self._kinds[cls] = self._by_id[name] = object_kind(cls)
        self._hook = self._build
        self._raised = threading.local()  # ormsgpack drops what a callback raises

    # -- packing

    def kind_of(self, cls: type) -> Kind:
        """How the class is saved; raises Refused when it is not allowed."""
        found = self._kinds.get(cls)
        if found is None:
            found = _message_kind(cls) or own_kind(cls) or numpy_kind(cls)
            if found is None:
                raise Refused("its type is not on the allow-list")
            self._kinds[cls] = found
        return found

    def pack(self, value: Any) -> bytes:
        """The bytes; raises Refused somewhere inside when something cannot be saved (`locate` finds out what)."""
        try:
            data = packb(value, self._extension, _OPTIONS)
        except TypeError:
            signal = self._taken()
            if signal is not None and not isinstance(signal, Exception):
                raise signal from None
            return self._thorough(value)
        # numbers, not bytes: that would look first whether those are a number, by an exception
        if (0xC4 in data or 0xC5 in data or 0xC6 in data) and self._holds_buffer(value):
            return self._thorough(value)  # bytes are in it, and some are really a bytearray
        return data

    def _extension(self, value: Any) -> Any:
        try:
            kind = self._kinds.get(type(value))
            if kind is None:
                if type(value) is MessageList:  # a list, that happens to know its ids
                    return list(value)
                if type(value) is int:
                    return _big_int(value)
                kind = self.kind_of(type(value))
            code, parts, _, _ = kind
            return Ext(code, packb(parts(value), self._extension, _OPTIONS))
        except Exception:
            raise
        except BaseException as signal:  # Ctrl-C must not end as "not serializable"
            self._raised.error = signal
            raise

    def _taken(self) -> BaseException | None:
        error: BaseException | None = self._raised.__dict__.pop("error", None)
        return error

    def _thorough(self, value: Any) -> bytes:
        return packb(self._plain(value, 0), None, _OPTIONS)

    def _plain(self, value: Any, depth: int) -> Any:
        """The value with everything msgpack cannot hold replaced by extensions."""
        cls = type(value)
        if cls is str:
            try:
                value.encode()
            except UnicodeEncodeError:
                return Ext(SURROGATES, value.encode("utf-8", "surrogatepass"))
            return value
        if cls is int:
            return value if _INT_MIN <= value <= _INT_MAX else _big_int(value)
        if cls in _ATOMS:
            return value
        if depth >= _DEEP:
            return Ext(NESTED, self._thorough(value))
        if cls is list or cls is MessageList:
            return [self._plain(item, depth + 1) for item in value]
        if cls is dict:
            if all(type(key) is str and _encodable(key) for key in value):
                return {key: self._plain(item, depth + 1) for key, item in value.items()}
            return Ext(MAPPING, self._thorough(flat(value)))
        kind = self.kind_of(cls)
        return Ext(kind.code, self._thorough(kind.parts(value)))

    def _holds_buffer(self, value: Any) -> bool:
        cls = type(value)
        if cls in _ATOMS:
            return False
        if cls in _BUFFERS:
            return True
        if cls is not list and cls is not MessageList:
            value = list(value.values()) if cls is dict else self.kind_of(cls).parts(value)
            if type(value) is not list:
                return self._holds_buffer(value)
        if _ATOMS.issuperset(map(type, value)):
            return False
        return any(self._holds_buffer(item) for item in value)

    # -- what went wrong

    def locate(self, value: Any, path: str) -> tuple[str, Any, str] | None:
        """The first thing inside `value` that cannot be saved: its path, itself, and why. None when all can be."""
        cls = type(value)
        if cls in _ATOMS:
            return None
        try:
            kind = None if cls in (list, dict, MessageList) else self.kind_of(cls)
            parts = value if kind is None else kind.parts(value)
        except Refused as refused:
            return path, value, str(refused)
        if cls is dict or (kind and kind.style == "mapping"):
            inside = [(f"{path} (a key)", key) for key in value] + [(f"{path}[{key!r}]", value[key]) for key in value]
        elif cls in (list, MessageList) or (kind and kind.style == "sequence"):
            inside = [(f"{path}[{at}]", item) for at, item in enumerate(value if _iterable(value) else parts)]
        elif kind and kind.style == "object":
            inside = [(f"{path}.{name}", item) for name, item in _fields(kind, parts).items()]
        else:
            return None
        return next(filter(None, (self.locate(item, where) for where, item in inside)), None)

    # -- unpacking

    def unpack(self, data: bytes) -> Any:
        """The value. Raises ForbiddenType, SerializationError, or what a malformed part leads to."""
        try:
            return unpackb(data, ext_hook=self._build)
        except ValueError:
            error = self._taken()
            if error is not None:
                raise error from None
            raise

    def _build(self, code: int, data: bytes) -> Any:
        try:
            if code == MESSAGE:
                try:  # `unpack`, written out: it runs for each message of a history
                    record = unpackb(data, ext_hook=self._hook)
                except ValueError:
                    record = self.unpack(data)  # to say what is wrong
                return from_record(record)
            build = STANDARD_BY_CODE.get(code)
            if build is not None:
                return build(self.unpack(data))
            if code in OBJECT_CODES:
                return self._object(code, self.unpack(data))
            if code == MAPPING:
                return unflat(self.unpack(data))
            if code == NESTED:
                return self.unpack(data)
            if code == BIG_INT:
                return int.from_bytes(data, "big", signed=True)
            if code == SURROGATES:
                return data.decode("utf-8", "surrogatepass")
            raise ValueError(f"unknown kind of value: {code}")
        except BaseException as error:
            self._raised.error = error
            raise

    def _object(self, code: int, parts: list[Any]) -> Any:
        name = parts[0]
        kind = self._by_id.get(name)
        if kind is None:
            own = own_type(name)
            if own is None:
                raise ForbiddenType(name)
            kind = self._by_id[name] = object_kind(own, name)
        if kind.code != code:
            raise SerializationError(
                f"A saved {name} was {OBJECT_CODES[code]} and the class is now {OBJECT_CODES[kind.code]}.",
                hint="Give the new class another name and keep the old one for threads that hold it.",
            )
        return kind.build(parts)


def _big_int(value: int) -> Ext:
    return Ext(BIG_INT, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def _encodable(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _iterable(value: Any) -> bool:
    return hasattr(type(value), "__iter__")


def _fields(kind: Kind, parts: Any) -> dict[str, Any]:
    """Name to value of what an object holds."""
    if kind.code == MESSAGE:
        return {"content": parts[2], **(parts[3] if len(parts) > 3 else {})}
    return {name: item for part in parts if type(part) is dict for name, item in part.items()}


def _message_kind(cls: type) -> Kind | None:
    """The kind of runwell's messages; None for any other class, a subclass of one included."""
    if not cls.__module__.startswith("runwell.messages"):
        return None
    return Kind(MESSAGE, to_record, from_record, "object") if cls in MESSAGE_TYPES.values() else None
