"""Who says a message, in the words that most providers' formats share."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from runwell.errors import InvalidHistory
from runwell.messages.message import BaseMessage

__all__ = ["ROLE_OF", "role_of_other"]

ROLE_OF: Final = {
    "human": "user",
    "HumanMessageChunk": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "tool": "tool",
    "ToolMessageChunk": "tool",
    "system": "system",
    "SystemMessageChunk": "system",
}
"""By a message's type."""


def role_of_other(
    message: BaseMessage, index: int, refused: str, roles: Collection[str] = ("user", "assistant", "system")
) -> str:
    """The role that a message of another type names, if it is among `roles`; raises InvalidHistory, which says that it
    is `refused`, for any other."""
    role = getattr(message, "role", None)
    if role in roles:
        return str(role)
    raise InvalidHistory(
        f"Message {index} is a {type(message).__name__}{f' of role {role!r}' if role else ''}, which {refused}.",
        hint=f"Apply instructions first: add_messages(history, [RemoveMessage(...)]). Roles: {', '.join(roles)}.",
    )
