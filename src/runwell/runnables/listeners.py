"""Functions told when one runnable starts, ends or fails."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from runwell.errors import InvalidInput
from runwell.observe.events import Event, RunEnded, RunFailed, RunStarted
from runwell.runnables.binding import RunnableBinding
from runwell.runnables.config import RunnableConfig, merge_configs
from runwell.runnables.runnable import Input, Output, Runnable

__all__ = ["Listener", "ListenedRun", "RunnableWithListeners"]

Listener = Callable[..., Any]
"""`listener(run)` or `listener(run, config)`, plain or `async`."""


@dataclass(slots=True)
class ListenedRun:
    """What a listener is given: a run as far as it has come."""

    id: UUID | None
    name: str
    run_type: str
    inputs: Any = None
    outputs: Any = None
    error: BaseException | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    parent_run_id: UUID | None = None
    tags: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)


class RunnableWithListeners(RunnableBinding[Input, Output]):
    """`bound` with listeners to each of its own calls; see `Runnable.with_listeners`."""

    def __init__(
        self,
        bound: Runnable[Input, Output],
        *,
        on_start: Listener | None = None,
        on_end: Listener | None = None,
        on_error: Listener | None = None,
    ) -> None:
        super().__init__(bound)
        self.listeners = {
            name: _Told(name, function)
            for name, function in (("on_start", on_start), ("on_end", on_end), ("on_error", on_error))
            if function is not None
        }

    def _with(self, config: RunnableConfig | None, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        config, kwargs = super()._with(config, kwargs)
        if not self.listeners:
            return config, kwargs
        # One for each call: it is handed down to what runs inside, and must know which run is its own.
        return merge_configs(config, {"callbacks": [_OneCall(self.listeners)]}), kwargs

    def __repr__(self) -> str:
        told = ", ".join(f"{name}={_shown(each.function)}" for name, each in self.listeners.items())
        return f"{super().__repr__()}.with_listeners({told})"


class _Told:
    """A listener, and whether it wants the config too. Read once."""

    __slots__ = ("function", "wants_config")

    def __init__(self, name: str, function: Any) -> None:
        if not callable(function):
            raise InvalidInput(f"{name} is a function, not {function!r:.200}.", hint="Pass `def listener(run): ...`.")
        self.function = function
        try:
            positional = [
                each
                for each in inspect.signature(function).parameters.values()
                if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) and each.default is each.empty
            ]
        except (TypeError, ValueError):  # a builtin without a signature
            positional = []
        self.wants_config = len(positional) > 1

    def __call__(self, run: ListenedRun, config: dict[str, Any]) -> Any:
        return self.function(run, config) if self.wants_config else self.function(run)


class _OneCall:
    """The handler of one call. The first run told of is that call's."""

    def __init__(self, listeners: dict[str, _Told]) -> None:
        self.listeners = listeners
        self.context: Any = None
        self.run: Any = None

    def handle(self, event: Event) -> Any:
        context = event.run
        if self.context is None and isinstance(event, RunStarted):
            self.context = context
            self.run = ListenedRun(
                context.run_id,
                context.name,
                context.kind,
                event.inputs,
                start_time=_moment(event),
                parent_run_id=context.parent_id,
                tags=list(context.tags),
                metadata=dict(context.metadata),
            )
            return self._tell("on_start")
        if context is not self.context:
            return None
        if isinstance(event, RunEnded):
            self.run.outputs, self.run.end_time = event.outputs, _moment(event)
            if event.inputs is not None:
                self.run.inputs = event.inputs
            return self._tell("on_end")
        if isinstance(event, RunFailed):
            self.run.error, self.run.end_time = event.error, _moment(event)
            return self._tell("on_error")
        return None

    def _tell(self, name: str) -> Any:
        listener = self.listeners.get(name)
        if listener is None:
            return None
        result = listener(self.run, self.context.config)
        return result if inspect.isawaitable(result) else None


def _moment(event: Event) -> datetime:
    return datetime.fromtimestamp(event.time, UTC)


def _shown(function: Any) -> str:
    return getattr(function, "__name__", None) or repr(function)
