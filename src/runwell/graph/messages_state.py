"""The state of a conversation."""

from __future__ import annotations

from typing import Annotated, TypedDict

from runwell.messages.history import add_messages
from runwell.messages.message import BaseMessage

__all__ = ["MessagesState"]


class MessagesState(TypedDict, total=False):
    """One key, `messages`, merged by id."""

    messages: Annotated[list[BaseMessage], add_messages]
