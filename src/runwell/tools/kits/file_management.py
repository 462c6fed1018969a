"""Files inside one folder, for a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from runwell.errors import InvalidInput, ToolError, nearest
from runwell.tools.decorator import tool
from runwell.tools.files.changing import copy_file as copy_in
from runwell.tools.files.changing import move, remove
from runwell.tools.files.changing import write_file as write_in
from runwell.tools.files.root import RootFolder, shown
from runwell.tools.structured import StructuredTool

__all__ = ["file_tools"]

READING = ("read_file", "list_directory")
MOST_LISTED = 500


def file_tools(
    root: str | Path | RootFolder,
    *,
    writable: bool = False,
    select: Sequence[str] | None = None,
    max_file_size_mb: float = 10,
    max_lines: int = 2_000,
) -> list[StructuredTool]:
    """Tools over the files of one folder: `read_file`, `list_directory`, and if `writable` also `write_file`,
    `edit_file`, `copy_file`, `move_file`, `delete_file`.

    Paths are written from the folder on, and nothing leads out of it, by `..` or by a link (`RootFolder`). Files are
    text in UTF-8 of at most `max_file_size_mb`; a reading shows at most `max_lines` lines. Files appear whole or not at
    all. `select` picks tools by name. For searching see `FilesystemFileSearchMiddleware`.
    """
    folder = root if isinstance(root, RootFolder) else RootFolder(root)
    made = {
        each.name: each
        for each in [*_reading(folder, max_file_size_mb, max_lines), *_writing(folder, max_file_size_mb)]
    }
    names = list(READING if not writable else made) if select is None else list(select)
    for name in names:
        if name not in made:
            raise InvalidInput(f"There is no file tool {name!r}{nearest(name, made)}.", hint=f"Of {', '.join(made)}.")
        if name not in READING and not writable:
            raise InvalidInput(f"The file tool {name!r} changes files.", hint="Say writable=True.")
    return [made[name] for name in names]


def _text(folder: RootFolder, path: str, megabytes: float) -> str:
    located = folder.locate(path)
    if located.is_folder:
        raise ToolError(f"{shown(path)} is a folder.")
    try:
        data = folder.read(located.parts, int(megabytes * 1_000_000))
    except OSError as error:
        raise ToolError(f"{shown(path)}: {error.strerror}.") from error
    if data is None:
        raise ToolError(f"{shown(path)} has more than {megabytes:g} MB.")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ToolError(f"{shown(path)} is no text in UTF-8 ({len(data):,} bytes).") from None


def _reading(folder: RootFolder, megabytes: float, max_lines: int) -> list[StructuredTool]:
    @tool(read_only=True, idempotent=True)
    def read_file(
        path: Annotated[str, "The file, from the root on."],
        first_line: Annotated[int, "Where to begin; 1 is the first line."] = 1,
        lines: Annotated[int | None, "How many lines."] = None,
    ) -> str:
        """Read a text file."""
        if first_line < 1 or (lines is not None and lines < 1):
            raise ToolError("first_line and lines are at least 1.")
        every = _text(folder, path, megabytes).splitlines(keepends=True)
        count = min(max_lines, max_lines if lines is None else lines)
        part = every[first_line - 1 : first_line - 1 + count]
        if not part and every:
            raise ToolError(f"{shown(path)} has {len(every)} lines.")
        last = first_line - 1 + len(part)
        note = "" if last >= len(every) else f"\n[Lines {first_line} to {last} of {len(every)}.]"
        return "".join(part) + note if part else "[The file is empty.]"

    @tool(read_only=True, idempotent=True)
    def list_directory(path: Annotated[str, "The folder, from the root on."] = "/") -> str:
        """List what is in a folder; names of folders end in a slash."""
        import os

        located = folder.locate(path)
        if not located.is_folder:
            raise ToolError(f"{shown(path)} is no folder.")
        try:
            with folder.folder(located.parts) as opened, os.scandir(opened) as entries:
                names = sorted(
                    shown(each.name) + ("/" if each.is_dir(follow_symlinks=False) else "@" if each.is_symlink() else "")
                    for each in entries
                )
        except OSError as error:
            raise ToolError(f"{shown(path)}: {error.strerror}.") from error
        more = len(names) - MOST_LISTED
        return "\n".join([*names[:MOST_LISTED], *([f"[{more} more]"] if more > 0 else [])]) or "[Nothing.]"

    return [read_file, list_directory]


def _writing(folder: RootFolder, megabytes: float) -> list[StructuredTool]:
    def encoded(text: str) -> bytes:
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise ToolError(f"The text cannot be written as UTF-8: {error.reason}.") from error
        if len(data) > megabytes * 1_000_000:
            raise ToolError(f"The text has more than {megabytes:g} MB.")
        return data

    changes: dict[str, Any] = {"read_only": False, "destructive": True}

    @tool(**changes, idempotent=True)
    def write_file(
        path: Annotated[str, "The file, from the root on; missing folders are made."],
        text: Annotated[str, "All that the file is to hold."],
        replace: Annotated[bool, "Whether a file that is there may be replaced."] = False,
    ) -> str:
        """Write a text file."""
        data = encoded(text)
        replaced = write_in(folder, path, data, replace=replace)
        return f"{'Replaced' if replaced else 'Wrote'} {shown(path)} ({len(data):,} bytes)."

    @tool(**changes)
    def edit_file(
        path: Annotated[str, "The file, from the root on."],
        old: Annotated[str, "The text to replace, exactly as it stands there; it must be there once."],
        new: Annotated[str, "What is to stand there instead."],
    ) -> str:
        """Replace one passage of a text file."""
        text = _text(folder, path, megabytes)
        count = text.count(old) if old else 0
        if count != 1:
            raise ToolError(f"The old text is in {shown(path)} {count} times; it must be there exactly once.")
        write_in(folder, path, encoded(text.replace(old, new)), replace=True)
        return f"Changed {shown(path)}."

    @tool(**changes)
    def copy_file(source: str, target: Annotated[str, "Where nothing is yet."]) -> str:
        """Copy a file."""
        copy_in(folder, source, target, int(megabytes * 1_000_000))
        return f"Copied {shown(source)} to {shown(target)}."

    @tool(**changes)
    def move_file(source: str, target: Annotated[str, "Where nothing is yet."]) -> str:
        """Move or rename a file or folder."""
        move(folder, source, target)
        return f"Moved {shown(source)} to {shown(target)}."

    @tool(**changes)
    def delete_file(path: Annotated[str, "A file, or a folder that is empty."]) -> str:
        """Delete a file or an empty folder."""
        remove(folder, path)
        return f"Deleted {shown(path)}."

    return [write_file, edit_file, copy_file, move_file, delete_file]
