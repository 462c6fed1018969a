"""An end to waiting."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

from runwell.drivers.closing import aclose
from runwell.effects import Call, Callee
from runwell.errors import InvalidInput, NodeTimeoutError
from runwell.runnables.config import RunnableConfig
from runwell.runnables.runnable import Input, Output, Runnable
from runwell.runnables.wrapper import RunnableWrapper

if TYPE_CHECKING:
    from runwell.drivers.streams import Pipe

__all__ = ["RunnableWithTimeout"]


class RunnableWithTimeout(RunnableWrapper[Input, Output]):
    """`bound`, given up on after `timeout_s` seconds; see `Runnable.with_timeout`."""

    def __init__(self, bound: Runnable[Input, Output], timeout_s: float) -> None:
        given: Any = timeout_s
        if isinstance(given, bool) or not isinstance(given, int | float) or not given > 0:
            raise InvalidInput(f"A timeout is a number of seconds above 0, not {timeout_s!r}.")
        super().__init__(bound)
        self.timeout_s = timeout_s

    def invoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        from runwell.drivers.sync import run_sync

        return run_sync(self._limited(input, config, kwargs))

    async def ainvoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        from runwell.drivers.aio import run_async

        return await run_async(self._limited(input, config, kwargs))

    async def _limited(self, given: Any, config: RunnableConfig | None, kwargs: dict[str, Any]) -> Output:
        bound = self.bound
        called: Callee[Any] = Callee(
            lambda: bound.invoke(given, config, **kwargs), lambda: bound.ainvoke(given, config, **kwargs)
        )
        try:
            return await Call(called, timeout=self.timeout_s)  # type: ignore[no-any-return]
        except NodeTimeoutError as error:
            if str(called) in str(error):
                raise self._late() from None
            raise

    def _late(self) -> NodeTimeoutError:
        return NodeTimeoutError(
            f"{self.get_name()!r} took longer than its timeout of {self.timeout_s:g} s.",
            kind="timeout",
            limit=self.timeout_s,
            hint="Raise the number in with_timeout(...), or find what it waits for.",
        )

    # -- streams: from the first read to the last chunk

    def stream(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Output]:
        return self._flow(lambda: self.bound.stream(input, config, **kwargs))

    def transform(
        self, input: Iterator[Input], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Output]:
        return self._flow(lambda: self.bound.transform(input, config, **kwargs))

    def _flow(self, start: Callable[[], Iterator[Any]]) -> Iterator[Output]:
        """Read in another thread, which a stuck source cannot keep us in."""
        import threading

        from runwell.drivers.streams import SyncStream

        def produce(pipe: Pipe) -> None:
            source = start()
            try:
                for chunk in source:
                    pipe.put(chunk)
            finally:
                close = getattr(source, "close", None)
                if close is not None:
                    close()

        chunks = SyncStream[Output](produce)
        clock = threading.Timer(self.timeout_s, chunks._pipe.end, (self._late(),))
        clock.daemon = True
        clock.start()
        try:
            yield from chunks
        finally:
            clock.cancel()
            chunks.close()
            chunks._producer.stop()  # after a timeout the reader is gone and the producer is not

    def astream(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Output]:
        return self._aflow(lambda: self.bound.astream(input, config, **kwargs))

    def atransform(
        self, input: AsyncIterator[Input], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Output]:
        return self._aflow(lambda: self.bound.atransform(input, config, **kwargs))

    async def _aflow(self, start: Callable[[], AsyncIterator[Any]]) -> AsyncIterator[Output]:
        import asyncio

        until = asyncio.get_running_loop().time() + self.timeout_s
        source = start()
        try:
            while True:
                try:
                    async with asyncio.timeout_at(until) as limit:  # never open across a yield
                        chunk = await anext(source)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    if limit.expired():
                        raise self._late() from None
                    raise
                yield chunk
        finally:
            await aclose(source)

    def __repr__(self) -> str:
        return f"{self.bound!r}.with_timeout({self.timeout_s:g})"
