"""A filled-in prompt, ready for either kind of model: as text, or as messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runwell.messages.message import BaseMessage, HumanMessage

__all__ = ["ChatPromptValue", "PromptValue", "StringPromptValue"]


class PromptValue:
    """A filled-in prompt. `to_messages()` for a chat model, `to_string()` for a log or a text model."""

    __slots__ = ()

    def to_string(self) -> str:
        raise NotImplementedError

    def to_messages(self) -> list[BaseMessage]:
        raise NotImplementedError

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.is_instance_schema(cls)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        return {"type": "object", "title": cls.__name__}


class StringPromptValue(PromptValue):
    """A prompt that is one text. As messages: one human message."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def to_string(self) -> str:
        return self.text

    def to_messages(self) -> list[BaseMessage]:
        return [HumanMessage(self.text)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StringPromptValue) and other.text == self.text

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"StringPromptValue(text={self.text!r})"


class ChatPromptValue(PromptValue):
    """A prompt that is a conversation. As text: one line per message, such as `Human: Hello`."""

    __slots__ = ("messages",)

    def __init__(self, messages: Sequence[BaseMessage]) -> None:
        self.messages: list[BaseMessage] = messages if isinstance(messages, list) else list(messages)

    def to_string(self) -> str:
        from runwell.messages.transcript import get_buffer_string

        return get_buffer_string(self.messages)

    def to_messages(self) -> list[BaseMessage]:
        return list(self.messages)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChatPromptValue) and other.messages == self.messages

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ChatPromptValue(messages={self.messages!r})"
