"""Closing a stream that may have no way to be closed: any iterable can stand where a generator is usual."""

from __future__ import annotations

from typing import Any

__all__ = ["aclose"]


async def aclose(stream: Any) -> None:
    """Close an async stream, if it can be."""
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()
