"""What may be said about how a node runs: again after an error, not again for the same input, not for ever."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from runwell.errors import GraphError

__all__ = ["CachePolicy", "RetryPolicy", "TimeoutPolicy"]


@dataclass(slots=True, frozen=True)
class RetryPolicy:
    """How a node that raises is tried again: `max_attempts` in all, waiting `initial_interval` s × `backoff_factor`^n,
    at most `max_interval`, with `jitter`. `retry_on` is exception classes or a predicate; by default errors that say
    they are retryable, and those of the network.
    """

    max_attempts: int = 3
    initial_interval: float = 0.5
    backoff_factor: float = 2.0
    max_interval: float = 30.0
    jitter: bool = True
    retry_on: type[Exception] | Sequence[type[Exception]] | Callable[[Exception], bool] | None = None

    def __post_init__(self) -> None:
        if type(self.max_attempts) is not int or self.max_attempts < 1:
            raise GraphError(
                f"RetryPolicy got max_attempts={self.max_attempts!r}.", hint="Give a whole number from 1 up."
            )
        for name in ("initial_interval", "backoff_factor", "max_interval"):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, (int, float)) or not number >= 0:
                raise GraphError(f"RetryPolicy got {name}={number!r}.", hint="Give a number from 0 up.")
        rule = self.retry_on
        listed = list(rule) if isinstance(rule, (list, tuple)) else [rule] if isinstance(rule, type) else []
        if isinstance(rule, list):
            object.__setattr__(self, "retry_on", tuple(listed))
        known = all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in listed)
        if rule is not None and not (known if listed or isinstance(rule, (list, tuple)) else callable(rule)):
            raise GraphError(
                f"RetryPolicy got retry_on={rule!r}.", hint="Give classes of exceptions, or a function of an exception."
            )

    def retries(self, error: BaseException) -> bool:
        if not isinstance(error, Exception):
            return False
        rule = self.retry_on
        if rule is None:
            return bool(getattr(error, "retryable", isinstance(error, ConnectionError)))
        if isinstance(rule, (type, tuple)):
            return isinstance(error, rule)
        return bool(rule(error))  # type: ignore[operator]  # a sequence is a tuple by now

    def wait_s(self, attempt: int, chance: float) -> float:
        """Seconds before attempt number `attempt` + 1; `chance` in [0, 1) is the jitter's draw."""
        wait = min(self.initial_interval * self.backoff_factor ** (attempt - 1), self.max_interval)
        return wait * (0.5 + chance / 2) if self.jitter else wait


@dataclass(slots=True, frozen=True)
class CachePolicy:
    """Keep what a node gave, and give it again for the same input instead of running the node, for `ttl` seconds (None:
    for ever).

    `key_func(input)` says what makes two inputs the same: anything made of plain values. By default it is all that the
    node sees: its input, `runtime.context`, the principal, and the `configurable` values if it takes `config`.
    """

    key_func: Callable[[Any], Any] | None = None
    ttl: float | None = None

    def __post_init__(self) -> None:
        if self.ttl is not None and not self.ttl > 0:
            raise GraphError(f"CachePolicy got ttl={self.ttl!r}.", hint="Give seconds above 0, or None.")
        if self.key_func is not None and not callable(self.key_func):
            raise GraphError(f"CachePolicy got key_func={self.key_func!r}.", hint="Give a function of the input.")


@dataclass(slots=True, frozen=True)
class TimeoutPolicy:
    """How long one attempt of a node may take, in seconds: `run_timeout` in all, `idle_timeout` without a sign of life.

    Signs of life are `runtime.heartbeat()`, what the node writes to the stream, and what models, tools and other
    runs inside it tell (a model streams then, and each of its chunks counts).
    """

    run_timeout: float | None = None
    idle_timeout: float | None = None

    def __post_init__(self) -> None:
        for name in ("run_timeout", "idle_timeout"):
            seconds = getattr(self, name)
            if seconds is not None and (isinstance(seconds, bool) or not seconds > 0):
                raise GraphError(f"TimeoutPolicy got {name}={seconds!r}.", hint="Give seconds above 0, or None.")
        if self.run_timeout is None and self.idle_timeout is None:
            raise GraphError("TimeoutPolicy got no time.", hint="Give run_timeout= or idle_timeout=, in seconds.")

    @classmethod
    def of(cls, given: Any) -> TimeoutPolicy | None:
        """A policy from what a node's `timeout=` may be: seconds, a timedelta, a policy or None."""
        if given is None or isinstance(given, cls):
            return given
        if hasattr(given, "total_seconds"):
            given = given.total_seconds()
        if isinstance(given, bool) or not isinstance(given, (int, float)):
            raise GraphError(f"A node's timeout is {given!r}.", hint="Give seconds, a timedelta or a TimeoutPolicy.")
        return cls(run_timeout=float(given))
