"""Nulls that mean "not given".

Models send null for what is optional; under OpenAI's strict mode they must. Where null is no value and there is a
default, checking again without it succeeds; where a value is required, the second check says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from runwell.schemas.json_schema import copy_json

if TYPE_CHECKING:
    from pydantic import ValidationError

__all__ = ["real_path", "without", "without_nulls"]


def without_nulls(args: dict[str, Any], error: ValidationError) -> dict[str, Any] | None:
    """`args` without the nulls that `error` complains of, or None if it complains of none."""
    found = error.errors(include_url=False, include_context=False)
    return without(args, [real_path(each["loc"], args, each["type"]) for each in found if each["input"] is None])


def real_path(loc: tuple[str | int, ...], data: Any, kind: str) -> tuple[str | int, ...]:
    """Pydantic's location without its own marks (the branch of a union, `[key]`): only steps that are in the data."""
    path: list[str | int] = []
    last = len(loc) - 1
    for position, step in enumerate(loc):
        if isinstance(data, dict) and (step in data or (position == last and kind in ("missing", "extra_forbidden"))):
            data = data.get(step)
        elif isinstance(data, (list, tuple)) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            continue
        path.append(step)
    return tuple(path)


def without(args: dict[str, Any], paths: Iterable[tuple[str | int, ...]]) -> dict[str, Any] | None:
    """A copy of `args` without the nulls at `paths`, or None if there are none."""
    copy, removed = copy_json(args), False
    for path in paths:
        holder = copy
        for step in path[:-1]:
            holder = holder[step] if not isinstance(holder, dict) or step in holder else {}
        if path and isinstance(holder, dict) and path[-1] in holder and holder[path[-1]] is None:
            del holder[path[-1]]
            removed = True
    return copy if removed else None
