"""Everything that happens inside a run, as a stream of dicts: `astream_events`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from runwell.drivers.closing import aclose
from runwell.observe.events import Chunk, Custom, Event, Retried, RunEnded, RunFailed, RunStarted
from runwell.observe.llm_result import answer_of
from runwell.runnables.config import merge_configs

if TYPE_CHECKING:
    from runwell.drivers.streams import Pipe
    from runwell.observe.context import RunContext
    from runwell.runnables.runnable import Runnable

__all__ = ["StreamEvent", "StreamEvents"]


class StreamEvent(TypedDict):
    """One thing that happened, as `astream_events` tells it."""

    event: str
    """`on_{kind}_start`, `_stream`, `_end`, `_error` or `_retry`, or the name `on_custom_event`."""
    name: str
    run_id: str
    parent_ids: list[str]
    """The runs around it, the outermost first."""
    tags: list[str]
    metadata: dict[str, Any]
    data: Any
    """`input`, `chunk`, `output` or `error`, as fits the event; of an event of your own, what you gave."""


Filter = tuple[Sequence[str] | None, Sequence[str] | None, Sequence[str] | None]
"""Names, kinds, tags."""

_KINDS = {"chat_model", "llm", "prompt", "parser", "retriever", "tool"}
_MODELS = {"chat_model", "llm"}


class StreamEvents(AsyncIterator[dict[str, Any]]):
    """The events of one `astream` of a runnable. Closing it, or dropping it, ends the run."""

    def __init__(
        self,
        runnable: Runnable[Any, Any],
        input: Any,
        config: Any,
        kwargs: dict[str, Any],
        include: Filter,
        exclude: Filter,
    ) -> None:
        from runwell.drivers.streams import AsyncStream

        async def produce(pipe: Pipe) -> None:
            handler = _Collector(pipe, include, exclude)
            stream = runnable.astream(input, merge_configs(config, {"callbacks": [handler]}), **kwargs)
            try:
                async for _ in stream:
                    if len(pipe.items) >= pipe.limit:
                        await pipe.aroom()
            finally:
                await aclose(stream)

        self._events = AsyncStream[dict[str, Any]](produce)

    async def __anext__(self) -> dict[str, Any]:
        return await self._events.__anext__()

    async def aclose(self) -> None:
        """End the run."""
        await self._events.aclose()


class _Collector:
    """Turns events into dicts and puts them into the stream's pipe."""

    wants_chunks = True
    wants_tokens = True
    raise_error = True

    def __init__(self, pipe: Pipe, include: Filter, exclude: Filter) -> None:
        self.pipe = pipe
        self.include = include if any(include) else None
        self.exclude = exclude if any(exclude) else None
        self._ids: dict[RunContext, tuple[str, list[str]]] = {}

    def _written_ids(self, event: Event) -> tuple[str, list[str]]:
        """The ids of the event's run and of those around it as text, written once for all events of the run."""
        run = event.run
        ids = self._ids.get(run)
        if ids is None:
            ids = self._ids[run] = (str(run.run_id), [str(each) for each in run.parent_ids])
        if type(event) is RunEnded or type(event) is RunFailed:
            del self._ids[run]
        return ids

    def handle(self, event: Event) -> None:
        run = event.run
        if self.include is not None and not _matches(event, self.include):
            return
        if self.exclude is not None and _matches(event, self.exclude):
            return
        found = _DATA.get(type(event))
        if found is None:
            return
        phase, data = found(event)
        kind = run.kind if run.kind in _KINDS else "chain"
        name = event.name if type(event) is Custom else run.name
        run_id, parent_ids = self._written_ids(event)
        self.pipe.put(
            {
                "event": phase if type(event) is Custom else f"on_{kind}_{phase}",
                "name": name,
                "run_id": run_id,
                "parent_ids": parent_ids.copy(),
                "tags": list(run.tags),
                "metadata": dict(run.metadata),
                "data": data,
            }
        )


def _matches(event: Event, chosen: Filter) -> bool:
    names, kinds, tags = chosen
    run = event.run
    return (
        (names is not None and run.name in names)
        or (kinds is not None and run.kind in kinds)
        or (tags is not None and any(tag in tags for tag in run.tags))
    )


def _started(event: RunStarted) -> tuple[str, dict[str, Any]]:
    inputs = event.inputs
    if event.run.kind in _MODELS and isinstance(inputs, list):
        inputs = {"messages": [inputs]}
    return "start", {} if inputs is None else {"input": inputs}


def _ended(event: RunEnded) -> tuple[str, dict[str, Any]]:
    outputs, inputs = event.outputs, event.inputs
    if event.run.kind in _MODELS:
        outputs = answer_of(outputs)
        inputs = {"messages": [inputs]} if isinstance(inputs, list) else inputs
    data = {"output": outputs}
    if inputs is not None:
        data["input"] = inputs
    return "end", data


def _failed(event: RunFailed) -> tuple[str, dict[str, Any]]:
    return "error", {"error": event.error, "input": event.inputs}


def _chunked(event: Chunk) -> tuple[str, dict[str, Any]]:
    return "stream", {"chunk": event.chunk}


def _custom(event: Custom) -> tuple[str, Any]:
    return "on_custom_event", event.data


def _retried(event: Retried) -> tuple[str, dict[str, Any]]:
    return "retry", {"attempt": event.attempt, "error": event.error, "wait": event.wait}


_DATA: dict[type, Any] = {
    Chunk: _chunked,
    Custom: _custom,
    Retried: _retried,
    RunEnded: _ended,
    RunFailed: _failed,
    RunStarted: _started,
}
