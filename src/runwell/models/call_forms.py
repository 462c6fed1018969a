"""Names and ids of calls in a history, as a provider takes them.

A model may call what is no name (`multi_tool_use.parallel`), and servers give ids that others refuse
(`functions.look:0`). In a history they are only there to be read: what does not fit is written otherwise, alike in a
call and its result.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from re import Pattern
from typing import Any, Final, NamedTuple

from runwell.messages.message import AIMessage, BaseMessage, ToolMessage
from runwell.observe.run import record_decision, watched

__all__ = ["Forms", "Ids", "with_fitting_calls"]


class Ids(NamedTuple):
    """What ids must be: of characters that `chars` matches any number of (None: of any), and no longer than this."""

    chars: Pattern[str] | None
    longest: int = sys.maxsize

    def odd(self, texts: Collection[str]) -> set[str]:
        """Those that are not so. A long history has hundreds, and mostly none: looked at together, then each alone."""
        if "" in texts or max(map(len, texts)) > self.longest or not self._takes("".join(texts)):
            return {text for text in texts if not text or len(text) > self.longest or not self._takes(text)}
        return set()

    def _takes(self, text: str) -> bool:
        return self.chars is None or self.chars.fullmatch(text) is not None


Forms = tuple[Pattern[str] | None, Ids | None]
"""(What a name must match, what ids must be.) None: anything."""

_CALLS: Final = frozenset({"tool_call", "invalid_tool_call", "tool_use"})
_UNFIT: Final = re.compile(r"[^a-zA-Z0-9_-]+")


def with_fitting_calls(messages: list[BaseMessage], callers: Sequence[AIMessage], forms: Forms) -> list[BaseMessage]:
    """The messages with names and ids that fit; the same list where all do. `callers`: those of them with calls. That
    it was done is recorded (B9)."""
    names, ids = forms
    if not callers or (names is None and ids is None):
        return messages
    named: set[Any] = set()  # few names are called again and again: each is looked at once
    known: set[Any] = set()
    for message in callers:
        for call in message.tool_calls:
            named.add(call["name"])
            known.add(call["id"])
        for broken in message.invalid_tool_calls:
            named.add(broken["name"])
            known.add(broken["id"])
    named.discard(None)
    known.discard(None)
    odd = set() if names is None else {name for name in named if names.fullmatch(name) is None}
    odd |= ids.odd(known) if ids is not None and known else set()
    if not odd:
        return messages
    if watched():
        record_decision("B9", "written otherwise", f"names or ids of calls: {sorted(odd)!r:.200}", "code")
    form = _Form(names, ids, odd)
    return [form.fitted(message) for message in messages]


class _Form:
    __slots__ = ("_ids", "_names", "_odd")

    def __init__(self, names: Pattern[str] | None, ids: Ids | None, odd: set[str]) -> None:
        self._names, self._ids, self._odd = names, ids, odd

    def fitted(self, message: BaseMessage) -> BaseMessage:
        if isinstance(message, ToolMessage):
            if message.tool_call_id in self._odd or message.name in self._odd:
                return message.model_copy(
                    update={"tool_call_id": self._id(message.tool_call_id), "name": self._name(message.name)}
                )
            return message
        if not isinstance(message, AIMessage) or not (message.tool_calls or message.invalid_tool_calls):
            return message
        calls: Sequence[Any] = (*message.tool_calls, *message.invalid_tool_calls)
        if self._odd.isdisjoint([each for call in calls for each in (call["name"], call["id"])]):
            return message
        update: dict[str, Any] = {
            "tool_calls": [self._call(call) for call in message.tool_calls],
            "invalid_tool_calls": [self._call(call) for call in message.invalid_tool_calls],
        }
        if not isinstance(message.content, str):
            update["content"] = [
                self._call(block) if isinstance(block, Mapping) and block.get("type") in _CALLS else block
                for block in message.content
            ]
        return message.model_copy(update=update)

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        return {**call, "name": self._name(call.get("name")), "id": self._id(call.get("id"))}

    def _name(self, name: str | None) -> str | None:
        if name is None or self._names is None or self._names.fullmatch(name):
            return name
        fitting = _UNFIT.sub("_", name)[:64].strip("_-") or "unknown"
        return fitting if self._names.fullmatch(fitting) else f"_{fitting[:63]}"

    def _id(self, given: str | None) -> Any:
        if given is None or self._ids is None or not self._ids.odd([given]):
            return given
        return f"call_{sha256(given.encode()).hexdigest()[:32]}"
