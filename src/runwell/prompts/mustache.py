"""Text with named blanks, in the mustache syntax.

Taken from mustache: variables `{{name}}` (also `{{{name}}}` and `{{&name}}`), sections `{{#name}}…{{/name}}`,
inverted sections `{{^name}}…{{/name}}`, comments `{{! … }}`, `{{.}}` for the item of a section, and dots to
reach into dicts (`{{user.name}}`), never into attributes of objects. Left out on purpose: partials, lambdas
and other delimiters. A prompt is no web page, so nothing is HTML-escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runwell.errors import InvalidInput
from runwell.prompts.template import require

__all__ = ["MustacheTemplate"]

_TAG = re.compile(r"\{\{\{\s*(?P<raw>.*?)\s*\}\}\}|\{\{(?P<kind>[#^/&!>=]?)\s*(?P<name>.*?)\s*\}\}", re.DOTALL)
_NAME = re.compile(r"\.|[^\W\d][\w-]*(?:\.\w[\w-]*)*")
_ABSENT = object()


class _Section:
    __slots__ = ("inverted", "name", "parts")

    def __init__(self, name: str, inverted: bool) -> None:
        self.name = name
        self.inverted = inverted
        self.parts: list[str | tuple[str] | _Section] = []  # text, (variable,), section


class MustacheTemplate:
    """A template in mustache syntax. `names` are the variables used outside sections, sections included.

    Raises `InvalidInput` on construction for a tag it does not know, or that is not closed. Immutable.
    """

    __slots__ = ("_parts", "names", "source")

    names: tuple[str, ...]

    def __init__(self, source: str) -> None:
        self.source = source
        root = _Section("", False)
        open_sections = [root]
        names: dict[str, None] = {}
        end = 0
        for tag in _TAG.finditer(source):
            start, stop = tag.span()
            kind, name = tag.group("kind") or "", tag.group("name") or tag.group("raw") or ""
            if kind in ("#", "^", "/", "!") and _alone(source, start, stop):
                # a tag that has a line to itself takes the line with it
                start = source.rfind("\n", 0, start) + 1
                newline = source.find("\n", stop)
                stop = newline + 1 if newline >= 0 else len(source)
            if start > end:
                open_sections[-1].parts.append(source[end:start])
            end = max(end, stop)
            if kind == "!":
                continue
            if kind in (">", "="):
                what = "a partial" if kind == ">" else "a change of delimiters"
                raise _fault(source, tag.start(), f"{what} ({tag.group()})", "Put the text itself into the template.")
            if not _NAME.fullmatch(name):
                raise _fault(source, tag.start(), f"{tag.group()!r}, which holds no name", "Write {{name}}.")
            if kind == "/":
                if open_sections[-1].name != name or len(open_sections) == 1:
                    raise _fault(source, tag.start(), f"{tag.group()}, which closes no open section", "")
                open_sections.pop()
                continue
            if len(open_sections) == 1 and name != ".":
                names[name.split(".")[0]] = None
            if kind in ("#", "^"):
                section = _Section(name, kind == "^")
                open_sections[-1].parts.append(section)
                open_sections.append(section)
            else:
                open_sections[-1].parts.append((name,))
        if len(open_sections) > 1:
            name = open_sections[-1].name
            raise _fault(source, len(source), f"a section {name!r} that is not closed", f"Add {{{{/{name}}}}}.")
        if end < len(source):
            root.parts.append(source[end:])
        self._parts = root.parts
        self.names = tuple(names)

    def render(self, values: Mapping[str, Any]) -> str:
        """The text with its blanks filled. Raises `InvalidInput` when a variable is missing."""
        require(self.names, values)
        return "".join(_render(self._parts, [values]))

    def __reduce__(self) -> tuple[Any, ...]:
        return MustacheTemplate, (self.source,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MustacheTemplate) and other.source == self.source

    def __hash__(self) -> int:
        return hash(self.source)

    def __repr__(self) -> str:
        return f"MustacheTemplate({self.source!r})"


def _render(parts: Sequence[str | tuple[str] | _Section], scopes: list[Any]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
            continue
        if isinstance(part, tuple):
            value = _look_up(part[0], scopes)
            if value is not _ABSENT and value is not None:
                yield str(value)
            continue
        value = _look_up(part.name, scopes)
        holds = value is not _ABSENT and bool(value)
        if part.inverted:
            if not holds:
                yield from _render(part.parts, scopes)
        elif holds:
            items = value if isinstance(value, (list, tuple)) else [value]
            for item in items:
                yield from _render(part.parts, [*scopes, item])


def _look_up(name: str, scopes: list[Any]) -> Any:
    if name == ".":
        return scopes[-1]
    first, *rest = name.split(".")
    value: Any = _ABSENT
    for scope in reversed(scopes):
        if isinstance(scope, Mapping) and first in scope:
            value = scope[first]
            break
    for key in rest:
        if not isinstance(value, Mapping):
            if value is _ABSENT or value is None:
                return _ABSENT
            raise InvalidInput(
                f"The template reads {name!r}, but what it finds on the way is a {type(value).__name__}, not a dict.",
                hint="A template reads dicts only, never attributes. Give it a dict, or pass the part you need.",
            )
        value = value.get(key, _ABSENT)
    return value


def _alone(source: str, start: int, stop: int) -> bool:
    before = source[source.rfind("\n", 0, start) + 1 : start]
    newline = source.find("\n", stop)
    after = source[stop : newline if newline >= 0 else len(source)]
    return not before.strip() and not after.strip()


def _fault(source: str, at: int, what: str, hint: str) -> InvalidInput:
    line = source.count("\n", 0, at) + 1
    column = at - (source.rfind("\n", 0, at) + 1) + 1
    return InvalidInput(f"The mustache template has {what}, at line {line}, column {column}.", hint=hint or None)
