"""Strict serialisation: exact types in, exact types out, and nothing that was not allowed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from struct import Struct, pack
from typing import Any
from zlib import crc32

from runwell.errors import (
    CheckpointCorrupt,
    ForbiddenType,
    InvalidConfig,
    RunwellError,
    StorageError,
    UnserializableType,
)
from runwell.persistence.serialization.codec import Codec
from runwell.persistence.serialization.encryption import Cipher
from runwell.persistence.serialization.kinds import STANDARD, Refused
from runwell.persistence.serialization.objects import can_be_allowed, type_id

__all__ = ["Serializer"]

FORMAT = 1
"""First byte of everything written. A reader refuses what is newer than it knows."""

_HEAD = bytes([FORMAT])
_SEALED = bytes([0x80 | FORMAT])
"""First byte of the same, encrypted."""
_FRONT = Struct("<BI")
"""That byte, and the checksum of the rest."""
_start = _FRONT.unpack_from
_format, _sum, _body = itemgetter(0), itemgetter(slice(1, 5)), itemgetter(slice(5, None))
_PLAIN = {FORMAT}
_extension = re.compile(rb"[\xc7-\xc9\xd4-\xd8]").search
"""Finds the first byte of any extension; elsewhere too, as in texts that are not ASCII."""
_KNOWN = {*STANDARD, type(None), bool, int, float, str, bytes, list, dict}


def _packed(sums: Iterable[int]) -> bytes:
    """Checksums as they are stored, one after the other."""
    numbers = list(sums)
    return pack(f"<{len(numbers)}I", *numbers)


class Serializer:
    """Values to bytes and back.

    Always allowed: None, bool, int, float, str, bytes, bytearray, complex, range; list, tuple, dict (any keys), set,
    frozenset, deque, defaultdict (of a builtin), Counter, OrderedDict; datetime, date, time, timedelta, timezone,
    ZoneInfo; UUID, Decimal, Fraction, paths, compiled patterns; runwell's messages, documents and commands.

    `allow` adds your own enums, dataclasses, Pydantic models and named tuples. A type stands for itself only: neither
    its subclasses nor subclasses of builtins are let in by it. Each call may add `types` of its own.

    `owner` is what an error calls the object whose `allow=` would help. With an `encryption` everything is written
    encrypted. Safe to share between threads.
    """

    def __init__(
        self, allow: Iterable[type] = (), *, owner: str = "Serializer", encryption: Cipher | None = None
    ) -> None:
        allow = tuple(allow)
        given: Any
        for given in allow:
            if not can_be_allowed(given) and not (isinstance(given, type) and given in _KNOWN):
                raise InvalidConfig(
                    f"allow= was given {given!r}, which cannot be saved and rebuilt exactly.",
                    hint="It takes classes: enums, dataclasses, Pydantic models and named tuples.",
                )
        self._allow = frozenset(allow) - _KNOWN
        self._owner = owner
        self._cipher = encryption
        self._codecs: dict[frozenset[type], Codec] = {frozenset(): Codec(self._allow)}

    @property
    def allowed(self) -> frozenset[type]:
        """Your own classes that it takes."""
        return self._allow

    def allowing(self, types: frozenset[type]) -> frozenset[type]:
        """Those, and those of `types` that can be saved."""
        return self._allow | {cls for cls in types if can_be_allowed(cls)}

    def _codec(self, types: frozenset[type]) -> Codec:
        codec = self._codecs.get(types)
        if codec is None:
            if len(self._codecs) > 256:  # graphs built on the fly: start over rather than grow without end
                self._codecs = {frozenset(): self._codecs[frozenset()]}
            codec = Codec(self.allowing(types))
            self._codecs[types] = codec
        return codec

    @property
    def repeatable(self) -> bool:
        """Whether an equal value gives the same bytes, which encryption prevents."""
        return self._cipher is None

    def dumps(self, value: Any, key: str = "value", types: frozenset[type] = frozenset()) -> bytes:
        """The bytes for `value`.

        Raises UnserializableType for anything not allowed, naming where it sits below `key` (`messages[3].artifact`),
        its type, and what to do. Nothing is converted in silence.
        """
        codec = self._codecs.get(types) or self._codec(types)
        try:
            data = codec.pack(value)
        except (Refused, RecursionError) as error:
            raise self._refusal(codec, value, key, error) from None
        if self._cipher is None:  # `seal`, written out
            return _FRONT.pack(FORMAT, crc32(data)) + data
        return self.seal(data)

    def seal(self, data: bytes) -> bytes:
        """Packed bytes as they are stored: with a checksum, and encrypted if that is asked for."""
        if self._cipher is None:
            return _FRONT.pack(FORMAT, crc32(data)) + data
        data = self._cipher.encrypt(data)
        return _SEALED + crc32(data).to_bytes(4, "little") + data

    def unseal(self, data: bytes) -> bytes:
        """The packed bytes in stored ones; what `loads` raises for damaged ones, without a place."""
        body = data[5:]
        if crc32(body) != int.from_bytes(data[1:5], "little") or len(data) < 5:
            raise _Damaged
        head = data[:1]
        if head == _HEAD:
            if self._cipher is not None and not self._cipher.reads_plain:
                raise StorageError(
                    "A stored value is not encrypted, and this reader takes encrypted ones only",
                    hint="If it is from before encryption was turned on: AesEncryption(key, reads_plain=True).",
                )
            return body
        if head == _SEALED:
            if self._cipher is None:
                raise StorageError(
                    "A stored value is encrypted",
                    hint=f"Pass the key: {self._owner}(..., encryption=AesEncryption(key)).",
                )
            return self._cipher.decrypt(body)
        raise _Damaged

    def plain(self, data: bytes, where: str) -> bytes:
        """The packed bytes in stored ones, without a look at what they say; raises as `loads` does."""
        try:
            return self.unseal(data)
        except (RunwellError, _Damaged) as error:
            raise self._unreadable(error, data, self._codec(frozenset()), f" ({where})") from error.__cause__

    def loads(self, data: bytes, types: frozenset[type] = frozenset(), *, where: str | Callable[[], str] = "") -> Any:
        """The value that `dumps` was given: equal, of the same types, sharing nothing with it.

        Raises ForbiddenType when the bytes name a class that is not allowed (it is not looked for, imported or built),
        SerializationError when an allowed class has changed so that the value no longer fits, and CheckpointCorrupt for
        damaged bytes; each says `where` (a text, or a function that gives it, called only then).
        """
        codec = self._codec(types)
        try:
            return codec.unpack(self.unseal(data))
        except MemoryError:
            raise
        except Exception as error:
            said = where if isinstance(where, str) else where()
            cause = error.__cause__ if isinstance(error, RunwellError | _Damaged) else error
            raise self._unreadable(error, data, codec, f" ({said})" if said else "") from cause

    def reader(self, types: frozenset[type] = frozenset()) -> Callable[..., Any]:
        """`loads` for many values: `read(data, where, *args)`, where `where(*args)` says the place when it is needed.

        What is the same for all of them is looked up once, which is most of the cost of a small value.
        """
        unpack, start = self._codec(types).unpack, _start

        def read(data: bytes, where: Callable[..., str], *args: Any) -> Any:
            if len(data) > 5:
                body = data[5:]
                if start(data) == (FORMAT, crc32(body)):
                    try:
                        return unpack(body)
                    except Exception:
                        pass  # once more, to say what is wrong with it
            return self.loads(data, types, where=lambda: where(*args))

        plain = self._cipher is None
        return read if plain else lambda data, where, *args: self.loads(data, types, where=lambda: where(*args))

    def all(self, stored: Sequence[bytes], types: frozenset[type] = frozenset()) -> list[Any] | None:
        """`loads` for a whole listing: the values, in a fraction of the time that one by one takes.

        None when anything about any of them is unusual or wrong: `reader` then reads it, or says what and where.
        """
        bodies = self._bodies(stored)
        if bodies is None:
            return None
        try:
            values: list[Any] = self._codec(types).unpack(b"\xdd" + len(bodies).to_bytes(4, "big") + b"".join(bodies))
        except MemoryError:
            raise
        except Exception:
            return None
        return values

    def are_plain(self, stored: Sequence[bytes]) -> bool:
        """Whether all of a listing are undamaged, and hold nothing but what msgpack holds by itself: then reading one
        later cannot fail, whatever is allowed."""
        bodies = self._bodies(stored)
        return bodies is not None and _extension(b"".join(bodies)) is None

    def _bodies(self, stored: Sequence[bytes]) -> list[bytes] | None:
        """What stands behind the checksums; None when one of these is wrong, or anything is unusual."""
        if self._cipher is not None:
            return None
        bodies = list(map(_body, stored))
        try:
            # In two comparisons: a tuple for each would be more for the garbage collector to look at than all else.
            whole = set(map(_format, stored)) == _PLAIN and b"".join(map(_sum, stored)) == _packed(map(crc32, bodies))
        except IndexError:  # an empty one
            return None
        return bodies if whole else None

    # -- errors

    def _refusal(self, codec: Codec, value: Any, key: str, error: Exception) -> UnserializableType:
        try:
            found = codec.locate(value, key)
        except RecursionError:
            found = None
        if found is None:
            return UnserializableType(
                f"State key {key!r} cannot be saved: {error}."
                if not isinstance(error, RecursionError)
                else f"State key {key!r} cannot be saved: it contains itself, or is nested hundreds of levels deep.",
                hint="Return a flatter value without references to itself.",
            )
        path, culprit, why = found
        cls = type(culprit)
        return UnserializableType(
            f"State key {path!r} holds a {type_id(cls).replace(':', '.')}, which cannot be saved: {why}.",
            hint=self._way_out(cls),
        )

    def _way_out(self, cls: type) -> str:
        if cls in _KNOWN:
            return "Save it in another form, for instance as text, and build it again where it is used."
        if can_be_allowed(cls):
            name = cls.__qualname__
            return f"Allow it with {self._owner}(..., allow=[{name}]), or declare it in the state schema."
        for base in cls.__mro__[1:]:
            if base in _KNOWN:
                return (
                    f"A subclass would come back as a plain {base.__name__}: turn it into one yourself, or keep the "
                    f"data in a dataclass and allow that with {self._owner}(..., allow=[...])."
                )
        return (
            f"Keep plain data in the state: a dataclass, a Pydantic model or an enum can be declared in the state "
            f"schema or allowed with {self._owner}(..., allow=[...]). What only lives while the graph runs (clients, "
            f"locks, functions) belongs in the run's context."
        )

    def _unreadable(self, error: Exception, data: bytes, codec: Codec, place: str) -> RunwellError:
        if isinstance(error, ForbiddenType):
            name = error.message
            known = ", ".join(sorted(codec.allowed)) or "none of yours"
            return ForbiddenType(
                f"Saved data names the type {name!r}, which is not on the allow-list; it was not loaded{place}.",
                hint=f"If you trust it: {self._owner}(..., allow=[{name.rpartition(':')[2]}]), or declare it in the "
                f"state schema. Allowed now: {known}.",
            )
        if isinstance(error, RunwellError):
            return type(error)(f"{error.message}{place}", hint=error.hint)
        if not isinstance(error, _Damaged):
            return CheckpointCorrupt(
                f"Saved data cannot be read: {error!r}{place}.",
                hint="The bytes are whole but make no sense; were they written by another program?",
            )
        if len(data) >= 5 and data[0] & 0x7F > FORMAT and crc32(data[5:]) == int.from_bytes(data[1:5], "little"):
            return CheckpointCorrupt(
                f"Saved data has format {data[0] & 0x7F}; this runwell reads up to {FORMAT}{place}.",
                hint="It was written by a newer runwell: upgrade this one.",
            )
        return CheckpointCorrupt(
            f"Saved data is damaged: {len(data)} bytes whose checksum does not match{place}.",
            hint="Restore the database from a backup; nothing of this value was used.",
        )


class _Damaged(Exception):
    """The bytes are not what was written."""
