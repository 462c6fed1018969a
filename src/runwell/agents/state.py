"""What an agent keeps of a conversation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, Required, TypedDict, get_args

from runwell.agents.turn_order import add_turn
from runwell.graph.spent import add_spent
from runwell.messages.message import BaseMessage

__all__ = [
    "PRIVATE",
    "AgentState",
    "InputAgentState",
    "OmitFromInput",
    "OmitFromOutput",
    "OmitFromSchema",
    "OutputAgentState",
    "PrivateStateAttr",
    "RunStateAttr",
    "mark_of",
]


class AgentState(TypedDict):
    """`messages`, merged by id; `structured_response`, if a `response_format` is set; `stopped`, why a run ended early.

    Derive from it for keys of your own: `class MyState(AgentState): user_id: str`.
    """

    messages: Required[Annotated[list[BaseMessage], add_turn]]
    jump_to: NotRequired[str | None]
    structured_response: NotRequired[Any]
    stopped: NotRequired[str | None]


class InputAgentState(TypedDict):
    """What a caller gives an agent."""

    messages: Required[Any]


class OutputAgentState(TypedDict):
    """What a caller gets from it."""

    messages: Required[list[BaseMessage]]
    structured_response: NotRequired[Any]
    stopped: NotRequired[str | None]


class Ledger(TypedDict, total=False):
    """What a run has used, kept with the thread so that resumes count on. Not part of input or output."""

    ledger: dict[str, Any]
    spent: Annotated[dict[str, Any], add_spent]


PRIVATE = frozenset({"ledger", "spent", "jump_to"})
"""Keys of the agent's own that a caller neither gives nor gets."""


@dataclass(frozen=True, slots=True)
class OmitFromSchema:
    """Marks a key of the state, as in `seen: Annotated[int, OmitFromSchema(output=False)]`.

    `input`: callers may not give it; `output`: callers do not get it; `run`: it begins anew with each input;
    `unseen`: streams, observers and snapshots do not show it either.
    """

    input: bool = True
    output: bool = True
    run: bool = False
    unseen: bool = False


OmitFromInput = OmitFromSchema(output=False)
OmitFromOutput = OmitFromSchema(input=False)
PrivateStateAttr = OmitFromSchema()
"""A key that only the middleware sees; it is kept with the thread."""
RunStateAttr = OmitFromSchema(run=True)
"""A private key that is None again when the next run begins; a resume goes on with it."""

_OPEN = OmitFromSchema(input=False, output=False)


def mark_of(hint: Any) -> OmitFromSchema:
    """How the annotation of a key is marked."""
    for part in (*getattr(hint, "__metadata__", ()), *get_args(hint)):
        if isinstance(part, OmitFromSchema):
            return part
        if hasattr(part, "__metadata__"):
            return mark_of(part)
    return _OPEN
