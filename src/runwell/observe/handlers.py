"""Who is told what happens: the handler protocol, and the class with the field's `on_*` names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Protocol, runtime_checkable
from uuid import UUID

from runwell.observe import events
from runwell.observe.llm_result import as_llm_result, prompts_of

__all__ = ["AsyncCallbackHandler", "BaseCallbackHandler", "Handler"]


@runtime_checkable
class Handler(Protocol):
    """Told of every event of the runs it is attached to, in the order they happen.

    `handle` may give back an awaitable; it is awaited before the observed code goes on. It is called from whatever
    thread the run is in. An exception is logged and the run goes on, unless the handler has `raise_error = True`.
    One with `wants_runs = False` need not be told how runs begin, fail and end, which makes them cheaper.
    """

    def handle(self, event: events.Event, /) -> Awaitable[Any] | None: ...


_FAMILY = {"chat_model": "llm", "llm": "llm", "tool": "tool", "retriever": "retriever"}
"""Which `on_*` family a kind of run belongs to; everything else is a chain."""


class BaseCallbackHandler:
    """Override what you want to know of; methods may be plain or `async`, whatever the run's colour.

    Attach it with `config={"callbacks": [handler]}`, or for a stretch of code with `runwell.observe.observing`.
    An exception in a method is logged (`runwell.observe`) and breaks nothing, unless `raise_error` is True.
    """

    raise_error: bool = False
    ignore_llm: bool = False
    ignore_chat_model: bool = False
    ignore_chain: bool = False
    ignore_tool: bool = False
    ignore_agent: bool = False
    ignore_retriever: bool = False
    ignore_retry: bool = False
    ignore_custom_event: bool = False

    wants_tokens: ClassVar[bool] = False
    wants_chunks: ClassVar[bool] = False

    # -- models

    def on_llm_start(
        self,
        serialized: dict[str, Any],
        prompts: list[str],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """A model begins. A chat model's messages come as one transcript unless `on_chat_model_start` is overridden."""

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[Any]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """A chat model begins; `messages` holds one list of messages."""

    def on_llm_new_token(
        self,
        token: str,
        *,
        chunk: Any = None,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        **kwargs: Any,
    ) -> Any:
        """A streaming model gave a piece of text; `chunk` is the whole chunk."""

    def on_llm_end(
        self,
        response: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        **kwargs: Any,
    ) -> Any:
        """A model ended; `response` is an `LLMResult`: `response.generations[0][0].message`, `response.llm_output`."""

    def on_llm_error(
        self,
        error: BaseException,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        **kwargs: Any,
    ) -> Any:
        """A model failed."""

    # -- chains, prompts, parsers, graphs, nodes

    def on_chain_start(
        self,
        serialized: dict[str, Any],
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """A step, chain or graph begins; `inputs` is None for a step fed chunk by chunk. `name` is among the kwargs."""

    def on_chain_end(
        self,
        outputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        **kwargs: Any,
    ) -> Any:
        """It ended."""

    def on_chain_error(
        self,
        error: BaseException,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        **kwargs: Any,
    ) -> Any:
        """It failed, or was stopped by a signal."""

    # -- tools

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """A tool begins; `serialized["name"]` names it."""

    def on_tool_end(
        self,
        output: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        **kwargs: Any,
    ) -> Any:
        """A tool ended."""

    def on_tool_error(
        self,
        error: BaseException,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        **kwargs: Any,
    ) -> Any:
        """A tool failed."""

    # -- retrievers

    def on_retriever_start(
        self,
        serialized: dict[str, Any],
        query: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """A retriever begins."""

    def on_retriever_end(
        self,
        documents: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        **kwargs: Any,
    ) -> Any:
        """A retriever ended."""

    def on_retriever_error(
        self,
        error: BaseException,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        **kwargs: Any,
    ) -> Any:
        """A retriever failed."""

    # -- the rest

    def on_retry(self, retry_state: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any) -> Any:
        """An attempt failed and another follows: `retry_state.attempt_number`, `.error`, `.wait` in seconds."""

    def on_custom_event(
        self,
        name: str,
        data: Any,
        *,
        run_id: UUID,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Code called `dispatch_custom_event(name, data)`."""

    def on_decision(self, decision: events.Decision, *, run_id: UUID, **kwargs: Any) -> Any:
        """A seat was decided: `decision.seat`, `.outcome`, `.reason`, `.holder`."""

    # -- how events get here

    def handle(self, event: events.Event) -> Awaitable[Any] | None:
        """Call the method for `event`; what it gives back if that must be awaited."""
        result = _DELIVER[type(event)](self, event)
        return result if result is not None and hasattr(result, "__await__") else None


AsyncCallbackHandler = BaseCallbackHandler
"""The same class: every method may be `async`."""


def _who(event: events.Event) -> dict[str, Any]:
    run = event.run
    return {"run_id": run.run_id, "parent_run_id": run.parent_id, "tags": list(run.tags)}


def _own(handler: BaseCallbackHandler, name: str) -> Callable[..., Any] | None:
    """A handler's method, where it has written one: nothing is made for one that has not."""
    method: Callable[..., Any] = getattr(handler, name)
    return None if getattr(method, "__func__", None) is getattr(BaseCallbackHandler, name) else method


_IGNORE = {kind: f"ignore_{family}" for kind, family in _FAMILY.items()}
_END = {kind: f"on_{family}_end" for kind, family in _FAMILY.items()}
_MODELS = frozenset(kind for kind, family in _FAMILY.items() if family == "llm")
_ERROR = {kind: f"on_{family}_error" for kind, family in _FAMILY.items()}


def _start(handler: BaseCallbackHandler, event: events.RunStarted) -> Any:
    run, inputs = event.run, event.inputs
    kind = run.kind
    if getattr(handler, _IGNORE.get(kind, "ignore_chain")):
        return None
    family, given = _FAMILY.get(kind, "chain"), inputs
    more: dict[str, Any] = {}
    if family == "chain":
        call, more = _own(handler, "on_chain_start"), {"run_type": kind}
    elif family == "tool":
        call = _own(handler, "on_tool_start")
        if call is not None:
            given, more = inputs if isinstance(inputs, str) else str(inputs), {"inputs": None}
            if isinstance(inputs, dict):
                more["inputs"] = inputs
    elif family == "retriever":
        call = _own(handler, "on_retriever_start")
    else:
        call = None
        if kind == "chat_model" and not handler.ignore_chat_model:
            call, given = _own(handler, "on_chat_model_start"), [inputs]
        if call is None and (call := _own(handler, "on_llm_start")) is not None:
            given = prompts_of(inputs)
    if call is None:
        return None
    serialized = event.serialized
    return call(
        serialized if serialized is not None else {"name": run.name},
        given,
        run_id=run.run_id,
        parent_run_id=run.parent_id,
        tags=list(run.tags),
        metadata=dict(run.metadata),
        name=run.name,
        **more,
    )


def _end(handler: BaseCallbackHandler, event: events.RunEnded) -> Any:
    run, outputs = event.run, event.outputs
    kind = run.kind
    if getattr(handler, _IGNORE.get(kind, "ignore_chain")):
        return None
    call = _own(handler, _END.get(kind, "on_chain_end"))
    if call is None:
        return None
    if kind in _MODELS:
        outputs = as_llm_result(outputs)
    return call(outputs, run_id=run.run_id, parent_run_id=run.parent_id, tags=list(run.tags))


def _error(handler: BaseCallbackHandler, event: events.RunFailed) -> Any:
    kind = event.run.kind
    if getattr(handler, _IGNORE.get(kind, "ignore_chain")):
        return None
    return getattr(handler, _ERROR.get(kind, "on_chain_error"))(event.error, **_who(event))


def _chunk(handler: BaseCallbackHandler, event: events.Chunk) -> Any:
    call = None if handler.ignore_llm else _own(handler, "on_llm_new_token")
    if call is None or (text := event.text) is None:
        return None
    return call(text, chunk=event.chunk, **_who(event))


def _retry(handler: BaseCallbackHandler, event: events.Retried) -> Any:
    return None if handler.ignore_retry else handler.on_retry(event, **_who(event))


def _custom(handler: BaseCallbackHandler, event: events.Custom) -> Any:
    if handler.ignore_custom_event:
        return None
    return handler.on_custom_event(event.name, event.data, metadata=dict(event.run.metadata), **_who(event))


def _decision(handler: BaseCallbackHandler, event: events.Decision) -> Any:
    call = _own(handler, "on_decision")
    return None if call is None else call(event, **_who(event))


_DELIVER: dict[type, Any] = {
    events.Chunk: _chunk,
    events.Custom: _custom,
    events.Decision: _decision,
    events.Retried: _retry,
    events.RunEnded: _end,
    events.RunFailed: _error,
    events.RunStarted: _start,
}
