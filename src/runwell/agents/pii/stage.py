"""What one middleware does to messages: which of them it looks at, and what it makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from runwell.agents.pii.match import PIIMatch
from runwell.agents.pii.rule import Rule
from runwell.agents.pii.walk import clean_message
from runwell.messages.message import BaseMessage
from runwell.observe.run import record_decision, watched

__all__ = ["Stage"]

M = TypeVar("M", bound=BaseMessage)


class Stage:
    """A rule and where it applies. `roles` are types of messages on their way to the model; None is all of them."""

    def __init__(
        self,
        rule: Rule,
        strategy: str,
        *,
        to_model: bool,
        from_model: bool,
        tool_results: bool,
        tool_args: bool,
        roles: frozenset[str] | None,
    ) -> None:
        self.rule = rule
        self.strategy = strategy
        self.to_model = to_model
        self.from_model = from_model
        self.tool_results = tool_results
        self.tool_args = tool_args
        self.roles = roles

    def text(self, where: str) -> Callable[[str], str]:
        """What cleans a text, and tells who listens what it found `where`."""
        rule, heard = self.rule, watched()

        def clean(text: str) -> str:
            found = rule.find(text)
            if not found:
                return text
            if heard:
                self.record(found, where)
            return rule.passed(rule.clean(text, found))

        return clean

    def record(self, found: Sequence[PIIMatch], where: str) -> None:
        """Say what was found and what becomes of it, never the value."""
        for kind in dict.fromkeys(match["type"] for match in found):
            count = sum(match["type"] == kind for match in found)
            record_decision("D13", "found", f"{count} of {kind} {where}", "code")
            record_decision("D15", self.strategy, f"{kind} {where}", "code")

    def outgoing(self, messages: list[BaseMessage]) -> list[BaseMessage]:
        """The messages as they may leave for a model; the same list where nothing is to be hidden."""
        if not self.to_model and not self.tool_results:
            return messages
        clean = self.text("on its way to the model")
        made = [clean_message(each, clean) if self._looks_at(each) else each for each in messages]
        changed = sum(new is not old for new, old in zip(made, messages, strict=True))
        if not changed:
            return messages
        if watched():
            record_decision("D14", "changed", f"{changed} of {len(messages)} messages, in the copy that leaves", "code")
        return made

    def _looks_at(self, message: BaseMessage) -> bool:
        if self.to_model and (self.roles is None or message.type in self.roles):
            return True
        return self.tool_results and message.type == "tool"

    def values(self, messages: Iterable[BaseMessage]) -> dict[str, str]:
        """What the tokens of this conversation stand for."""
        if not self.rule.tokens or self.rule.replace is None:
            return {}
        known: dict[str, str] = {}
        replace = self.rule.replace

        def note(text: str) -> str:
            for match in self.rule.find(text):
                known.setdefault(replace(match), match["value"])
            return text

        for message in messages:
            clean_message(message, note)
        return known
