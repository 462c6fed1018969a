"""Media where a provider has no place for them, or given in a way that it does not take: named in a text, so that a
conversation goes on with any model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from runwell.messages.message import BaseMessage
from runwell.messages.normal import standard_block
from runwell.models.media_kinds import Sources, source_of, texts_alone
from runwell.observe.run import record_decision, watched

__all__ = ["NONE", "Places", "with_media_named"]

Places = Mapping[str, frozenset[str]]
"""For a message's type ("system", "ai", "human", "tool") the kinds of media it may hold; any where it is not named."""

NONE: Final[frozenset[str]] = frozenset()

_MEDIA = frozenset(("image", "audio", "video", "file"))
_PLAIN = frozenset(("text", "reasoning", "tool_call"))


def with_media_named(
    messages: Sequence[BaseMessage], places: Places, sources: Sources | None = None
) -> list[BaseMessage]:
    """The messages, with a text such as "[image: image/png]" for each medium that may not stand where it does; that it
    was done is recorded as the decision B9. Messages without such media are the same objects."""
    if texts_alone(messages):
        return list(messages)
    return [
        message
        if isinstance(message.content, str) or ((takes := places.get(_kind(message))) is None and not sources)
        else _fitted(message, takes, sources or {}, index)
        for index, message in enumerate(messages)
    ]


def _kind(message: BaseMessage) -> str:
    return {"HumanMessageChunk": "human", "AIMessageChunk": "ai", "ToolMessageChunk": "tool"}.get(
        message.type, "system" if message.type == "SystemMessageChunk" else message.type
    )


def _fitted(message: BaseMessage, takes: frozenset[str] | None, sources: Sources, index: int) -> BaseMessage:
    content: list[Any] = []
    named: list[str] = []
    for block in message.content:
        text = None if isinstance(block, str) or block.get("type") in _PLAIN else _named(block, takes, sources)
        if text is not None:
            named.append(text)
        content.append(block if text is None else {"type": "text", "text": text})
    if not named:
        return message
    if watched():
        reason = f"message {index} holds {', '.join(named)}, which has no place there with this provider"
        record_decision("B9", "named in a text", reason, "code")
    return message.model_copy(update={"content": content})


def _named(given: Any, takes: frozenset[str] | None, sources: Sources) -> str | None:
    """A text in the place of a block; None for what may stay."""
    block: Mapping[str, Any] = standard_block(given)
    kind = block["type"]
    if kind not in _MEDIA or (
        (takes is None or kind in takes) and (kind not in sources or source_of(block) in sources[kind])
    ):
        return None
    name = (block.get("extras") or {}).get("filename") or block.get("filename") or block.get("url")
    if not name or str(name).startswith("data:"):
        name = block.get("mime_type") or block.get("file_id") or "of unknown kind"
    return f"[{kind}: {name}]"
