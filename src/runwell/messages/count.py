"""An estimate of how many tokens messages take, made without a tokenizer and without looking anything up."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any

from runwell.messages.convert import convert_to_messages
from runwell.messages.message import AIMessage, BaseMessage, ToolMessage
from runwell.messages.usage import UsageMetadata

__all__ = ["Estimate", "count_tokens_approximately"]

TOKENS_PER_MEDIA = 800
"""Chosen: a 1024x1024 picture is about 765 tokens for one large provider and 1,400 for another; a page of PDF, or
half a minute of sound, is of that order too. What the data weighs in base64 says nothing."""

_MEDIA = frozenset(
    {"image", "image_url", "input_image", "audio", "input_audio", "video", "file", "input_file", "document", "media"}
)
_TEXTS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "text-plain": "text",
    "reasoning": "reasoning",
    "thinking": "thinking",
    "refusal": "refusal",
}
_CALLS = frozenset({"tool_use", "tool_call", "invalid_tool_call", "tool_call_chunk", "function_call"})


def count_tokens_approximately(
    messages: Iterable[Any],
    *,
    chars_per_token: float = 4.0,
    extra_tokens_per_message: float = 3.0,
    count_name: bool = True,
    tokens_per_image: int = TOKENS_PER_MEDIA,
    tokens_per_media: int = TOKENS_PER_MEDIA,
    use_usage_metadata_scaling: bool = False,
    tools: Iterable[Any] | None = None,
) -> int:
    """About how many tokens the messages take. Never connects to anything, whatever URLs they hold.

    Text counts by length: `chars_per_token` characters of ASCII make a token, other scripts count by their length in
    UTF-8, which is closer for them (a CJK character is about 3/4 of a token). Calls count as compact JSON. Each
    picture counts `tokens_per_image`; any other media or file `tokens_per_media`; however large. `tools` (schemas as
    dicts, or objects with `name`, `description` and `args`) are counted when given.

    With `use_usage_metadata_scaling` the estimate is scaled up by what the last model reply reports as its total, if
    that is more than the estimate up to there; use it on whole histories only.
    """
    estimate = Estimate(chars_per_token, extra_tokens_per_message, count_name, tokens_per_image, tokens_per_media)
    given = convert_to_messages(messages)
    total = sum(map(estimate.of, given))
    if tools is not None:
        total += sum(estimate.tool(tool) for tool in tools)
    if use_usage_metadata_scaling:
        for place in range(len(given) - 1, -1, -1):
            usage = _usage(given[place])
            if usage is not None:
                upto = sum(map(estimate.of, given[: place + 1]))
                return ceil(total * max(1.0, usage["total_tokens"] / upto)) if upto else total
    return total


def _usage(message: BaseMessage) -> UsageMetadata | None:
    return message.usage_metadata if isinstance(message, AIMessage) else None


class Estimate:
    """The rule of `count_tokens_approximately` for one message; a history is the sum of its messages."""

    __slots__ = ("_chars_per_token", "_count_name", "_extra", "_image", "_media")

    def __init__(
        self,
        chars_per_token: float = 4.0,
        extra_tokens_per_message: float = 3.0,
        count_name: bool = True,
        tokens_per_image: int = TOKENS_PER_MEDIA,
        tokens_per_media: int = TOKENS_PER_MEDIA,
    ) -> None:
        self._chars_per_token = chars_per_token
        self._extra = extra_tokens_per_message
        self._count_name = count_name
        self._image = tokens_per_image * chars_per_token
        self._media = tokens_per_media * chars_per_token

    def of(self, message: BaseMessage) -> int:
        """Tokens of one message."""
        content = message.content
        chars: float
        shown: list[Any] = []
        if type(content) is str:
            chars = len(content) if content.isascii() else _weight(content)
        else:
            chars = sum([self._block(block, shown) for block in content])
        if isinstance(message, AIMessage):
            if message.tool_calls or message.invalid_tool_calls:
                for call in (*message.tool_calls, *message.invalid_tool_calls):
                    if (call["id"], call["name"]) not in shown:
                        chars += _weight(call["name"] or "") + _json_weight(call["args"]) + _weight(call["id"] or "")
        elif isinstance(message, ToolMessage):
            chars += _weight(message.tool_call_id)
        if message.name is not None and self._count_name:
            chars += _weight(message.name)
        return ceil(chars / self._chars_per_token + self._extra)

    def tool(self, tool: Any) -> int:
        """Tokens of one tool's definition."""
        if not isinstance(tool, Mapping):
            tool = {name: getattr(tool, name, None) for name in ("name", "description", "args")}
        return ceil(_json_weight(tool) / self._chars_per_token)

    def _block(self, block: str | Mapping[str, Any], shown: list[Any]) -> float:
        if isinstance(block, str):
            return _weight(block)
        kind = block.get("type", "text")
        key = _TEXTS.get(kind)
        if key is not None and isinstance(block.get(key), str):
            return _weight(block[key])
        if kind in _MEDIA:
            return self._image if "image" in kind else self._media
        if kind in _CALLS:
            shown.append((block.get("id"), block.get("name")))
            args = block.get("args", block.get("input", block.get("arguments")))
            return _weight(str(block.get("name") or "")) + _json_weight(args) + _weight(str(block.get("id") or ""))
        return _json_weight({key: value for key, value in block.items() if key not in ("base64", "data")})


def _weight(text: str) -> int:
    """How long a text counts: characters when ASCII, else bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _json_weight(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, str):
        return _weight(value)
    return _weight(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))
