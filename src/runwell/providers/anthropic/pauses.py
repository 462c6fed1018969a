"""Going on with a turn that Anthropic paused (`pause_turn`): what came is sent back, and the rest joins it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runwell.messages.calls import calls_as_written, split_calls
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.message import AIMessage
from runwell.messages.usage import add_usage

__all__ = ["Turn", "is_paused", "joined", "kept_container"]


def is_paused(message: Any) -> bool:
    """Whether an answer, or the last chunk of one, is the beginning of a turn that its provider paused."""
    return bool(message.response_metadata.get("stop_reason") == "pause_turn")


def kept_container(message: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the next request: code goes on in the container in which it began."""
    container = message.response_metadata.get("container")
    if isinstance(container, Mapping) and container.get("id") and "container" not in kwargs:
        return {**kwargs, "container": container["id"]}
    return dict(kwargs)


def joined(first: AIMessage, rest: AIMessage) -> AIMessage:
    """Two halves of a turn as one message: what the second says of itself holds for the whole, tokens add up."""
    calls, broken = split_calls([*calls_as_written(first), *calls_as_written(rest)])
    return AIMessage(
        [*_blocks(first.content), *_blocks(rest.content)],
        additional_kwargs={**first.additional_kwargs, **rest.additional_kwargs},
        response_metadata={**first.response_metadata, **rest.response_metadata},
        tool_calls=calls,
        invalid_tool_calls=broken,
        usage_metadata=add_usage(first.usage_metadata, rest.usage_metadata)
        if first.usage_metadata and rest.usage_metadata
        else rest.usage_metadata or first.usage_metadata,
        id=first.id,
    )


def _blocks(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content)


class Turn:
    """The chunks of a turn while its halves come in: blocks of a later half stand after those of the earlier."""

    def __init__(self, goes_on: int) -> None:
        self.left = goes_on
        """How many times it may still go on."""
        self.so_far: AIMessageChunk | None = None
        self._start = 0
        self._next = 0
        self.paused = False

    def take(self, chunk: AIMessageChunk) -> AIMessageChunk:
        """The chunk as it is to be given on."""
        if isinstance(chunk.content, list):
            for block in chunk.content:
                if isinstance(block, dict) and isinstance(block.get("index"), int):
                    block["index"] += self._start
                    self._next = max(self._next, block["index"] + 1)
        if chunk.chunk_position == "last" and is_paused(chunk) and self.left > 0:
            self.paused = True
            chunk.chunk_position = None
        self.so_far = chunk if self.so_far is None else self.so_far + chunk
        return chunk

    def go_on(self) -> AIMessage:
        """What came so far, to be sent back; the next chunks belong to the next half."""
        self.left -= 1
        self.paused = False
        self._start = self._next
        assert self.so_far is not None
        return self.so_far.to_message()
