"""Many inputs at once: what comes back, in which order, and what happens when one fails."""

from __future__ import annotations

import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from runwell.drivers.colour import is_async
from runwell.effects import Callee, Outcome
from runwell.errors import InvalidInput, MissingExtra, RunCancelled
from runwell.runnables.config import batch_limit, configs_for

__all__ = [
    "AsyncBatchItems",
    "BatchItems",
    "BatchResult",
    "OnResult",
    "Progress",
    "arun_batch",
    "reporting",
    "run_batch",
]

OnResult = Callable[[int, Any], Any]
"""Called with an item's index and its output (or exception) as soon as it ends; awaited if it is `async`."""

Progress = Callable[[int, int], None]
"""Called with how many items have ended, and of how many."""

Configs = Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None


class BatchResult:
    """What a batch gave before it failed: `results` and `errors` by index, and the indexes `not_run`."""

    __slots__ = ("errors", "not_run", "results")

    def __init__(self, outcomes: Sequence[Outcome[Any]]) -> None:
        self.results: dict[int, Any] = {}
        self.errors: dict[int, BaseException] = {}
        self.not_run: list[int] = []
        for index, outcome in enumerate(outcomes):
            if outcome.error is None:
                self.results[index] = outcome.value
            elif _stopped(outcome.error):
                self.not_run.append(index)
            else:
                self.errors[index] = outcome.error

    def __repr__(self) -> str:
        return f"BatchResult({len(self.results)} results, {len(self.errors)} errors, {len(self.not_run)} not run)"


def listed(inputs: Any) -> Sequence[Any]:
    """The items of a batch."""
    if isinstance(inputs, list | tuple):
        return inputs
    if isinstance(inputs, str | bytes | Mapping) or not isinstance(inputs, Iterable):
        raise InvalidInput(
            f"Many inputs are a list, not {inputs!r:.200}.", hint="Pass [one, another], or call invoke with one."
        )
    return list(inputs)


def _told(on_result: OnResult, index: int, output: Any) -> None:
    """Call `on_result` from plain code."""
    answer = on_result(index, output)
    if inspect.iscoroutine(answer):
        from runwell.drivers.sync import call_sync

        call_sync(Callee(lambda: answer, None))


async def _atold(on_result: OnResult, index: int, output: Any) -> None:
    answer = on_result(index, output)
    if inspect.isawaitable(answer):
        await answer


def _stopped(error: BaseException) -> bool:
    """Not a failure of the item: it was not started, or was cancelled because another one failed."""
    return isinstance(error, RunCancelled) or type(error).__name__ == "CancelledError"


def run_batch(
    runnable: Any,
    inputs: Sequence[Any],
    config: Configs,
    return_exceptions: bool,
    on_result: OnResult | None,
    progress: bool | Progress,
    kwargs: dict[str, Any],
) -> list[Any]:
    """`Runnable.batch`."""
    from runwell.drivers.threads import fan_out

    inputs = listed(inputs)
    configs = configs_for(len(inputs), config)
    invoke = runnable.invoke

    def item(index: int) -> Any:
        try:
            output = invoke(inputs[index], configs[index], **kwargs)
        except Exception as error:
            if on_result is not None:
                _told(on_result, index, error)
            raise
        if on_result is not None:
            _told(on_result, index, output)
        return output

    thunks = [lambda index=index: item(index) for index in range(len(inputs))]
    limit = batch_limit(configs, runnable._own_config)
    with reporting(on_result, progress, len(inputs)) as on_result:
        outcomes: list[Outcome[Any]] = fan_out(thunks, limit, stop_on_error=not return_exceptions)
    return _results(outcomes, return_exceptions)


async def arun_batch(
    runnable: Any,
    inputs: Sequence[Any],
    config: Configs,
    return_exceptions: bool,
    on_result: OnResult | None,
    progress: bool | Progress,
    kwargs: dict[str, Any],
) -> list[Any]:
    """`Runnable.abatch`."""
    from runwell.drivers.aio import afan_out

    inputs = listed(inputs)
    configs = configs_for(len(inputs), config)
    ainvoke = runnable.ainvoke

    async def item(index: int) -> Any:
        try:
            output = await ainvoke(inputs[index], configs[index], **kwargs)
        except Exception as error:
            if on_result is not None:
                await _atold(on_result, index, error)
            raise
        if on_result is not None:
            await _atold(on_result, index, output)
        return output

    if not inputs:
        return []
    thunks = [lambda index=index: item(index) for index in range(len(inputs))]
    limit = batch_limit(configs, runnable._own_config)
    with reporting(on_result, progress, len(inputs)) as on_result:
        outcomes = await afan_out(thunks, limit, stop_on_error=not return_exceptions)
    return _results(outcomes, return_exceptions)


@contextmanager
def reporting(on_result: OnResult | None, progress: Any, total: int) -> Iterator[OnResult | None]:
    """`on_result` and the showing of progress as one function, while a batch runs."""
    if on_result is not None and not callable(on_result):
        raise InvalidInput(f"on_result is a function, not {on_result!r:.200}.", hint="on_result(index, output)")
    if not isinstance(progress, bool) and (not callable(progress) or is_async(progress)):
        raise InvalidInput(
            f"progress is True, False or a plain function, not {progress!r:.200}.", hint="progress(ended, total)"
        )
    if not progress:
        yield on_result
        return
    with ExitStack() as opened:
        show = opened.enter_context(_bar(total)) if progress is True else progress
        lock = threading.Lock()
        ended = 0

        def count() -> None:
            nonlocal ended
            with lock:  # so that the numbers come in order
                ended += 1
                show(ended, total)

        async def finish(answer: Any) -> None:
            try:
                await answer
            finally:
                count()

        def report(index: int, output: Any) -> Any:
            try:
                answer = on_result(index, output) if on_result is not None else None
            except BaseException:
                count()
                raise
            if inspect.isawaitable(answer):
                return finish(answer)
            count()
            return None

        yield report


@contextmanager
def _bar(total: int) -> Iterator[Progress]:
    """A progress bar on standard error."""
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:
        raise MissingExtra("A progress bar", "cli") from None
    columns = (progress.BarColumn(), progress.MofNCompleteColumn(), progress.TimeRemainingColumn())
    with progress.Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("batch", total=total)
        yield lambda ended, total: bar.update(task, completed=ended)


def _results(outcomes: Sequence[Outcome[Any]], return_exceptions: bool) -> list[Any]:
    """The values in order. Of several failures the first in order is raised; signals only if nothing else failed."""
    failed = [outcome.error for outcome in outcomes if outcome.error is not None]
    if not failed:
        return [outcome.value for outcome in outcomes]
    errors = [error for error in failed if isinstance(error, Exception)]
    signals = [error for error in failed if not isinstance(error, Exception)]
    if errors and not return_exceptions:
        with suppress(AttributeError):  # a user's exception class may refuse new attributes
            errors[0].batch = BatchResult(outcomes)  # type: ignore[attr-defined]
        raise errors[0]
    if signals:
        raise signals[0]
    return [outcome.value if outcome.error is None else outcome.error for outcome in outcomes]


def _item(index: int, outcome: Outcome[Any], return_exceptions: bool) -> tuple[int, Any]:
    error = outcome.error
    if error is None:
        return index, outcome.value
    if return_exceptions and isinstance(error, Exception):
        return index, error
    raise error


class BatchItems(Iterator[tuple[int, Any]]):
    """(index, output) as items end. Closing it, or dropping it, starts nothing more and cancels async work."""

    def __init__(
        self, runnable: Any, inputs: Sequence[Any], config: Configs, return_exceptions: bool, kwargs: dict[str, Any]
    ) -> None:
        from runwell.drivers.threads import completed

        inputs = listed(inputs)
        configs = configs_for(len(inputs), config)
        thunks = [
            lambda index=index: runnable.invoke(inputs[index], configs[index], **kwargs) for index in range(len(inputs))
        ]
        self._outcomes = completed(thunks, batch_limit(configs, runnable._own_config))
        self._return_exceptions = return_exceptions

    def __next__(self) -> tuple[int, Any]:
        index, outcome = next(self._outcomes)
        try:
            return _item(index, outcome, self._return_exceptions)
        except BaseException:
            self._outcomes.close()
            raise

    def close(self) -> None:
        """End the rest."""
        self._outcomes.close()


class AsyncBatchItems(AsyncIterator[tuple[int, Any]]):
    """`BatchItems` for `async for`; closing it waits for the clean-up of what it cancels."""

    def __init__(
        self, runnable: Any, inputs: Sequence[Any], config: Configs, return_exceptions: bool, kwargs: dict[str, Any]
    ) -> None:
        from runwell.drivers.aio import acompleted

        inputs = listed(inputs)
        configs = configs_for(len(inputs), config)
        thunks = [
            lambda index=index: runnable.ainvoke(inputs[index], configs[index], **kwargs)
            for index in range(len(inputs))
        ]
        self._outcomes = acompleted(thunks, batch_limit(configs, runnable._own_config))
        self._return_exceptions = return_exceptions

    async def __anext__(self) -> tuple[int, Any]:
        index, outcome = await self._outcomes.__anext__()
        try:
            return _item(index, outcome, self._return_exceptions)
        except BaseException:
            await self._outcomes.aclose()
            raise

    async def aclose(self) -> None:
        """End the rest."""
        await self._outcomes.aclose()
