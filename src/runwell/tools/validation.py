"""Checking a model's arguments: one door for every kind of schema.

`Arguments` is what a tool holds: its model-facing JSON schema, and `validate`, which turns the model's JSON into the
function's keyword arguments or raises `ToolArgumentsError`. Everything dear is built on first use and kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from runwell.errors import ToolArgumentsError, nearest
from runwell.messages.calls import MAX_DEPTH
from runwell.tools.explain import Problem, message

__all__ = ["Arguments", "refuse", "too_deep", "unknown"]


class Arguments(Protocol):
    """The arguments of one tool."""

    injected: frozenset[str]

    def json_schema(self) -> dict[str, Any]:
        """The model-facing schema of the arguments object. Shared: copy before changing."""
        ...

    def validate(self, tool: str, args: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments for the function. `args` is left as it was."""
        ...


def refuse(tool: str, problems: Iterable[Problem]) -> ToolArgumentsError:
    return ToolArgumentsError(message(tool, problems))


def too_deep(tool: str) -> ToolArgumentsError:
    return refuse(tool, [Problem("", f"they are nested more than {MAX_DEPTH} deep")])


def unknown(names: Iterable[str], known: Iterable[str]) -> list[Problem]:
    """Arguments the tool does not have, each with the nearest it has."""
    known = list(known)
    offer = f"one of {', '.join(known)}" if known else "no arguments"
    found = []
    for name in sorted(map(str, names)):
        close = nearest(name, known)
        found.append(Problem(name, f"unknown argument{close}", "" if close else offer))
    return found
