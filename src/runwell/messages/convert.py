"""Messages from whatever a caller writes, and to the forms that others read.

A caller may write a text (a person's), `(role, content)`, a dict with a `role` or a `type`, a message, or anything with
`to_messages()`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, cast

from runwell.errors import InvalidInput, nearest
from runwell.messages.calls import parse_calls, split_calls, tool_call_chunk
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
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

__all__ = [
    "MESSAGE_TYPES",
    "MessageLike",
    "MessageLikeRepresentation",
    "convert_to_message",
    "convert_to_messages",
    "from_fields",
    "message_to_dict",
    "messages_from_dict",
    "messages_to_dict",
]

MessageLike: TypeAlias = "BaseMessage | str | tuple[str, Any] | list[Any] | Mapping[str, Any]"
"""What `convert_to_message` takes."""
MessageLikeRepresentation: TypeAlias = MessageLike

MESSAGE_TYPES: dict[str, type[BaseMessage]] = {
    cls.type: cls
    for cls in (
        HumanMessage,
        AIMessage,
        SystemMessage,
        ToolMessage,
        ChatMessage,
        FunctionMessage,
        RemoveMessage,
        HumanMessageChunk,
        AIMessageChunk,
        SystemMessageChunk,
        ToolMessageChunk,
        ChatMessageChunk,
        FunctionMessageChunk,
    )
}
"""Every class of message by its `type`."""

KNOWN = frozenset(MESSAGE_TYPES.values())

ROLES: dict[str, type[BaseMessage]] = {
    **MESSAGE_TYPES,
    "user": HumanMessage,
    "assistant": AIMessage,
    "developer": SystemMessage,
}


def convert_to_messages(messages: Any) -> list[BaseMessage]:
    """A new list of messages. Takes one or many of `MessageLike`, or what has `to_messages()`.

    Messages are kept as the same objects. Raises `InvalidInput` naming the role, key or value that does not fit.
    """
    if isinstance(messages, (list, tuple)):
        if KNOWN.issuperset(map(type, messages)):  # messages alone: by far the most common
            return list(messages)
        if _is_pair(messages):
            return [convert_to_message(messages)]
    elif isinstance(messages, (str, Mapping, BaseMessage)):
        return [convert_to_message(messages)]
    elif hasattr(messages, "to_messages"):
        return list(messages.to_messages())
    if not isinstance(messages, Iterable) or isinstance(messages, (bytes, bytearray)):
        raise InvalidInput(
            f"Expected messages, got {messages!r:.200}.", hint='Give a text, ("role", "text") pairs or dicts.'
        )
    return [convert_to_message(each) for each in messages]


def _is_pair(value: Any) -> bool:
    """One `("role", content)` tuple, as against a list of texts."""
    return type(value) is tuple and len(value) == 2 and isinstance(value[0], str) and value[0] in ROLES


def convert_to_message(value: MessageLike) -> BaseMessage:
    """The message that `value` stands for; a message is given back as it is."""
    if isinstance(value, BaseMessage):
        return value
    if isinstance(value, str):
        return HumanMessage(value)
    if type(value) is dict and len(value) == 2 and "role" in value and "content" in value:
        cls = ROLES.get(value["role"]) if isinstance(value["role"], str) else None
        if cls is HumanMessage or cls is AIMessage:  # the two that a long history is made of
            content = value["content"]
            return cls(content) if type(content) is str else _from_mapping(value)
    if isinstance(value, Mapping):
        return _from_mapping(value)
    pair: Any = value
    if isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[0], str):
        role, content = pair
        cls = _class_of(role, value)
        if cls is RemoveMessage:
            return RemoveMessage(content)
        return _build(cls, {"content": content}, role)
    raise InvalidInput(
        f"{value!r:.200} is no message.",
        hint="A message is a text, a (role, content) pair, a dict with 'role' and 'content', or a message object.",
    )


def _class_of(role: Any, value: Any) -> type[BaseMessage]:
    cls = ROLES.get(role) if isinstance(role, str) else None
    if cls is None:
        near = nearest(role, ROLES) if isinstance(role, str) else ""
        raise InvalidInput(
            f"Unknown role {role!r:.200}{near} in {value!r:.200}.",
            hint="Roles are user, assistant, system, developer and tool (human and ai too). "
            "Any other goes in ChatMessage(content, role=...).",
        )
    return cls


def _from_mapping(value: Mapping[str, Any]) -> BaseMessage:
    role = value.get("role")
    if "type" in value and (role is None or value["type"] in ("chat", "ChatMessageChunk")):
        if isinstance(value.get("data"), Mapping) and "content" not in value:  # an entry of messages_to_dict
            return _from_mapping({**value["data"], "type": value["type"]})
        role = value["type"]
        cls = _class_of(role, value)
        fields = {key: each for key, each in value.items() if key != "type"}
    elif role is not None:
        cls = _class_of(role, value)
        # some clients send the type beside the role
        fields = {key: each for key, each in value.items() if key not in ("role", "type")}
    else:
        raise InvalidInput(f"{value!r:.200} is no message: it has neither 'role' nor 'type'.")
    return _build(cls, fields, cast("str", role))


def from_fields(kind: str, fields: Mapping[str, Any]) -> BaseMessage:
    """A message of a `type` from its fields; unknown ones are refused."""
    cls = MESSAGE_TYPES.get(kind)
    if cls is None:
        raise InvalidInput(f"Unknown message type {kind!r:.200}{nearest(kind, MESSAGE_TYPES)}.")
    unknown = fields.keys() - allowed_fields(cls)
    if unknown:
        raise InvalidInput(f"A message of type {kind!r:.200} has no field {sorted(unknown)[0]!r:.200}.")
    return cls(**fields)


def allowed_fields(cls: type[BaseMessage]) -> frozenset[str]:
    """What the class is built from."""
    known = frozenset(cls._fields)
    if issubclass(cls, AIMessageChunk):
        known |= {"tool_calls", "invalid_tool_calls"}
    return known if cls is RemoveMessage else known | {"content_blocks"}


def _build(cls: type[BaseMessage], given: dict[str, Any], role: str) -> BaseMessage:
    """The message. Fields that the class does not know are kept in `additional_kwargs`, unless they are None."""
    known = allowed_fields(cls)
    if cls is RemoveMessage:
        return RemoveMessage(cast("str", given.get("id")))
    fields = {key: value for key, value in given.items() if key in known}
    extra = {
        key: value for key, value in given.items() if key not in known and value is not None and key != "tool_calls"
    }
    if issubclass(cls, AIMessage):
        if fields.get("content") is None and not fields.get("content_blocks"):
            fields["content"] = ""  # what a reply of calls alone has
        _split_calls(fields)
    elif "content" not in fields and "content_blocks" not in fields:
        raise InvalidInput(f"A message with role {role!r:.200} has no 'content': {given!r:.200}.")
    if given.get("tool_calls") and not issubclass(cls, AIMessage):
        raise InvalidInput(
            f"Only an assistant message has tool_calls; this one has role {role!r:.200}: {given!r:.200}."
        )
    if role == "developer":
        extra["openai_role"] = "developer"
    if extra:
        fields["additional_kwargs"] = {**extra, **(fields.get("additional_kwargs") or {})}
    return cls(**fields)


def _split_calls(fields: dict[str, Any]) -> None:
    """Calls in OpenAI's form (arguments as JSON text) become whole or broken calls."""
    for key in ("tool_calls", "invalid_tool_calls"):
        if fields.get(key, ()) is None:
            del fields[key]
    calls = fields.get("tool_calls")
    if not calls:  # an empty list says that there are none, also when blocks show some
        return
    written: list[Any] = []
    for call in calls:
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            written.append(call)
            continue
        chunk = tool_call_chunk(name=function.get("name"), args=function.get("arguments"), id=call.get("id"))
        good, bad = parse_calls([chunk])
        written += good or bad
    fields["tool_calls"], broken = split_calls(written)
    if broken:
        fields["invalid_tool_calls"] = [*broken, *(fields.get("invalid_tool_calls") or ())]


def message_to_dict(message: BaseMessage) -> dict[str, Any]:
    """A message as `{"type": ..., "data": {fields}}`, in plain Python values."""
    return {"type": message.type, "data": message.model_dump()}


def messages_to_dict(messages: Iterable[BaseMessage]) -> list[dict[str, Any]]:
    """`message_to_dict` of each."""
    return [message_to_dict(message) for message in messages]


def messages_from_dict(messages: Iterable[Mapping[str, Any]]) -> list[BaseMessage]:
    """What `messages_to_dict` was given. Raises `InvalidInput` for an entry of another shape."""
    result = []
    for each in messages:
        try:
            kind, data = each["type"], each["data"]
            fields = {key: value for key, value in data.items() if key != "type"}
        except (KeyError, TypeError, AttributeError):
            raise InvalidInput(
                f"Expected {{'type': ..., 'data': {{...}}}}, got {each!r:.200}.",
                hint="convert_to_messages(...) takes other forms.",
            ) from None
        result.append(from_fields(kind, fields))
    return result
