"""What a value lacks that fits none of several schemas: told of the one that was meant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["told_problems"]

_KINDS = frozenset(("const", "enum", "type"))
"""Keywords that tell one kind of object from another."""


def told_problems(errors: Iterable[Any]) -> list[tuple[tuple[str | int, ...], str]]:
    """(place, text) of each of a `jsonschema_rs` validator's errors.

    Of an `anyOf` or `oneOf` those of the branch that the value is of by the words and types of its own keys, should
    there be one such branch; otherwise what each branch says first.
    """
    found: list[tuple[tuple[str | int, ...], str]] = []
    for error in errors:
        branches = getattr(error.kind, "context", None) if error.kind.name in ("anyOf", "oneOf") else None
        if not branches or not all(branches):  # it fits one, or more of a `oneOf` than it may
            found.append((tuple(error.instance_path), error.message))
            continue
        depth = len(error.instance_path)
        meant = [branch for branch in branches if not any(_another_kind(each, depth) for each in branch)]
        if len(meant) == 1:
            found += told_problems(meant[0])
        else:
            texts = dict.fromkeys(branch[0].message for branch in branches)
            found.append((tuple(error.instance_path), ", or ".join(texts)))
    return found


def _another_kind(error: Any, depth: int) -> bool:
    return error.kind.name in _KINDS and len(error.instance_path) <= depth + 1
