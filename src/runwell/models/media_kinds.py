"""Kinds of media that a model cannot be shown: refused where a person just said them, elsewhere named in a text."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from runwell.errors import InvalidHistory
from runwell.messages.message import BaseMessage
from runwell.messages.normal import standard_block

__all__ = ["only_kinds", "texts_alone"]

_KINDS = frozenset({"image", "audio", "video", "file"})


def texts_alone(messages: Sequence[BaseMessage]) -> bool:
    """Whether no message holds blocks, as nearly always: then there is nothing to look at further."""
    for message in messages:  # noqa: SIM110 - a generator costs twice as much
        if type(message.content) is not str:
            return False
    return True


def only_kinds(messages: Sequence[BaseMessage], who: str, takes: Collection[str]) -> Sequence[BaseMessage]:
    """The messages, without media of a kind that is not among what `who` `takes`.

    Raises InvalidHistory, naming the place, for one in the latest message of a person's. In older ones, which another
    model may have been shown, and in a tool's result, which nobody chose, it becomes a text that names the kind.
    """
    if texts_alone(messages):
        return messages
    changed: list[BaseMessage] | None = None
    latest = max((place for place, each in enumerate(messages) if each.type == "human"), default=-1)
    for place, message in enumerate(messages):
        content = message.content
        if type(content) is str or message.type not in ("human", "tool"):
            continue
        for at, block in enumerate(content):
            kind = "text" if isinstance(block, str) else str(standard_block(block)["type"])
            if kind not in _KINDS or kind in takes:
                continue
            if place == latest:
                raise InvalidHistory(
                    f"Message {place}, block {at}: {who} takes no {kind}.",
                    hint=f"It takes {', '.join(takes) or 'texts alone'}. Say in a text what is in it.",
                )
            changed = changed or list(messages)
            changed[place] = _named(changed[place], at, kind)
    return changed or messages


def _named(message: BaseMessage, at: int, kind: str) -> BaseMessage:
    content: Any = list(message.content)
    content[at] = {"type": "text", "text": f"(of type {kind}, which this model cannot be shown)"}
    return message.model_copy(update={"content": content})
