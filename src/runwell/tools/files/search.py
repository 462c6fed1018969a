"""Finding files by name and by content."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from runwell.drivers.cancel import CANCEL
from runwell.errors import InvalidInput, RunCancelled, ToolError
from runwell.observe.run import record_decision, watched
from runwell.schemas.arguments import check_fields
from runwell.tools.files.ignoring import as_expression
from runwell.tools.files.literal import required_literal
from runwell.tools.files.ripgrep import find_ripgrep, sieve
from runwell.tools.files.root import RootFolder, shown
from runwell.tools.files.walk import SNIFF, File, SearchRules, Skipped, check_installed, is_binary, walk

__all__ = ["FileSearch", "OutputMode", "search_in"]

OutputMode = Literal["files_with_matches", "content", "count"]

WORTH_IT = 32
"""Fewer files than this are read sooner than ripgrep is started. Chosen, not measured."""
MAX_LINE = 400
"""Characters of a matching line that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSearch:
    """Searches one folder. Its answers are texts for a model; what is refused raises ToolError.

    `rules` say which files are seen. At most `max_results` files, or matching lines, are shown, and a note says that
    there are more; a search of contents stops after `timeout` seconds and says so. ripgrep, if it is there and
    `use_ripgrep` is set, only tells which files need not be read: the answer is the same without it.
    """

    root: RootFolder
    rules: SearchRules
    use_ripgrep: bool = True
    max_results: int = 200
    timeout: float = 30.0

    def __post_init__(self) -> None:
        check_fields(self)
        check_installed()
        if self.max_results < 1 or not self.timeout > 0:
            raise InvalidInput(f"max_results={self.max_results!r}, timeout={self.timeout!r}", hint="Above 0, both.")

    def glob(self, pattern: str, path: str = "/") -> str:
        """The files whose path below `path` fits the pattern: `*.py`, `**/*.{ts,tsx}`, `docs/**`."""
        matches = _fitting(pattern, anywhere=False)
        start = self.root.locate(path)
        skipped = Skipped()
        depth = len(start.parts) if start.is_folder else len(start.parts) - 1
        found: list[str] = []
        more = False
        for file in walk(self.root, start, self.rules, skipped):
            _stop_if_cancelled()
            if not matches("/".join(file.parts[depth:])):
                continue
            if len(found) == self.max_results:
                more = True
                break
            found.append(f"/{shown(file.path)}")
        return self._told(found, "No files found.", skipped, more, None)

    def grep(
        self,
        pattern: str,
        path: str = "/",
        include: str | None = None,
        output_mode: OutputMode = "files_with_matches",
    ) -> str:
        """The files, or lines, or numbers of lines, that hold a match of a regular expression."""
        if output_mode not in ("files_with_matches", "content", "count"):
            raise ToolError(f"output_mode={output_mode!r}: it is files_with_matches, content or count.")
        expression = _compiled(pattern)
        fits = None if include is None else _fitting(include, anywhere=True)
        start = self.root.locate(path)
        skipped = Skipped()
        depth = len(start.parts) if start.is_folder else len(start.parts) - 1
        files = [
            file
            for file in walk(self.root, start, self.rules, skipped)
            if fits is None or fits("/".join(file.parts[depth:]))
        ]
        deadline = time.monotonic() + self.timeout
        literal = required_literal(pattern)
        needed = _Sieve(literal)
        wanted = self._candidates(files, literal)
        found: list[str] = []
        more = False
        stopped: int | None = None
        with self.root.reading() as read:
            for at, file in enumerate(files):
                _stop_if_cancelled()
                if time.monotonic() > deadline:
                    stopped = len(files) - at
                    break
                try:
                    lines = self._matching(read, file, expression, needed, file.path in wanted, skipped, deadline)
                    for line in self._shown(file, lines, output_mode):
                        if len(found) == self.max_results:
                            more = True
                            break
                        found.append(line)
                except TimeoutError:
                    stopped = len(files) - at
                if more or stopped is not None:
                    break
        return self._told(found, "No matches found.", skipped, more, stopped)

    def _candidates(self, files: list[File], literal: tuple[str, bool] | None) -> Any:
        """The paths of files that may hold a match."""
        paths = [file.path for file in files]
        binary = find_ripgrep() if self.use_ripgrep and literal is not None and len(files) >= WORTH_IT else None
        if binary is None or literal is None:
            return set(paths)
        return sieve(binary, self.root.path, paths, *literal, self.timeout)

    def _matching(
        self, read: Any, file: File, expression: Any, needed: _Sieve, wanted: bool, skipped: Skipped, deadline: float
    ) -> Iterator[tuple[int, str]]:
        """Number and text of each line that matches. What is left out is counted, wanted or not."""
        try:
            data = read(file.parts, self.rules.max_bytes, None if wanted else SNIFF)
        except OSError:
            skipped.unreadable += 1
            return
        if data is None:
            skipped.large += 1
            return
        if is_binary(data):
            skipped.binary += 1
            return
        if not wanted or not needed.in_bytes(data):
            return
        text = data.decode("utf-8", errors="replace")
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        for number, line in enumerate(lines, 1):
            if not needed.in_line(line):
                continue
            line = line.removesuffix("\r")
            if expression.search(line, timeout=max(0.001, deadline - time.monotonic())):
                yield number, line

    def _shown(self, file: File, lines: Iterator[tuple[int, str]], mode: OutputMode) -> Iterator[str]:
        name = f"/{shown(file.path)}"
        if mode == "content":
            for number, line in lines:
                cut = (
                    line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]} [... {len(line) - MAX_LINE} more characters]"
                )
                yield f"{name}:{number}:{cut}"
        elif mode == "count":
            count = sum(1 for _ in lines)
            if count:
                yield f"{name}:{count}"
        elif next(lines, None) is not None:
            yield name

    def _told(self, found: list[str], nothing: str, skipped: Skipped, more: bool, stopped: int | None) -> str:
        """The answer, with a word on everything that is not in it."""
        notes = []
        if more:
            notes.append(f"[There are more; only the first {self.max_results:,} are shown. Narrow the search.]")
        if stopped is not None:
            notes.append(f"[Stopped after {self.timeout:g} s: {stopped:,} files were not searched. Narrow the search.]")
        left = skipped.told(self.rules.max_file_size_mb)
        if left:
            notes.append(f"[Not searched: {', '.join(left)}.]")
            if watched():
                record_decision("D21", "left out", ", ".join(left), "code")
        return "\n".join([*(found or [nothing]), *notes])


class _Sieve:
    """Whether a text that every match must hold is there; yes, if there is no such text."""

    __slots__ = ("_bytes", "_cased", "_text")

    def __init__(self, literal: tuple[str, bool] | None) -> None:
        text, self._cased = literal or ("", True)
        self._text = text if self._cased else text.lower()  # ASCII, unless case counts
        self._bytes = self._text.encode()

    def in_bytes(self, data: bytes) -> bool:
        return self._bytes in (data if self._cased else data.lower())

    def in_line(self, line: str) -> bool:
        return self._text in (line if self._cased else line.lower())


def _compiled(pattern: str) -> Any:
    import regex

    if not pattern:
        raise ToolError("The pattern is empty.")
    try:
        return regex.compile(pattern, regex.VERSION0)
    except regex.error as error:
        raise ToolError(f"{pattern!r} is no regular expression: {error}.") from error


def _fitting(pattern: str, *, anywhere: bool) -> Any:
    """What tells whether a path fits; `anywhere`: a pattern without a slash is about the name alone."""
    if not pattern.strip():
        raise ToolError("The pattern is empty.")
    if ".." in pattern.split("/"):
        raise ToolError(f"Refused: {pattern!r}: a pattern cannot lead out of the folder by '..'.")
    wanted = pattern.lstrip("/")
    if anywhere and "/" not in pattern:
        wanted = f"**/{wanted}"
    return as_expression(wanted, braces=True).match


def _stop_if_cancelled() -> None:
    group = CANCEL.get()
    if group is not None and group.cancelled:
        raise RunCancelled()


def search_in(root_path: str | Path, **settings: Any) -> FileSearch:
    """A search of the folder, with the rules' and the search's settings by name."""
    rules = {name: settings.pop(name) for name in list(settings) if name in SearchRules.__dataclass_fields__}
    return FileSearch(root=RootFolder(root_path), rules=SearchRules(**rules), **settings)
