"""A cache in a Redis server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any, Self, TypeVar

from runwell.errors import InvalidConfig, MissingExtra, StorageError
from runwell.persistence.caches.cache import RowCache
from runwell.persistence.serialization.encryption import Cipher

if TYPE_CHECKING:
    from redis import Redis

__all__ = ["RedisCache"]

T = TypeVar("T")

_EXPIRY = Struct("<d")
"""Before each value: when it expires by the clock of who wrote it, or 0. Redis' own expiry only tidies up."""
_AT_ONCE = 500
"""Keys removed by one command while a namespace is cleared."""


class RedisCache(RowCache):
    """Keeps results in a Redis server, for nodes and models of any number of machines.

    `target` is a `redis://`, `rediss://` or `unix://` address, or a `redis.Redis` client of yours, which stays yours to
    close (give it `decode_responses=False`, the default). All keys begin with `prefix`. How many results are kept is up
    to the server (`maxmemory`, `maxmemory-policy`); what it has thrown out is worked out anew. `allow` lists classes of
    yours that may be kept, `encryption` encrypts values. From an event loop, up to `max_connections` calls wait for the
    server at once.

    Clearing a namespace looks at every key of the database. Needs the extra `redis`.

    Raises StorageError (`.retryable`) when the server is out of reach, at the first call that needs it.
    """

    def __init__(
        self,
        target: str | Redis = "redis://localhost:6379/0",
        *,
        prefix: str = "runwell:cache:",
        max_connections: int = 8,
        allow: Iterable[type] = (),
        encryption: Cipher | None = None,
    ) -> None:
        super().__init__(allow=allow, encryption=encryption, workers=max_connections)
        try:
            import redis
        except ImportError:
            raise MissingExtra("RedisCache", "redis") from None
        self._redis = redis
        self.prefix = prefix
        self._own = isinstance(target, str)
        if isinstance(target, str):
            try:
                self._client: Redis = redis.Redis.from_url(target)
            except ValueError as error:
                raise InvalidConfig(
                    f"RedisCache got an address that is none of a Redis server: {error}.",
                    hint='It looks like "redis://host:6379/0".',
                ) from None  # the address may hold a password
        elif isinstance(target, redis.Redis):
            self._client = target
        else:
            raise InvalidConfig(
                f"RedisCache got a {type(target).__name__}.",
                hint="Give an address or a redis.Redis client (not an async one: the async forms use the same).",
            )

    @classmethod
    def from_conn_string(cls, conn_string: str, **settings: Any) -> Self:
        """A cache with connections of its own, for use in a `with` block."""
        return cls(conn_string, **settings)

    def close(self) -> None:
        """Close the connections (not those of a client that was given). Harmless when repeated."""
        super().close()
        if self._own:
            self._client.close()

    def read_values(self, keys: Sequence[tuple[str, str]], now: float) -> dict[tuple[str, str], bytes]:
        if not keys:
            return {}
        found: dict[tuple[str, str], bytes] = {}
        stored: Any = self._told(lambda: self._client.mget([self._name(*where) for where in keys]))
        for where, data in zip(keys, stored, strict=True):
            if data is None:
                continue
            (expires_at,) = _EXPIRY.unpack_from(data) if len(data) >= _EXPIRY.size else (0.0,)
            if not expires_at or expires_at > now:
                found[where] = data[_EXPIRY.size :]
        return found

    def write_values(self, rows: Sequence[tuple[str, str, bytes, float | None]], now: float) -> None:
        def write() -> None:
            with self._client.pipeline(transaction=True) as steps:
                for ns, key, data, expires_at in rows:
                    life = None if expires_at is None else max(1, round((expires_at - now) * 1000))
                    steps.set(self._name(ns, key), _EXPIRY.pack(expires_at or 0.0) + data, px=life)
                steps.execute()

        self._told(write)

    def remove_values(self, keys: Sequence[tuple[str, str]]) -> None:
        if keys:
            self._told(lambda: self._client.unlink(*(self._name(*where) for where in keys)))

    def remove_namespaces(self, namespaces: Sequence[str] | None) -> None:
        def remove(pattern: bytes) -> None:
            some: list[Any] = []
            for name in self._client.scan_iter(match=pattern, count=1000):
                some.append(name)
                if len(some) == _AT_ONCE:
                    self._client.unlink(*some)
                    some.clear()
            if some:
                self._client.unlink(*some)

        begins = [self.prefix.encode()] if namespaces is None else [self._name(ns, "") for ns in namespaces]
        for begin in begins:
            pattern = b"".join(b"\\" + bytes([byte]) if byte in b"*?[]^\\-" else bytes([byte]) for byte in begin) + b"*"
            self._told(lambda pattern=pattern: remove(pattern))  # type: ignore[misc]

    def _name(self, ns: str, key: str) -> bytes:
        """The Redis key: no namespace's keys begin like another's, since it ends where no label can go on."""
        return f"{self.prefix}{ns}\x00{key}".encode()

    def _told(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except self._redis.RedisError as error:
            failed = StorageError(f"RedisCache: {error}.", hint="Is the server up and reachable?")
            failed.retryable = isinstance(error, (self._redis.ConnectionError, self._redis.TimeoutError))
            raise failed from error
