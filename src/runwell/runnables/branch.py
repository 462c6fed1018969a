"""One of several steps, chosen by looking at the input."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from runwell.drivers.closing import aclose
from runwell.errors import InvalidInput
from runwell.observe.run import open_run
from runwell.runnables.coerce import coerce_to_runnable
from runwell.runnables.config import RunnableConfig
from runwell.runnables.runnable import Input, Output, Runnable

__all__ = ["RunnableBranch"]


class RunnableBranch(Runnable[Input, Output]):
    """`RunnableBranch((condition, step), ..., default)`: the step of the first true condition, else the default.

    Conditions are tried in order, each with the whole input; the first true one ends the search.
    """

    def __init__(self, *branches: Any, name: str | None = None) -> None:
        if len(branches) < 2:
            raise InvalidInput(
                "A branch needs at least one (condition, step) pair and a default.",
                hint="RunnableBranch((condition, step), default_step)",
            )
        *pairs, default = branches
        self.branches: list[tuple[Runnable[Any, Any], Runnable[Any, Any]]] = []
        for number, pair in enumerate(pairs, 1):
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise InvalidInput(f"Branch {number} is {pair!r:.200}, not a (condition, step) pair.")
            condition, step = pair
            self.branches.append(
                (
                    coerce_to_runnable(condition, f"The condition of branch {number}"),
                    coerce_to_runnable(step, f"The step of branch {number}"),
                )
            )
        if isinstance(default, list | tuple):
            raise InvalidInput("The last argument of a branch is the default, without a condition.")
        self.default: Runnable[Any, Any] = coerce_to_runnable(default, "The default of a branch")
        self.name = name

    def _chosen(self, given: Any) -> Runnable[Any, Any]:
        for condition, step in self.branches:
            if condition.invoke(given):
                return step
        return self.default

    async def _achosen(self, given: Any) -> Runnable[Any, Any]:
        for condition, step in self.branches:
            if await condition.ainvoke(given):
                return step
        return self.default

    def invoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        return self._call_with_config(lambda given: self._chosen(given).invoke(given, None, **kwargs), input, config)  # type: ignore[no-any-return]

    async def ainvoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        async def call(given: Any) -> Any:
            return await (await self._achosen(given)).ainvoke(given, None, **kwargs)

        return await self._acall_with_config(call, input, config)

    def stream(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Output]:
        run = open_run("chain", self, input, config)
        return self._flow(input, kwargs) if run is None else run.watch(lambda: self._flow(input, kwargs), self._whole)

    def _flow(self, given: Any, kwargs: dict[str, Any]) -> Iterator[Output]:
        yield from self._chosen(given).stream(given, None, **kwargs)

    def astream(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Output]:
        run = open_run("chain", self, input, config)
        return (
            self._aflow(input, kwargs) if run is None else run.awatch(lambda: self._aflow(input, kwargs), self._whole)
        )

    async def _aflow(self, given: Any, kwargs: dict[str, Any]) -> AsyncIterator[Output]:
        stream = (await self._achosen(given)).astream(given, None, **kwargs)
        try:
            async for chunk in stream:
                yield chunk
        finally:
            await aclose(stream)

    def __repr__(self) -> str:
        pairs = "".join(f"({condition!r}, {step!r}), " for condition, step in self.branches)
        return f"RunnableBranch({pairs}{self.default!r})"
