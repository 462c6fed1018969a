"""Handing the input on: as it is, with keys added, or some of its keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from runwell.errors import InvalidInput
from runwell.observe.context import CURRENT
from runwell.observe.run import open_run
from runwell.runnables.addable import AddableDict, add_all, add_dicts
from runwell.runnables.bridges import alone
from runwell.runnables.config import RunnableConfig
from runwell.runnables.interleave import ainterleave, interleave
from runwell.runnables.lambda_ import RunnableLambda
from runwell.runnables.parallel import RunnableParallel, branch_limit, labelled
from runwell.runnables.runnable import Other, Runnable

__all__ = ["RunnableAssign", "RunnablePassthrough", "RunnablePick"]


class RunnablePassthrough(Runnable[Other, Other]):
    """The input, unchanged. `func` is called with it, all of it, for its effect; what it gives is dropped."""

    def __init__(
        self,
        func: Callable[..., Any] | None = None,
        afunc: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
    ) -> None:
        self.name = name
        given = func if func is not None else afunc
        self._effect: RunnableLambda[Any, Any] | None = None if given is None else RunnableLambda(given, afunc)
        self.never_blocks = self._effect is None or self._effect.never_blocks

    @classmethod
    def assign(cls, **steps: Any) -> RunnableAssign:  # type: ignore[override]
        """The input dict, and in it each step's output for it under the step's name."""
        return RunnableAssign(RunnableParallel(steps))

    def invoke(self, input: Other, config: RunnableConfig | None = None, **kwargs: Any) -> Other:
        if config or CURRENT.get() is not None:
            run = open_run("chain", self, input, config)
            if run is not None:
                return run.call(self._pass, input)
        return self._pass(input)

    def _pass(self, given: Other) -> Other:
        if self._effect is not None:
            self._effect._call(given, {})
        return given

    async def ainvoke(self, input: Other, config: RunnableConfig | None = None, **kwargs: Any) -> Other:
        return await self._acall_with_config(self._apass, input, config)

    async def _apass(self, given: Other) -> Other:
        if self._effect is not None:
            await self._effect._acall(given, {})
        return given

    def transform(self, input: Iterator[Other], config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Other]:
        run = open_run("chain", self, None, config)
        return self._flow(input) if run is None else run.watch(lambda: self._flow(input), add_all)

    def _flow(self, source: Iterator[Other]) -> Iterator[Other]:
        if self._effect is None:
            yield from source
            return
        chunks = []
        for chunk in source:
            chunks.append(chunk)
            yield chunk
        self._effect._call(add_all(chunks), {})

    def atransform(
        self, input: AsyncIterator[Other], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Other]:
        run = open_run("chain", self, None, config)
        return self._aflow(input) if run is None else run.awatch(lambda: self._aflow(input), add_all)

    async def _aflow(self, source: AsyncIterator[Other]) -> AsyncIterator[Other]:
        chunks = []
        async for chunk in source:
            if self._effect is not None:
                chunks.append(chunk)
            yield chunk
        if self._effect is not None:
            await self._effect._acall(add_all(chunks), {})


class RunnableAssign(Runnable[Mapping[str, Any], dict[str, Any]]):
    """The input dict, and in it each output of `mapper` for it. A key of the mapper replaces one of the input.

    As a stream, the input's other keys come as they arrive, the new ones as soon as there is a chunk of any.
    """

    def __init__(self, mapper: RunnableParallel[Any] | Mapping[str, Any], *, name: str | None = None) -> None:
        self.mapper: RunnableParallel[Any] = (
            mapper if isinstance(mapper, RunnableParallel) else RunnableParallel(mapper)
        )
        self.name = name
        self.never_blocks = self.mapper.never_blocks
        self._branches: dict[Any, Runnable[Any, Any]] = {
            None: PickRest(frozenset(self.mapper.steps)),
            **self.mapper.steps,
        }

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        return super().get_name(suffix, name=name or self.name or f"RunnableAssign<{','.join(self.mapper.steps)}>")

    def invoke(self, input: Mapping[str, Any], config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        return self._call_with_config(self._assign, input, config)

    def _assign(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {**_mapping(given, "assign"), **self.mapper.invoke(given)}

    async def ainvoke(
        self, input: Mapping[str, Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        return await self._acall_with_config(self._aassign, input, config)

    async def _aassign(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {**_mapping(given, "assign"), **await self.mapper.ainvoke(given)}

    def stream(
        self, input: Mapping[str, Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[dict[str, Any]]:
        run = open_run("chain", self, input, config)
        source = iter((input,))
        return self._flow(source, True) if run is None else run.watch(lambda: self._flow(source, True), add_dicts)

    def transform(
        self, input: Iterator[Mapping[str, Any]], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[dict[str, Any]]:
        run = open_run("chain", self, None, config)
        return self._flow(input, False) if run is None else run.watch(lambda: self._flow(input, False), add_dicts)

    def _flow(self, source: Iterator[Any], alone: bool) -> Iterator[dict[str, Any]]:
        merged = interleave(self._branches, source, alone, branch_limit(), self)
        try:
            for label, chunk in merged:
                yield chunk if label is None else labelled(self._branches[label], label, chunk)
        finally:
            cast(Any, merged).close()

    def astream(
        self, input: Mapping[str, Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[dict[str, Any]]:
        run = open_run("chain", self, input, config)
        source = alone(input)
        return self._aflow(source) if run is None else run.awatch(lambda: self._aflow(source), add_dicts)

    def atransform(
        self, input: AsyncIterator[Mapping[str, Any]], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[dict[str, Any]]:
        run = open_run("chain", self, None, config)
        return self._aflow(input) if run is None else run.awatch(lambda: self._aflow(input), add_dicts)

    async def _aflow(self, source: AsyncIterator[Any]) -> AsyncIterator[dict[str, Any]]:
        merged = ainterleave(self._branches, source, branch_limit(), self)
        try:
            async for label, chunk in merged:
                yield chunk if label is None else labelled(self._branches[label], label, chunk)
        finally:
            await cast(Any, merged).aclose()

    def __repr__(self) -> str:
        return f"RunnablePassthrough.assign({', '.join(f'{key}={step!r}' for key, step in self.mapper.steps.items())})"


class RunnablePick(Runnable[Mapping[str, Any], Any]):
    """The value under one key of a dict (an error if it is missing), or the dict of those of several keys it has."""

    never_blocks = True

    def __init__(self, keys: str | list[str], *, name: str | None = None) -> None:
        self.keys = keys
        self.name = name

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        keys = self.keys if isinstance(self.keys, str) else ",".join(self.keys)
        return super().get_name(suffix, name=name or self.name or f"RunnablePick<{keys}>")

    def invoke(self, input: Mapping[str, Any], config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return self._call_with_config(self._pick, input, config)

    def _pick(self, given: Mapping[str, Any]) -> Any:
        given = _mapping(given, "pick")
        if isinstance(self.keys, str):
            self._require(given)
            return given[self.keys]
        return AddableDict({key: given[key] for key in self.keys if key in given})

    def _require(self, keys: Iterable[str]) -> None:
        """Raise when the one key is not among those that came."""
        if isinstance(self.keys, str) and self.keys not in keys:
            raise InvalidInput(
                f"There is no key {self.keys!r} to pick.", hint=f"The input has {', '.join(map(repr, keys))}."
            )

    def _parts(self, chunk: Any) -> Iterable[Any]:
        chunk = _mapping(chunk, "pick")
        if isinstance(self.keys, str):
            return (chunk[self.keys],) if self.keys in chunk else ()
        found = {key: chunk[key] for key in self.keys if key in chunk}
        return (AddableDict(found),) if found else ()

    def transform(
        self, input: Iterator[Mapping[str, Any]], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Any]:
        run = open_run("chain", self, None, config)
        return self._flow(input) if run is None else run.watch(lambda: self._flow(input), add_all)

    def _flow(self, source: Iterator[Any]) -> Iterator[Any]:
        came: dict[str, None] = {}
        chunk: Any = None
        for chunk in source:
            yield from self._parts(chunk)
            came.update(dict.fromkeys(chunk))
        if chunk is not None:
            self._require(came)

    def atransform(
        self, input: AsyncIterator[Mapping[str, Any]], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        run = open_run("chain", self, None, config)
        return self._aflow(input) if run is None else run.awatch(lambda: self._aflow(input), add_all)

    async def _aflow(self, source: AsyncIterator[Any]) -> AsyncIterator[Any]:
        came: dict[str, None] = {}
        chunk: Any = None
        async for chunk in source:
            for part in self._parts(chunk):
                yield part
            came.update(dict.fromkeys(chunk))
        if chunk is not None:
            self._require(came)

    def __repr__(self) -> str:
        return f"RunnablePick({self.keys!r})"


class PickRest(RunnablePick):
    """What of a dict is not about to be replaced. Not a step of anybody's chain, so it opens no runs."""

    def __init__(self, replaced: frozenset[str]) -> None:
        super().__init__([])
        self.replaced = replaced

    def _parts(self, chunk: Any) -> Iterable[Any]:
        rest = {key: value for key, value in _mapping(chunk, "assign").items() if key not in self.replaced}
        return (AddableDict(rest),) if rest else ()

    def transform(self, input: Iterator[Any], config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Any]:
        return self._flow(input)

    def atransform(
        self, input: AsyncIterator[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        return self._aflow(input)


def _mapping(given: Any, verb: str) -> Mapping[str, Any]:
    if isinstance(given, Mapping):
        return given
    raise InvalidInput(
        f"`{verb}` works on a dict, not {given!r:.200}.", hint='Put a step before it that makes one: {"name": step}.'
    )
