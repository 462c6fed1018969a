"""Choosing and joining messages of a history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, overload

from runwell.errors import InvalidInput, nearest
from runwell.messages.calls import calls_as_written, split_calls
from runwell.messages.chunks import BaseMessageChunk
from runwell.messages.convert import ROLES, convert_to_messages
from runwell.messages.merge import merge_kwargs, merge_metadata
from runwell.messages.message import AIMessage, BaseMessage, ChatMessage, Content, RemoveMessage, ToolMessage
from runwell.messages.usage import add_usage

__all__ = ["Kinds", "MessageTransform", "classes_of", "filter_messages", "merge_message_runs"]

Kinds: TypeAlias = "str | type[BaseMessage] | Sequence[str | type[BaseMessage]]"
"""Types of messages: a name ("human", "ai", ...), a class, or several."""


class MessageTransform:
    """A function from messages to messages that may be called, invoked, or stand in a chain."""

    def __init__(self, name: str, function: Callable[[Iterable[Any]], list[BaseMessage]]) -> None:
        self.__name__ = self.name = name
        self._function = function

    def __call__(self, messages: Any) -> list[BaseMessage]:
        return self._function(messages)

    def invoke(self, messages: Any, config: Any = None) -> list[BaseMessage]:
        """The messages transformed."""
        return self._function(messages)

    async def ainvoke(self, messages: Any, config: Any = None) -> list[BaseMessage]:
        """The messages transformed; nothing is awaited."""
        return self._function(messages)

    def __repr__(self) -> str:
        return f"{self.name}(...)"


def classes_of(kinds: Kinds) -> tuple[type[BaseMessage], ...]:
    """The classes that `kinds` names. Raises `InvalidInput` for an unknown name."""
    several = [kinds] if isinstance(kinds, (str, type)) else kinds
    classes: list[type[BaseMessage]] = []
    for kind in several:
        cls = ROLES.get(kind) if isinstance(kind, str) else kind
        if not (isinstance(cls, type) and issubclass(cls, BaseMessage)):
            near = nearest(kind, ROLES) if isinstance(kind, str) else ""
            raise InvalidInput(
                f"Unknown type of message {kind!r:.200}{near}.", hint="Types are human, ai, system, tool."
            )
        classes.append(cls)
    return tuple(classes)


@overload
def filter_messages(
    messages: Iterable[Any],
    *,
    include_names: Sequence[str] | None = None,
    exclude_names: Sequence[str] | None = None,
    include_types: Kinds | None = None,
    exclude_types: Kinds | None = None,
    include_ids: Sequence[str] | None = None,
    exclude_ids: Sequence[str] | None = None,
    exclude_tool_calls: Sequence[str] | bool | None = None,
) -> list[BaseMessage]: ...


@overload
def filter_messages(
    messages: None = None,
    *,
    include_names: Sequence[str] | None = None,
    exclude_names: Sequence[str] | None = None,
    include_types: Kinds | None = None,
    exclude_types: Kinds | None = None,
    include_ids: Sequence[str] | None = None,
    exclude_ids: Sequence[str] | None = None,
    exclude_tool_calls: Sequence[str] | bool | None = None,
) -> MessageTransform: ...


def filter_messages(
    messages: Iterable[Any] | None = None,
    *,
    include_names: Sequence[str] | None = None,
    exclude_names: Sequence[str] | None = None,
    include_types: Kinds | None = None,
    exclude_types: Kinds | None = None,
    include_ids: Sequence[str] | None = None,
    exclude_ids: Sequence[str] | None = None,
    exclude_tool_calls: Sequence[str] | bool | None = None,
) -> list[BaseMessage] | MessageTransform:
    """The messages that any `include_*` names and no `exclude_*` does, in order.

    With no `include_*` all are included. `exclude_tool_calls` True leaves out every result and every call; a list of
    call ids those calls and their results. A model's message that said something besides its calls stays, without
    them. Filtering by type, name or id may tear calls from their results: `repair_history` or `trim_messages` mends
    that.

    Without `messages` gives a callable that does this, which may stand in a chain.
    """
    included = classes_of(include_types) if include_types is not None else None
    excluded = classes_of(exclude_types) if exclude_types is not None else ()

    def keeps(message: BaseMessage) -> bool:
        if (
            (exclude_names and message.name in exclude_names)
            or (exclude_ids and message.id in exclude_ids)
            or isinstance(message, excluded)
        ):
            return False
        if included is None and include_names is None and include_ids is None:
            return True
        return (
            (included is not None and isinstance(message, included))
            or (include_names is not None and message.name in include_names)
            or (include_ids is not None and message.id in include_ids)
        )

    def run(given: Iterable[Any]) -> list[BaseMessage]:
        kept = [message for message in convert_to_messages(given) if keeps(message)]
        if not exclude_tool_calls:
            return kept
        ids = None if exclude_tool_calls is True else frozenset(exclude_tool_calls)
        without = (_without_calls(message, ids) for message in kept)
        return [message for message in without if message is not None]

    return MessageTransform("filter_messages", run) if messages is None else run(messages)


def _without_calls(message: BaseMessage, ids: frozenset[str] | None) -> BaseMessage | None:
    """The message without the calls (None: all of them); None when nothing is left of it."""
    if isinstance(message, ToolMessage):
        return None if ids is None or message.tool_call_id in ids else message
    if not isinstance(message, AIMessage) or not (message.tool_calls or message.invalid_tool_calls):
        return message
    left = [call for call in calls_as_written(message) if ids is not None and call["id"] not in ids]
    calls, broken = split_calls(left)
    if len(calls) == len(message.tool_calls) and len(broken) == len(message.invalid_tool_calls):
        return message
    content: Content = message.content
    if not isinstance(content, str):
        content = [block for block in content if not (isinstance(block, dict) and _shows_call(block, ids))]
    if not content and not calls and not broken:
        return None
    return message.model_copy(update={"content": content, "tool_calls": calls, "invalid_tool_calls": broken})


def _shows_call(block: dict[str, Any], ids: frozenset[str] | None) -> bool:
    kinds = ("tool_call", "tool_use", "invalid_tool_call", "tool_call_chunk")
    return block.get("type") in kinds and (ids is None or block.get("id") in ids)


@overload
def merge_message_runs(messages: Iterable[Any], *, chunk_separator: str = "\n") -> list[BaseMessage]: ...


@overload
def merge_message_runs(messages: None = None, *, chunk_separator: str = "\n") -> MessageTransform: ...


def merge_message_runs(
    messages: Iterable[Any] | None = None, *, chunk_separator: str = "\n"
) -> list[BaseMessage] | MessageTransform:
    """The history with neighbours of one type (and name, and role) joined into one message.

    Texts are joined with `chunk_separator`, blocks and calls appended; the first one's id stays. Results of tools are
    never joined, as each answers its own call. Messages with no such neighbour are the same objects.

    Without `messages` gives a callable that does this, which may stand in a chain.
    """

    def run(given: Iterable[Any]) -> list[BaseMessage]:
        merged: list[BaseMessage] = []
        for message in convert_to_messages(given):
            if merged and _may_join(merged[-1], message):
                merged[-1] = _joined(merged[-1], message, chunk_separator)
            else:
                merged.append(message)
        return merged

    return MessageTransform("merge_message_runs", run) if messages is None else run(messages)


def _may_join(left: BaseMessage, right: BaseMessage) -> bool:
    return (
        type(left) is type(right)
        and not isinstance(left, (ToolMessage, RemoveMessage, BaseMessageChunk))
        and left.type != "function"
        and left.name == right.name
        and (not isinstance(left, ChatMessage) or not isinstance(right, ChatMessage) or left.role == right.role)
    )


def _joined(left: BaseMessage, right: BaseMessage, separator: str) -> BaseMessage:
    update: dict[str, Any] = {
        "content": _joined_content(left.content, right.content, separator),
        "id": left.id if left.id is not None else right.id,
        "additional_kwargs": merge_kwargs(left.additional_kwargs, right.additional_kwargs),
        "response_metadata": merge_metadata(left.response_metadata, right.response_metadata),
    }
    if isinstance(left, AIMessage) and isinstance(right, AIMessage):
        written = (*calls_as_written(left), *calls_as_written(right))
        update["tool_calls"], update["invalid_tool_calls"] = split_calls(written)
        if left.usage_metadata is not None or right.usage_metadata is not None:
            update["usage_metadata"] = add_usage(left.usage_metadata, right.usage_metadata)
    return left.model_copy(update=update)


def _joined_content(left: Content, right: Content, separator: str) -> Content:
    if not left or not right:
        return left or right
    if isinstance(left, str) and isinstance(right, str):
        return f"{left}{separator}{right}"
    mine = [left] if isinstance(left, str) else left
    theirs = [right] if isinstance(right, str) else right
    if isinstance(mine[-1], str) and isinstance(theirs[0], str):
        return [*mine[:-1], f"{mine[-1]}{separator}{theirs[0]}", *theirs[1:]]
    return [*mine, *theirs]
