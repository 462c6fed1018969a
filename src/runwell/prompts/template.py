"""Text with named blanks, in the brace syntax of Python's f-strings.

A template never evaluates. A blank is a name, and filling it looks the name up in the values given: no
attributes, no indices, no expressions. The text is read once, when the template is made, so a stray brace
fails there and not in front of a user.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from runwell.errors import InvalidInput, nearest

__all__ = [
    "FStringTemplate",
    "missing_variables",
    "require",
]

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_FIELD = re.compile(r"(?P<name>[^:!]*)(?:!(?P<conversion>[^:]*))?(?::(?P<spec>.*))?", re.DOTALL)
_LONG_NUMBER = re.compile(r"\d{5,}")  # a width of that size only serves to fill memory (limit chosen, not measured)
_CONVERSIONS: Mapping[str, Any] = {"r": repr, "s": str, "a": ascii}
_BRACES = 'Write {{ and }} for braces that are part of the text, for instance {{"a": 1}} for JSON.'
_LITERAL = "A message object (such as HumanMessage(text)) is taken as it is, braces included."


class FStringTemplate:
    """A template in f-string syntax: `{name}`, `{name!r}`, `{price:.2f}`; `{{` and `}}` are braces.

    Raises `InvalidInput` on construction for a brace that is no blank, and for a blank that is more than a
    name. Immutable; safe to share.
    """

    __slots__ = ("_fields", "_lookups", "_pattern", "names", "source")

    names: tuple[str, ...]

    def __init__(self, source: str) -> None:
        self.source = source
        pattern: list[str] = []
        lookups: list[str] = []
        fields: list[tuple[str, str]] = []
        end = 0
        for token in _TOKEN.finditer(source):
            pattern.append(source[end : token.start()].replace("%", "%%"))
            end = token.end()
            text = token.group()
            if text in ("{{", "}}"):
                pattern.append(text[0])
            elif token.group(1) is None:
                raise _stray_brace(source, token.start())
            else:
                name, conversion, spec = _read_field(source, token.start(), token.group(1))
                lookups.append(name)
                fields.append((conversion, spec))
                pattern.append("%s")
        pattern.append(source[end:].replace("%", "%%"))
        self.names = tuple(dict.fromkeys(lookups))
        # printf-style formatting only ever inserts: there is nothing in it that could look inside a value
        self._pattern = "".join(pattern)
        self._lookups = tuple(lookups)
        self._fields = tuple(fields) if any(field != ("", "") for field in fields) else None

    def render(self, values: Mapping[str, Any]) -> str:
        """The text with its blanks filled from `values`. Raises `InvalidInput` when one is missing."""
        try:
            found = [values[name] for name in self._lookups]
        except KeyError:
            require(self.names, values)
            raise
        if self._fields is not None:
            found = [
                _fill(name, value, conversion, spec)
                for name, value, (conversion, spec) in zip(self._lookups, found, self._fields, strict=True)
            ]
        return self._pattern % tuple(found)

    def __reduce__(self) -> tuple[Any, ...]:
        return FStringTemplate, (self.source,)  # copies and pickles are read again, and so checked again

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FStringTemplate) and other.source == self.source

    def __hash__(self) -> int:
        return hash(self.source)

    def __repr__(self) -> str:
        return f"FStringTemplate({self.source!r})"


def missing_variables(names: Iterable[str], values: Collection[str]) -> list[str]:
    return [name for name in names if name not in values]


def require(names: Iterable[str], values: Collection[str], *, where: str = "The template") -> None:
    """Raise `InvalidInput` that lists what is missing and what was given, if anything is missing."""
    missing = missing_variables(names, values)
    if not missing:
        return
    given = list(values)
    near = nearest(missing[0], given) or "."
    plural = "variables" if len(missing) > 1 else "variable"
    raise InvalidInput(
        f"{where} needs the {plural} {', '.join(map(repr, missing))}, which {'are' if len(missing) > 1 else 'is'} "
        f"not among the values given: {', '.join(map(repr, given)) or 'none'}{near}",
        hint=f"Give a value for each, or set it beforehand with .partial(...). {_BRACES}",
    )


def _read_field(source: str, at: int, inner: str) -> tuple[str, str, str]:
    match = _FIELD.fullmatch(inner)
    assert match is not None
    name, conversion, spec = match.group("name"), match.group("conversion"), match.group("spec") or ""
    if not name.isidentifier():
        raise _no_name(source, at, name, inner)
    if conversion is not None and conversion not in _CONVERSIONS:
        raise _fault(source, at, f"has an unknown conversion '!{conversion}'", "Use !r, !s or !a.")
    if _LONG_NUMBER.search(spec):
        raise _fault(source, at, f"asks for a width out of all proportion ({spec!r})", "Use at most 9999.")
    return name, conversion or "", spec


def _fill(name: str, value: Any, conversion: str, spec: str) -> Any:
    if conversion:
        value = _CONVERSIONS[conversion](value)
    if not spec:
        return value
    try:
        return format(value, spec)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"The value {value!r:.100} of {name!r} does not fit the format {spec!r}: {error}.",
            hint=f"Give {name!r} a value of a type that takes this format, or write {{{name}}}.",
        ) from error


def _stray_brace(source: str, at: int) -> InvalidInput:
    return _fault(source, at, f"has a {source[at]!r} that begins or ends no variable", f"{_BRACES} {_LITERAL}")


def _no_name(source: str, at: int, name: str, inner: str) -> InvalidInput:
    if not name.strip():
        return _fault(source, at, "has braces with no variable name", f"{_BRACES} {_LITERAL}")
    if re.match(r"[^\W\d]\w*\s*[.\[]", name):
        plain = re.sub(r"[^a-zA-Z0-9]+", "_", name).strip("_")
        return _fault(
            source,
            at,
            f"reaches inside a value with {{{inner}}}; a template only takes names",
            f"Pass what you need as a variable of its own, for instance {{{plain}}}.",
        )
    return _fault(source, at, f"has {name!r} in braces, which is no variable name", f"{_BRACES} {_LITERAL}")


def _fault(source: str, at: int, what: str, hint: str) -> InvalidInput:
    line = source.count("\n", 0, at) + 1
    start = source.rfind("\n", 0, at) + 1
    stop = source.find("\n", at)
    text = source[start : stop if stop >= 0 else len(source)]
    column = at - start
    if column > 60:  # keep the place in view
        text, shown = "…" + text[column - 40 :], 41
    else:
        shown = column
    return InvalidInput(
        f"The template {what}, at line {line}, column {column + 1}:\n    {text[:100]}\n    {' ' * shown}^", hint=hint
    )
