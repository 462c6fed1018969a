"""Something else to try when the first choice fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from runwell.drivers.closing import aclose
from runwell.errors import InvalidInput
from runwell.observe.run import open_run
from runwell.runnables.coerce import coerce_to_runnable
from runwell.runnables.config import RunnableConfig
from runwell.runnables.exception_types import exception_types
from runwell.runnables.runnable import Input, Output, Runnable

__all__ = ["RunnableWithFallbacks"]

_NOTHING: Any = object()


class RunnableWithFallbacks(Runnable[Input, Output]):
    """`runnable`, then each of `fallbacks` in turn when it fails; see `Runnable.with_fallbacks`."""

    def __init__(
        self,
        runnable: Runnable[Input, Output],
        fallbacks: Sequence[Any],
        *,
        exceptions_to_handle: type[BaseException] | tuple[type[BaseException], ...] = (Exception,),
        exception_key: str | None = None,
    ) -> None:
        if isinstance(fallbacks, Runnable) or not isinstance(fallbacks, Sequence):
            raise InvalidInput(f"fallbacks is a list, not {fallbacks!r:.200}.", hint="with_fallbacks([backup])")
        self.runnable = runnable
        self.fallbacks = [coerce_to_runnable(each, f"Fallback {n}") for n, each in enumerate(fallbacks, 1)]
        self.exceptions_to_handle = exception_types(exceptions_to_handle, "exceptions_to_handle")
        self.exception_key = exception_key
        self.name = runnable.name
        self._own_config = runnable._own_config
        self.streams_snapshots = runnable.streams_snapshots

    @property
    def runnables(self) -> Iterator[Runnable[Any, Any]]:
        """All, in the order tried."""
        yield self.runnable
        yield from self.fallbacks

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        return super().get_name(suffix, name=name or self.name or f"RunnableWithFallbacks<{self.runnable.get_name()}>")

    @property
    def InputType(self) -> Any:
        return self.runnable.InputType

    @property
    def OutputType(self) -> Any:
        return self.runnable.OutputType

    def _given(self, given: Any, errors: list[Exception]) -> Any:
        """The input for the next attempt: with the last error in it, if asked for."""
        if self.exception_key is None:
            return given
        if not isinstance(given, Mapping):
            raise InvalidInput(
                f"With exception_key={self.exception_key!r} the input must be a dict, not {given!r:.200}.",
                hint="Pass a dict, or leave exception_key out.",
            )
        return {**given, self.exception_key: errors[-1]} if errors else given

    def _handles(self, error: Exception, errors: list[Exception]) -> bool:
        if not isinstance(error, self.exceptions_to_handle):
            return False
        errors.append(error)
        return True

    def invoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        return self._call_with_config(self._tried, input, config, **kwargs)

    def _tried(self, given: Any, **kwargs: Any) -> Output:
        errors: list[Exception] = []
        for runnable in self.runnables:
            attempt = self._given(given, errors)
            try:
                return runnable.invoke(attempt, None, **kwargs)  # type: ignore[no-any-return]
            except Exception as error:
                if not self._handles(error, errors):
                    raise
        raise _all_failed(errors)

    async def ainvoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        return await self._acall_with_config(self._atried, input, config, **kwargs)

    async def _atried(self, given: Any, **kwargs: Any) -> Output:
        errors: list[Exception] = []
        for runnable in self.runnables:
            attempt = self._given(given, errors)
            try:
                return await runnable.ainvoke(attempt, None, **kwargs)  # type: ignore[no-any-return]
            except Exception as error:
                if not self._handles(error, errors):
                    raise
        raise _all_failed(errors)

    def stream(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Output]:
        run = open_run("chain", self, input, config)
        return self._flow(input, kwargs) if run is None else run.watch(lambda: self._flow(input, kwargs), self._whole)

    def _flow(self, given: Any, kwargs: dict[str, Any]) -> Iterator[Output]:
        errors: list[Exception] = []
        for runnable in self.runnables:
            attempt = self._given(given, errors)
            try:
                chunks = runnable.stream(attempt, None, **kwargs)
                first = next(chunks, _NOTHING)
            except Exception as error:
                if not self._handles(error, errors):
                    raise
                continue
            if first is not _NOTHING:
                yield first
                yield from chunks
            return
        raise _all_failed(errors)

    def astream(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Output]:
        run = open_run("chain", self, input, config)
        return (
            self._aflow(input, kwargs) if run is None else run.awatch(lambda: self._aflow(input, kwargs), self._whole)
        )

    async def _aflow(self, given: Any, kwargs: dict[str, Any]) -> AsyncIterator[Output]:
        errors: list[Exception] = []
        for runnable in self.runnables:
            attempt = self._given(given, errors)
            try:
                chunks = runnable.astream(attempt, None, **kwargs)
                first = await anext(chunks, _NOTHING)
            except Exception as error:
                if not self._handles(error, errors):
                    raise
                continue
            if first is not _NOTHING:
                yield first
                try:
                    async for chunk in chunks:
                        yield chunk
                finally:
                    await aclose(chunks)
            return
        raise _all_failed(errors)

    def __repr__(self) -> str:
        return f"{self.runnable!r}.with_fallbacks({self.fallbacks!r})"


def _all_failed(errors: list[Exception]) -> Exception:
    """The first error, knowing the others."""
    first = errors[0]
    with suppress(AttributeError):  # a user's exception class may refuse new attributes
        first.attempts = list(errors)  # type: ignore[attr-defined]
    for error in errors[1:]:
        first.add_note(f"and its fallback failed: {error!r}")
    return first
