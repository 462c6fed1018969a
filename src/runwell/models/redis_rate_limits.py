"""One limit on calls for all processes that share a Redis server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from runwell.errors import InvalidConfig, InvalidInput, MissingExtra, StorageError
from runwell.models.rate_limits import TurnGiver, check_rates
from runwell.schemas.arguments import checked_arguments

if TYPE_CHECKING:
    from redis import Redis

__all__ = ["RedisRateLimiter"]

# One step of the two buckets, by the server's clock, so that machines need not agree on the time.
_STEP: Final = """
local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1e6
local rate, size = tonumber(ARGV[1]), tonumber(ARGV[2])
local token_rate, token_size = tonumber(ARGV[3]), tonumber(ARGV[4])
local requests, tokens, at_once = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] == '1'
local kept = redis.call('HMGET', KEYS[1], 'requests', 'tokens', 'at')
local passed = math.max(0, now - (tonumber(kept[3] or now) or now))
local level = math.min(size, (tonumber(kept[1] or size) or size) + passed * rate)
local fuel = math.min(token_size, (tonumber(kept[2] or token_size) or token_size) + passed * token_rate)
local wait = math.max(0, (requests - level) / rate)
if token_rate > 0 then
  wait = math.max(wait, (math.min(tokens, token_size) - fuel) / token_rate)
  fuel = math.min(token_size, fuel - tokens)
end
if at_once and wait > 0 then
  return string.format('%.6f', wait)
end
level = math.min(size, level - requests)
redis.call('HSET', KEYS[1], 'requests', string.format('%.17g', level), 'tokens', string.format('%.17g', fuel),
  'at', string.format('%.17g', now))
local full = (size - level) / rate
if token_rate > 0 then
  full = math.max(full, (token_size - fuel) / token_rate)
end
redis.call('PEXPIRE', KEYS[1], math.ceil(full * 1000) + 1000)
return string.format('%.6f', wait)
"""


class RedisRateLimiter(TurnGiver):
    """The limits of `InMemoryRateLimiter`, kept in a Redis server for any number of processes and machines.

    `target` is a `redis://`, `rediss://` or `unix://` address, or a `redis.Redis` client of yours. All limiters with
    one `key` share one limit; give them the same numbers. Turns go round in order: each process keeps a line of its
    own, and the first of each line stands in the common one. A process that dies loses at most the turn it had claimed.

    Needs the extra `redis`. When the server is out of reach, calls raise StorageError (`.retryable`).
    """

    _instant = False

    @checked_arguments
    def __init__(
        self,
        target: str | Redis = "redis://localhost:6379/0",
        *,
        requests_per_second: float = 1,
        max_bucket_size: float = 1,
        tokens_per_minute: float | None = None,
        key: str = "runwell:rate",
    ) -> None:
        check_rates(type(self).__name__, requests_per_second, max_bucket_size, tokens_per_minute)
        if not key:
            raise InvalidInput("RedisRateLimiter needs a key.")
        try:
            import redis
        except ImportError:
            raise MissingExtra("RedisRateLimiter", "redis") from None
        self._redis = redis
        if isinstance(target, str):
            try:
                self._client: Any = redis.Redis.from_url(target)
            except ValueError as error:
                raise InvalidConfig(
                    f"RedisRateLimiter got an address that is none of a Redis server: {error}.",
                    hint='It looks like "redis://host:6379/0".',
                ) from None  # the address may hold a password
        elif isinstance(target, redis.Redis):
            self._client = target
        else:
            raise InvalidConfig(
                f"RedisRateLimiter got a {type(target).__name__}.",
                hint="Give an address or a redis.Redis client (not an async one: both colours use the same).",
            )
        self._own = isinstance(target, str)
        self.requests_per_second = requests_per_second
        self.max_bucket_size = max_bucket_size
        self.tokens_per_minute = tokens_per_minute
        self.key = key
        self._script = self._client.register_script(_STEP)
        self._stand()

    def __repr__(self) -> str:
        tokens = f", tokens_per_minute={self.tokens_per_minute!r}" if self.tokens_per_minute else ""
        return f"RedisRateLimiter(key={self.key!r}, requests_per_second={self.requests_per_second!r}{tokens})"

    def close(self) -> None:
        """Close the connections (not those of a client that was given)."""
        if self._own:
            self._client.close()

    def _claim(self, tokens: int, *, at_once: bool) -> float:
        return self._step(1, tokens, at_once)

    def _release(self, tokens: int) -> None:
        """The turn is lost: whoever claimed after it has been told when theirs is."""

    def charge(self, tokens: int) -> None:
        """A call took so many tokens more (or fewer) than its turn was claimed with."""
        if self.tokens_per_minute is not None and tokens:
            self._step(0, tokens, at_once=False)

    def _step(self, requests: int, tokens: int, at_once: bool) -> float:
        a_minute = self.tokens_per_minute or 0
        numbers = (self.requests_per_second, self.max_bucket_size, a_minute / 60, a_minute, requests, tokens)
        try:
            return float(self._script(keys=[self.key], args=[*numbers, int(at_once)]))
        except self._redis.RedisError as error:
            failed = StorageError(f"RedisRateLimiter: {error}.", hint="Is the server up and reachable?")
            failed.retryable = isinstance(error, (self._redis.ConnectionError, self._redis.TimeoutError))
            raise failed from error
