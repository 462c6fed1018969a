"""Reading a function's docstring: what the model is told of the tool and of each parameter.

Google, NumPy and Sphinx styles. The description is all text before the first section, plus an Examples section;
what a tool raises, returns or warns about is for programmers and stays out.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from runwell.errors import ToolDefinitionError, nearest
from runwell.schemas.injection import NOTHING
from runwell.schemas.signature import Shape, innermost

__all__ = ["Docstring", "check_docstring", "class_docstring", "read_docstring"]

_PARAMETERS = r"Args|Arguments|Params|Parameters|Keyword Args|Keyword Arguments|Other Parameters"
_EXAMPLES = r"Examples?"
_OTHERS = (
    r"Returns?|Yields?|Receives?|Raises?|Exceptions?|Except|Warns?|Warnings?|Attributes|Methods|Notes?|See Also|"
    r"References?|Todo"
)
_TITLES = f"{_PARAMETERS}|{_EXAMPLES}|{_OTHERS}"
_GOOGLE = re.compile(rf"^({_TITLES}):[ \t]*$", re.M)
_NUMPY = re.compile(rf"^({_TITLES})[ \t]*\n[ \t]*-{{3,}}[ \t]*$", re.M)
_SPHINX = re.compile(
    r"^:(?:param|parameter|arg|argument|key|keyword|type|raises?|except|exception|returns?|rtype|yields?|"
    r"ytype|var|ivar|cvar|vartype)\b[^:\n]*:",
    re.M,
)
_IS_PARAMETERS = re.compile(_PARAMETERS)
_IS_EXAMPLES = re.compile(_EXAMPLES)


@dataclass(slots=True)
class Docstring:
    """`arguments` maps a parameter to its text. `problem` says why the parameters could not be read, if so."""

    description: str
    arguments: dict[str, str] = field(default_factory=dict)
    problem: str | None = None


def read_docstring(text: str) -> Docstring:
    """Take a docstring apart; never raises, whatever the text."""
    text = inspect.cleandoc(text)
    if _SPHINX.search(text):
        return _sphinx(text)
    numpy = list(_NUMPY.finditer(text))
    return _sections(text, numpy, numpy=True) if numpy else _sections(text, list(_GOOGLE.finditer(text)), numpy=False)


def _sphinx(text: str) -> Docstring:
    from docstring_parser import ParseError, rest

    first = _SPHINX.search(text)
    assert first is not None
    read = Docstring(text[: first.start()].strip())
    try:
        parsed = rest.parse(text[first.start() :])
    except ParseError as error:
        read.problem = str(error)
    else:
        read.arguments = _described(parsed.params)
    return read


def _sections(text: str, titles: list[re.Match[str]], *, numpy: bool) -> Docstring:
    if not titles:
        return Docstring(text)
    read = Docstring(text[: titles[0].start()].strip())
    ends = [title.start() for title in titles[1:]] + [len(text)]
    for title, end in zip(titles, ends, strict=True):
        body = text[title.end() : end].strip("\n")
        if _IS_EXAMPLES.fullmatch(title[1]):
            example = inspect.cleandoc("\n" + body)
            read.description = f"{read.description}\n\n{title[1]}:\n{example}".strip()
        elif _IS_PARAMETERS.fullmatch(title[1]) and body.strip():
            _read_parameters(read, body, numpy)
    return read


def _read_parameters(read: Docstring, body: str, numpy: bool) -> None:
    """One parameters section on its own, so that a loose section elsewhere cannot spoil it."""
    from docstring_parser import ParseError, google, numpydoc

    try:
        text = f"-\n\nParameters\n----------\n{body}" if numpy else f"-\n\nArgs:\n{body}"
        parsed = (numpydoc if numpy else google).parse(text)
    except ParseError as error:
        read.problem = str(error)
    else:
        read.arguments.update(_described(parsed.params))


def _described(parameters: Sequence[object]) -> dict[str, str]:
    found = {}
    for parameter in parameters:
        # `*args`, `**kwargs` and NumPy's `x, y` (one text for both)
        for name in getattr(parameter, "arg_name", "").split(","):
            text = getattr(parameter, "description", None) or ""
            found[name.strip().lstrip("*\\")] = re.sub(r"\s*\n\s*", " ", text).strip()
    return found


def class_docstring(declared: type) -> Docstring:
    """What a class says of itself: nothing inherited, nothing that the dataclass decorator wrote."""
    text = declared.__dict__.get("__doc__") or ""
    if dataclasses.is_dataclass(declared) and text.startswith(f"{declared.__name__}("):
        text = ""
    return read_docstring(text)


def check_docstring(read: Docstring, shape: Shape, function: Any, *, strict: bool, documented: bool) -> None:
    """Warn of (or, when strict, refuse) a docstring that says other things than the signature."""
    problems = [f"its parameters cannot be read: {read.problem}"] if read.problem else []
    if strict and not documented:
        problems.append("parse_docstring=True needs a docstring")
    if shape.extra is NOTHING:
        known = shape.parameters.keys() | shape.injected.keys()
        problems += [
            f"it describes {name!r}, which is no parameter{nearest(name, known)}"
            for name in read.arguments
            if name not in known and name not in ("self", "run_manager")
        ]
    if not problems:
        return
    text = f"{shape.where}: the docstring does not fit: {'; '.join(problems)}"
    if strict:
        raise ToolDefinitionError(
            text, hint="Correct the docstring, or leave out parse_docstring=True to be warned only."
        )
    code = getattr(innermost(function), "__code__", None)
    if code is None:
        warnings.warn(text, UserWarning, stacklevel=2)
    else:
        warnings.warn_explicit(text, UserWarning, code.co_filename, code.co_firstlineno)
