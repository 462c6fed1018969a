"""What all runnables around one other runnable share."""

from __future__ import annotations

from typing import Any

from runwell.runnables.runnable import Input, Output, Runnable

__all__ = ["RunnableWrapper"]


class RunnableWrapper(Runnable[Input, Output]):
    """Around `bound`: takes and gives what it does, and is called what it is called."""

    def __init__(self, bound: Runnable[Input, Output]) -> None:
        self.bound: Runnable[Input, Output] = bound
        self.name = bound.name
        self._own_config = bound._own_config
        self.streams_snapshots = bound.streams_snapshots

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        return self.bound.get_name(suffix, name=name or self.name)

    @property
    def InputType(self) -> Any:
        return self.bound.InputType

    @property
    def OutputType(self) -> Any:
        return self.bound.OutputType
