"""Content blocks: the standard forms, and how to build them. `normal.py` brings providers' forms to these.

A block is a dict with a `type`. Media carry exactly one of `url`, `base64` and `file_id`, and a `mime_type` where it
is known. What is a provider's own stands under `extras`. `index` places a block in a stream.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, cast

from typing_extensions import TypedDict

from runwell.errors import InvalidInput
from runwell.messages.calls import InvalidToolCall, ToolCall, ToolCallChunk, tool_call

__all__ = [
    "DATA_BLOCK_TYPES",
    "KNOWN_BLOCK_TYPES",
    "Annotation",
    "AudioContentBlock",
    "Citation",
    "ContentBlock",
    "DataContentBlock",
    "FileContentBlock",
    "ImageContentBlock",
    "NonStandardAnnotation",
    "NonStandardContentBlock",
    "PlainTextContentBlock",
    "ReasoningContentBlock",
    "RefusalContentBlock",
    "ServerToolCall",
    "ServerToolCallChunk",
    "ServerToolResult",
    "TextContentBlock",
    "VideoContentBlock",
    "create_audio_block",
    "create_citation",
    "create_file_block",
    "create_image_block",
    "create_non_standard_block",
    "create_plaintext_block",
    "create_reasoning_block",
    "create_text_block",
    "create_tool_call",
    "create_video_block",
    "is_data_content_block",
]


class Citation(TypedDict):
    """Where a stretch of text comes from. `start_index` and `end_index` are places in the text that carries it."""

    type: Literal["citation"]
    id: NotRequired[str]
    url: NotRequired[str]
    title: NotRequired[str]
    start_index: NotRequired[int]
    end_index: NotRequired[int]
    cited_text: NotRequired[str]
    extras: NotRequired[dict[str, Any]]


class NonStandardAnnotation(TypedDict):
    """A provider's annotation that has no standard form, whole."""

    type: Literal["non_standard_annotation"]
    id: NotRequired[str]
    value: dict[str, Any]


Annotation: TypeAlias = Citation | NonStandardAnnotation


class TextContentBlock(TypedDict):
    """Text, with where it comes from."""

    type: Literal["text"]
    text: str
    id: NotRequired[str]
    annotations: NotRequired[list[Annotation]]
    index: NotRequired[int | str]
    extras: NotRequired[dict[str, Any]]


class ReasoningContentBlock(TypedDict):
    """What the model thought. A provider's signature of it stands in `extras`."""

    type: Literal["reasoning"]
    reasoning: NotRequired[str]
    id: NotRequired[str]
    index: NotRequired[int | str]
    extras: NotRequired[dict[str, Any]]


class RefusalContentBlock(TypedDict):
    """What the model said in declining to answer."""

    type: Literal["refusal"]
    refusal: str
    id: NotRequired[str]
    index: NotRequired[int | str]
    extras: NotRequired[dict[str, Any]]


class _Data(TypedDict):
    id: NotRequired[str]
    url: NotRequired[str]
    base64: NotRequired[str]
    file_id: NotRequired[str]
    mime_type: NotRequired[str]
    index: NotRequired[int | str]
    extras: NotRequired[dict[str, Any]]


class ImageContentBlock(_Data):
    """A picture."""

    type: Literal["image"]


class AudioContentBlock(_Data):
    """Sound."""

    type: Literal["audio"]


class VideoContentBlock(_Data):
    """Moving pictures."""

    type: Literal["video"]


class FileContentBlock(_Data):
    """Any other file, such as a PDF."""

    type: Literal["file"]


class PlainTextContentBlock(_Data):
    """A document that is text. `text` holds it when it is not behind a `url`, `base64` or `file_id`."""

    type: Literal["text-plain"]
    text: NotRequired[str]
    title: NotRequired[str]
    context: NotRequired[str]


class ServerToolCall(TypedDict):
    """A call that the provider runs itself."""

    type: Literal["server_tool_call"]
    id: str
    name: str
    args: dict[str, Any]
    index: NotRequired[int | str]
    extras: NotRequired[dict[str, Any]]


class ServerToolCallChunk(TypedDict):
    """A fragment of a `ServerToolCall`; `args` is a piece of JSON text."""

    type: Literal["server_tool_call_chunk"]
    id: NotRequired[str]
    name: NotRequired[str]
    args: NotRequired[str]
    index: NotRequired[int | str]
    extras: NotRequired[dict[str, Any]]


class ServerToolResult(TypedDict):
    """What a call gave that the provider ran itself."""

    type: Literal["server_tool_result"]
    tool_call_id: str
    status: Literal["success", "error"]
    id: NotRequired[str]
    output: NotRequired[Any]
    index: NotRequired[int | str]
    extras: NotRequired[dict[str, Any]]


class NonStandardContentBlock(TypedDict):
    """A block that has no standard form, whole and unread."""

    type: Literal["non_standard"]
    value: dict[str, Any]
    id: NotRequired[str]
    index: NotRequired[int | str]


DataContentBlock: TypeAlias = (
    ImageContentBlock | AudioContentBlock | VideoContentBlock | FileContentBlock | PlainTextContentBlock
)
ContentBlock: TypeAlias = (
    TextContentBlock
    | ReasoningContentBlock
    | RefusalContentBlock
    | DataContentBlock
    | ToolCall
    | ToolCallChunk
    | InvalidToolCall
    | ServerToolCall
    | ServerToolCallChunk
    | ServerToolResult
    | NonStandardContentBlock
)

DATA_BLOCK_TYPES = frozenset({"image", "audio", "video", "file", "text-plain"})
"""Types of blocks that carry media or files."""

KNOWN_BLOCK_TYPES = DATA_BLOCK_TYPES | {
    "text",
    "reasoning",
    "refusal",
    "tool_call",
    "tool_call_chunk",
    "invalid_tool_call",
    "server_tool_call",
    "server_tool_call_chunk",
    "server_tool_result",
    "non_standard",
}
"""Every standard type."""


def is_data_content_block(block: dict[str, Any]) -> bool:
    """Whether it is a media or file block in the standard form."""
    return block.get("type") in DATA_BLOCK_TYPES and any(
        isinstance(block.get(key), str) for key in ("url", "base64", "file_id", "text")
    )


def _made(kind: str, extras: dict[str, Any], **fields: Any) -> Any:
    block = {"type": kind, **{key: value for key, value in fields.items() if value is not None}}
    if extras:
        block["extras"] = extras
    return block


def create_text_block(
    text: str,
    *,
    id: str | None = None,
    annotations: list[Annotation] | None = None,
    index: int | str | None = None,
    **extras: Any,
) -> TextContentBlock:
    """A text block. Further keywords become its `extras`, here and in the other constructors."""
    return cast("TextContentBlock", _made("text", extras, text=text, id=id, annotations=annotations, index=index))


def create_reasoning_block(
    reasoning: str | None = None, *, id: str | None = None, index: int | str | None = None, **extras: Any
) -> ReasoningContentBlock:
    """A reasoning block."""
    return cast("ReasoningContentBlock", _made("reasoning", extras, reasoning=reasoning or "", id=id, index=index))


def _media(
    kind: str,
    url: str | None,
    base64: str | None,
    file_id: str | None,
    mime_type: str | None,
    id: str | None,
    index: int | str | None,
    extras: dict[str, Any],
) -> Any:
    if sum(source is not None for source in (url, base64, file_id)) != 1:
        raise InvalidInput(
            f"A block of type {kind!r:.200} carries exactly one of url, base64 and file_id.",
            hint="Bytes are given as base64=base64.b64encode(data).decode().",
        )
    return _made(kind, extras, url=url, base64=base64, file_id=file_id, mime_type=mime_type, id=id, index=index)


def create_image_block(
    *,
    url: str | None = None,
    base64: str | None = None,
    file_id: str | None = None,
    mime_type: str | None = None,
    id: str | None = None,
    index: int | str | None = None,
    **extras: Any,
) -> ImageContentBlock:
    """A picture by exactly one of `url`, `base64` and `file_id`."""
    return cast("ImageContentBlock", _media("image", url, base64, file_id, mime_type, id, index, extras))


def create_audio_block(
    *,
    url: str | None = None,
    base64: str | None = None,
    file_id: str | None = None,
    mime_type: str | None = None,
    id: str | None = None,
    index: int | str | None = None,
    **extras: Any,
) -> AudioContentBlock:
    """Sound by exactly one of `url`, `base64` and `file_id`."""
    return cast("AudioContentBlock", _media("audio", url, base64, file_id, mime_type, id, index, extras))


def create_video_block(
    *,
    url: str | None = None,
    base64: str | None = None,
    file_id: str | None = None,
    mime_type: str | None = None,
    id: str | None = None,
    index: int | str | None = None,
    **extras: Any,
) -> VideoContentBlock:
    """A film by exactly one of `url`, `base64` and `file_id`."""
    return cast("VideoContentBlock", _media("video", url, base64, file_id, mime_type, id, index, extras))


def create_file_block(
    *,
    url: str | None = None,
    base64: str | None = None,
    file_id: str | None = None,
    mime_type: str | None = None,
    id: str | None = None,
    index: int | str | None = None,
    **extras: Any,
) -> FileContentBlock:
    """A file by exactly one of `url`, `base64` and `file_id`."""
    return cast("FileContentBlock", _media("file", url, base64, file_id, mime_type, id, index, extras))


def create_plaintext_block(
    text: str | None = None,
    *,
    url: str | None = None,
    base64: str | None = None,
    file_id: str | None = None,
    title: str | None = None,
    context: str | None = None,
    id: str | None = None,
    index: int | str | None = None,
    **extras: Any,
) -> PlainTextContentBlock:
    """A text document by exactly one of `text`, `url`, `base64` and `file_id`."""
    if sum(source is not None for source in (text, url, base64, file_id)) != 1:
        raise InvalidInput("A text document carries exactly one of text, url, base64 and file_id.")
    fields = {"url": url, "base64": base64, "file_id": file_id, "title": title, "context": context}
    return cast(
        "PlainTextContentBlock",
        _made("text-plain", extras, text=text, mime_type="text/plain", id=id, index=index, **fields),
    )


def create_tool_call(name: str, args: dict[str, Any], *, id: str | None = None) -> ToolCall:
    """A tool call."""
    return tool_call(name=name, args=args, id=id)


def create_citation(
    *,
    url: str | None = None,
    title: str | None = None,
    start_index: int | None = None,
    end_index: int | None = None,
    cited_text: str | None = None,
    id: str | None = None,
    **extras: Any,
) -> Citation:
    """A citation."""
    fields = {"url": url, "title": title, "start_index": start_index, "end_index": end_index}
    return cast("Citation", _made("citation", extras, cited_text=cited_text, id=id, **fields))


def create_non_standard_block(
    value: dict[str, Any], *, id: str | None = None, index: int | str | None = None
) -> NonStandardContentBlock:
    """A block for what has no standard form."""
    return cast("NonStandardContentBlock", _made("non_standard", {}, value=value, id=id, index=index))
