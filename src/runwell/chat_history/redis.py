"""Conversations in Redis."""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar
from uuid import uuid4

from runwell.chat_history.history import BaseChatMessageHistory
from runwell.chat_history.lines import damaged, many_from_json, many_to_json
from runwell.errors import InvalidInput, MissingExtra, StorageError
from runwell.messages.convert import convert_to_messages
from runwell.messages.message import BaseMessage

__all__ = ["RedisChatMessageHistory"]

T = TypeVar("T")

_OPEN: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
_REGISTER = threading.Lock()


class RedisChatMessageHistory(BaseChatMessageHistory):
    """The conversation `session_id` in a Redis server, as a list under `key_prefix + session_id`.

    `url` is a `redis://` or `rediss://` address, or a `redis.Redis` client of yours. With `ttl` the conversation is
    forgotten so many seconds after it was last added to. An entry of the list is one `add_messages`: all of it or none,
    and read once however often the client sent it. How much survives a crash of the server is up to its settings.
    Objects are cheap to make: those on one address share a client. Needs the extra `redis`.
    """

    def __init__(
        self,
        session_id: str,
        url: Any = "redis://localhost:6379/0",
        *,
        key_prefix: str = "runwell:chat:",
        ttl: int | None = None,
    ) -> None:
        given: Any = session_id
        if not isinstance(given, str) or not given:
            raise InvalidInput(f"session_id is a text that is not empty, not {given!r:.200}.")
        if ttl is not None and ttl < 1:
            raise InvalidInput(f"ttl is a number of seconds from 1 up, not {ttl!r}.")
        self.session_id = session_id
        self.key = key_prefix + session_id
        self.ttl = ttl
        self._client = _client(url) if isinstance(url, str) else url
        self._where: Hashable = url if isinstance(url, str) else id(url)

    @property
    def session_key(self) -> Hashable:
        return ("redis", self._where, self.key)

    @property
    def messages(self) -> list[BaseMessage]:
        """All messages, the oldest first."""
        where = f"Redis key {self.key!r}"
        found: list[BaseMessage] = []
        seen: set[str] = set()
        for line in self._told(lambda: self._client.lrange(self.key, 0, -1)):
            try:
                added, messages = json.loads(line)
            except (ValueError, TypeError) as error:
                raise damaged(where, error) from error
            if added not in seen:
                seen.add(added)
                found += many_from_json(json.dumps(messages), where)
        return found

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        # Named, since a client that loses its connection sends it again without knowing whether it arrived.
        line = f'["{uuid4().hex}",{many_to_json(convert_to_messages(messages))}]'

        def push() -> None:
            with self._client.pipeline(transaction=True) as steps:
                steps.rpush(self.key, line)
                if self.ttl is not None:
                    steps.expire(self.key, self.ttl)
                steps.execute()

        self._told(push)

    def clear(self) -> None:
        self._told(lambda: self._client.delete(self.key))

    def _told(self, work: Callable[[], T]) -> T:
        from redis import RedisError

        try:
            return work()
        except RedisError as error:
            failed = StorageError(
                f"Redis, conversation {self.session_id!r}: {error}.", hint="Is the server up and reachable?"
            )
            failed.retryable = True
            raise failed from error

    def __repr__(self) -> str:
        return f"RedisChatMessageHistory({self.session_id!r})"


def _client(url: str) -> Any:
    try:
        from redis import Redis
    except ImportError:
        raise MissingExtra("RedisChatMessageHistory", "redis") from None
    with _REGISTER:
        found = _OPEN.get(url)
        if found is None:
            try:
                found = _OPEN[url] = Redis.from_url(url)
            except ValueError as error:
                raise InvalidInput(
                    f"This is no address of a Redis server: {error}.", hint='It looks like "redis://host:6379/0".'
                ) from None  # the address may hold a password
        return found
