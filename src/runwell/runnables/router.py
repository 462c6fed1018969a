"""One of several steps, named by the input."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, TypedDict

from runwell.drivers.closing import aclose
from runwell.errors import InvalidInput, nearest
from runwell.observe.run import open_run
from runwell.runnables.coerce import coerce_to_runnable
from runwell.runnables.config import RunnableConfig
from runwell.runnables.runnable import Output, Runnable

__all__ = ["RouterInput", "RouterRunnable"]


class RouterInput(TypedDict):
    """What a router takes."""

    key: str
    """The name of the step to call."""
    input: Any
    """What to call it with."""


class RouterRunnable(Runnable[RouterInput, Output]):
    """`RouterRunnable({"add": add, "square": square})`: for `{"key": "square", "input": 4}` what `square` makes of 4.

    A key that no step has raises `InvalidInput` with the nearest one.
    """

    def __init__(self, runnables: Mapping[str, Any], *, name: str | None = None) -> None:
        given: Any = runnables
        if not isinstance(given, Mapping) or not given:
            raise InvalidInput(f"A router needs a dict of steps, not {runnables!r:.200}.")
        self.runnables: dict[str, Runnable[Any, Output]] = {
            key: coerce_to_runnable(step, f"The step {key!r} of a router") for key, step in runnables.items()
        }
        self.name = name

    def _chosen(self, given: Any) -> tuple[Runnable[Any, Output], Any]:
        if not isinstance(given, Mapping) or "key" not in given or "input" not in given:
            raise InvalidInput(
                f"A router wants a dict with 'key' and 'input', not {given!r:.200}.",
                hint='Call it with {"key": "the step", "input": ...}.',
            )
        key = given["key"]
        step = self.runnables.get(key)
        if step is None:
            raise InvalidInput(
                f"There is no step {key!r} to route to{nearest(str(key), self.runnables)}.",
                hint=f"There are {', '.join(map(repr, self.runnables))}.",
            )
        return step, given["input"]

    def invoke(self, input: RouterInput, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        def call(given: Any) -> Output:
            step, inner = self._chosen(given)
            return step.invoke(inner, None, **kwargs)

        return self._call_with_config(call, input, config)

    async def ainvoke(self, input: RouterInput, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        async def call(given: Any) -> Output:
            step, inner = self._chosen(given)
            return await step.ainvoke(inner, None, **kwargs)

        return await self._acall_with_config(call, input, config)

    def stream(self, input: RouterInput, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Output]:
        run = open_run("chain", self, input, config)
        return self._flow(input, kwargs) if run is None else run.watch(lambda: self._flow(input, kwargs), self._whole)

    def _flow(self, given: Any, kwargs: dict[str, Any]) -> Iterator[Output]:
        step, inner = self._chosen(given)
        yield from step.stream(inner, None, **kwargs)

    def astream(self, input: RouterInput, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Output]:
        run = open_run("chain", self, input, config)
        return (
            self._aflow(input, kwargs) if run is None else run.awatch(lambda: self._aflow(input, kwargs), self._whole)
        )

    async def _aflow(self, given: Any, kwargs: dict[str, Any]) -> AsyncIterator[Output]:
        step, inner = self._chosen(given)
        stream = step.astream(inner, None, **kwargs)
        try:
            async for chunk in stream:
                yield chunk
        finally:
            await aclose(stream)

    def __repr__(self) -> str:
        return f"RouterRunnable({{{', '.join(f'{key!r}: {step!r}' for key, step in self.runnables.items())}}})"
