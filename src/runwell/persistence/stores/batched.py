"""A store whose calls from one turn of the event loop go out as one batch."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from runwell.ports.store import BaseStore, Op, Result

if TYPE_CHECKING:
    import asyncio

__all__ = ["AsyncBatchedBaseStore"]


class AsyncBatchedBaseStore(BaseStore):
    """For stores in which a batch costs about what one operation costs: write `abatch`.

    `aget`, `aput`, `asearch` and the others that are called before the event loop gets its next turn (by the branches
    of a `gather`, say) become one call of `abatch`, in the order they were made. When it fails, each is tried alone, so
    that an operation's error is its own.
    """

    def __init__(self) -> None:
        self._waiting: weakref.WeakKeyDictionary[Any, list[tuple[Op, asyncio.Future[Result]]]] = (
            weakref.WeakKeyDictionary()
        )
        self._running: set[asyncio.Task[None]] = set()

    async def _one(self, op: Op) -> Result:
        import asyncio

        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        waiting = self._waiting.setdefault(loop, [])
        waiting.append((op, future))
        if len(waiting) == 1:
            loop.call_soon(self._send, loop)
        return await future

    def _send(self, loop: asyncio.AbstractEventLoop) -> None:
        batch = [each for each in self._waiting.pop(loop, []) if not each[1].cancelled()]
        if batch:
            task = loop.create_task(self._settle(batch))
            self._running.add(task)  # a task that nobody holds may be lost
            task.add_done_callback(self._running.discard)

    async def _settle(self, batch: list[tuple[Op, asyncio.Future[Result]]]) -> None:
        try:
            results = await self.abatch([op for op, _ in batch])
        except Exception as error:
            if len(batch) > 1:
                for each in batch:
                    await self._settle([each])
            elif not batch[0][1].done():
                batch[0][1].set_exception(error)
            return
        except BaseException:
            for _, future in batch:
                future.cancel()
            raise
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)
