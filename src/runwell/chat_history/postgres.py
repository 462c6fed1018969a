"""Conversations in PostgreSQL."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from runwell.chat_history.history import BaseChatMessageHistory
from runwell.chat_history.lines import from_json, to_json
from runwell.errors import InvalidInput
from runwell.messages.convert import convert_to_messages
from runwell.messages.message import BaseMessage

if TYPE_CHECKING:
    import psycopg
    from psycopg_pool import ConnectionPool

    from runwell.persistence.databases.postgres import PostgresDatabase

__all__ = ["PostgresChatMessageHistory"]

_ROOM: Final = "chat_history"
_MIGRATIONS: Final = (
    (
        """CREATE TABLE runwell_chat_messages (
            place BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            session_id TEXT NOT NULL,
            added UUID NOT NULL,
            number INTEGER NOT NULL,
            message TEXT NOT NULL,
            UNIQUE (session_id, added, number)
        )""",
        "CREATE INDEX runwell_chat_messages_in_order ON runwell_chat_messages (session_id, place)",
    ),
)
"""Steps that every database takes once, in order. Released ones never change."""


class _Shared:
    """One pool of connections, shared by all histories on a connection string and closed with the last of them."""

    def __init__(self, target: Any, max_connections: int) -> None:
        from runwell.persistence.databases.postgres import PostgresDatabase

        self.database: PostgresDatabase = PostgresDatabase(
            target,
            room=_ROOM,
            migrations=_MIGRATIONS,
            owner="PostgresChatMessageHistory",
            max_connections=max_connections,
        )
        weakref.finalize(self, self.database.close)


_OPEN: weakref.WeakValueDictionary[str, _Shared] = weakref.WeakValueDictionary()
_REGISTER = threading.Lock()


class PostgresChatMessageHistory(BaseChatMessageHistory):
    """The conversation `session_id` in the database `target`: a connection string, a pool, or a psycopg connection.

    The table is made at first use. What is added is committed, all of it or none, when `add_messages` returns, and
    stays together whoever else adds; a connection that dies meanwhile is replaced. Objects are cheap to make: those on
    one connection string share a pool. Needs the extra `postgres`.
    """

    def __init__(
        self,
        session_id: str,
        target: str | ConnectionPool[Any] | psycopg.Connection[Any],
        *,
        max_connections: int = 8,
    ) -> None:
        given: Any = session_id
        if not isinstance(given, str) or not given:
            raise InvalidInput(f"session_id is a text that is not empty, not {given!r:.200}.")
        self.session_id = session_id
        if isinstance(target, str):
            with _REGISTER:
                found = _OPEN.get(target)
                if found is None:
                    found = _OPEN[target] = _Shared(target, max_connections)
            self._shared = found
        else:
            self._shared = _Shared(target, max_connections)
        self._where: Hashable = target if isinstance(target, str) else id(target)

    @property
    def session_key(self) -> Hashable:
        return ("postgres", self._where, self.session_id)

    @property
    def messages(self) -> list[BaseMessage]:
        """All messages, the oldest first."""
        query = "SELECT message FROM runwell_chat_messages WHERE session_id = %s ORDER BY place"
        rows = self._shared.database.rows(query, self.session_id)
        return [from_json(text, f"Conversation {self.session_id!r} in PostgreSQL") for (text,) in rows]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        added = uuid4()  # the work may be done twice, when a connection dies
        rows = [
            (self.session_id, added, number, to_json(message))
            for number, message in enumerate(convert_to_messages(messages))
        ]

        def insert(connection: psycopg.Connection[Any], again: bool) -> None:
            # One writer of a conversation at a time, so that what is added at once stays together.
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (self.session_id,))
            with connection.cursor() as cursor:
                cursor.executemany(
                    "INSERT INTO runwell_chat_messages (session_id, added, number, message) VALUES (%s, %s, %s, %s)"
                    " ON CONFLICT DO NOTHING",
                    rows,
                )

        self._shared.database.run(insert, "together")

    def clear(self) -> None:
        statement = "DELETE FROM runwell_chat_messages WHERE session_id = %s"
        self._shared.database.run(lambda connection, again: connection.execute(statement, (self.session_id,)))

    def __repr__(self) -> str:
        return f"PostgresChatMessageHistory({self.session_id!r})"
