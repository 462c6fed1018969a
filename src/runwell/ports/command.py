"""What a node, a tool or a caller may say to a graph: Send, Command, Interrupt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar

__all__ = ["END", "START", "Command", "Interrupt", "Overwrite", "Send"]

START = "__start__"
"""The virtual node a graph begins at."""
END = "__end__"
"""The virtual node a graph ends at."""

N = TypeVar("N")


@dataclass(slots=True)
class Send:
    """Run `node` in the next step with `arg` as its input, beside whatever else runs then."""

    node: str
    arg: Any


@dataclass(slots=True)
class Overwrite:
    """As a value in an update: replace the channel's value instead of reducing into it."""

    value: Any


@dataclass(slots=True)
class Interrupt:
    """A question a run is paused on.

    `id` is stable across resumes. `value` is what was asked. `response_schema` is a JSON schema, or None.
    """

    value: Any
    id: str = ""
    response_schema: dict[str, Any] | None = None


@dataclass(slots=True, kw_only=True)
class Command(Generic[N]):
    """An update and a jump in one, or an answer to a pause.

    `update`: a dict (or list of (key, value)) for the state. `goto`: where to go next, instead of nothing.
    `graph`: None for this graph, `Command.PARENT` for the one above. `resume`: the answer to the pending
    question, or a dict from interrupt id to answer when several are open. `actor`: who answered, recorded.
    """

    update: Any = None
    goto: N | str | Send | Sequence[N | str | Send] = field(default=())
    resume: Any = None
    graph: str | None = None
    actor: str | None = None

    PARENT: ClassVar[Literal["__parent__"]] = "__parent__"

    def targets(self) -> list[str | Send]:
        """`goto` as a list."""
        goto = self.goto
        if isinstance(goto, (str, Send)):
            return [goto]
        return list(goto)  # type: ignore[arg-type]
