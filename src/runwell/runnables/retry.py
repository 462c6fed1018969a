"""Trying again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from runwell.drivers.closing import aclose
from runwell.errors import InvalidInput, UsageError
from runwell.observe.run import Run, open_run
from runwell.runnables.config import RunnableConfig
from runwell.runnables.exception_types import exception_types
from runwell.runnables.runnable import Input, Output, Runnable

if TYPE_CHECKING:
    from tenacity import RetryCallState

__all__ = ["RunnableRetry"]

_WAIT: Mapping[str, float] = {"initial": 1.0, "max": 60.0, "exp_base": 2.0, "jitter": 1.0}
"""Seconds; grown and bounded as most providers advise."""


class RunnableRetry(Runnable[Input, Output]):
    """`bound`, tried again when it fails with one of these exceptions; see `Runnable.with_retry`.

    A mistake in the calling code (`UsageError`) is never tried again, unless its class is named. An error that says how
    long to wait (`retry_after`) is waited for that long at least.
    """

    def __init__(
        self,
        bound: Runnable[Input, Output],
        *,
        retry_if_exception_type: type[BaseException] | tuple[type[BaseException], ...] = (Exception,),
        wait_exponential_jitter: bool = True,
        exponential_jitter_params: Mapping[str, float] | None = None,
        stop_after_attempt: int = 3,
        max_attempt_number: int | None = None,
    ) -> None:
        attempts: Any = max_attempt_number if max_attempt_number is not None else stop_after_attempt
        if not isinstance(attempts, int) or attempts < 1:
            raise InvalidInput(f"stop_after_attempt is at least 1, not {attempts!r}.")
        unknown = set(exponential_jitter_params or {}) - set(_WAIT)
        if unknown:
            raise InvalidInput(
                f"Unknown exponential_jitter_params {sorted(unknown)}.", hint=f"There are {', '.join(_WAIT)}."
            )
        self.bound = bound
        self.exception_types = exception_types(retry_if_exception_type, "retry_if_exception_type")
        self.wait_exponential_jitter = wait_exponential_jitter
        self.wait_params = {**_WAIT, **(exponential_jitter_params or {})}
        self.stop_after_attempt = attempts
        self.name = bound.name
        self._own_config = bound._own_config
        self.streams_snapshots = bound.streams_snapshots

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        return super().get_name(suffix, name=name or self.name or f"RunnableRetry<{self.bound.get_name()}>")

    @property
    def InputType(self) -> Any:
        return self.bound.InputType

    @property
    def OutputType(self) -> Any:
        return self.bound.OutputType

    # -- the policy

    def _again(self, error: BaseException) -> bool:
        if not isinstance(error, self.exception_types):
            return False
        if isinstance(error, UsageError):
            return any(issubclass(each, UsageError) for each in self.exception_types)
        return True

    def _wait(self, state: RetryCallState) -> float:
        from tenacity import wait_exponential_jitter

        seconds = wait_exponential_jitter(**self.wait_params)(state) if self.wait_exponential_jitter else 0.0
        error = state.outcome.exception() if state.outcome is not None else None
        asked = getattr(error, "retry_after", None)
        return max(seconds, asked) if isinstance(asked, int | float) else seconds

    def _policy(self, run: Run | None, attempts: list[BaseException]) -> dict[str, Any]:
        """Arguments for tenacity. Each failure is kept in `attempts`."""
        from tenacity import retry_if_exception, stop_after_attempt

        def failed(error: BaseException) -> bool:
            attempts.append(error)
            return self._again(error)

        def told(state: RetryCallState) -> None:
            if run is not None and state.next_action is not None:
                run.retried(state.attempt_number, attempts[-1], state.next_action.sleep)

        return {
            "stop": stop_after_attempt(self.stop_after_attempt),
            "wait": self._wait,
            "retry": retry_if_exception(failed),
            "before_sleep": told,
            "reraise": True,
        }

    # -- one input

    def invoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        run = open_run("chain", self, input, config)
        if run is None:
            return self._tried(input, kwargs, None)
        return run.call(self._tried, input, kwargs, run)

    def _tried(self, given: Any, kwargs: dict[str, Any], run: Run | None) -> Output:
        from tenacity import Retrying

        attempts: list[BaseException] = []
        try:
            for attempt in Retrying(**self._policy(run, attempts)):
                with attempt:
                    return self.bound.invoke(given, None, **kwargs)
        except Exception as error:
            _keep(error, attempts)
            raise
        raise AssertionError("tenacity raises when it gives up")

    async def ainvoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        run = open_run("chain", self, input, config)
        if run is None:
            return await self._atried(input, kwargs, None)
        return await run.acall(self._atried, input, kwargs, run)

    async def _atried(self, given: Any, kwargs: dict[str, Any], run: Run | None) -> Output:
        from tenacity import AsyncRetrying

        attempts: list[BaseException] = []
        try:
            async for attempt in AsyncRetrying(**self._policy(run, attempts)):
                with attempt:
                    return await self.bound.ainvoke(given, None, **kwargs)
        except Exception as error:
            _keep(error, attempts)
            raise
        raise AssertionError("tenacity raises when it gives up")

    # -- streams: an attempt lasts until the first chunk

    def stream(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Output]:
        run = open_run("chain", self, input, config)
        if run is None:
            return self._flow(input, kwargs, None)
        return run.watch(lambda: self._flow(input, kwargs, run), self._whole)

    def _flow(self, given: Any, kwargs: dict[str, Any], run: Run | None) -> Iterator[Output]:
        from tenacity import Retrying

        attempts: list[BaseException] = []
        try:
            for attempt in Retrying(**self._policy(run, attempts)):
                with attempt:
                    chunks = self.bound.stream(given, None, **kwargs)
                    first = next(chunks, _NOTHING)
        except Exception as error:
            _keep(error, attempts)
            raise
        if first is not _NOTHING:
            yield first
            yield from chunks

    def astream(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Output]:
        run = open_run("chain", self, input, config)
        if run is None:
            return self._aflow(input, kwargs, None)
        return run.awatch(lambda: self._aflow(input, kwargs, run), self._whole)

    async def _aflow(self, given: Any, kwargs: dict[str, Any], run: Run | None) -> AsyncIterator[Output]:
        from tenacity import AsyncRetrying

        attempts: list[BaseException] = []
        try:
            async for attempt in AsyncRetrying(**self._policy(run, attempts)):
                with attempt:
                    chunks = self.bound.astream(given, None, **kwargs)
                    first = await anext(chunks, _NOTHING)
        except Exception as error:
            _keep(error, attempts)
            raise
        if first is not _NOTHING:
            yield first
            try:
                async for chunk in chunks:
                    yield chunk
            finally:
                await aclose(chunks)

    def __repr__(self) -> str:
        return f"{self.bound!r}.with_retry(stop_after_attempt={self.stop_after_attempt})"


_NOTHING: Any = object()


def _keep(error: Exception, attempts: list[BaseException]) -> None:
    """Leave every attempt's error on the one that is raised."""
    with suppress(AttributeError):  # a user's exception class may refuse new attributes
        error.attempts = list(attempts)  # type: ignore[attr-defined]
    if len(attempts) > 1:
        error.add_note(f"after {len(attempts)} attempts: {', '.join(type(each).__name__ for each in attempts)}")
