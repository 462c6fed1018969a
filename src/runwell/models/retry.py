"""Trying a model call again: which failures, how often, and how long to wait in between."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from runwell.errors import OutsideError

if TYPE_CHECKING:
    from tenacity import RetryCallState

__all__ = ["RetryPolicy"]

T = TypeVar("T")
Tell = Callable[[int, BaseException, float], None]
"""Told of a failed attempt: its number (the first is 1), its error, the seconds until the next."""

_log = logging.getLogger("runwell.models")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When an outside failure may pass by itself (`error.retryable`), try again up to `retries` times.

    Waits `first_s`, then `factor` times longer each time up to `cap_s`, less a random part of up to `jitter`. A
    provider's Retry-After is waited out instead when it is longer; one longer than `patience_s` is not: the error is
    raised at once, with `.retry_after`. A call that succeeds costs nothing here.
    """

    retries: int = 2
    first_s: float = 0.5
    factor: float = 2.0
    jitter: float = 0.25
    cap_s: float = 30.0
    patience_s: float = 120.0

    def worth(self, error: BaseException) -> bool:
        """Whether another attempt can help after `error`."""
        if not isinstance(error, OutsideError) or not error.retryable:
            return False
        return (getattr(error, "retry_after", None) or 0.0) <= self.patience_s

    def wait_s(self, attempt: int, error: BaseException) -> float:
        """Seconds to wait after attempt number `attempt` (the first is 1) failed with `error`."""
        import random

        pause: float = min(self.first_s * self.factor ** (attempt - 1), self.cap_s)
        pause *= 1 - self.jitter * random.random()
        return max(pause, getattr(error, "retry_after", None) or 0.0)

    def go_on(self, error: Exception, call: Callable[[], T], tell: Tell | None = None, retries: int | None = None) -> T:
        """After the first attempt failed with `error`: wait and `call` again, as often as the policy allows."""
        if not self.worth(error) or (self.retries if retries is None else retries) < 1:
            raise error
        from tenacity import Retrying

        failed: list[Exception] = [error]

        def attempt() -> T:
            if failed:  # the first attempt already happened
                raise failed.pop()
            return call()

        return Retrying(**self._terms(tell, retries))(attempt)

    async def ago_on(
        self, error: Exception, call: Callable[[], Awaitable[T]], tell: Tell | None = None, retries: int | None = None
    ) -> T:
        """As `go_on`, from async code."""
        if not self.worth(error) or (self.retries if retries is None else retries) < 1:
            raise error
        from tenacity import AsyncRetrying

        failed: list[Exception] = [error]

        async def attempt() -> T:
            if failed:
                raise failed.pop()
            return await call()

        return await AsyncRetrying(**self._terms(tell, retries))(attempt)

    def _terms(self, tell: Tell | None, retries: int | None) -> dict[str, Any]:
        from tenacity import retry_if_exception, stop_after_attempt

        def wait(state: RetryCallState) -> float:
            return self.wait_s(state.attempt_number, _error(state))

        def before_sleep(state: RetryCallState) -> None:
            error, pause = _error(state), state.next_action.sleep if state.next_action else 0.0
            _log.info("attempt %d failed (%s), next in %.1f s", state.attempt_number, type(error).__name__, pause)
            if tell is not None:
                tell(state.attempt_number, error, pause)

        return {
            "retry": retry_if_exception(self.worth),
            "stop": stop_after_attempt((self.retries if retries is None else retries) + 1),
            "wait": wait,
            "before_sleep": before_sleep,
            "reraise": True,
        }


def _error(state: RetryCallState) -> BaseException:
    error = state.outcome.exception() if state.outcome is not None else None
    assert error is not None
    return error
