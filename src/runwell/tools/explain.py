"""What the model is told when its arguments do not fit: for each problem its path, what is wrong, what is expected."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from runwell.schemas.json_schema import resolve_pointer
from runwell.tools.result import sendable

__all__ = ["Problem", "at_path", "expected", "message", "shorten", "written"]

MAX_PROBLEMS = 10
MAX_VALUE_CHARS = 80


@dataclass(slots=True)
class Problem:
    """One thing wrong with the arguments. `path` is as the model would write it, `filters.tags[2]`."""

    path: str
    what: str
    expected: str = ""

    def __str__(self) -> str:
        line = f"{self.path}: {self.what}" if self.path else self.what
        return f"{line}; expected {self.expected}" if self.expected else line


def message(tool: str, problems: Iterable[Problem]) -> str:
    """The text for the model."""
    lines = list(dict.fromkeys(str(each) for each in problems))
    shown = [f"- {line}" for line in lines[:MAX_PROBLEMS]]
    if len(lines) > MAX_PROBLEMS:
        shown.append(f"- and {len(lines) - MAX_PROBLEMS} more")
    text = "\n".join(
        [f"The arguments for the tool {tool!r} do not fit:", *shown, "Correct them and call the tool again."]
    )
    return sendable(text)


def written(path: Sequence[str | int]) -> str:
    """`("filters", "tags", 2)` as `filters.tags[2]`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def shorten(value: Any) -> str:
    """A value as JSON, abbreviated."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS]}…"


def at_path(root: dict[str, Any], path: Sequence[str | int]) -> dict[str, Any] | None:
    """The subschema that governs the value at `path`, or None when that is not clear."""
    here: Any = root
    for step in path:
        here = _step(root, _resolved(root, here), step)
        if here is None:
            return None
    found = _resolved(root, here)
    return found if isinstance(found, dict) else None


def _resolved(root: dict[str, Any], part: Any) -> Any:
    for _ in range(32):  # a chain of references; a loop of them would not be a valid schema
        if not isinstance(part, dict) or not isinstance(part.get("$ref"), str):
            return part
        try:
            part = {**resolve_pointer(root, part["$ref"]), **{key: part[key] for key in part if key != "$ref"}}
        except (KeyError, TypeError):
            return None
    return None


def _step(root: dict[str, Any], part: Any, step: str | int) -> Any:
    if not isinstance(part, dict):
        return None
    if isinstance(step, int):
        first = part.get("prefixItems")
        if isinstance(first, list) and step < len(first):
            return first[step]
        found = part.get("items")
    else:
        found = part.get("properties", {}).get(step, part.get("additionalProperties"))
    if isinstance(found, dict):
        return found
    for keyword in ("anyOf", "oneOf", "allOf"):
        for branch in part.get(keyword, ()):
            inner = _step(root, _resolved(root, branch), step)
            if inner is not None:
                return inner
    return None


def expected(root: dict[str, Any], part: Any, depth: int = 0) -> str:
    """A schema in a few words: `integer >= 1`, `one of "a", "b"`, `array of string`, `object with city, days`."""
    part = _resolved(root, part)
    if not isinstance(part, dict) or not part:
        return ""
    for keyword in ("anyOf", "oneOf"):
        if keyword in part:
            return " or ".join(dict.fromkeys(filter(None, (expected(root, each, depth + 1) for each in part[keyword]))))
    if "enum" in part:
        return "one of " + ", ".join(shorten(each) for each in part["enum"][:20])
    if "const" in part:
        return shorten(part["const"])
    kind = part.get("type")
    if isinstance(kind, list):
        return " or ".join(expected(root, {**part, "type": each}, depth + 1) for each in kind)
    if kind == "array":
        inner = expected(root, part.get("items"), depth + 1) if depth < 3 else ""
        return f"array of {inner}" if inner else "array"
    if kind == "object" and isinstance(part.get("properties"), dict):
        names = list(part["properties"])
        return f"object with {', '.join(names[:12])}" if names else "object"
    return " ".join(filter(None, (str(kind) if kind else "", _limits(part))))


_LIMITS = {
    "minimum": ">= {}",
    "maximum": "<= {}",
    "exclusiveMinimum": "> {}",
    "exclusiveMaximum": "< {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "matching {}",
    "format": "({})",
}


def _limits(part: dict[str, Any]) -> str:
    return ", ".join(text.format(part[key]) for key, text in _LIMITS.items() if key in part)
