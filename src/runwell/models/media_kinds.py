"""Kinds of media that a model cannot be shown: refused where a person just said them, elsewhere named in a text."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from runwell.errors import InvalidHistory
from runwell.messages.message import BaseMessage
from runwell.messages.normal import standard_block
from runwell.observe.run import record_decision, watched

__all__ = ["Sources", "only_kinds", "source_of", "texts_alone"]

Sources = Mapping[str, frozenset[str]]
"""For a kind of media how it may be given: "url", "s3" (an address of Amazon's), "base64", "file_id"; any way where it
is not named."""

_KINDS = frozenset({"image", "audio", "video", "file"})


def source_of(block: Mapping[str, Any]) -> str:
    """How a standard block of media is given."""
    if block.get("file_id"):
        return "file_id"
    if block.get("base64"):
        return "base64"
    return "s3" if str(block.get("url")).startswith("s3://") else "url"


def texts_alone(messages: Sequence[BaseMessage]) -> bool:
    """Whether no message holds blocks, as nearly always: then there is nothing to look at further."""
    for message in messages:  # noqa: SIM110 - a generator costs twice as much
        if type(message.content) is not str:
            return False
    return True


def only_kinds(
    messages: Sequence[BaseMessage], who: str, takes: Collection[str], sources: Sources, elsewhere: str = ""
) -> Sequence[BaseMessage]:
    """The messages, without media of a kind that `who` does not take, or given otherwise than `sources` say.

    Raises InvalidHistory, naming the place, for one in the latest message of a person's; `elsewhere` says what takes
    what is given otherwise. In older ones, which another model may have been shown, and in a tool's result, which
    nobody chose, it becomes a text that names the kind, and the decision B9 is recorded.
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
            if isinstance(block, str):
                continue
            standard: Mapping[str, Any] = standard_block(block)
            kind = standard["type"]
            if kind == "text-plain" and standard.get("text") is None:
                kind = "file"
            if kind not in _KINDS:
                continue
            given = source_of(standard)
            known = kind in takes
            if known and (kind not in sources or given in sources[kind]):
                continue
            if place == latest:
                ways = ", ".join(sorted(sources[kind])) if known else ""
                raise InvalidHistory(
                    f"Message {place}, block {at}: {who} takes no {kind}{f' by {given}' if known else ''}.",
                    hint=f"It takes one by {ways}.{elsewhere}"
                    if known
                    else f"It takes {', '.join(takes) or 'texts alone'}. Say in a text what is in it.",
                )
            changed = changed or list(messages)
            changed[place] = _named(changed[place], at, kind)
            if watched():
                reason = f"message {place} holds {kind} by {given}, which {who} does not take"
                record_decision("B9", "named in a text", reason, "code")
    return changed or messages


def _named(message: BaseMessage, at: int, kind: str) -> BaseMessage:
    content: Any = list(message.content)
    content[at] = {"type": "text", "text": f"(of type {kind}, which this model cannot be shown)"}
    return message.model_copy(update={"content": content})
