"""How a handler is told that writes all of it down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Recorder", "recorder_of"]


class Recorder:
    """Of a handler that is told what happens without an event made for it, where there is no other handler.

    `started`, `ended` and `decided` make what it keeps of one, by position: the time, the ids of the run and of the one
    around it, the run's name and kind; then the inputs; or the seconds and the outputs; or seat, holder, outcome and
    reason. `label(run, kept)` adds the run's tags and metadata. What was made is put into `heard`, with its run, and
    `write` is called before code goes on that is not the engine's own.
    """

    __slots__ = ("decided", "ended", "handler", "heard", "label", "started", "write")

    def __init__(
        self,
        handler: Any,
        started: Callable[..., Any],
        ended: Callable[..., Any],
        decided: Callable[..., Any],
        label: Callable[[Any, Any], None],
        write: Callable[[], None],
    ) -> None:
        self.handler = handler
        self.started = started
        self.ended = ended
        self.decided = decided
        self.label = label
        self.write = write
        self.heard: list[tuple[Any, Any]] = []


def recorder_of(handler: Any) -> Recorder | None:
    """The one that a handler has, unless its `handle` was written later, in a subclass or on the object: that is to be
    told of everything."""
    if "handle" in getattr(handler, "__dict__", ()):
        return None
    for kind in type(handler).__mro__:
        if "handle" in vars(kind):
            return handler.recorder() if "recorder" in vars(kind) else None
    return None
