"""Outputs kept, and given again to the same input."""

from __future__ import annotations

import copy
import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Protocol

from runwell.drivers.closing import aclose
from runwell.drivers.colour import callee
from runwell.errors import InvalidInput
from runwell.observe.context import CURRENT
from runwell.observe.inherit import deep_merge
from runwell.runnables.config import RunnableConfig
from runwell.runnables.runnable import Input, Output, Runnable
from runwell.runnables.wrapper import RunnableWrapper

__all__ = ["OutputCache", "OutputStore", "RunnableWithCache"]


class OutputStore(Protocol):
    """Where outputs are kept. Called from several threads; both methods may also be `async`."""

    def get(self, key: str, /) -> Any:
        """`(output,)`, or None when there is none."""

    def set(self, key: str, output: Any, /) -> Any:
        """Keep an output."""


class OutputCache:
    """Kept in this process: at most `maxsize` outputs (None: unbounded), the longest unused forgotten first, each for
    `ttl_s` seconds (None: for ever)."""

    def __init__(self, *, maxsize: int | None = 1_000, ttl_s: float | None = None) -> None:
        self.maxsize = maxsize
        self.ttl_s = ttl_s
        self._kept: OrderedDict[str, tuple[float, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str, /) -> tuple[Any] | None:
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            if self.ttl_s is not None and time.monotonic() - found[0] > self.ttl_s:
                del self._kept[key]
                return None
            self._kept.move_to_end(key)
        return (copy.deepcopy(found[1]),)  # what a caller does to it is not for the next one to see

    def set(self, key: str, output: Any, /) -> None:
        output = copy.deepcopy(output)
        with self._lock:
            self._kept[key] = time.monotonic(), output
            self._kept.move_to_end(key)
            if self.maxsize is not None and len(self._kept) > self.maxsize:
                self._kept.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)


class RunnableWithCache(RunnableWrapper[Input, Output]):
    """`bound`, not called again for an input whose output is kept; see `Runnable.with_cache`."""

    def __init__(
        self,
        bound: Runnable[Input, Output],
        cache: OutputStore | None = None,
        *,
        key: Callable[[Any], str] | None = None,
    ) -> None:
        super().__init__(bound)
        self.cache: OutputStore = OutputCache() if cache is None else cache
        for method in ("get", "set"):
            if not callable(getattr(self.cache, method, None)):
                raise InvalidInput(f"{cache!r:.200} is no cache: it has no {method!r}.", hint="Pass an OutputCache().")
        self.key = key
        self._get = callee(self.cache.get, cheap=isinstance(self.cache, OutputCache))
        self._set = callee(self.cache.set, cheap=isinstance(self.cache, OutputCache))

    def _key(self, given: Any, config: Mapping[str, Any] | None, kwargs: dict[str, Any]) -> str:
        if self.key is not None:
            return self.key(given)
        from pydantic_core import PydanticSerializationError, to_json

        run = CURRENT.get()
        configurable = deep_merge(run.configurable if run is not None else {}, (config or {}).get("configurable") or {})
        asked = [type(given).__qualname__, _in_order(given), _in_order(kwargs), _in_order(configurable)]
        try:
            text = to_json(asked)
        except PydanticSerializationError as error:
            raise InvalidInput(
                f"The input {given!r:.200} of the cached {self.get_name()!r} has no form to compare: {error}.",
                hint="Pass with_cache(key=lambda input: ...), which gives a string for an input.",
            ) from error
        return hashlib.sha256(text).hexdigest()

    def invoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        from runwell.drivers.sync import call_sync

        key = self._key(input, config, kwargs)
        found = call_sync(self._get, key)
        if found is not None:
            return found[0]  # type: ignore[no-any-return]
        output = self.bound.invoke(input, config, **kwargs)
        call_sync(self._set, key, output)
        return output

    async def ainvoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        from runwell.drivers.aio import call_async

        key = self._key(input, config, kwargs)
        found = await call_async(self._get, key)
        if found is not None:
            return found[0]  # type: ignore[no-any-return]
        output = await self.bound.ainvoke(input, config, **kwargs)
        await call_async(self._set, key, output)
        return output

    # -- streams: what is kept comes as one chunk; only a stream read to its end is kept

    def stream(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Output]:
        from runwell.drivers.sync import call_sync

        key = self._key(input, config, kwargs)
        found = call_sync(self._get, key)
        if found is not None:
            yield found[0]
            return
        chunks = []
        for chunk in self.bound.stream(input, config, **kwargs):
            chunks.append(chunk)
            yield chunk
        call_sync(self._set, key, self._whole(chunks))

    async def astream(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Output]:
        from runwell.drivers.aio import call_async

        key = self._key(input, config, kwargs)
        found = await call_async(self._get, key)
        if found is not None:
            yield found[0]
            return
        chunks = []
        stream = self.bound.astream(input, config, **kwargs)
        try:
            async for chunk in stream:
                chunks.append(chunk)
                yield chunk
        finally:
            await aclose(stream)
        await call_async(self._set, key, self._whole(chunks))

    def __repr__(self) -> str:
        return f"{self.bound!r}.with_cache()"


def _in_order(value: Any) -> Any:
    """Dicts in one order of keys, so that equal calls have equal keys."""
    if isinstance(value, Mapping):
        return {str(key): _in_order(value[key]) for key in sorted(value, key=str)}
    return [_in_order(each) for each in value] if isinstance(value, list | tuple) else value
