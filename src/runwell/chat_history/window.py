"""The end of a conversation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from runwell.errors import InvalidInput
from runwell.messages.convert import convert_to_messages
from runwell.messages.message import BaseMessage, HumanMessage, SystemMessage

__all__ = ["last_exchanges"]


def last_exchanges(messages: Iterable[Any], count: int, *, keep_system: bool = True) -> list[BaseMessage]:
    """The last `count` exchanges: what a person said and everything up to where they spoke again, tools included.

    System messages at the beginning stay, unless `keep_system` is False. To cut by tokens instead, there is
    `runwell.messages.trim_messages`.
    """
    if count < 0:
        raise InvalidInput(f"count is how many exchanges to keep, not {count!r}.")
    given = convert_to_messages(messages)
    head = 0
    while head < len(given) and isinstance(given[head], SystemMessage):
        head += 1
    starts = [
        place
        for place in range(head, len(given))
        if isinstance(given[place], HumanMessage)
        and (place == head or not isinstance(given[place - 1], HumanMessage))  # said in two goes: one exchange
    ]
    begin = head if count >= len(starts) else starts[-count] if count else len(given)
    return [*(given[:head] if keep_system else []), *given[begin:]]
