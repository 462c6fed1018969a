"""Search in a folder, for the model."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.ports.seat import Held
from runwell.schemas.arguments import checked_arguments
from runwell.tools.decorator import tool
from runwell.tools.files.root import RootFolder
from runwell.tools.files.search import OutputMode, search_in
from runwell.tools.files.walk import walk

__all__ = ["FilesystemFileSearchMiddleware"]


class FilesystemFileSearchMiddleware(AgentMiddleware):
    """Gives the model two tools that read one folder: `glob_search` (files by name), `grep_search` (by content).

    Paths are written from `root_path` on, as in `/src/a.py`. One that leads out, by `..` or a symbolic link, is refused
    and the answer says so. The answers do not depend on whether ripgrep is installed: `use_ripgrep` only lets it tell
    which files need not be read.

    Hidden files, `.git`, and what `.gitignore` files ignore are left out, unless `include_hidden` and `include_ignored`
    say otherwise; so are, of contents, files of more than `max_file_size_mb` megabytes and binary ones. At most
    `max_results` files or lines are shown, and a search stops after `timeout` seconds; the answer tells what is not in
    it.

    Needs `pip install "runwell[files]"`. Seats: D20 (what is inside the folder), D21 (what is searched).
    """

    @checked_arguments
    def __init__(
        self,
        *,
        root_path: str | Path,
        use_ripgrep: bool = True,
        max_file_size_mb: float = 10,
        include_hidden: bool = False,
        include_ignored: bool = False,
        max_results: int = 200,
        timeout: float = 30.0,
    ) -> None:
        self.search = search_in(
            root_path,
            use_ripgrep=use_ripgrep,
            max_file_size_mb=max_file_size_mb,
            include_hidden=include_hidden,
            include_ignored=include_ignored,
            max_results=max_results,
            timeout=timeout,
        )
        self.tools = self._tools()

    def seats(self) -> Iterable[Held]:
        rules = self.search.rules
        yield Held(
            "D20",
            f"What is below {self.search.root.path}, links followed; what leads out is refused, and said to be.",
            RootFolder.locate,
        )
        hidden = "hidden files too" if rules.include_hidden else "no hidden files"
        ignored = "ignored ones too" if rules.include_ignored else "none that a .gitignore ignores"
        yield Held(
            "D21",
            f"Plain files, {hidden}, {ignored}; contents of text files up to {rules.max_file_size_mb:g} MB. "
            "The same with and without ripgrep.",
            walk,
        )

    def _tools(self) -> tuple[Any, ...]:
        search = self.search
        rules = search.rules
        left = [
            *([] if rules.include_hidden else ["hidden files"]),
            *([] if rules.include_ignored else ["files that .gitignore ignores"]),
        ]
        seen = f" Left out: {', '.join([*left, 'symbolic links'])}."
        size = f" Files over {rules.max_file_size_mb:g} MB and binary files are not read."

        @tool(
            description="Find files by a pattern of their path, as in `*.py` (in that folder), `**/*.{ts,tsx}` (at any "
            f"depth). Gives the paths, sorted, at most {search.max_results}.{seen}",
            read_only=True,
            idempotent=True,
        )
        def glob_search(
            pattern: Annotated[str, "The pattern, from `path` on."],
            path: Annotated[str, "The folder to search, from the root on."] = "/",
        ) -> str:
            return search.glob(pattern, path)

        @tool(
            description="Find files whose lines match a regular expression; `(?i)` at its beginning ignores case. "
            "`output_mode` is files_with_matches (paths), content (path:line:text) or count (path:number of lines). "
            f"At most {search.max_results} are shown.{seen}{size}",
            read_only=True,
            idempotent=True,
        )
        def grep_search(
            pattern: Annotated[str, "The regular expression, matched against each line."],
            path: Annotated[str, "The folder or file to search, from the root on."] = "/",
            include: Annotated[str | None, "Only files of this pattern, as in `*.py` or `src/**/*.ts`."] = None,
            output_mode: OutputMode = "files_with_matches",
        ) -> str:
            return search.grep(pattern, path, include, output_mode)

        return glob_search, grep_search
