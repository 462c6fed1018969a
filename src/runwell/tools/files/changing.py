"""Changing what is in a folder that paths cannot lead out of."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from runwell.errors import ToolError
from runwell.tools.files.root import NothingThere, RootFolder, shown

__all__ = ["copy_file", "move", "remove", "write_file"]

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)

Parts = tuple[str, ...]


def write_file(root: RootFolder, path: str, data: bytes, *, replace: bool) -> bool:
    """Put a file there, whole or not at all; whether it replaced one. Missing folders are made.

    Raises ToolError for a folder, and for a file that is there unless `replace`.
    """
    parts, there = _place(root, path)
    if there is not None:
        if not stat.S_ISREG(there.st_mode):
            raise ToolError(f"{shown(path)} is no plain file.")
        if not replace:
            raise ToolError(f"{shown(path)} is there already; say that it may be replaced, or choose another name.")
    with _opened(root, parts[:-1], path) as folder:
        _put(folder, parts[-1], data, None if there is None else stat.S_IMODE(there.st_mode), path)
    return there is not None


def copy_file(root: RootFolder, source: str, target: str, max_bytes: int) -> None:
    """Copy a plain file of at most so many bytes to where nothing is."""
    located = root.locate(source)
    try:
        if located.is_folder:
            raise ToolError(f"{shown(source)} is a folder; only files are copied.")
        data = root.read(located.parts, max_bytes)
    except OSError as error:
        raise ToolError(f"{shown(source)}: {error.strerror}.") from error
    if data is None:
        raise ToolError(f"{shown(source)} has more than {max_bytes / 1_000_000:g} MB.")
    write_file(root, target, data, replace=False)


def move(root: RootFolder, source: str, target: str) -> None:
    """Give a file or folder another place, where nothing is."""
    at = root.locate(source).parts
    to, there = _place(root, target)
    if there is not None:
        raise ToolError(f"{shown(target)} is there already.")
    if not at or to[: len(at)] == at:
        raise ToolError(f"{shown(source)} cannot be moved into itself.")
    with _opened(root, at[:-1], source) as old, _opened(root, to[:-1], target) as new:
        try:
            os.rename(at[-1], to[-1], src_dir_fd=old, dst_dir_fd=new)
        except OSError as error:
            raise ToolError(f"{shown(source)} cannot be moved: {error.strerror}.") from error


def remove(root: RootFolder, path: str) -> None:
    """Remove a file, or a folder that is empty."""
    located = root.locate(path)
    if not located.parts:
        raise ToolError("The root folder itself stays.")
    with _opened(root, located.parts[:-1], path) as folder:
        try:
            if located.is_folder:
                os.rmdir(located.parts[-1], dir_fd=folder)
            else:
                os.unlink(located.parts[-1], dir_fd=folder)
        except OSError as error:
            raise ToolError(f"{shown(path)} cannot be removed: {error.strerror}.") from error


def _place(root: RootFolder, path: str) -> tuple[Parts, os.stat_result | None]:
    """Where a path leads, if what it ends in is not there yet too; and what is there. Missing folders are made."""
    names = [part for part in path.split("/") if part not in ("", ".")]
    for cut in range(len(names), -1, -1):
        try:
            located = root.locate("/".join(names[:cut]))
        except NothingThere:
            continue
        break
    rest = names[cut:]
    if not rest:
        if not located.parts:
            raise ToolError("That is the root folder.")
        with _opened(root, located.parts[:-1], path) as folder:
            return located.parts, os.stat(located.parts[-1], dir_fd=folder, follow_symlinks=False)
    if ".." in rest or not located.is_folder:
        raise ToolError(f"{shown(path)} leads nowhere.")
    done = located.parts
    for name in rest[:-1]:
        with _opened(root, done, path) as folder:
            try:
                os.mkdir(name, dir_fd=folder)
            except OSError as error:  # a link that leads nowhere is in the way
                raise ToolError(f"{shown(path)}: the folder {shown(name)} cannot be made: {error.strerror}.") from error
        done = (*done, name)
    return (*done, rest[-1]), None


@contextmanager
def _opened(root: RootFolder, parts: Parts, path: str) -> Iterator[int]:
    try:
        opened = root.folder(parts)
        folder = opened.__enter__()
    except OSError as error:
        raise ToolError(f"{shown(path)}: {error.strerror}.") from error
    try:
        yield folder
    finally:
        opened.__exit__(None, None, None)


def _put(folder: int, name: str, data: bytes, mode: int | None, path: str) -> None:
    """Written beside its place and then moved there: nobody sees half a file."""
    beside = f".{name[:100]}.{os.urandom(6).hex()}"
    try:
        with open(os.open(beside, _NEW, 0o666, dir_fd=folder), "wb") as file:
            file.write(data)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
        if mode is None:
            os.link(
                beside, name, src_dir_fd=folder, dst_dir_fd=folder
            )  # unlike a rename, refused if something is there
            os.unlink(beside, dir_fd=folder)
        else:
            os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        with suppress(OSError):  # never made, or moved already
            os.unlink(beside, dir_fd=folder)
        raise ToolError(f"{shown(path)} cannot be written: {error.strerror}.") from error
