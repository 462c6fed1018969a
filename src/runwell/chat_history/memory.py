"""A conversation in this process's memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runwell.chat_history.history import BaseChatMessageHistory
from runwell.drivers.other_colour import beneath
from runwell.messages.convert import convert_to_messages
from runwell.messages.message import BaseMessage

__all__ = ["InMemoryChatMessageHistory"]


class InMemoryChatMessageHistory(BaseChatMessageHistory):
    """Kept while the object is. May be used from several threads at once."""

    def __init__(self, messages: Iterable[BaseMessage] = ()) -> None:
        self._messages: list[BaseMessage] = list(messages)

    @property
    def messages(self) -> list[BaseMessage]:
        """A new list of all messages, the oldest first."""
        return list(self._messages)

    async def aget_messages(self) -> list[BaseMessage]:
        return self.messages

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        self._messages.extend(convert_to_messages(messages))  # one step, for every thread

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        beneath(self, "add_messages")(messages)

    def clear(self) -> None:
        self._messages.clear()

    async def aclear(self) -> None:
        beneath(self, "clear")()

    def __repr__(self) -> str:
        return f"InMemoryChatMessageHistory({len(self._messages)} messages)"
