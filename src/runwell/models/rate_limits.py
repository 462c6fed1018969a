"""Calling a model no faster than its provider allows: turns, given in order."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from runwell.drivers.closing import aclose
from runwell.errors import InvalidInput, StorageError
from runwell.messages.usage import add_usage
from runwell.schemas.arguments import checked_arguments

__all__ = [
    "BaseRateLimiter",
    "InMemoryRateLimiter",
    "TurnGiver",
    "asettle",
    "asettled",
    "atake_turn",
    "counts_tokens",
    "settle",
    "settled",
    "take_turn",
]

T = TypeVar("T")
_log = logging.getLogger("runwell.models")

_LINGER_S = 5.0
"""How long the thread that gives turns waits for somebody to come."""


class BaseRateLimiter(ABC):
    """What a chat model asks for leave before each call, retries included. Used from many threads and event loops."""

    @abstractmethod
    def acquire(self, *, blocking: bool = True) -> bool:
        """Wait for leave to make one call; with `blocking=False` say at once whether there is leave, and take it."""

    @abstractmethod
    async def aacquire(self, *, blocking: bool = True) -> bool:
        """As `acquire`."""


class TurnGiver(BaseRateLimiter):
    """Gives turns in the order in which they were asked for, in either colour; nobody polls.

    Whoever must wait stands in one line. A thread that lives while there is a line sleeps until the next turn is due
    and gives it to the first who still waits, so that no waiter depends on another's event loop, and one that is
    cancelled costs nobody a turn. A subclass says when turns are due.
    """

    _instant = True
    """Whether claiming a turn waits for nothing, so that it can be done where the caller stands."""
    tokens_per_minute: float | None = None

    def _stand(self) -> None:
        """To be called by the constructor."""
        self._lock = threading.RLock()  # garbage collection may end a waiter while its own thread holds it
        self._wake = threading.Condition(self._lock)
        self._line: OrderedDict[int, _Waiter] = OrderedDict()
        self._thread: threading.Thread | None = None
        self._next = 0

    # -- what a subclass writes

    @abstractmethod
    def _claim(self, tokens: int, *, at_once: bool) -> float:
        """Take a turn: the seconds until it is due, 0 for now. With `at_once` one that is not due is not taken."""

    @abstractmethod
    def _release(self, tokens: int) -> None:
        """Nobody took the turn that was claimed last."""

    @abstractmethod
    def charge(self, tokens: int) -> None:
        """A call took so many tokens more (or, below zero, fewer) than its turn was claimed with."""

    async def acharge(self, tokens: int) -> None:
        """As `charge`."""
        if self._instant:
            self.charge(tokens)
        else:
            await self._in_worker(lambda: self.charge(tokens))

    async def _in_worker(self, call: Callable[[], T]) -> T:
        from runwell.drivers.aio import in_worker

        return await in_worker(call)

    # -- asking for a turn

    def acquire(self, *, blocking: bool = True, tokens: int = 0) -> bool:
        """Wait for a turn. `tokens`: about how many the call will take; they matter with `tokens_per_minute` only."""
        taken = self._at_once(blocking, tokens)
        if taken is not None:
            return taken
        came = threading.Event()
        waiter = self._join(tokens, came.set)
        try:
            came.wait()
        except BaseException:
            self._leave(waiter)
            raise
        return waiter.answered()

    async def aacquire(self, *, blocking: bool = True, tokens: int = 0) -> bool:
        """As `acquire`. A call that is cancelled while it waits leaves the line."""
        import asyncio

        if not blocking and not self._instant:
            return await self._in_worker(lambda: self.acquire(blocking=False, tokens=tokens))
        taken = self._at_once(blocking, tokens)
        if taken is not None:
            return taken
        loop = asyncio.get_running_loop()
        came = loop.create_future()

        def tell() -> None:
            loop.call_soon_threadsafe(lambda: None if came.done() else came.set_result(None))

        waiter = self._join(tokens, tell)
        try:
            await came
        except BaseException:
            self._leave(waiter)
            raise
        return waiter.answered()

    def _at_once(self, blocking: bool, tokens: int) -> bool | None:
        """Whether there was a turn; None: get in line."""
        if not self._instant:
            if blocking:
                return None
            return not self._line and self._claim(tokens, at_once=True) <= 0
        with self._lock:
            if not self._line and self._claim(tokens, at_once=True) <= 0:
                return True
            return None if blocking else False

    # -- the line

    def _join(self, tokens: int, tell: Callable[[], Any]) -> _Waiter:
        with self._wake:
            self._next += 1
            waiter = self._line[self._next] = _Waiter(self._next, tokens, tell)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._give, name="runwell-rate-limiter", daemon=True)
                self._thread.start()
            self._wake.notify()
        return waiter

    def _leave(self, waiter: _Waiter) -> None:
        with self._lock:
            if self._line.pop(waiter.place, None) is None and waiter.error is None:
                self._release(waiter.tokens)  # its turn came, and is not taken

    def _give(self) -> None:
        """The thread: claims a turn for the first in line, waits until it is due, gives it to who is first then."""
        while True:
            with self._wake:
                if not self._line and not self._wake.wait_for(lambda: self._line, _LINGER_S):
                    self._thread = None
                    return
                tokens = next(iter(self._line.values())).tokens
            try:
                due = time.monotonic() + self._claim(tokens, at_once=False)
            except Exception as error:
                self._hand(error)
                continue
            while (left := due - time.monotonic()) > 0:
                time.sleep(left)
            given = self._hand(None)
            if given is None:
                self._release(tokens)
            elif given != tokens:
                with suppress(Exception):  # the next claim says what is wrong
                    self.charge(given - tokens)

    def _hand(self, error: Exception | None) -> int | None:
        """Give the first in line a turn, or the error; the tokens it asked for, None when nobody waits."""
        while True:
            with self._lock:
                if not self._line:
                    return None
                _, waiter = self._line.popitem(last=False)
                waiter.error = error
            try:
                waiter.tell()
            except RuntimeError:  # its event loop is closed
                continue
            return waiter.tokens


class _Waiter:
    __slots__ = ("error", "place", "tell", "tokens")

    def __init__(self, place: int, tokens: int, tell: Callable[[], Any]) -> None:
        self.place = place
        self.tokens = tokens
        self.tell = tell
        self.error: Exception | None = None

    def answered(self) -> bool:
        if self.error is not None:
            raise self.error
        return True


class Bucket:
    """Fills at `rate` a second up to `size`; starts full. Below zero it is owed."""

    __slots__ = ("_at", "level", "rate", "size")

    def __init__(self, rate: float, size: float) -> None:
        self.rate = rate
        self.size = self.level = float(size)
        self._at: float | None = None

    def wait_s(self, amount: float, now: float) -> float:
        """Seconds until `amount` is in it; more than it holds is there when it is full."""
        if self._at is not None:
            self.level = min(self.size, self.level + max(0.0, now - self._at) * self.rate)
        self._at = now
        return max(0.0, (min(amount, self.size) - self.level) / self.rate)

    def take(self, amount: float) -> None:
        """Take it out, whether or not it is there; below zero: put it back."""
        self.level = min(self.size, self.level - amount)


class InMemoryRateLimiter(TurnGiver):
    """At most `requests_per_second` calls in the long run, and `max_bucket_size` at once after a pause.

    Waiting calls of both colours stand in one line and are let through in order. One limiter may serve several models,
    threads and event loops of a process. Each attempt counts, retries included.

    With `tokens_per_minute` a call also waits until what it is about to read fits; what it then really took, by its
    `usage_metadata`, is set against the next ones. `check_every_n_seconds` is accepted and has no use: nothing polls.

    Unlike its namesake it starts with a full bucket: the first call does not wait.
    """

    @checked_arguments
    def __init__(
        self,
        *,
        requests_per_second: float = 1,
        check_every_n_seconds: float = 0.1,
        max_bucket_size: float = 1,
        tokens_per_minute: float | None = None,
    ) -> None:
        check_rates(type(self).__name__, requests_per_second, max_bucket_size, tokens_per_minute, check_every_n_seconds)
        self.requests_per_second = requests_per_second
        self.check_every_n_seconds = check_every_n_seconds
        self.max_bucket_size = max_bucket_size
        self.tokens_per_minute = tokens_per_minute
        self._requests = Bucket(requests_per_second, max_bucket_size)
        self._tokens = Bucket(tokens_per_minute / 60, tokens_per_minute) if tokens_per_minute else None
        self._stand()

    def __repr__(self) -> str:
        tokens = f", tokens_per_minute={self.tokens_per_minute!r}" if self.tokens_per_minute else ""
        return (
            f"{type(self).__name__}(requests_per_second={self.requests_per_second!r}, "
            f"max_bucket_size={self.max_bucket_size!r}{tokens})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (
            type(self),
            {
                "requests_per_second": self.requests_per_second,
                "check_every_n_seconds": self.check_every_n_seconds,
                "max_bucket_size": self.max_bucket_size,
                "tokens_per_minute": self.tokens_per_minute,
            },
        )

    def _claim(self, tokens: int, *, at_once: bool) -> float:
        with self._lock:
            now = time.monotonic()
            wait = self._requests.wait_s(1, now)
            if self._tokens is not None:
                wait = max(wait, self._tokens.wait_s(tokens, now))
            if not (at_once and wait > 0):
                self._take(1, tokens)
            return wait

    def _release(self, tokens: int) -> None:
        with self._lock:
            self._take(-1, -tokens)

    def charge(self, tokens: int) -> None:
        """A call took so many tokens more (or fewer) than its turn was claimed with."""
        with self._lock:
            self._take(0, tokens)

    def _take(self, requests: int, tokens: int) -> None:
        self._requests.take(requests)
        if self._tokens is not None:
            self._tokens.take(tokens)


def _remade(cls: type, settings: dict[str, Any]) -> Any:
    return cls(**settings)


def check_rates(who: str, rate: float, size: float, tokens: float | None, every: float = 1.0) -> None:
    """Refuse what no limiter can keep to."""
    for name, value in (
        ("requests_per_second", rate),
        ("tokens_per_minute", tokens),
        ("check_every_n_seconds", every),
    ):
        if value is not None and not 0 < value < float("inf"):
            raise InvalidInput(f"{who}({name}={value!r}): give a number above 0.")
    if not 1 <= size < float("inf"):
        raise InvalidInput(
            f"{who}(max_bucket_size={size!r}) would let no call through.", hint="Give 1 (no bursts) or more."
        )


# -- what a chat model does with one


def counts_tokens(limiter: Any) -> bool:
    """Whether a limiter is to be told what calls take."""
    return getattr(limiter, "tokens_per_minute", None) is not None


def take_turn(model: Any, messages: Any, kwargs: Mapping[str, Any]) -> None:
    """Wait for leave to call `model`."""
    limiter = model.rate_limiter
    if counts_tokens(limiter):
        limiter.acquire(blocking=True, tokens=_about(model, messages, kwargs))
    else:
        limiter.acquire(blocking=True)


async def atake_turn(model: Any, messages: Any, kwargs: Mapping[str, Any]) -> None:
    """As `take_turn`."""
    limiter = model.rate_limiter
    if counts_tokens(limiter):
        await limiter.aacquire(blocking=True, tokens=_about(model, messages, kwargs))
    else:
        await limiter.aacquire(blocking=True)


def _about(model: Any, messages: Any, kwargs: Mapping[str, Any]) -> int:
    return int(model.get_num_tokens_from_messages(messages, tools=kwargs.get("tools")))


def settle(model: Any, messages: Any, kwargs: Mapping[str, Any], usage: Any) -> None:
    """After a call: what it took beyond what its turn was claimed with."""
    if usage and counts_tokens(model.rate_limiter):
        try:
            model.rate_limiter.charge(int(usage["total_tokens"]) - _about(model, messages, kwargs))
        except StorageError as error:  # the answer is there
            _log.warning("tokens of a call were not counted: %s", error)


async def asettle(model: Any, messages: Any, kwargs: Mapping[str, Any], usage: Any) -> None:
    """As `settle`."""
    if usage and counts_tokens(model.rate_limiter):
        try:
            await model.rate_limiter.acharge(int(usage["total_tokens"]) - _about(model, messages, kwargs))
        except StorageError as error:
            _log.warning("tokens of a call were not counted: %s", error)


def settled(chunks: Iterator[Any], model: Any, messages: Any, kwargs: Mapping[str, Any]) -> Iterator[Any]:
    """The chunks of one call, settled at its end."""
    used: Any = None
    try:
        for chunk in chunks:
            used = add_usage(used, chunk.usage_metadata) if chunk.usage_metadata else used
            yield chunk
    finally:
        chunks.close()  # type: ignore[attr-defined]
        settle(model, messages, kwargs, used)


async def asettled(
    chunks: AsyncIterator[Any], model: Any, messages: Any, kwargs: Mapping[str, Any]
) -> AsyncIterator[Any]:
    """As `settled`."""
    used: Any = None
    try:
        async for chunk in chunks:
            used = add_usage(used, chunk.usage_metadata) if chunk.usage_metadata else used
            yield chunk
    finally:
        await aclose(chunks)
        await asettle(model, messages, kwargs, used)
