"""Conversations in an SQLite file."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Hashable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar

from runwell.chat_history.history import BaseChatMessageHistory
from runwell.chat_history.lines import from_json, to_json
from runwell.errors import InvalidInput, StorageError
from runwell.messages.convert import convert_to_messages
from runwell.messages.message import BaseMessage

if TYPE_CHECKING:
    import sqlite3

__all__ = ["SqliteChatMessageHistory"]

T = TypeVar("T")

_TABLE = """
CREATE TABLE IF NOT EXISTS chat_messages (
    session_id TEXT NOT NULL,
    place INTEGER NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (session_id, place)
) WITHOUT ROWID
"""


class _Database:
    """One connection to a file, shared by all histories in it."""

    def __init__(self, path: str) -> None:
        import sqlite3

        self._lock = threading.Lock()
        connection = sqlite3.connect(path, timeout=30.0, check_same_thread=False, isolation_level=None)
        weakref.finalize(self, connection.close)
        self._connection = connection
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(_TABLE)

    def read(self, query: str, *values: object) -> list[tuple[str]]:
        with self._lock, closing(self._connection.execute(query, values)) as found:
            return found.fetchall()

    def write(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """All of it or nothing, whoever else writes."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                work(self._connection)
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")


_OPEN: weakref.WeakValueDictionary[tuple[int, str], _Database] = weakref.WeakValueDictionary()
_REGISTER = threading.Lock()


class SqliteChatMessageHistory(BaseChatMessageHistory):
    """The conversation `session_id` in the file `path`, which is made if it is not there.

    Many conversations share a file, threads and processes may use it at once, and what is added is on disk, all of it
    or none, when `add_messages` returns. Objects are cheap to make: those on one file share a connection.
    """

    def __init__(self, session_id: str, path: str | os.PathLike[str]) -> None:
        given: Any = session_id
        if not isinstance(given, str) or not given:
            raise InvalidInput(f"session_id is a text that is not empty, not {given!r:.200}.")
        if os.fspath(path) == ":memory:":
            raise InvalidInput(
                "A conversation in ':memory:' is gone with its object.", hint="Use InMemoryChatMessageHistory."
            )
        self.session_id = session_id
        self.path = os.path.realpath(path)

    @property
    def session_key(self) -> Hashable:
        return ("sqlite", self.path, self.session_id)

    _kept: _Database | None = None

    def _database(self) -> _Database:
        if self._kept is None:
            import sqlite3

            key = os.getpid(), self.path  # a connection must not cross a fork
            with _REGISTER:
                found = _OPEN.get(key)
                if found is None:
                    try:
                        os.makedirs(os.path.dirname(self.path), exist_ok=True)
                        found = _OPEN[key] = _Database(self.path)
                    except (OSError, sqlite3.Error) as error:
                        raise StorageError(f"Cannot open the conversations in {self.path!r}: {error}.") from error
            self._kept = found
        return self._kept

    @property
    def messages(self) -> list[BaseMessage]:
        """All messages, the oldest first."""
        rows = self._told(
            lambda: self._database().read(
                "SELECT message FROM chat_messages WHERE session_id = ? ORDER BY place", self.session_id
            )
        )
        return [from_json(text, f"Conversation {self.session_id!r} in {self.path!r}") for (text,) in rows]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        lines = [to_json(message) for message in convert_to_messages(messages)]

        def insert(connection: sqlite3.Connection) -> None:
            ((last,),) = connection.execute(
                "SELECT coalesce(max(place), 0) FROM chat_messages WHERE session_id = ?", (self.session_id,)
            )
            connection.executemany(
                "INSERT INTO chat_messages VALUES (?, ?, ?)",
                [(self.session_id, last + number, line) for number, line in enumerate(lines, 1)],
            )

        self._told(lambda: self._database().write(insert))

    def clear(self) -> None:
        statement = "DELETE FROM chat_messages WHERE session_id = ?"
        self._told(lambda: self._database().write(lambda connection: connection.execute(statement, (self.session_id,))))

    def _told(self, work: Callable[[], T]) -> T:
        import sqlite3

        try:
            return work()
        except sqlite3.Error as error:
            raise StorageError(
                f"Conversation {self.session_id!r} in {self.path!r}: {error}.",
                hint="Is the disk full, the file read-only, or locked by another program for over 30 s?",
            ) from error

    def __repr__(self) -> str:
        return f"SqliteChatMessageHistory({self.session_id!r}, {self.path!r})"
