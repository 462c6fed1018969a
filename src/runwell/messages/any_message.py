"""Any of the messages, for annotations of states and models."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from runwell.messages.chunks import (
    AIMessageChunk,
    ChatMessageChunk,
    FunctionMessageChunk,
    HumanMessageChunk,
    SystemMessageChunk,
    ToolMessageChunk,
)
from runwell.messages.message import (
    AIMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

__all__ = ["AnyMessage"]


class _TellApart:
    """Makes pydantic choose the class by the message's type or role. Pydantic is not imported until it asks."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from runwell.messages.jsonform import union_schema

        return union_schema(handler)

    def __repr__(self) -> str:
        return "AnyMessage"


AnyMessage: TypeAlias = Annotated[
    AIMessage
    | HumanMessage
    | ChatMessage
    | SystemMessage
    | FunctionMessage
    | ToolMessage
    | RemoveMessage
    | AIMessageChunk
    | HumanMessageChunk
    | ChatMessageChunk
    | SystemMessageChunk
    | FunctionMessageChunk
    | ToolMessageChunk,
    _TellApart(),
]
"""Any message. In a pydantic model it also takes what `convert_to_message` takes."""
