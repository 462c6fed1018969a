"""Conversations in an SQLite file."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final

from runwell.chat_history.history import BaseChatMessageHistory
from runwell.chat_history.lines import from_json, to_json
from runwell.errors import InvalidInput, StorageError
from runwell.messages.convert import convert_to_messages
from runwell.messages.message import BaseMessage

if TYPE_CHECKING:
    from runwell.persistence.databases.sqlite import SqliteFile

__all__ = ["SqliteChatMessageHistory"]

_ROOM: Final = "chat_history"
_MIGRATIONS: Final = (
    (
        """CREATE TABLE runwell_chat_messages (
            session_id TEXT NOT NULL,
            place INTEGER NOT NULL,
            message TEXT NOT NULL,
            PRIMARY KEY (session_id, place)
        ) WITHOUT ROWID""",
    ),
)
"""Steps that every file takes once, in order. Released ones never change."""


class _Shared:
    """One connection to a file, shared by all histories in it and closed with the last of them."""

    def __init__(self, path: str) -> None:
        from runwell.persistence.databases.sqlite import SqliteFile

        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.file = SqliteFile(path, room=_ROOM, migrations=_MIGRATIONS, owner="SqliteChatMessageHistory")
        weakref.finalize(self, self.file.close)


_OPEN: weakref.WeakValueDictionary[str, _Shared] = weakref.WeakValueDictionary()
_REGISTER = threading.Lock()


class SqliteChatMessageHistory(BaseChatMessageHistory):
    """The conversation `session_id` in the file `path`, which is made if it is not there.

    Many conversations share a file, also with savers and stores. Threads and processes may use it at once, and what is
    added is on disk, all of it or none, when `add_messages` returns. Objects are cheap to make: those on one file share
    a connection.
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

    _shared: _Shared | None = None

    @property
    def _file(self) -> SqliteFile:
        if self._shared is None:
            with _REGISTER:
                found = _OPEN.get(self.path)
                if found is None:
                    try:
                        found = _OPEN[self.path] = _Shared(self.path)
                    except OSError as error:
                        raise StorageError(f"Cannot make {self.path!r}: {error}.") from error
            self._shared = found
        return self._shared.file

    @property
    def messages(self) -> list[BaseMessage]:
        """All messages, the oldest first."""
        query = "SELECT message FROM runwell_chat_messages WHERE session_id = ? ORDER BY place"
        where = f"Conversation {self.session_id!r} in {self.path!r}"
        file = self._file
        with file.transaction("BEGIN"):
            return [from_json(text, where) for (text,) in file.rows(query, self.session_id)]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        lines = [to_json(message) for message in convert_to_messages(messages)]
        file = self._file
        with file.transaction() as connection:
            ((last,),) = file.rows(
                "SELECT coalesce(max(place), 0) FROM runwell_chat_messages WHERE session_id = ?", self.session_id
            )
            connection.executemany(
                "INSERT INTO runwell_chat_messages VALUES (?, ?, ?)",
                [(self.session_id, last + number, line) for number, line in enumerate(lines, 1)],
            )

    def clear(self) -> None:
        with self._file.transaction() as connection:
            connection.execute("DELETE FROM runwell_chat_messages WHERE session_id = ?", (self.session_id,))

    def __repr__(self) -> str:
        return f"SqliteChatMessageHistory({self.session_id!r}, {self.path!r})"
