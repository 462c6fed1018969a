"""What passes between a model's written method and its caller: messages of results, chunks, ids, reports of tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, TypeVar

from runwell.errors import ModelError, UsageError
from runwell.messages.calls import calls_as_written, fragment_of
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.message import AIMessage
from runwell.models.outputs import ChatGeneration, LLMResult
from runwell.observe.ids import random_hex
from runwell.observe.run import Run

__all__ = [
    "Reporter",
    "as_chunk",
    "as_result",
    "caught_up",
    "from_cache",
    "from_plain",
    "from_thread",
    "in_place",
    "message_of",
    "new_id",
    "nothing_came",
    "piece_of",
    "reporter_of",
    "text_of",
    "whole",
]

T = TypeVar("T")


def new_id(run: Run | None) -> str:
    """The id of an answer: its run's, where there is one."""
    run_id = run.id_text if run is not None else None
    return f"run-{run_id}" if run_id is not None else f"run-{random_hex(16)}"


def whole(chunks: Sequence[AIMessageChunk]) -> AIMessage:
    """The message that chunks add up to."""
    if not chunks:
        raise ModelError("The model's stream ended without an answer.")
    total = chunks[0]
    return (total + list(chunks[1:]) if len(chunks) > 1 else total).to_message()


def text_of(chunk: AIMessageChunk) -> str:
    """A chunk's text."""
    return chunk.text


def as_chunk(message: AIMessage) -> AIMessageChunk:
    """A whole answer as the only chunk of a stream."""
    return _chunk_of(message, "last")


def _chunk_of(message: AIMessage, position: str | None) -> AIMessageChunk:
    fields = {
        name: getattr(message, name) for name in message._fields if name not in ("tool_calls", "invalid_tool_calls")
    }
    calls = calls_as_written(message)
    fragments = [{**fragment_of(call), "index": place} for place, call in enumerate(calls)]
    return AIMessageChunk(**fields, tool_call_chunks=fragments or None, chunk_position=position)


def message_of(result: Any) -> Any:
    """The message that a written method gave, itself or as a text."""
    if isinstance(result, AIMessage):
        return result
    if isinstance(result, str):
        return AIMessage(result)
    raise UsageError(
        f"A chat model gave {result!r}.",
        hint="`_generate` returns ChatResult(generations=[ChatGeneration(message=AIMessage(...))]); `_stream` yields "
        "ChatGenerationChunk(message=AIMessageChunk(...)).",
    )


def piece_of(given: Any) -> AIMessageChunk:
    """The chunk that a written stream gave, itself or as a text or a message."""
    message = message_of(given)
    return message if isinstance(message, AIMessageChunk) else _chunk_of(message, None)


def nothing_came(model: object) -> ModelError:
    """For a stream without chunks."""
    return ModelError(f"{model!r}: the stream ended without an answer.")


def from_cache(found: Any, run: Run | None) -> AIMessage:
    """A stored answer under an id of its own: a history may hold the same answer twice. It took no tokens this time."""
    update = {"id": new_id(run), "usage_metadata": None}
    return found[0].message.model_copy(update=update)  # type: ignore[no-any-return]


def as_result(messages: Sequence[AIMessage]) -> LLMResult:
    """Answers to several inputs, as generations."""
    return LLMResult(generations=[[ChatGeneration(message)] for message in messages])


def from_plain(call: Callable[[], Any]) -> Any:
    """The result of async code, from plain code."""
    from runwell.drivers.sync import call_sync
    from runwell.effects import Callee

    return call_sync(Callee(None, call))


async def from_thread(call: Callable[[], T]) -> T:
    """The result of plain code that may block, from async code."""
    from runwell.drivers.aio import in_worker

    return await in_worker(call)


async def caught_up() -> None:
    """Wait while whoever reads the stream that this code is part of is too far behind."""
    from runwell.drivers.streams import drained

    await drained()


async def in_place(source: Iterator[T]) -> AsyncIterator[T]:
    """A plain iterator that never blocks, for `async for`."""
    for item in source:
        yield item


class Reporter:
    """The `run_manager` of an observed call: passes tokens on. Its method may be awaited or not."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def run_id(self) -> Any:
        return self._run.run_id

    def on_llm_new_token(self, token: str, *, chunk: Any = None, **kwargs: Any) -> _Told:
        self._run.token(chunk if chunk is not None else AIMessageChunk(token), token)
        return _TOLD


class _Told:
    __slots__ = ()

    def __await__(self) -> Iterator[None]:
        return iter(())


_TOLD = _Told()


def reporter_of(run: Run | None) -> Reporter | None:
    """The `run_manager` that a written method gets; None when nobody watches."""
    return Reporter(run) if run is not None and run.watched else None
