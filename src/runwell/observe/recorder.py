"""How a handler is told that writes all of it down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Recorder", "recorder_of"]


class Recorder:
    """Of a handler that is told what happens without an event made for it, where no other wants to know of runs.

    `started`, `ended`, `answered` (the end of a model's run) and `decided` make what it keeps of one, by position: the
    time, the ids of the run and of the one around it, the run's name and kind; then the inputs; or the seconds and the
    outputs; or seat, holder, outcome and reason. `label(run, kept)` adds the run's tags and metadata, and gives the
    content. What was made is put into `heard`, between its run and the inputs, outputs or outcome in it, its `content`,
    and `write` is called before code goes on that is not the engine's own. `others` are handlers beside it, `quiet`
    says that those do nothing but keep what they are told.
    """

    __slots__ = ("answered", "decided", "ended", "handler", "heard", "label", "others", "quiet", "started", "write")

    def __init__(
        self,
        handler: Any,
        started: Callable[..., Any],
        ended: Callable[..., Any],
        answered: Callable[..., Any],
        decided: Callable[..., Any],
        label: Callable[[Any, Any], Any],
        write: Callable[[], None],
    ) -> None:
        self.handler = handler
        self.started = started
        self.ended = ended
        self.answered = answered
        self.decided = decided
        self.label = label
        self.write = write
        self.heard: list[tuple[Any, Any, Any]] = []
        self.others: tuple[Any, ...] = ()
        self.quiet = True

    def beside(self, others: tuple[Any, ...]) -> Recorder:
        """This one, where there are others."""
        made = Recorder(self.handler, self.started, self.ended, self.answered, self.decided, self.label, self.write)
        made.heard, made.others = self.heard, others
        made.quiet = all(_beside_handle(other, "only_keeps") for other in others)
        return made


def recorder_of(handlers: tuple[Any, ...]) -> Recorder | None:
    """That of the one among them that has one, unless another wants to know of runs, too."""
    found: Recorder | None = None
    others = []
    for handler in handlers:
        if found is None and _beside_handle(handler, "recorder"):
            found = handler.recorder()
        elif getattr(handler, "wants_runs", True):
            return None
        else:
            others.append(handler)
    return found.beside(tuple(others)) if found is not None and others else found


def _beside_handle(handler: Any, name: str) -> bool:
    """Whether its class says `name` where it says `handle`: one that was written later, in a subclass or on the object,
    is another's, and is to be told of everything."""
    if "handle" in getattr(handler, "__dict__", ()):
        return False
    return next((name in vars(kind) for kind in type(handler).__mro__ if "handle" in vars(kind)), False)
