"""Messages in the form of OpenAI's chat completions, which many other programs read too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, overload

from runwell.errors import InvalidInput
from runwell.messages.calls import calls_as_written, json_text
from runwell.messages.convert import convert_to_messages
from runwell.messages.message import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from runwell.messages.normal import standard_block

__all__ = ["convert_to_openai_data_block", "convert_to_openai_image_block", "convert_to_openai_messages"]


@overload
def convert_to_openai_messages(
    messages: BaseMessage | str | Mapping[str, Any],
    *,
    text_format: Literal["string", "block"] = "string",
    include_id: bool = False,
    pass_through_unknown_blocks: bool = True,
) -> dict[str, Any]: ...


@overload
def convert_to_openai_messages(
    messages: Iterable[Any],
    *,
    text_format: Literal["string", "block"] = "string",
    include_id: bool = False,
    pass_through_unknown_blocks: bool = True,
) -> list[dict[str, Any]]: ...


def convert_to_openai_messages(
    messages: Any,
    *,
    text_format: Literal["string", "block"] = "string",
    include_id: bool = False,
    pass_through_unknown_blocks: bool = True,
) -> dict[str, Any] | list[dict[str, Any]]:
    """One message as a dict, or many as a list of dicts, with `role`, `content` and, for calls, `tool_calls`.

    `text_format="string"` writes content that is text alone as a string, "block" always as a list of blocks. Blocks
    of any provider's form become OpenAI's; reasoning, which the form has no place for, is left out. A block that
    cannot be written is passed through, or refused with `InvalidInput` when `pass_through_unknown_blocks` is False.
    Broken calls are written too, with their text as it is, since their results refer to them.
    """
    if text_format not in ("string", "block"):
        raise InvalidInput(f"text_format is 'string' or 'block', got {text_format!r:.200}.")
    converted = [
        _message(message, text_format, include_id, pass_through_unknown_blocks)
        for message in convert_to_messages(messages)
    ]
    return converted[0] if isinstance(messages, (str, Mapping, BaseMessage)) else converted


def convert_to_openai_image_block(block: Mapping[str, Any]) -> dict[str, Any]:
    """A picture by URL or in base64, in any provider's form, as `{"type": "image_url", ...}`. Raises InvalidInput for
    another block."""
    written = _block(block, False)
    if written is None or written["type"] != "image_url":
        raise InvalidInput(f"This block is no picture: {str(dict(block))[:200]}.", hint="create_image_block(url=...).")
    return written


def convert_to_openai_data_block(block: Mapping[str, Any]) -> dict[str, Any]:
    """A picture, sound or file as chat completions write it. Raises InvalidInput for what has no form there."""
    written = _block(block, False)
    if written is None or written["type"] not in ("image_url", "input_audio", "file"):
        raise InvalidInput(
            f"This block holds no media: {str(dict(block))[:200]}.", hint="create_image_block, create_file_block, ..."
        )
    return written


def _message(message: BaseMessage, text_format: str, include_id: bool, pass_through: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"role": _role(message)}
    if message.name is not None:
        result["name"] = message.name
    if include_id and message.id is not None:
        result["id"] = message.id
    content = message.content
    if isinstance(content, str):
        written: Any = content if text_format == "string" else ([{"type": "text", "text": content}] if content else [])
    else:
        blocks = [_block(block, pass_through) for block in content]
        written = [block for block in blocks if block is not None]
        if text_format == "string" and all(block.keys() == {"type", "text"} for block in written):
            written = "\n".join(block["text"] for block in written)
    if isinstance(message, AIMessage):
        calls = [_call(call) for call in calls_as_written(message)]
        if calls:
            result["tool_calls"] = calls
    elif isinstance(message, ToolMessage):
        result["tool_call_id"] = message.tool_call_id
    result["content"] = written
    return result


def _role(message: BaseMessage) -> str:
    if isinstance(message, ChatMessage):
        return message.role
    if isinstance(message, SystemMessage):
        return str((message._kwargs or {}).get("openai_role", "system"))
    for cls, role in (
        (HumanMessage, "user"),
        (AIMessage, "assistant"),
        (ToolMessage, "tool"),
        (FunctionMessage, "function"),
    ):
        if isinstance(message, cls):
            return role
    raise InvalidInput(f"A message of type {message.type!r:.200} has no role in OpenAI's form.")


def _call(call: Any) -> dict[str, Any]:
    args = call["args"]
    text = args if isinstance(args, str) else json_text({} if args is None else args)
    return {"type": "function", "id": call["id"], "function": {"name": call["name"], "arguments": text}}


_IN_CALLS = frozenset({"tool_call", "tool_call_chunk", "invalid_tool_call"})


def _block(item: str | Mapping[str, Any], pass_through: bool) -> dict[str, Any] | None:
    if isinstance(item, Mapping) and item.get("type") == "image_url" and isinstance(item.get("image_url"), Mapping):
        return dict(item)
    block: Any = standard_block(item)
    kind = block["type"]
    extras = block.get("extras") or {}
    if kind == "text" or (kind == "text-plain" and isinstance(block.get("text"), str)):
        return {"type": "text", "text": block["text"]}
    if kind in _IN_CALLS or kind == "reasoning":
        return None
    if kind == "refusal":
        return {"type": "refusal", "refusal": block["refusal"]}
    data, mime = block.get("base64"), block.get("mime_type")
    if kind == "image" and ("url" in block or data is not None):
        inner = {"url": block["url"] if data is None else f"data:{mime or 'image/png'};base64,{data}"}
        if "detail" in extras:
            inner["detail"] = extras["detail"]
        return {"type": "image_url", "image_url": inner}
    if kind == "audio" and data is not None:
        form = (mime or "audio/wav").partition("/")[2]
        return {"type": "input_audio", "input_audio": {"data": data, "format": "mp3" if form == "mpeg" else form}}
    if kind == "file" and (data is not None or "file_id" in block):
        if data is None:
            return {"type": "file", "file": {"file_id": block["file_id"]}}
        file = {"file_data": f"data:{mime or 'application/pdf'};base64,{data}"}
        file["filename"] = str(extras.get("filename", "file"))
        return {"type": "file", "file": file}
    if pass_through:
        return dict(block["value"]) if kind == "non_standard" else dict(block)
    raise InvalidInput(
        f"A block of type {kind!r:.200} has no form in OpenAI's chat completions: {str(block)[:200]}.",
        hint="Leave it out, or keep it with pass_through_unknown_blocks=True.",
    )
