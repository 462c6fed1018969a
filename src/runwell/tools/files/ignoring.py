"""`.gitignore` files, read as git reads them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from runwell.errors import ToolError

__all__ = ["IgnoreRules", "as_expression"]


class _Rule(NamedTuple):
    matches: re.Pattern[str]
    folders_only: bool
    ignores: bool


class IgnoreRules:
    """What one file says about what is in its folder."""

    __slots__ = ("_rules",)

    def __init__(self, text: str) -> None:
        self._rules: Sequence[_Rule] = [rule for line in text.splitlines() if (rule := _rule(line)) is not None][::-1]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """Whether it ignores this path, from its folder on; None if it says nothing of it. The last rule counts.

        It is about the path itself: what is in an ignored folder is not asked for, since that folder is not entered.
        """
        for rule in self._rules:
            if (is_folder or not rule.folders_only) and rule.matches.match(path):
                return rule.ignores
        return None


def _rule(line: str) -> _Rule | None:
    """One line; None for a comment, an empty line, and what is no pattern."""
    line = line.removesuffix("\r")
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    ignores = not line.startswith("!")
    body = line if ignores else line[1:]
    if not body or line.startswith("#"):
        return None
    folders_only = body.endswith("/")
    body = body.removesuffix("/")
    pattern = body.removeprefix("/") if "/" in body else f"**/{body}"
    if not body or not pattern:
        return None
    if pattern.endswith("/**"):
        pattern += "/*"  # everything inside, and not the folder itself
    try:
        return _Rule(as_expression(pattern), folders_only, ignores)
    except ToolError:  # git passes over what it cannot read
        return None


def as_expression(pattern: str, *, braces: bool = False) -> re.Pattern[str]:
    """A pattern of whole paths as a regular expression: `*`, `?` and classes within a name, `**` across names.

    Raises ToolError for what is no pattern, or stands for too many with `braces`.
    """
    from wcmatch import glob

    flags = glob.GLOBSTAR | glob.DOTGLOB | glob.FORCEUNIX | (glob.BRACE if braces else 0)
    try:
        wanted = glob.translate(pattern, flags=flags, limit=256)[0]
        return re.compile("|".join(f"(?:{each})" for each in wanted) or r"(?!)")
    except Exception as error:  # of several kinds, all about the pattern
        raise ToolError(f"{pattern!r} is no pattern: {error}.") from error
