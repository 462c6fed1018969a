"""What a tool can know of the run that it is called in."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, cast

from typing_extensions import TypeVar

from runwell.ports.runtime import CURRENT_TASK, ExecutionInfo, Runtime
from runwell.runnables.config import ensure_config, merge_configs

__all__ = ["ToolRuntime", "ambient_runtime", "runtime_for_call"]

C = TypeVar("C", default=Any)
S = TypeVar("S", default=Any)


@dataclass(slots=True, kw_only=True)
class ToolRuntime(Runtime[C], Generic[C, S]):
    """All a tool can know of its run; declare a parameter annotated with it, or an unannotated one named `runtime`.

    `state` is the agent's state when the call was made (do not change it: return a `Command`). `tool_call_id` is the
    call being answered, None outside an agent. `tools` are the agent's tools. `context`, `store`, `stream_writer`,
    `config`, `principal`, `execution_info`, `control`, `budget` and `heartbeat()` are as in `Runtime`.
    """

    state: S = None  # type: ignore[assignment]
    tool_call_id: str | None = None
    tools: list[Any] = field(default_factory=list)
    server_info: Any = None
    _once: str | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def idempotency_key(self) -> str:
        """Names this call of this thread, `thread:call id`: the same when the call is made again after a crash or a
        retry, and another for every other call.

        In an agent inside another its place stands between, and where a model gives the id of an earlier call once
        more, a number behind. Outside a thread, or without a call id, there is nothing to repeat: the key is new for
        every call.
        """
        place = self.execution_info
        if place.thread_id is not None and self.tool_call_id is not None:
            within = f"{place.checkpoint_ns}:" if place.checkpoint_ns else ""
            count = _uses(self.state, self.tool_call_id)
            return f"{place.thread_id}:{within}{self.tool_call_id}{f'#{count}' if count > 1 else ''}"
        if self._once is None:
            self._once = os.urandom(16).hex()
        return self._once

    def override(self, **changes: Any) -> ToolRuntime[C, S]:
        """A copy with some fields changed."""
        return replace(self, **changes)


def _uses(state: Any, call_id: str) -> int:
    """How often a call of this id was asked for in the conversation, now included."""
    messages = state.get("messages") if isinstance(state, Mapping) else getattr(state, "messages", None)
    calls = (call for message in messages or () for call in getattr(message, "tool_calls", None) or ())
    return sum(call.get("id") == call_id for call in calls)


def ambient_runtime(config: Mapping[str, Any] | None, tool_call_id: str | None) -> ToolRuntime[Any, Any]:
    """The runtime of a tool that is invoked by hand: what the surrounding graph task knows, if there is one."""
    scope = CURRENT_TASK.get()
    if scope is None:
        effective: Any = ensure_config(config)
        thread = effective["configurable"].get("thread_id")
        return ToolRuntime(config=effective, tool_call_id=tool_call_id, execution_info=ExecutionInfo(thread_id=thread))
    made = runtime_for_call(scope.runtime, tool_call_id=tool_call_id)
    if config:
        made.config = cast(Any, merge_configs(made.config, config))
    return made


def runtime_for_call(
    runtime: Runtime[Any], *, tool_call_id: str | None, state: Any = None, tools: Sequence[Any] = ()
) -> ToolRuntime[Any, Any]:
    """What a tool called inside a graph task knows: the task's runtime, and the call."""
    return ToolRuntime(
        context=runtime.context,
        store=runtime.store,
        stream_writer=runtime.stream_writer,
        previous=runtime.previous,
        principal=runtime.principal,
        config=runtime.config,
        execution_info=runtime.execution_info,
        control=runtime.control,
        budget=runtime.budget,
        pulse=runtime.pulse,
        state=state,
        tool_call_id=tool_call_id,
        tools=list(tools),
    )
