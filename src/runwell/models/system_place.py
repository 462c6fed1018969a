"""Where system messages stand in a request: in place where the model takes them there, else at the top."""

from __future__ import annotations

from typing import Any

from runwell.messages.message import BaseMessage, SystemMessage
from runwell.observe.run import record_decision, watched

__all__ = ["system_first"]


def system_first(messages: list[BaseMessage], model: Any) -> list[BaseMessage]:
    """The messages for a model whose profile says that it takes system messages at the top only.

    Those that stand later go there, behind the ones that lead, as one message; that it was done is recorded. The same
    list if there is nothing to move.
    """
    lead = 0
    while lead < len(messages) and isinstance(messages[lead], SystemMessage):
        lead += 1
    late = [message for message in messages[lead:] if isinstance(message, SystemMessage)]
    if not late:
        return messages
    if watched():
        reason = f"{model!r:.100} takes system messages at the top only"
        record_decision("B9", f"{len(late)} moved to the top", reason, "code")
    first = _joined([*messages[:lead], *late])  # type: ignore[list-item]  # checked above
    return [first, *(message for message in messages[lead:] if not isinstance(message, SystemMessage))]


def _joined(parts: list[SystemMessage]) -> SystemMessage:
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part.content, str) for part in parts):
        content: Any = "\n\n".join(str(part.content) for part in parts if part.content)
    else:
        content = []
        for part in parts:
            said = part.content
            content += [{"type": "text", "text": said}] if isinstance(said, str) else said
    return parts[0].model_copy(update={"content": content})
