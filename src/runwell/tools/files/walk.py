"""Which files a search sees: the one place where that is decided."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from runwell.errors import InvalidInput, MissingExtra, ToolError
from runwell.schemas.arguments import check_fields
from runwell.tools.files.ignoring import IgnoreRules
from runwell.tools.files.root import Located, RootFolder, read_in, shown

__all__ = ["SNIFF", "File", "SearchRules", "Skipped", "check_installed", "is_binary", "walk"]

IGNORE_FILE = ".gitignore"
MAX_IGNORE_BYTES = 1_000_000
MAX_DEPTH = 200
"""Folders deeper than this are left out as unreadable. Chosen: no project is so deep, and Python's stack is finite."""
SNIFF = 8192
"""A NUL character among so many bytes makes a file a binary one, as git has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRules:
    """The rules, the same with every means of searching.

    Seen are plain files. Left out: what is hidden (a name that begins with a dot), unless `include_hidden`, and `.git`
    always; what the `.gitignore` files from the root down ignore, as git reads them, unless `include_ignored`
    (a repository is not needed; ignore files above the root or of the user count for nothing); symbolic links.
    A search of contents also leaves out files of more than `max_file_size_mb` megabytes (of 1,000,000 bytes) and binary
    ones (a NUL among the first 8,192 bytes). Text is read as UTF-8.
    """

    include_hidden: bool = False
    include_ignored: bool = False
    max_file_size_mb: float = 10

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.max_file_size_mb > 0:
            raise InvalidInput(f"max_file_size_mb={self.max_file_size_mb!r}", hint="Megabytes, more than 0.")

    @property
    def max_bytes(self) -> int:
        return int(self.max_file_size_mb * 1_000_000)


class File(NamedTuple):
    """A file that a search sees: `parts` from the root on."""

    parts: tuple[str, ...]

    @property
    def path(self) -> str:
        return "/".join(self.parts)


@dataclass(slots=True)
class Skipped:
    """What was left out that a reader would not expect; hidden and ignored files are expected to be."""

    large: int = 0
    binary: int = 0
    unreadable: int = 0
    links: int = 0

    def told(self, max_file_size_mb: float) -> list[str]:
        """Each as a few words, none if there were none."""
        kinds = (
            (self.large, f"over {max_file_size_mb:g} MB"),
            (self.binary, "binary"),
            (self.unreadable, "unreadable"),
            (self.links, "symbolic links"),
        )
        return [f"{count:,} {kind}" for count, kind in kinds if count]


@dataclass(slots=True)
class _Ignoring:
    """The ignore files on the way down: how many names deep each is, and what it says."""

    files: list[tuple[int, IgnoreRules]] = field(default_factory=list)

    def add(self, folder: int, depth: int) -> bool:
        try:
            data = read_in(folder, IGNORE_FILE, MAX_IGNORE_BYTES)
        except OSError:  # none, or none that can be read
            return False
        rules = IgnoreRules("" if data is None else data.decode("utf-8", errors="replace"))
        if rules:
            self.files.append((depth, rules))
        return bool(rules)

    def ignores(self, parts: tuple[str, ...], is_folder: bool) -> bool:
        for depth, rules in reversed(self.files):  # the nearest one decides
            verdict = rules.verdict("/".join(parts[depth:]), is_folder)
            if verdict is not None:
                return verdict
        return False


def check_installed() -> None:
    """Raises MissingExtra if what is needed here is not installed."""
    from importlib.util import find_spec

    if find_spec("wcmatch") is None:
        raise MissingExtra("Searching files", "files")


def walk(root: RootFolder, start: Located, rules: SearchRules, skipped: Skipped) -> Iterator[File]:
    """The files under `start` that the rules let through, in the order of their names.

    Raises ToolError if the rules leave `start` itself out.
    """
    ignoring = _Ignoring()
    parts = start.parts
    for depth in range(len(parts)):
        name = parts[depth]
        here = f"/{shown('/'.join(parts[: depth + 1]))}"
        if _hidden(name, rules):
            raise ToolError(f"{here} is hidden, and hidden files are not searched.")
        if not rules.include_ignored:
            try:
                with root.folder(parts[:depth]) as folder:
                    ignoring.add(folder, depth)
            except OSError as error:
                raise ToolError(f"{here}: {error.strerror}.") from error
            if ignoring.ignores(parts[: depth + 1], depth < len(parts) - 1 or start.is_folder):
                raise ToolError(f"{here} is ignored by a .gitignore file, and ignored files are not searched.")
    if start.is_folder:
        yield from _below(root, parts, rules, ignoring, skipped)
    else:
        yield File(parts)


def _below(
    root: RootFolder, parts: tuple[str, ...], rules: SearchRules, ignoring: _Ignoring, skipped: Skipped
) -> Iterator[File]:
    if len(parts) > MAX_DEPTH:
        skipped.unreadable += 1
        return
    try:
        with root.folder(parts) as folder:
            added = not rules.include_ignored and ignoring.add(folder, len(parts))
            with os.scandir(folder) as entries:
                found = sorted((entry.name, entry.stat(follow_symlinks=False).st_mode) for entry in entries)
    except OSError:  # not ours to read, or gone since
        skipped.unreadable += 1
        return
    for name, mode in found:
        if _hidden(name, rules):
            continue
        inner = (*parts, name)
        is_folder = stat.S_ISDIR(mode)
        if not rules.include_ignored and ignoring.ignores(inner, is_folder):
            continue
        if is_folder:
            yield from _below(root, inner, rules, ignoring, skipped)
        elif stat.S_ISREG(mode):
            yield File(inner)
        elif stat.S_ISLNK(mode):
            skipped.links += 1
    if added:
        ignoring.files.pop()


def _hidden(name: str, rules: SearchRules) -> bool:
    return name == ".git" or (name.startswith(".") and not rules.include_hidden)


def is_binary(data: Any) -> bool:
    """Whether these bytes are not text."""
    return b"\0" in data[:SNIFF]
