"""Where a piece of code stands, read from the code itself."""

from __future__ import annotations

import functools
import inspect
import pkgutil
import sys
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from runwell.effects import Callee
from runwell.errors import InvalidInput

__all__ = ["Anchor", "anchor_of"]

HOME = Path(__file__).resolve().parents[2]
"""The folder that holds the package."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """`name` is the code's qualified name; `path` its file; `first` and `last` its lines, counted from 1."""

    name: str
    path: str
    first: int
    last: int

    @property
    def place(self) -> str:
        """`file:first-last`, the file as seen from the package's folder or the current one where it is inside."""
        path = Path(self.path)
        for root in (HOME, Path.cwd()):
            if path.is_relative_to(root):
                path = path.relative_to(root)
                break
        lines = f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"
        return f"{path.as_posix()}:{lines}"


def anchor_of(code: Any) -> Anchor | None:
    """Where `code` stands; None for what no Python file holds (a builtin, code typed into a shell).

    `code` is a function, method, property, class, Callee, partial, an object of a class, or `"module:name"`, which
    raises InvalidInput when there is no such name.
    """
    found = _bare(_named(code) if isinstance(code, str) else code)
    if isinstance(found, type):
        return _of_class(found)
    body = getattr(found, "__code__", None)
    if not isinstance(body, CodeType):
        return _of_class(type(found))
    if not Path(body.co_filename).is_file():
        return None
    name = getattr(found, "__qualname__", body.co_qualname)
    return Anchor(name, str(Path(body.co_filename).resolve()), body.co_firstlineno, _last_line(body))


def _named(place: str) -> Any:
    try:
        return pkgutil.resolve_name(place)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(
            f"There is no code called {place!r}: {error}.", hint='Write "module:name" or "module:Class.method".'
        ) from error


def _bare(code: Any) -> Any:
    """The function or class under what is wrapped around it."""
    for _ in range(20):
        if isinstance(code, Callee):
            code = code.sync or code.aio
        elif isinstance(code, functools.partial | functools.cached_property):
            code = code.func
        elif isinstance(code, property):
            code = code.fget
        elif inspect.ismethod(code):
            code = code.__func__
        elif (inner := inspect.getattr_static(code, "__wrapped__", None)) is not None:
            code = inner
        else:
            break
    return code


def _last_line(body: CodeType) -> int:
    last = max((line for _, _, line in body.co_lines() if line), default=body.co_firstlineno)
    return max(last, *(_last_line(each) for each in body.co_consts if isinstance(each, CodeType)), 0)


def _of_class(kind: type) -> Anchor | None:
    module = sys.modules.get(kind.__module__)
    path = getattr(module, "__file__", None)
    if path is None:
        return None
    try:
        lines, first = inspect.getsourcelines(kind)
    except (OSError, TypeError):
        return None
    return Anchor(kind.__qualname__, str(Path(path).resolve()), first, first + len(lines) - 1)
