"""Random names for runs and messages."""

from __future__ import annotations

import os
from _random import Random  # what `random` is made of, without the rest of it
from collections.abc import Callable, Iterator
from itertools import chain, product, repeat
from typing import Final
from uuid import UUID, SafeUUID

__all__ = ["new_run_id", "random_hex", "texts", "uuid_of"]


def new_run_id() -> str:
    """The text of a UUID (version 4) that no other run has."""
    return next(texts)


def random_hex(size: int) -> str:
    """So many random bytes in hex, for what has to differ from all others and need not be kept secret."""
    return _bits(size * 8).to_bytes(size, "big").hex()


def uuid_of(text: str) -> UUID:
    """As `UUID(text)` of a text that is one, without its checks: they cost more than a run's events."""
    made = object.__new__(UUID)
    _set(made, "int", int(text.replace("-", ""), 16))
    _set(made, "is_safe", _UNKNOWN)
    return made


def _row(_: None) -> Iterator[str]:
    """65,536 ids: their first four digits walk, in no order, through all that there are; the others are random."""
    last = f"{_bits(112):028x}"
    rest = f"{last[:4]}-{last[4:8]}-4{last[9:12]}-{'89ab'[_bits(2)]}{last[13:16]}-{last[16:]}"
    return map("".join, product(_shuffled(), _shuffled(), (rest,)))


def _shuffled() -> list[str]:
    return sorted((f"{number:02x}" for number in range(256)), key=lambda _: _bits(32))


def _seed() -> None:
    """Begin a row of random numbers of our own, which neither a program's `random.seed` nor a fork repeats. Asking the
    system for each would be a call into its kernel."""
    global _bits, texts
    _bits = Random(int.from_bytes(os.urandom(32), "big")).getrandbits
    texts = chain.from_iterable(map(_row, repeat(None)))


_UNKNOWN: Final = SafeUUID.unknown
_set = object.__setattr__
_bits: Callable[[int], int]
texts: Iterator[str]
"""Ids of runs, without end: `next(ids.texts)` is `new_run_id()`."""
_seed()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_seed)
