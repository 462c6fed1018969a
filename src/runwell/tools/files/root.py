"""A folder that paths cannot lead out of."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from runwell.errors import InvalidInput, ToolError
from runwell.observe.run import record_decision, watched

__all__ = ["Located", "NothingThere", "RootFolder", "shown"]

PARTS = 255
"""How many names a path may have: each is opened by itself."""
LINKS = 40
"""How many links one path may lead through; as many as Linux follows."""

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
# a pipe that nobody writes must not hold us up while we find out that it is no file
_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class NothingThere(ToolError):
    """A path that stays inside and names nothing."""


class Located(NamedTuple):
    """A place inside the root, without links: `parts` from the root on."""

    parts: tuple[str, ...]
    is_folder: bool


class RootFolder:
    """A folder and what is in it. Paths are written from it: `/src/a.py` is `src/a.py` in the folder.

    Links are followed as long as they stay inside. Whatever leads out, by `..` or by a link, is refused with a
    `ToolError` that says so: the model is to know that it was refused, and not that there is nothing. Opening goes from
    the folder down, one name at a time and never through a link, so a link that is put in the way after the path was
    checked leads nowhere.
    """

    def __init__(self, path: str | Path) -> None:
        if not hasattr(os, "O_NOFOLLOW") or os.open not in os.supports_dir_fd:
            raise InvalidInput(
                "This system cannot open files relative to an open folder, so nothing could keep paths inside.",
                hint="Linux and macOS can; on Windows use WSL.",
            )
        given = Path(path).expanduser()
        if not str(path).strip() or not given.is_dir():  # "" would be the folder that the program runs in
            raise InvalidInput(f"{str(path)!r} is no folder.", hint="Name a folder that is there.")
        self.path = given.resolve()

    def locate(self, path: str) -> Located:
        """Where a path leads, links followed. Raises ToolError if it leads out, or nowhere."""
        if "\0" in path:
            raise ToolError("A path cannot hold a NUL character.")
        todo = [part for part in reversed(path.split("/")) if part not in ("", ".")]
        if len(todo) > PARTS:
            raise ToolError(f"The path has {len(todo)} parts; at most {PARTS} are followed.")
        done: list[str] = []
        links = 0
        while todo:
            part = todo.pop()
            if part == "..":
                if not done:
                    self._refuse(path, "it leads out of the folder")
                done.pop()
                continue
            found = self._look(done, part, path)
            if stat.S_ISLNK(found.st_mode):
                links += 1
                if links > LINKS:
                    raise ToolError(f"{shown(path)}: too many symbolic links.")
                with self.folder(tuple(done)) as folder:
                    target = os.readlink(part, dir_fd=folder)
                if target.startswith("/"):
                    target, done = self._inside(target, path), []
                todo += [each for each in reversed(target.split("/")) if each not in ("", ".")]
                continue
            if todo and any(each != ".." for each in todo) and not stat.S_ISDIR(found.st_mode):
                raise ToolError(f"{shown(path)}: /{shown('/'.join([*done, part]))} is not a folder.")
            done.append(part)
        if not done:
            return Located((), True)
        return Located(tuple(done), stat.S_ISDIR(self._look(done[:-1], done[-1], path).st_mode))

    def _look(self, done: list[str], part: str, path: str) -> os.stat_result:
        try:
            with self.folder(tuple(done)) as folder:
                return os.stat(part, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            raise NothingThere(f"There is no {shown(path)}.") from None
        except OSError as error:
            raise ToolError(f"{shown(path):.300}: {error.strerror}.") from error
        except UnicodeEncodeError as error:
            raise ToolError(f"{shown(path)!r:.300} can be no path: {error.reason}.") from error

    def _inside(self, target: str, path: str) -> str:
        """An absolute link's target, from the root on."""
        own = str(self.path)
        if target == own or target.startswith(own.rstrip("/") + "/"):
            return target[len(own) :]
        return self._refuse(path, "a symbolic link in it leads out of the folder")

    def _refuse(self, path: str, why: str) -> str:
        if watched():
            record_decision("D20", "refused", f"{path!r}: {why}", "code")
        raise ToolError(f"Refused: {shown(path)}: {why}.")

    @contextmanager
    def folder(self, parts: tuple[str, ...]) -> Iterator[int]:
        """A folder inside, opened: its descriptor. OSError if it is not there, or a link."""
        fd = os.open(self.path, _FOLDER)
        try:
            for part in parts:
                deeper = os.open(part, _FOLDER, dir_fd=fd)
                os.close(fd)
                fd = deeper
            yield fd
        finally:
            os.close(fd)

    def read(self, parts: tuple[str, ...], max_bytes: int | None, first: int | None = None) -> bytes | None:
        """A file's bytes (the first so many), None if it has more than `max_bytes`.

        OSError if it is not there, or no plain file.
        """
        with self.folder(parts[:-1]) as folder:
            return read_in(folder, parts[-1], max_bytes, first)

    @contextmanager
    def reading(self) -> Iterator[Callable[[tuple[str, ...], int | None, int | None], bytes | None]]:
        """`read`, for many files: the folder of one stays open for the next."""
        with ExitStack() as opened:
            at: tuple[str, ...] | None = None
            folder = -1

            def read(parts: tuple[str, ...], max_bytes: int | None, first: int | None) -> bytes | None:
                nonlocal at, folder
                if parts[:-1] != at:
                    opened.close()
                    at = None
                    folder = opened.enter_context(self.folder(parts[:-1]))
                    at = parts[:-1]
                return read_in(folder, parts[-1], max_bytes, first)

            yield read


def read_in(folder: int, name: str, max_bytes: int | None, first: int | None = None) -> bytes | None:
    """A plain file in an opened folder, as `RootFolder.read`."""
    fd = os.open(name, _FILE, dir_fd=folder)
    with open(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a plain file", name)
        if max_bytes is None:
            return file.read(-1 if first is None else first)
        if found.st_size > max_bytes:
            return None
        data = file.read(max_bytes + 1 if first is None else first)
        return None if len(data) > max_bytes else data  # it may have grown meanwhile


def shown(path: str) -> str:
    """A path as a model may read it: one line, whatever is in the name."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in path)
