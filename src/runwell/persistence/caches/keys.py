"""What makes two calls the same: every argument, with its type."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from runwell.errors import UnserializableType
from runwell.messages.convert import MESSAGE_TYPES
from runwell.messages.history import MessageList
from runwell.messages.record import to_record
from runwell.persistence.serialization.codec import Codec
from runwell.persistence.serialization.kinds import Kind, Refused
from runwell.persistence.serialization.objects import can_be_allowed, object_kind, type_id

__all__ = ["CallCodec", "cache_key", "call_key"]


def cache_key(*args: Any, **kwargs: Any) -> str:
    """A key for a call with these arguments: equal for equal ones, and different as soon as anything differs.

    Types count at every depth: 1, True and 1.0 are three keys, and so are a list and a tuple, or two arrays of the same
    bytes and different dtypes. The order of dict entries, sets and keyword arguments does not.

    Raises UnserializableType, naming the argument, for what it cannot tell apart (a lock, a function, a user's object
    that is no dataclass, Pydantic model, enum or named tuple): give the cache a `key_func` then.
    """
    from hashlib import blake2b

    codec = _codec()
    try:
        data = codec.pack(_ordered([list(args), kwargs], codec, 0))
    except RecursionError:
        raise UnserializableType(
            "No cache key can be made of an argument that contains itself, or is nested hundreds of levels deep.",
            hint="Pass key_func= to say what makes two calls the same.",
        ) from None
    except Refused as error:
        for name, value in (*((f"args[{n}]", value) for n, value in enumerate(args)), *kwargs.items()):
            found = codec.locate(value, name)
            if found is not None:
                path, culprit, why = found
                raise UnserializableType(
                    f"No cache key can be made of {path}, a {type_id(type(culprit)).replace(':', '.')}: {why}.",
                    hint="Pass key_func= to say what makes two calls the same.",
                ) from None
        raise UnserializableType(
            f"No cache key can be made of these arguments: {error}.", hint="Pass key_func= instead."
        ) from None
    return blake2b(data, digest_size=20).hexdigest()


class _Lenient(Codec):
    """Takes any class that can be taken apart: a key is never read back, so nothing has to be allowed."""

    def kind_of(self, cls: type) -> Kind:
        try:
            return super().kind_of(cls)
        except Refused:
            if not can_be_allowed(cls):
                raise
            self._kinds[cls] = kind = object_kind(cls)
            return kind


class CallCodec(Codec):
    """Packs values whose types are allowed, messages without their ids, which code may give at random."""

    def __init__(self, allowed: Iterable[type]) -> None:
        super().__init__(allowed)
        for cls in MESSAGE_TYPES.values():
            self._kinds[cls] = self.kind_of(cls)._replace(parts=_without_id)


def _without_id(message: Any) -> list[Any]:
    parts = to_record(message)
    parts[1] = None
    return parts


@lru_cache(maxsize=1)
def _codec() -> _Lenient:
    return _Lenient(())


def call_key(value: Any, codec: CallCodec) -> str | None:
    """As `cache_key` of one value, in which ids of messages do not count; None for what the codec does not take."""
    from hashlib import blake2b

    try:
        return blake2b(codec.pack(_ordered(value, codec, 0)), digest_size=12).hexdigest()
    except (Refused, RecursionError, UnserializableType):
        return None


_UNORDERED = frozenset({dict, set, frozenset})


def _ordered(value: Any, codec: Codec, depth: int) -> Any:
    """The value with dicts and sets as lists in an order of their own, marked so that no list looks like one."""
    cls = type(value)
    if cls in _UNORDERED:
        if depth > 100:
            raise Refused("it is nested too deep")
        if cls is dict:
            entries = [
                [_ordered(key, codec, depth + 1), _ordered(item, codec, depth + 1)] for key, item in value.items()
            ]
        else:
            entries = [_ordered(item, codec, depth + 1) for item in value]
        return (cls.__name__, "unordered", sorted(codec.pack(entry) for entry in entries))
    if cls is list or cls is MessageList:
        return [_ordered(item, codec, depth + 1) for item in value]
    if cls is tuple:
        return ("tuple", [_ordered(item, codec, depth + 1) for item in value])
    return value
