"""What a command printed, within bounds: its beginning and its end, and how much was left out between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

__all__ = ["MARGIN", "HeadTail", "Shown"]

MARGIN = 8192
"""Kept beyond each cut while secrets are looked for, so that one which straddles a cut is seen whole, and then
dropped. A secret or match longer than this may show in part. Chosen: longer than a private key in PEM form."""


class Shown(NamedTuple):
    """What may be shown, and how much of it is not there."""

    text: str
    dropped_lines: int
    dropped_bytes: int


class HeadTail:
    """Takes any number of bytes and keeps a bounded number: the first and the last."""

    __slots__ = ("_head", "_keep", "_lines", "_tail", "_total")

    def __init__(self, max_bytes: int) -> None:
        self._keep = max_bytes // 2 + 1 + MARGIN
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0
        self._lines = 0

    def feed(self, data: bytes) -> None:
        """More of it."""
        self._total += len(data)
        self._lines += data.count(b"\n")
        room = self._keep - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 4 * self._keep:
            del self._tail[: -self._keep]

    def shown(self, redact: Callable[[str], str], max_lines: int, max_bytes: int) -> Shown:
        """The text with what `redact` takes out, at most so long. `redact` never sees half of a thing cut in two."""
        whole = self._total <= len(self._head) + len(self._tail)
        if whole:
            text = redact(_text(self._head + self._tail))
            if len(text.encode()) <= max_bytes and text.count("\n") <= max_lines:
                return Shown(text, 0, 0)
            head = tail = text
        else:
            head = redact(_text(self._head))[:-MARGIN]
            tail = redact(_text(self._tail[-self._keep :]))[MARGIN:]
        head = _first_bytes("".join(head.splitlines(keepends=True)[: max_lines - max_lines // 2]), max_bytes // 2)
        tail = _last_bytes("".join(tail.splitlines(keepends=True)[-(max_lines // 2) :]), max_bytes // 2)
        total = len(text.encode()) if whole else self._total
        lines = text.count("\n") if whole else self._lines
        dropped = max(0, total - len(head.encode()) - len(tail.encode()))
        between = max(0, lines - head.count("\n") - tail.count("\n"))
        note = f"[... {between:,} lines, {dropped:,} bytes left out ...]"
        joined = f"{head}{'' if head.endswith(chr(10)) or not head else chr(10)}{note}\n{tail}"
        return Shown(joined, between, dropped)


def _text(data: bytes | bytearray) -> str:
    return data.decode("utf-8", errors="replace")


def _first_bytes(text: str, limit: int) -> str:
    return text.encode()[:limit].decode("utf-8", errors="ignore")


def _last_bytes(text: str, limit: int) -> str:
    data = text.encode()
    return data[max(0, len(data) - limit) :].decode("utf-8", errors="ignore")
