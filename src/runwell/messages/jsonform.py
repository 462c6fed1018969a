"""Messages as plain data and as JSON, and inside pydantic models. Pydantic is imported when one of these is used."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, cast

from runwell.errors import InvalidInput, UnserializableType, nearest
from runwell.messages.calls import InvalidToolCall, ToolCall, ToolCallChunk
from runwell.messages.convert import MESSAGE_TYPES, ROLES, allowed_fields, convert_to_message, from_fields
from runwell.messages.message import BaseMessage
from runwell.messages.usage import UsageMetadata

__all__ = ["copied", "core_schema_of", "dump", "dump_json", "union_schema", "validated", "validated_json"]

M = TypeVar("M", bound=BaseMessage)


def dump(
    message: BaseMessage, mode: Literal["python", "json"], *, exclude_none: bool = False, exclude_defaults: bool = False
) -> dict[str, Any]:
    """See `BaseMessage.model_dump`."""
    result: dict[str, Any] = {"type": message.type}
    for name in message._fields:
        value = getattr(message, name)
        if value is None and (exclude_none or exclude_defaults):
            continue
        if exclude_defaults and name != "content" and (value in ([], {}) or (name == "status" and value == "success")):
            continue
        result[name] = _unshared(value)
    if mode == "json":
        return cast("dict[str, Any]", _jsonable(message, result))
    return result


def _unshared(value: Any) -> Any:
    """A copy of plain containers all the way down; anything else is shared."""
    if type(value) is dict:
        return {key: _unshared(each) for key, each in value.items()}
    if type(value) is list:
        return [_unshared(each) for each in value]
    return value


def _jsonable(message: BaseMessage, fields: dict[str, Any]) -> Any:
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return to_jsonable_python(fields)
    except PydanticSerializationError as error:
        raise _unserializable(message, error) from error


def _unserializable(message: BaseMessage, error: Exception) -> UnserializableType:
    return UnserializableType(
        f"A field of {type(message).__name__} (id={message.id!r:.200}) has no form in JSON: {error}.",
        hint="Keep such values in a ToolMessage's artifact and leave them out, or convert them first.",
    )


def dump_json(message: BaseMessage, *, indent: int | None = None, exclude_none: bool = False) -> str:
    """See `BaseMessage.model_dump_json`."""
    from pydantic_core import PydanticSerializationError, to_json

    fields = dump(message, "python", exclude_none=exclude_none)
    try:
        return to_json(fields, indent=indent).decode()
    except PydanticSerializationError as error:
        raise _unserializable(message, error) from error


def copied(message: M, update: Mapping[str, Any] | None, deep: bool) -> M:
    """See `BaseMessage.model_copy`."""
    new = copy.deepcopy(message) if deep else copy.copy(message)
    if not update:
        return new
    known = allowed_fields(type(message)) - {"content_blocks"}
    for name in update:
        if name not in known and not hasattr(message, "__dict__"):
            raise InvalidInput(f"{type(message).__name__} has no field {name!r:.200}{nearest(name, known)}.")
    if known >= update.keys():
        # built anew, so that the changes are checked
        fields = {name: getattr(new, name) for name in message._fields}
        if "tool_calls" in update or "invalid_tool_calls" in update:
            fields.pop("tool_call_chunks", None)
        if type(message) in MESSAGE_TYPES.values():
            return type(message)(**{**fields, **update})
    for name, value in update.items():
        setattr(new, name, value)
    return new


def validated(cls: type[M], value: Any) -> M:
    """See `BaseMessage.model_validate`."""
    message = convert_to_message(value)
    if not isinstance(message, cls):
        raise InvalidInput(f"Expected {cls.__name__}, got {type(message).__name__}: {value!r:.200}.")
    return message


def validated_json(cls: type[M], text: str | bytes) -> M:
    """See `BaseMessage.model_validate_json`."""
    from pydantic_core import from_json

    try:
        value = from_json(text)
    except ValueError as error:
        raise InvalidInput(f"This is not JSON: {error}.") from error
    return validated(cls, value)


# -- inside pydantic models

_ANNOTATIONS: dict[str, Any] = {
    "content": str | list[str | dict[str, Any]],
    "id": str | None,
    "name": str | None,
    "additional_kwargs": dict[str, Any],
    "response_metadata": dict[str, Any],
    "tool_calls": list[ToolCall],
    "invalid_tool_calls": list[InvalidToolCall],
    "usage_metadata": UsageMetadata | None,
    "tool_call_chunks": list[ToolCallChunk],
    "chunk_position": str | None,
    "tool_call_id": str,
    "artifact": Any,
    "status": Literal["success", "error"],
    "role": str,
}
_REQUIRED = frozenset({"content", "tool_call_id", "role"})


def core_schema_of(cls: type[BaseMessage], handler: Any) -> Any:
    """How pydantic validates, writes and describes a field of this class.

    It takes instances as they are, dicts with a `type` checked field by field, and every other form that
    `convert_to_message` takes; it writes `model_dump`.
    """
    if cls is BaseMessage:
        return union_schema(handler)
    from pydantic_core import core_schema

    def validate(value: Any, inner: Any) -> BaseMessage:
        if isinstance(value, cls):
            return value
        if isinstance(value, Mapping) and value.get("type") == cls.type and "role" not in (value.keys() - cls._fields):
            fields = inner(dict(value))
            return from_fields(fields.pop("type"), fields)
        return validated(cls, value)

    fields = {
        "type": core_schema.typed_dict_field(core_schema.literal_schema([cls.type]), required=True),
        **{
            name: core_schema.typed_dict_field(
                handler.generate_schema(_ANNOTATIONS[name]),
                required=name in _REQUIRED or (name == "id" and cls.type == "remove"),
            )
            for name in cls._fields
        },
    }
    return core_schema.no_info_wrap_validator_function(
        validate,
        core_schema.typed_dict_schema(fields, extra_behavior="forbid", cls_name=cls.__name__),
        serialization=_serialization(),
    )


def _serialization() -> Any:
    from pydantic_core import core_schema

    return core_schema.plain_serializer_function_ser_schema(
        lambda message, info: dump(message, "json" if info.mode == "json" else "python"), info_arg=True
    )


def union_schema(handler: Any) -> Any:
    """Any message, told apart by type or role."""
    from pydantic_core import core_schema

    by_type = {cls.type: handler.generate_schema(cls) for cls in MESSAGE_TYPES.values()}

    def kind(value: Any) -> str | None:
        if isinstance(value, BaseMessage):
            return value.type
        if isinstance(value, str):
            return "human"
        if isinstance(value, Mapping):
            role = value.get("type") if value.get("type") in ROLES else value.get("role")
        else:
            role = value[0] if isinstance(value, (list, tuple)) and value else None
        return ROLES[role].type if isinstance(role, str) and role in ROLES else None

    return core_schema.tagged_union_schema(by_type, kind, serialization=_serialization())
