"""What happened, as values: one class per kind of thing that a handler can be told."""

from __future__ import annotations

from collections.abc import Callable
from time import time
from typing import Any

from runwell.observe.context import RunContext

__all__ = ["Chunk", "Custom", "Decision", "Event", "Retried", "RunEnded", "RunFailed", "RunStarted"]


Serialized = dict[str, Any] | Callable[[], dict[str, Any]] | None
"""A description of a component, or what makes it."""


class Event:
    """Something that happened in `run` at `time` (seconds since the epoch, UTC)."""

    __slots__ = ("run", "time")

    def __init__(self, run: RunContext) -> None:
        self.run = run
        self.time = time()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.run.kind} {self.run.name!r})"


class RunStarted(Event):
    """A run began. `inputs` is None for a step that is fed chunk by chunk."""

    __slots__ = ("_serialized", "inputs")

    def __init__(self, run: RunContext, inputs: Any, serialized: Serialized = None, at: float | None = None) -> None:
        self.run = run
        self.time = time() if at is None else at
        self.inputs = inputs
        self._serialized = serialized

    @property
    def serialized(self) -> dict[str, Any] | None:
        """What describes the component: worked out when somebody asks."""
        if callable(self._serialized):
            self._serialized = self._serialized()
        return self._serialized


class RunEnded(Event):
    """A run ended well."""

    __slots__ = ("inputs", "outputs")

    def __init__(self, run: RunContext, outputs: Any, inputs: Any = None) -> None:
        self.run = run
        self.time = time()
        self.outputs = outputs
        self.inputs = inputs


class RunFailed(Event):
    """A run ended with `error`, which may be a signal (a pause, a cancellation)."""

    __slots__ = ("error", "inputs")

    def __init__(self, run: RunContext, error: BaseException, inputs: Any = None) -> None:
        super().__init__(run)
        self.error = error
        self.inputs = inputs


class Chunk(Event):
    """A run handed on a piece of its output. `text` is its text for a model's token, else None."""

    __slots__ = ("_text", "chunk")

    def __init__(self, run: RunContext, chunk: Any, text: str | Callable[[Any], str] | None = None) -> None:
        self.run = run
        self.time = time()
        self.chunk = chunk
        self._text = text

    @property
    def text(self) -> str | None:
        return self._text(self.chunk) if callable(self._text) else self._text


class Retried(Event):
    """Attempt number `attempt` (the first is 1) failed with `error`; the next follows after `wait` seconds."""

    __slots__ = ("attempt", "error", "wait")

    def __init__(self, run: RunContext, attempt: int, error: BaseException, wait: float) -> None:
        super().__init__(run)
        self.attempt = attempt
        self.error = error
        self.wait = wait

    @property
    def attempt_number(self) -> int:
        """`attempt`, by the name that retry states have elsewhere."""
        return self.attempt


class Custom(Event):
    """An event of the user's own, from `dispatch_custom_event`."""

    __slots__ = ("data", "name")

    def __init__(self, run: RunContext, name: str, data: Any) -> None:
        super().__init__(run)
        self.name = name
        self.data = data


class Decision(Event):
    """A judgment was made: at which `seat` (its id), with what `outcome`, why, and by whom (`holder`)."""

    __slots__ = ("holder", "outcome", "reason", "seat")

    def __init__(self, run: RunContext, seat: str, outcome: Any, reason: str, holder: str) -> None:
        self.run = run
        self.time = time()
        self.seat = seat
        self.outcome = outcome
        self.reason = reason
        self.holder = holder

    def __repr__(self) -> str:
        return f"Decision({self.seat} {self.outcome!r} by {self.holder}: {self.reason})"
