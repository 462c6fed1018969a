"""Messages that say nothing: refused where a person just sent one, left out elsewhere; many providers refuse them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runwell.errors import InvalidHistory
from runwell.messages.message import BaseMessage
from runwell.models.roles import ROLE_OF
from runwell.observe.run import record_decision, watched

__all__ = ["without_blanks"]


def without_blanks(messages: Sequence[BaseMessage], *, texts: bool = False) -> list[BaseMessage]:
    """The messages, without those of the system and older ones of persons that say nothing but blanks; the decision B9
    is then recorded. A tool's result and an answer stay, with calls or without.

    Raises InvalidHistory for the latest message of a person's. `texts`: the provider refuses blank texts anywhere, so
    those among other blocks are left out as well, and a result or an answer of blanks is an empty one.
    """
    kept: list[BaseMessage] = []
    latest = max((place for place, each in enumerate(messages) if _role(each) == "user"), default=-1)
    for place, message in enumerate(messages):
        content, role = message.content, _role(message)
        if role in ("user", "system") and not any(map(_says, [content] if isinstance(content, str) else content)):
            if place == latest:
                blank = "holds nothing but blanks" if content and content != [""] and _blank(content) else "is empty"
                raise InvalidHistory(
                    f"Message {place}, a {type(message).__name__}, {blank}.",
                    hint="Leave it out, or say something in it.",
                )
            if watched():
                record_decision("B9", "left out", f"message {place} says nothing", "code")
        else:
            kept.append(_shortened(message) if texts else message)
    return kept


def _role(message: BaseMessage) -> str | None:
    return ROLE_OF.get(message.type) or {"human": "user", "developer": "system"}.get(
        said := getattr(message, "role", ""), said
    )


def _says(block: Any) -> bool:
    if isinstance(block, str):
        return bool(block.strip())
    text = block.get("text")
    return not (isinstance(text, str) and not text.strip() and block.get("type") in _TEXTS) and bool(block)


_TEXTS = frozenset({"text", "input_text", "output_text", None})


def _blank(content: Any) -> bool:
    texts = [content] if isinstance(content, str) else [b if isinstance(b, str) else b.get("text") for b in content]
    return any(texts)


def _shortened(message: BaseMessage) -> BaseMessage:
    content: Any = message.content
    if isinstance(content, str):
        if not content or not content.isspace():
            return message
        return message.model_copy(update={"content": ""})
    blocks = [block for block in content if _says(block)]
    return message if len(blocks) == len(content) else message.model_copy(update={"content": blocks or ""})
