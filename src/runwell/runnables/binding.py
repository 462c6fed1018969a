"""A runnable with arguments or config of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from runwell.runnables.config import RunnableConfig, merge_configs
from runwell.runnables.runnable import Input, Output, Runnable

if TYPE_CHECKING:
    from runwell.runnables.graph_view import Graph

__all__ = ["RunnableBinding"]


class RunnableBinding(Runnable[Input, Output]):
    """`bound`, called with `kwargs` and `config` under those of each call. It opens no run of its own."""

    def __init__(
        self,
        bound: Runnable[Input, Output],
        *,
        kwargs: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
        input_type: Any = None,
        output_type: Any = None,
    ) -> None:
        if type(bound) is RunnableBinding:  # one layer is enough, however many calls made it
            kwargs = {**bound.kwargs, **(kwargs or {})}
            config = merge_configs(bound.config, config)
            input_type = input_type if input_type is not None else bound.input_type
            output_type = output_type if output_type is not None else bound.output_type
            bound = bound.bound
        self.bound: Runnable[Input, Output] = bound
        self.kwargs: dict[str, Any] = dict(kwargs or {})
        self.config: RunnableConfig = merge_configs(config)
        self._own_config = self.config
        self.input_type: Any = input_type
        self.output_type: Any = output_type
        self.name = bound.name
        self.never_blocks = bound.never_blocks
        self.streams_snapshots = bound.streams_snapshots

    def _with(self, config: RunnableConfig | None, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if self.config:
            config = merge_configs(self.config, config) if config else self.config
        return config, {**self.kwargs, **kwargs} if self.kwargs else kwargs

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        return self.bound.get_name(suffix, name=name or self.config.get("run_name"))

    @property
    def InputType(self) -> Any:
        return self.input_type if self.input_type is not None else self.bound.InputType

    @property
    def OutputType(self) -> Any:
        return self.output_type if self.output_type is not None else self.bound.OutputType

    def get_graph(self, config: RunnableConfig | None = None, **options: Any) -> Graph:
        return self.bound.get_graph(config, **options)

    def invoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        config, kwargs = self._with(config, kwargs)
        return self.bound.invoke(input, config, **kwargs)

    async def ainvoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        config, kwargs = self._with(config, kwargs)
        return await self.bound.ainvoke(input, config, **kwargs)

    def stream(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Output]:
        config, kwargs = self._with(config, kwargs)
        return self.bound.stream(input, config, **kwargs)

    def astream(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Output]:
        config, kwargs = self._with(config, kwargs)
        return self.bound.astream(input, config, **kwargs)

    def transform(
        self, input: Iterator[Input], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Output]:
        config, kwargs = self._with(config, kwargs)
        return self.bound.transform(input, config, **kwargs)

    def atransform(
        self, input: AsyncIterator[Input], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Output]:
        config, kwargs = self._with(config, kwargs)
        return self.bound.atransform(input, config, **kwargs)

    def __repr__(self) -> str:
        shown = repr(self.bound)
        if self.kwargs:
            shown += f".bind({', '.join(f'{key}={value!r}' for key, value in self.kwargs.items())})"
        if self.config:
            shown += f".with_config({', '.join(f'{key}={value!r}' for key, value in self.config.items())})"
        return shown
