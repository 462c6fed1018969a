"""Who says a message, in the words that most providers' formats share."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from runwell.errors import InvalidHistory
from runwell.messages.message import BaseMessage

__all__ = ["OTHER_WORDS", "ROLE_OF", "role_of_other"]

OTHER_WORDS: Final[dict[Any, str]] = {"human": "user", "ai": "assistant"}
"""Roles of a `ChatMessage` in words that no provider uses."""

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
    """The role that a message of another type names, in the provider's word, if it is among `roles`; raises
    InvalidHistory, which says that it is `refused`, for any other."""
    role = getattr(message, "role", None)
    for name in (role, OTHER_WORDS.get(role), "system" if role == "developer" else None):
        if name in roles:
            return str(name)
    raise InvalidHistory(
        f"Message {index} is a {type(message).__name__}{f' of role {role!r}' if role else ''}, which {refused}.",
        hint=f"Apply instructions first: add_messages(history, [RemoveMessage(...)]). Roles: {', '.join(roles)}.",
    )
