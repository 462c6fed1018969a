"""A conversation in a file."""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable, Sequence
from pathlib import Path
from weakref import WeakValueDictionary

from runwell.chat_history.history import BaseChatMessageHistory
from runwell.chat_history.lines import many_from_json, many_to_json
from runwell.errors import StorageError
from runwell.messages.convert import convert_to_messages
from runwell.messages.message import BaseMessage

__all__ = ["FileChatMessageHistory"]


class _Lock:
    """One for all objects on one file."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


_LOCKS: WeakValueDictionary[str, _Lock] = WeakValueDictionary()
_REGISTER = threading.Lock()


class FileChatMessageHistory(BaseChatMessageHistory):
    """Kept in a file of JSON lines, one line for each `add_messages`, written at the end in one write.

    A write that a crash cut short is dropped whole by the next reader. Several threads, and several processes on one
    machine, may add at once.
    """

    def __init__(self, file_path: str | os.PathLike[str]) -> None:
        self.path = Path(file_path)
        self._name = os.path.realpath(self.path)
        with _REGISTER:
            self._lock = _LOCKS.setdefault(self._name, _Lock())

    @property
    def session_key(self) -> Hashable:
        return ("file", self._name)

    @property
    def messages(self) -> list[BaseMessage]:
        """All messages, the oldest first; none when there is no file yet."""
        found: list[BaseMessage] = []
        for number, line in enumerate(self._lines(), 1):
            if line.strip():
                found += many_from_json(line, f"Line {number} of {str(self.path)!r}")
        return found

    def _lines(self) -> list[bytes]:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StorageError(f"Cannot read {str(self.path)!r}: {error}.") from error
        return content.split(b"\n")[:-1]  # what has no line end was never written whole

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        line = many_to_json(convert_to_messages(messages)).encode() + b"\n"
        with self._lock.lock:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                target = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
                try:
                    size = os.fstat(target).st_size
                    if size and os.pread(target, 1, size - 1) != b"\n":
                        os.ftruncate(target, _last_line(target, size))
                    os.write(target, line)
                finally:
                    os.close(target)
            except OSError as error:
                raise StorageError(f"Cannot add to {str(self.path)!r}: {error}.") from error

    def clear(self) -> None:
        with self._lock.lock:
            self.path.unlink(missing_ok=True)

    def __repr__(self) -> str:
        return f"FileChatMessageHistory({str(self.path)!r})"


def _last_line(target: int, size: int) -> int:
    """Where the last whole line of a file ends."""
    content = os.pread(target, size, 0)
    return content.rfind(b"\n") + 1
