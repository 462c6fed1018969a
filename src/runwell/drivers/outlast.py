"""Waiting for what must have ended before a cancelled task goes on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

__all__ = ["outlast"]


async def outlast(work: Sequence[asyncio.Future[Any]]) -> None:
    """Wait for the end of it all, however often the waiting task is cancelled meanwhile; then that goes on.

    A cancel scope of anyio's cancels in every round of the loop. What comes after the wait would run beside a save that
    is still under way.
    """
    cancelled: asyncio.CancelledError | None = None
    anyio: Any = sys.modules.get("anyio")
    # The shield is not what outlasts it: it spares the rounds spent on cancelling, which hold up the thread that saves.
    with nullcontext() if anyio is None else anyio.CancelScope(shield=True):
        # `asyncio.wait` takes a round even for what is done, in which it would be cancelled again, for ever.
        while left := [future for future in work if not future.done()]:
            try:
                await asyncio.wait(left)
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        raise cancelled
