"""What a filter means, for every store: one evaluator, so that no backend reads one differently.

A filter is a dict from fields to conditions, all of which must hold:

    {"kind": "note"}                            equal
    {"stars": {"$gte": 3, "$lt": 5}}            $eq $ne $gt $gte $lt $lte
    {"author.name": "Ann"}                      a field inside a field

A field that is missing meets no condition, `$ne` included. None is a value like any other. Numbers are compared with
numbers and text with text; what cannot be compared, a text with a number or a bool with either, is not equal and meets
no `$gt`. Lists and dicts can be equal, not more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

from runwell.errors import InvalidInput, nearest

__all__ = ["OPERATORS", "check_filter", "equal", "matches"]

_MISSING: Final = object()
_ORDERED: Final[tuple[tuple[type, ...], ...]] = (
    (int, float, Decimal),
    (str,),
    (bytes,),
    (datetime,),
    (date,),
    (time,),
    (timedelta,),
)


def equal(left: Any, right: Any) -> bool:
    """Equal as JSON data is: 1 and 1.0 are, 1 and True are not, at any depth."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(value, right[key]) for key, value in left.items())
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(equal, left, right))
    return bool(left == right)


def _compared(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def holds(value: Any, wanted: Any) -> bool:
        if isinstance(value, bool) or isinstance(wanted, bool):
            return False
        for kinds in _ORDERED:
            if isinstance(value, kinds) and isinstance(wanted, kinds):
                try:
                    return test(value, wanted)
                except TypeError:  # times with and without a zone
                    return False
        return False

    return holds


OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "$eq": equal,
    "$ne": lambda value, wanted: not equal(value, wanted),
    "$gt": _compared(lambda value, wanted: bool(value > wanted)),
    "$gte": _compared(lambda value, wanted: bool(value >= wanted)),
    "$lt": _compared(lambda value, wanted: bool(value < wanted)),
    "$lte": _compared(lambda value, wanted: bool(value <= wanted)),
}


def check_filter(filter: Any) -> None:
    """Raise InvalidInput for what is not a filter."""
    if filter is None:
        return
    if not isinstance(filter, Mapping):
        raise InvalidInput(f"A filter is a dict; this is {filter!r:.100}.", hint='For instance {"kind": "note"}.')
    for field, condition in filter.items():
        if not isinstance(field, str):
            raise InvalidInput(f"The filter names the field {field!r}; fields are text.", hint="Use its name.")
        if field.startswith("$"):
            raise InvalidInput(
                f"The filter begins with the operator {field!r}.",
                hint=f'Name a field first: {{"stars": {{"{field}": 3}}}}.',
            )
        if _operators(condition):
            for name in condition:
                if name not in OPERATORS:
                    raise InvalidInput(
                        f"The filter on {field!r} has the operator {name!r}{nearest(name, OPERATORS)}.",
                        hint=f"Operators are {', '.join(OPERATORS)}.",
                    )


def _operators(condition: Any) -> bool:
    return isinstance(condition, Mapping) and any(isinstance(key, str) and key.startswith("$") for key in condition)


def matches(filter: Mapping[str, Any] | None, value: Mapping[str, Any]) -> bool:
    """Whether a value meets every condition of a checked filter."""
    for field, condition in (filter or {}).items():
        found = _at(value, field)
        if found is _MISSING:
            return False
        conditions = condition.items() if _operators(condition) else [("$eq", condition)]
        if not all(OPERATORS[name](found, wanted) for name, wanted in conditions):
            return False
    return True


def _at(value: Mapping[str, Any], field: str) -> Any:
    """The field; a key with a dot in it comes before the field inside a field."""
    found = value.get(field, _MISSING)
    if found is not _MISSING or "." not in field:
        return found
    at: Any = value
    for part in field.split("."):
        if not isinstance(at, Mapping) or part not in at:
            return _MISSING
        at = at[part]
    return at
