"""Which steps of a chain let a stream through, which stop it, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from runwell.runnables.anatomy import parts_of
from runwell.runnables.runnable import Runnable

__all__ = ["StreamingReport", "StreamingStep", "explain"]


@dataclass(frozen=True, slots=True)
class StreamingStep:
    """One step: `takes_chunks` says that it works on its input piece by piece, `gives_chunks` that its output comes in
    pieces, `buffers` that it stops a stream that reaches it. `why` says what makes it so."""

    number: int
    name: str
    takes_chunks: bool
    gives_chunks: bool
    buffers: bool
    why: str


@dataclass(frozen=True, slots=True)
class StreamingReport:
    """How a stream goes through a chain. `str(report)` is a table to read; it is true if the output comes in pieces."""

    name: str
    steps: tuple[StreamingStep, ...] = field(default=())

    @property
    def streams(self) -> bool:
        """Whether the output comes in pieces, as they arise."""
        return bool(self.steps) and self.steps[-1].gives_chunks

    @property
    def buffering(self) -> tuple[StreamingStep, ...]:
        """The steps at which a stream stops until it is whole."""
        return tuple(step for step in self.steps if step.buffers)

    def __bool__(self) -> bool:
        return self.streams

    def __str__(self) -> str:
        verdict = "streams" if self.streams else "gives its output in one piece"
        if self.buffering:
            verdict += f"; buffers at {', '.join(repr(step.name) for step in self.buffering)}"
        lines = [f"{self.name} {verdict}"]
        for step in self.steps:
            mark = "stops" if step.buffers else "flows" if step.gives_chunks else "whole"
            lines.append(f"  {step.number}. {mark}  {step.name}: {step.why}")
        return "\n".join(lines)


def explain(runnable: Runnable[Any, Any]) -> StreamingReport:
    """`Runnable.explain_streaming`."""
    return StreamingReport(runnable.get_name(), tuple(_steps(runnable, False)))


def _steps(runnable: Any, flowing: bool) -> Iterator[StreamingStep]:
    """The steps of a chain, or the one step that it is, behind a stream that flows or is in one piece."""
    steps = getattr(runnable, "steps", None)
    for number, step in enumerate(steps if isinstance(steps, list) else [runnable], 1):
        takes, gives, why = _manner(step)
        # It gives pieces if it makes them itself, or passes on those it is given.
        buffers = flowing and not takes
        flowing = gives or (takes and flowing)
        yield StreamingStep(number, step.get_name(), takes, flowing, buffers, why)


def _manner(step: Any) -> tuple[bool, bool, str]:
    """(works on chunks, makes chunks of one input, why)."""
    own = getattr(step, "_streaming", None)
    if own is not None:
        return own()  # type: ignore[no-any-return]
    steps: Any = getattr(step, "steps", None)
    if isinstance(steps, list):
        alone, fed = list(_steps(step, False)), list(_steps(step, True))
        stops = [each.name for each in fed if each.buffers]
        why = f"its step {stops[0]!r} waits for its whole input" if stops else "all its steps pass chunks on"
        return fed[-1].gives_chunks and not stops, alone[-1].gives_chunks, why
    if hasattr(steps, "items"):
        return _together([(repr(key), each) for key, each in steps.items()], "branch")
    written = step._written
    if "transform" in written or "atransform" in written:
        inner = [each for _, each in parts_of(step)]
        if len(inner) == 1 and "bound" in step.__dict__:
            return _manner(inner[0])
        if len(inner) == 1 and "mapper" in step.__dict__:
            return _manner(inner[0])
        return True, False, "it passes chunks on as they come"
    if "stream" in written or "astream" in written:
        chosen = [each for name, each in parts_of(step) if not (name or "").startswith("condition")]
        gives = any(_manner(each)[1] for each in chosen) if chosen else True
        return False, gives, "it needs its whole input, and gives its output piece by piece" if gives else _WHOLE
    return False, False, _WHOLE


_WHOLE = "it needs its whole input, and gives its output in one piece"


def _together(parts: list[tuple[str, Any]], what: str) -> tuple[bool, bool, str]:
    manners = [(label, *_manner(part)) for label, part in parts]
    waiting = [(label, why) for label, takes, gives, why in manners if not takes]
    takes = len(waiting) < len(manners)
    gives = len(manners) > 1 or any(gives for _, _, gives, _ in manners)
    why = f"its {what}es give chunks as each has them"
    if waiting:
        label, reason = waiting[0]
        why += f"; {what} {label} waits: {reason}"
    return takes, gives, why
