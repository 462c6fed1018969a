"""What no provider takes, said before anything is sent: one place for every adapter.

What one vendor alone does not take is said by its adapter.
"""

from __future__ import annotations

import re
from binascii import Error as NotBase64
from binascii import a2b_base64
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Final

from runwell.errors import InvalidHistory, InvalidInput
from runwell.messages.message import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
)
from runwell.messages.normal import standard_block
from runwell.messages.validity import require_valid_history

__all__ = ["ROLES", "check_outgoing", "half_characters"]

ROLES: Final = ("system", "developer", "user", "assistant", "tool", "function", "human", "ai")
"""Roles that a `ChatMessage` may have with any provider."""

_MEDIA = frozenset(
    ("image", "audio", "video", "file", "document", "image_url", "input_image", "input_audio", "input_file", "media")
)
_MIME = re.compile(r"[\w.+-]+/[\w.+-]+(;.*)?")
_SCHEMES = ("https://", "http://", "data:", "gs://", "s3://")
_CHECKED: Final[dict[tuple[int, int], None]] = {}
"""Media that were found to be base64, by hash and length: a conversation sends the same ones again and again."""
_KEPT = 1000
_JSON = (str, int, float, type(None))
_PLAIN = frozenset((int, bool, type(None)))


def check_outgoing(
    messages: Sequence[BaseMessage],
    *,
    largest: int,
    any_role: bool = False,
    functions: bool = False,
    pairs: bool = True,
    blanks: bool = False,
    callers: list[AIMessage] | None = None,
) -> bool:
    """Raises InvalidHistory or InvalidInput, naming the message, for what no provider would take: calls without
    results, results without calls, one id for two calls (if `pairs`); arguments of calls that are no JSON; instructions
    to a history, and results of functions (unless `functions`); roles that there are not (unless `any_role`); media
    that are larger than `largest` bytes, not base64, or of no kind; text that is no Unicode.

    Returns whether all of them are plain texts that say something: then nothing has to be fitted. Answers and results
    may say nothing, unless `blanks` have to be fitted there too. Messages with calls are put into `callers`.
    """
    called, plain = False, True
    note = callers.append if callers is not None else _nobody
    message: Any
    for place, message in enumerate(messages):
        # Plain text and calls of plain arguments, as nearly all of a long history, need no further look. Each class has
        # lines of its own: Python reads an attribute several times as fast where it always finds the same class.
        exactly = type(message)
        if exactly is AIMessage:
            text = message.content
            if type(text) is str and text.isascii() and not (blanks and text.isspace()):
                if not message.tool_calls and not message.invalid_tool_calls:
                    continue
                for call in message.tool_calls:
                    if not _has_plain_args(call):
                        break
                else:
                    called = True
                    note(message)
                    continue
        elif exactly is ToolMessage:
            text = message.content
            if type(text) is str and text.isascii() and not (blanks and text.isspace()):
                called = True
                continue
        elif exactly is HumanMessage:
            text = message.content
            if type(text) is str and text and text.isascii() and not text.isspace():
                continue
        content = message.content
        if type(content) is str:
            if not content.isascii():
                _check_text(content, place, message)
            if not content or content.isspace():
                plain = False
        else:
            plain = False
            for block in content:
                _check_block(block, place, message, largest)
        if isinstance(message, AIMessage):
            if message.tool_calls or message.invalid_tool_calls:
                called = True
                note(message)
                for call in message.tool_calls:
                    try:
                        _check_args(call["args"], place, message, call["name"])
                    except RecursionError:
                        raise InvalidInput(
                            f"Message {place} ({type(message).__name__}) has a call of {call['name']!r} whose "
                            "arguments are nested too deeply to be written as JSON.",
                            hint="Give an argument as a text, or less of it.",
                        ) from None
        elif isinstance(message, ToolMessage):
            called = True
        elif isinstance(message, HumanMessage):
            continue
        elif isinstance(message, RemoveMessage):
            raise InvalidHistory(
                f"Message {place} is a RemoveMessage, an instruction to a history and no part of one.",
                hint="Apply it first: add_messages(history, [RemoveMessage(...)]).",
            )
        elif isinstance(message, FunctionMessage) and not functions:
            raise InvalidHistory(
                f"Message {place} is a FunctionMessage, which this provider does not know.",
                hint="Make it the ToolMessage that answers a call: ToolMessage(content, tool_call_id=...).",
            )
        elif isinstance(message, ChatMessage) and not any_role and message.role not in ROLES:
            raise InvalidHistory(
                f"Message {place} is a ChatMessage of role {message.role!r}, which this provider does not know.",
                hint=f"Roles are {', '.join(ROLES)}.",
            )
    if pairs and called:
        require_valid_history(messages)
    return plain


def _nobody(message: AIMessage) -> None:
    """For whoever does not ask which messages have calls."""


def _check_text(text: str, place: int, message: BaseMessage) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise half_characters(error, f"Message {place} ({type(message).__name__})") from None


def half_characters(error: UnicodeEncodeError, what: str) -> InvalidInput:
    """For text that cannot be written as UTF-8."""
    before = error.object[max(0, error.start - 20) : error.start]
    return InvalidInput(
        f"{what} holds half a character, {error.object[error.start]!r} after {before!r}: it is no Unicode text and "
        "cannot be sent.",
        hint='Decode the bytes it came from with their own encoding, or clean it: text.encode("utf-8", "replace").'
        'decode("utf-8").',
    )


def _has_plain_args(call: Any) -> bool:
    """Whether its arguments are quickly seen to be something that JSON can hold: ASCII texts and whole numbers."""
    args = call["args"]
    if type(args) is not dict:
        return False
    for key, value in args.items():
        if type(key) is not str or not key.isascii():
            return False
        if type(value) is str:
            if not value.isascii():
                return False
        elif type(value) not in _PLAIN:
            return False
    return True


def _check_args(value: Any, place: int, message: BaseMessage, name: str) -> None:
    """Arguments of a call: what JSON can hold."""
    kind = type(value)
    if kind is str:
        if not value.isascii():
            _check_text(value, place, message)
    elif kind is dict or isinstance(value, Mapping):
        for key, inner in value.items():
            _check_args(key, place, message, name)
            _check_args(inner, place, message, name)
    elif kind is list or isinstance(value, list | tuple):
        for each in value:
            _check_args(each, place, message, name)
    elif (kind is float and not isfinite(value)) or not isinstance(value, _JSON):
        raise InvalidInput(
            f"Message {place} ({type(message).__name__}) has a call of {name!r} whose arguments hold {value!r:.100}, "
            f"which JSON cannot say.",
            hint="Arguments are texts, numbers, booleans, None, lists and dicts; write others as a text.",
        )


def _check_block(block: Any, place: int, message: BaseMessage, largest: int) -> None:
    if isinstance(block, str):
        if not block.isascii():
            _check_text(block, place, message)
        return
    kind = block.get("type")
    where = f"Message {place} ({type(message).__name__})"
    if isinstance(kind, str) and kind in _MEDIA:
        _check_media(block, kind, where, largest)
        return
    text = block.get("text")
    if kind == "text" and not isinstance(text, str):
        raise InvalidInput(f"{where} holds a text block whose text is {text!r:.100}.", hint="Give a text.")
    if isinstance(text, str) and not text.isascii():
        _check_text(text, place, message)


def _check_media(block: Mapping[str, Any], kind: str, where: str, largest: int) -> None:
    found: Any = standard_block(dict(block))
    if found["type"] == "non_standard" or found["type"] not in ("image", "audio", "video", "file", "text-plain"):
        if kind == "document" and isinstance(block.get(kind), Mapping):
            return  # in a form of the vendor's own, which its adapter knows
        given = next((value for value in (block.get("base64"), block.get("data")) if value is not None), None)
        if isinstance(given, bytes | bytearray):
            raise InvalidInput(
                f"{where} holds {kind} data as bytes.", hint="Give it as text: base64.b64encode(data).decode()."
            )
        raise InvalidInput(
            f"{where} holds a block of type {kind!r} with none of a URL, base64 data and a file's id: "
            f"{', '.join(f'{key}={_short(value)}' for key, value in block.items())}.",
            hint='{"type": "image", "base64": "...", "mime_type": "image/png"}, or "url": "https://..."',
        )
    if found["type"] == "text-plain" or found.get("file_id"):
        return
    data, url = found.get("base64"), found.get("url")
    if data is not None:
        _check_data(data, kind, where, largest)
        own_form = (
            kind in ("file", "input_file") and "base64" not in block
        )  # of OpenAI's, which has a file name instead
        mime = found.get("mime_type")
        if not mime and not own_form:
            raise InvalidInput(
                f"{where} holds {kind} data without a mime_type.",
                hint='Say what it is: "mime_type": "image/png", "audio/wav", "application/pdf", ...',
            )
        if mime and (not isinstance(mime, str) or not _MIME.fullmatch(mime)):
            raise InvalidInput(
                f"{where} holds {kind} data of mime_type {mime!r}.",
                hint='It looks like "image/png": a kind and a form.',
            )
    elif not isinstance(url, str) or not url.startswith(_SCHEMES):
        raise InvalidInput(
            f"{where} holds a block of type {kind!r} with the URL {_short(url)}.",
            hint="A provider fetches https:// and http:// addresses; the content of a file goes in as base64.",
        )


def _check_data(data: Any, kind: str, where: str, largest: int) -> None:
    if isinstance(data, bytes | bytearray):
        raise InvalidInput(
            f"{where} holds {kind} data as bytes.", hint="Give it as text: base64.b64encode(data).decode()."
        )
    if not data:
        raise InvalidInput(f"{where} holds {kind} data that is empty.", hint="Leave the block out.")
    if data.startswith("data:"):
        raise InvalidInput(
            f"{where} holds a data URL where base64 data belongs: {_short(data)}.",
            hint='Give what follows its comma, or the whole as "url".',
        )
    size = len(data) * 3 // 4
    if size > largest:
        raise InvalidInput(
            f"{where} holds {kind} data of {size / 1e6:,.0f} MB; at most {largest / 1e6:,.0f} MB are sent.",
            hint="Make it smaller, upload it and give its file_id or URL, or raise max_media_bytes= of the model.",
        )
    key = (hash(data), len(data))
    if key in _CHECKED:
        return
    try:
        a2b_base64(data, strict_mode=True)
    except (NotBase64, ValueError) as error:
        hint = "base64.b64encode(data).decode() gives it."
        if "-" in data or "_" in data:
            hint = "It looks like the alphabet for URLs: use b64encode, not urlsafe_b64encode."
        elif "\n" in data or "\r" in data:
            hint = "Leave out line breaks: use b64encode, not encodebytes."
        raise InvalidInput(
            f"{where} holds {kind} data that is not base64 ({error}): {_short(data)}.", hint=hint
        ) from None
    if len(_CHECKED) >= _KEPT:
        _CHECKED.pop(next(iter(_CHECKED)), None)
    _CHECKED[key] = None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:40]}... ({len(text):,} characters)"
