"""Which texts of a value are embedded: paths such as `title`, `author.name`, `tags[*]`, `chapters[0].text`, `$`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from runwell.errors import InvalidConfig

__all__ = ["check_path", "get_text_at_path", "texts_of"]

_STEP = re.compile(r"([^.\[\]]+)|\[(\*|-?\d+)\]")


def check_path(path: Any) -> None:
    """Raise InvalidConfig for what is not a path."""
    if not isinstance(path, str) or not _steps(path):
        raise InvalidConfig(
            f"{path!r} is not a path to a field.",
            hint='Like "title", "author.name", "tags[*]", "chapters[0].text", "$".',
        )


def _steps(path: str) -> list[str | int]:
    """Names, indexes, and "*" for every item; empty when the path makes no sense."""
    if path == "$":
        return ["$"]
    steps: list[str | int] = []
    at = 0
    for part in path.removeprefix("$.").split("."):
        hits = list(_STEP.finditer(part))
        if not hits or "".join(hit.group() for hit in hits) != part:
            return []
        for hit in hits:
            name, index = hit.groups()
            steps.append(name if name is not None else "*" if index == "*" else int(index))
            at += 1
    return steps


def get_text_at_path(value: Any, path: str) -> list[str]:
    """The texts a path leads to: none when the field is missing or None, several with `[*]`.

    Text is taken as it is, numbers as they are written, lists and dicts as JSON.
    """
    if path == "$":
        return [_text(value)]
    return [_text(found) for found in _found(value, _steps(path)) if found is not None and found != ""]


def _found(value: Any, steps: Sequence[str | int]) -> Iterator[Any]:
    if not steps:
        yield value
        return
    step, rest = steps[0], steps[1:]
    if step == "*":
        for item in value if isinstance(value, (list, tuple)) else value.values() if isinstance(value, dict) else ():
            yield from _found(item, rest)
    elif isinstance(step, int):
        if isinstance(value, (list, tuple)) and -len(value) <= step < len(value):
            yield from _found(value[step], rest)
    elif isinstance(value, dict) and step in value:
        yield from _found(value[step], rest)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def texts_of(value: Any, paths: Sequence[str]) -> list[str]:
    """All texts that the paths lead to, each once, in order."""
    return list(dict.fromkeys(text for path in paths for text in get_text_at_path(value, path)))
