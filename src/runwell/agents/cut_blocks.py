"""Long texts and lists of content blocks, cut to what a model should be shown at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runwell.agents.limits import AgentLimits
from runwell.tools.result import to_text

__all__ = ["blocks_text", "cut_blocks", "cut_text", "media_in", "media_size"]

_MEDIA = frozenset(("image", "image_url", "audio", "input_audio", "video", "file", "document", "text-plain"))
MAX_RANGES = 10
"""How many ranges of left-out media a note names."""


def blocks_text(blocks: Sequence[Any]) -> str:
    """The text in a list of blocks: of other blocks than texts and media their JSON."""
    return "\n".join(text for text in map(_text, blocks) if text is not None)


def media_in(blocks: Sequence[Any]) -> list[Any]:
    """The pictures and other media in a list of blocks."""
    return [block for block in blocks if _text(block) is None]


def media_size(block: Any) -> int:
    """About how many bytes of data a block carries inline; a URL or an id carries none to speak of."""
    return _letters(block) * 3 // 4


def cut_text(text: str, limit: int, how: str) -> tuple[str, int]:
    """The head and tail of a text longer than `limit`, with a note between, and how many characters are left out."""
    head, tail = limit * 2 // 3, limit // 3
    cut = len(text) - head - tail
    return f"{text[:head]}\n{_note(cut, head, how)}\n{text[-tail:] if tail else ''}", cut


def cut_blocks(blocks: Sequence[Any], limits: AgentLimits, how: str) -> tuple[list[Any], int, int] | None:
    """The blocks within the limits, how many characters and how many media are left out; None if all of it fits.

    Texts are cut as one, with what lies in the middle left out; media stay in their places, the first ones of them.
    """
    texts = [_text(block) for block in blocks]
    total = sum(len(text) + 1 for text in texts if text is not None) - 1
    limit = limits.max_tool_chars
    long = limit is not None and total > limit
    left_out = _beyond(blocks, texts, limits)
    if not long and not left_out:
        return None
    shown: list[Any] = []
    cut = 0
    if long and limit is not None:
        head, tail = limit * 2 // 3, limit // 3
        cut = total - head - tail
        note = _note(cut, head, how)
    at, noted = 0, False
    for place, (block, text) in enumerate(zip(blocks, texts, strict=True)):
        if text is None:
            if place not in left_out:
                shown.append(block)
            continue
        start, end = at, at + len(text)
        at = end + 1
        if not long or end <= head:
            shown.append(block)
            continue
        if start >= total - tail:
            if not noted:  # what is left out is the break between two blocks
                shown.append({"type": "text", "text": note})
                noted = True
            shown.append(block)
            continue
        parts = [] if start >= head else [text[: head - start]]
        if not noted:
            parts.append(note)
            noted = True
        if end > total - tail:
            parts.append(text[total - tail - start :])
        if parts:
            shown.append({"type": "text", "text": "\n".join(parts)})
    if left_out:
        shown.append({"type": "text", "text": _media_note(blocks, texts, left_out, limits, how)})
    return shown, cut, len(left_out)


def _beyond(blocks: Sequence[Any], texts: Sequence[str | None], limits: AgentLimits) -> set[int]:
    """The places of the media that go beyond the limits. One that is too large makes no room for none after it."""
    count, room = limits.max_tool_media, limits.max_tool_media_bytes
    found: set[int] = set()
    kept = used = 0
    for place, text in enumerate(texts):
        if text is not None:
            continue
        size = 0 if room is None else media_size(blocks[place])
        if (count is not None and kept >= count) or (room is not None and used + size > room):
            found.add(place)
            continue
        kept += 1
        used += size
    return found


def _note(cut: int, head: int, how: str) -> str:
    return f"[... {cut} characters left out{f'; {how}offset={head}) shows them' if how else ''} ...]"


def _media_note(
    blocks: Sequence[Any], texts: Sequence[str | None], left_out: set[int], limits: AgentLimits, how: str
) -> str:
    places = [place for place, text in enumerate(texts) if text is None]
    numbers = [number for number, place in enumerate(places, 1) if place in left_out]
    size = sum(media_size(blocks[place]) for place in left_out)
    room = limits.max_tool_media_bytes
    readable = [each for each in numbers if room is None or media_size(blocks[places[each - 1]]) <= room]
    read = f"; {how}item={readable[0]}) shows one" if how and readable else ""
    of = f"{len(numbers)} of {len(places)} pictures or other media left out"
    return f"[{of}: {_ranges(numbers)}, about {size:,} bytes{read}]"


def _ranges(numbers: Sequence[int]) -> str:
    """`1, 3 to 7`"""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    named = [f"{first}" if first == last else f"{first} to {last}" for first, last in ranges[:MAX_RANGES]]
    return ", ".join(named) + (", ..." if len(ranges) > MAX_RANGES else "")


def _text(block: Any) -> str | None:
    """What a block says in characters; None for media."""
    if isinstance(block, str):
        return block
    kind = block.get("type")
    if kind in ("text", "text-plain") and isinstance(block.get("text"), str):
        return str(block["text"])
    if kind in _MEDIA and not _is_written(block.get("source")):
        return None
    return to_text(block)


def _is_written(source: Any) -> bool:
    """Whether a document's source is text."""
    return isinstance(source, Mapping) and source.get("type") in ("text", "content")


def _letters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, (bytes, bytearray)):
        return len(value) * 4 // 3
    if isinstance(value, Mapping):
        return sum(map(_letters, value.values()))
    return sum(map(_letters, value)) if isinstance(value, (list, tuple)) else 0
