"""What a database can judge of an item by itself: its plain fields, beside its value. Filters as conditions on them.

A condition never leaves out an item that the filter means: what a database might read otherwise than we do (long texts,
large numbers, lists, classes) it lets through, and `filters.matches` has the last word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import isfinite
from typing import Any, Final, NamedTuple, Protocol

from runwell.messages.calls import json_text

__all__ = ["Dialect", "PostgresFacts", "SqliteFacts", "facts_of", "narrowed"]

_LONGEST: Final = 256
_MOST: Final = 64
_LARGEST: Final = 2**53
_DEEPEST: Final = 4
_OTHER: Final[list[Any]] = []
"""In place of what a database does not judge."""
_FIELD = re.compile(r'[^"\\\x00]+')


def facts_of(value: Mapping[str, Any]) -> str | None:
    """The fields of a value, and those inside them under their path, as JSON; None where there are too many."""
    found: dict[str, Any] = {}
    if not _inside(value, "", found, 1) or len(found) > _MOST:
        return None
    for key, each in value.items():  # a key with a dot in it comes before the field inside a field
        if "." in key:
            found[key] = _plain(each)
    keys = "".join(found)
    if ("\x00" in keys or not keys.isascii()) and not all(map(_readable, found)):
        return None
    return json_text(found)


def _inside(value: Mapping[Any, Any], path: str, found: dict[str, Any], depth: int) -> bool:
    """Note the fields of a value; whether all of them could be."""
    for key, each in value.items():
        if not isinstance(key, str):
            return False
        if "." in key:
            continue
        kind = type(each)
        if kind is str and len(each) <= _LONGEST and each.isascii() and "\x00" not in each:
            found[path + key] = each
            continue
        found[path + key] = _plain(each)
        if (kind is dict or isinstance(each, Mapping)) and (
            depth == _DEEPEST or len(found) > _MOST or not _inside(each, f"{path}{key}.", found, depth + 1)
        ):
            return False
    return True


def _plain(value: Any) -> Any:
    """A value that every database reads as we do; `_OTHER` for what is none."""
    if value is None or value is True or value is False:
        return value
    if type(value) is str:
        return value if len(value) <= _LONGEST and _readable(value) else _OTHER
    if type(value) is int or type(value) is float:
        return value if isfinite(value) and abs(value) <= _LARGEST else _OTHER
    return _OTHER


def _readable(text: str) -> bool:
    """Whether it is Unicode, and nothing that ends a text early."""
    if "\x00" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Condition(NamedTuple):
    """SQL with `?` for its values."""

    sql: str
    values: tuple[Any, ...]


class Dialect(Protocol):
    """How a database asks for a field of `i.facts`. Each gives SQL with `?`, and its values."""

    def kept(self, field: str) -> Condition:
        """The field is there and not judged."""

    def there(self, field: str) -> Condition:
        """The field is there."""

    def constant(self, field: str, value: bool | None) -> Condition:
        """It is true, false or null."""

    def text(self, field: str, sign: str, value: str) -> Condition:
        """It is a text, and compares so with this one, character by character."""

    def number(self, field: str, low: float | None, high: float | None) -> Condition:
        """It is a number between these."""


def narrowed(filter: Mapping[str, Any] | None, dialect: Dialect) -> tuple[str, list[Any]]:
    """A checked filter as SQL to append to conditions, and its values; the empty text where it says nothing."""
    parts: list[str] = []
    values: list[Any] = []
    for field, condition in (filter or {}).items():
        if not _FIELD.fullmatch(field) or not _readable(field):
            continue
        compared = isinstance(condition, Mapping) and any(str(key).startswith("$") for key in condition)
        for name, wanted in condition.items() if compared else [("$eq", condition)]:
            kept, asked = dialect.kept(field), _asked(dialect, field, name, wanted)
            parts.append(f" AND (i.facts IS NULL OR {kept.sql} OR {asked.sql})")
            values += [*kept.values, *asked.values]
    return "".join(parts), values


_SIGNS: Final = {"$eq": "=", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


def _asked(dialect: Dialect, field: str, name: str, wanted: Any) -> Condition:
    sign = _SIGNS.get(name)
    if sign == "=" and (wanted is None or wanted is True or wanted is False):
        return dialect.constant(field, wanted)
    if sign is not None and type(wanted) is str and _readable(wanted):
        return dialect.text(field, sign, wanted)
    if sign is not None and type(wanted) in (int, float) and isfinite(wanted) and abs(wanted) <= _LARGEST:
        about = 1e-12 * max(1.0, abs(wanted))  # databases differ in the last digit that they read
        low, high = float(wanted) - about, float(wanted) + about
        return dialect.number(field, None if "<" in sign else low, None if ">" in sign else high)
    return dialect.there(field)


def _between(number: str, low: float | None, high: float | None) -> tuple[str, tuple[float, ...]]:
    bounds: dict[str, float] = {}
    if low is not None:
        bounds[f"{number} >= ?"] = low
    if high is not None:
        bounds[f"{number} <= ?"] = high
    return " AND ".join(bounds), tuple(bounds.values())


class SqliteFacts:
    """SQLite's JSON functions."""

    def _path(self, field: str) -> str:
        return f'$."{field}"'

    def kept(self, field: str) -> Condition:
        return Condition("json_type(i.facts, ?) = 'array'", (self._path(field),))

    def there(self, field: str) -> Condition:
        return Condition("json_type(i.facts, ?) IS NOT NULL", (self._path(field),))

    def constant(self, field: str, value: bool | None) -> Condition:
        name = "null" if value is None else "true" if value else "false"
        return Condition("json_type(i.facts, ?) = ?", (self._path(field), name))

    def text(self, field: str, sign: str, value: str) -> Condition:
        path = self._path(field)
        return Condition(f"(json_type(i.facts, ?) = 'text' AND json_extract(i.facts, ?) {sign} ?)", (path, path, value))

    def number(self, field: str, low: float | None, high: float | None) -> Condition:
        path = self._path(field)
        sql, bounds = _between("json_extract(i.facts, ?)", low, high)
        values = [each for bound in bounds for each in (path, bound)]
        return Condition(f"(json_type(i.facts, ?) IN ('integer', 'real') AND {sql})", (path, *values))


class PostgresFacts:
    """PostgreSQL's `jsonb`."""

    def kept(self, field: str) -> Condition:
        return Condition("jsonb_typeof(i.facts -> ?::text) = 'array'", (field,))

    def there(self, field: str) -> Condition:
        return Condition("(i.facts -> ?::text) IS NOT NULL", (field,))

    def constant(self, field: str, value: bool | None) -> Condition:
        return Condition("(i.facts -> ?::text) = ?::jsonb", (field, json.dumps(value)))

    def text(self, field: str, sign: str, value: str) -> Condition:
        sql = f"""(jsonb_typeof(i.facts -> ?::text) = 'string' AND (i.facts ->> ?::text) COLLATE "C" {sign} ?::text)"""
        return Condition(sql, (field, field, value))

    def number(self, field: str, low: float | None, high: float | None) -> Condition:
        sql, bounds = _between("(i.facts ->> ?::text)::float8", low, high)
        values = [each for bound in bounds for each in (field, bound)]
        return Condition(
            f"CASE WHEN jsonb_typeof(i.facts -> ?::text) = 'number' THEN {sql} ELSE false END", (field, *values)
        )
