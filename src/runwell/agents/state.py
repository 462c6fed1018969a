"""What an agent keeps of a conversation."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, Required, TypedDict

from runwell.messages.history import add_messages
from runwell.messages.message import BaseMessage

__all__ = ["PRIVATE", "AgentState"]


class AgentState(TypedDict):
    """`messages`, merged by id; `structured_response`, if a `response_format` is set; `stopped`, why a run ended early.

    Derive from it for keys of your own: `class MyState(AgentState): user_id: str`.
    """

    messages: Required[Annotated[list[BaseMessage], add_messages]]
    jump_to: NotRequired[str | None]
    structured_response: NotRequired[Any]
    stopped: NotRequired[str | None]


class Ledger(TypedDict, total=False):
    """What a run has used, kept with the thread so that resumes count on. Not part of input or output."""

    ledger: dict[str, Any]


PRIVATE = frozenset({"ledger", "jump_to"})
"""Keys of the agent's own that a caller neither gives nor gets."""
