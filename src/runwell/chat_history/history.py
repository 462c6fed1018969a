"""What a conversation kept somewhere offers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

from runwell.drivers.other_colour import answer_in_both, beneath, writes
from runwell.effects import Callee
from runwell.errors import UsageError
from runwell.messages.message import AIMessage, BaseMessage, HumanMessage
from runwell.messages.transcript import get_buffer_string

__all__ = ["BaseChatMessageHistory"]

_PAIRS = {"messages": "aget_messages", "add_messages": "aadd_messages", "clear": "aclear"}


class BaseChatMessageHistory:
    """One conversation. A subclass writes `messages`, `add_messages` and `clear`, or their `async` forms
    `aget_messages`, `aadd_messages` and `aclear`; the others follow.

    `add_messages` must add all or none, in order and next to each other, whoever else adds at the time.
    """

    _written: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        answer_in_both(cls, {"add_messages": "aadd_messages", "clear": "aclear"}, BaseChatMessageHistory)
        names = (*_PAIRS, *_PAIRS.values(), "add_message")
        cls._written = frozenset(name for name in names if writes(cls, name, BaseChatMessageHistory))

    @property
    def session_key(self) -> Hashable:
        """Equal for two objects that are the same conversation: turns of it take turns."""
        return ("history", id(self))

    # -- reading

    @property
    def messages(self) -> list[BaseMessage]:
        """All messages, the oldest first."""
        return self._by_async("messages")()  # type: ignore[no-any-return]

    async def aget_messages(self) -> list[BaseMessage]:
        """`messages`; plain code runs in a worker thread."""
        self._must_have("messages")
        from runwell.drivers.aio import in_worker

        return await in_worker(lambda: self.messages)

    # -- writing

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages at the end: all of them, or none."""
        if "aadd_messages" not in self._written and "add_message" in self._written:
            for message in messages:
                self.add_message(message)
            return
        self._by_async("add_messages")(messages)

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """`add_messages`; plain code runs in a worker thread."""
        self._must_have("add_messages", "add_message")
        from runwell.drivers.aio import in_worker

        await in_worker(beneath(self, "add_messages"), messages)

    def add_message(self, message: BaseMessage) -> None:
        """Add one message."""
        self.add_messages([message])

    def add_user_message(self, message: HumanMessage | str) -> None:
        """Add what the user said."""
        self.add_message(HumanMessage(message) if isinstance(message, str) else message)

    def add_ai_message(self, message: AIMessage | str) -> None:
        """Add what the model said."""
        self.add_message(AIMessage(message) if isinstance(message, str) else message)

    def clear(self) -> None:
        """Forget the conversation."""
        self._by_async("clear")()

    async def aclear(self) -> None:
        """`clear`; plain code runs in a worker thread."""
        self._must_have("clear")
        from runwell.drivers.aio import in_worker

        await in_worker(beneath(self, "clear"))

    # -- one form by the other

    def _must_have(self, *names: str) -> None:
        if not self._written.intersection(names):
            raise UsageError(
                f"{type(self).__name__} does not say how to do {names[0]!r}.",
                hint=f"Write {names[0]!r}, or its async form {_PAIRS[names[0]]!r}.",
            )

    def _by_async(self, name: str) -> Any:
        twin = _PAIRS[name]
        if twin not in self._written:
            self._must_have(name)
        from runwell.drivers.sync import call_sync

        function = beneath(self, twin)
        return lambda *args: call_sync(Callee(None, function), *args)

    def __str__(self) -> str:
        return get_buffer_string(self.messages)
