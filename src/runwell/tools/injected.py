"""What a tool receives that the model did not choose: the run's state, store, config, call id, the caller's own values.

An injected parameter is not in the schema, cannot be filled by the model, and is not named in any text the model reads.
"""

from __future__ import annotations

import os
import types
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Generic, TypeVar, Union, cast, get_args, get_origin

from runwell.errors import InvalidInput
from runwell.ports.runtime import CURRENT_TASK, ExecutionInfo, Runtime
from runwell.runnables.config import RunnableConfig, ensure_config, merge_configs

__all__ = [
    "InjectedState",
    "InjectedStore",
    "InjectedToolArg",
    "InjectedToolCallId",
    "Injection",
    "ToolRuntime",
    "find_injection",
]

C = TypeVar("C")
S = TypeVar("S")

NOTHING: Any = type("Nothing", (), {"__repr__": lambda self: "NOTHING", "__slots__": ()})()
"""No value, where None is one."""


class InjectedToolArg:
    """Marks a parameter the program fills, not the model: `user_id: Annotated[str, InjectedToolArg]`.

    Give the value with `tool.with_injected(user_id=...)`, or for one call with `tool.invoke(args, injected={...})`.
    """

    __slots__ = ()


class InjectedState(InjectedToolArg):
    """Marks a parameter that receives the agent's state, or one field of it: `InjectedState("messages")`."""

    __slots__ = ("field",)

    def __init__(self, field: str | None = None) -> None:
        self.field = field


class InjectedStore(InjectedToolArg):
    """Marks a parameter that receives the long-term store. A run without a store is refused when it starts."""

    __slots__ = ()


class InjectedToolCallId(InjectedToolArg):
    """Marks a parameter that receives the id of the tool call being answered."""

    __slots__ = ()


@dataclass(slots=True, kw_only=True)
class ToolRuntime(Runtime[C], Generic[C, S]):
    """All a tool can know of its run; declare a parameter annotated with it, or an unannotated one named `runtime`.

    `state` is the agent's state when the call was made (do not change it: return a `Command`). `tool_call_id` is the
    call being answered, None outside an agent. `tools` are the agent's tools. `context`, `store`, `stream_writer`,
    `config`, `principal` and `execution_info` are as in `Runtime`.
    """

    state: S = None  # type: ignore[assignment]
    tool_call_id: str | None = None
    tools: list[Any] = field(default_factory=list)
    server_info: Any = None
    _once: str | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def idempotency_key(self) -> str:
        """Names this call of this thread: the same when the call is made again after a crash or a retry.

        Outside a thread, or without a call id, there is nothing to repeat: the key is new for every call.
        """
        thread = self.execution_info.thread_id
        if thread is not None and self.tool_call_id is not None:
            return f"{thread}:{self.tool_call_id}"
        if self._once is None:
            self._once = os.urandom(16).hex()
        return self._once

    def override(self, **changes: Any) -> ToolRuntime[C, S]:
        """A copy with some fields changed."""
        return replace(self, **changes)


@dataclass(slots=True)
class Injection:
    """How one parameter is filled. `kind` is runtime, state, store, call_id, config, callbacks or value.

    `field` narrows the state. `default` stands in when there is nothing to inject; `NOTHING` means there must be.
    `by_name` says that only the parameter's name made it one, so an explicit schema may claim it.
    """

    kind: str
    field: str | None = None
    default: Any = NOTHING
    by_name: bool = False

    def fill(self, name: str, tool: str, runtime: ToolRuntime[Any, Any], values: Mapping[str, Any]) -> Any:
        """The value for the parameter `name`, or NOTHING when its own default is to apply."""
        if name in values:
            return values[name]
        found = self._look(runtime)
        if found is not NOTHING:
            return found
        if self.default is not NOTHING:
            return NOTHING
        raise InvalidInput(
            f"Tool {tool!r} needs {_WHAT[self.kind]} for its parameter {name!r}, and the run has none.",
            hint=_HOW[self.kind].format(name=name, tool=tool),
        )

    def _look(self, runtime: ToolRuntime[Any, Any]) -> Any:
        match self.kind:
            case "runtime":
                return runtime
            case "state":
                return self._state(runtime.state)
            case "store":
                return NOTHING if runtime.store is None else runtime.store
            case "call_id":
                return NOTHING if runtime.tool_call_id is None else runtime.tool_call_id
            case "config":
                return runtime.config
            case "callbacks":
                return None
            case _:
                return NOTHING

    def _state(self, state: Any) -> Any:
        if state is None or self.field is None:
            return NOTHING if state is None else state
        if isinstance(state, Mapping):
            return state.get(self.field, NOTHING)
        return getattr(state, self.field, NOTHING)


_WHAT = {
    "state": "the agent's state",
    "store": "a store",
    "call_id": "the id of a tool call",
    "value": "a value from the program",
}
_HOW = {
    "state": "Run the tool in an agent, or pass injected=ToolRuntime(state=...). A field of the state must be set.",
    "store": "Give the agent a store (store=...), or pass injected=ToolRuntime(store=...).",
    "call_id": 'Invoke the tool with a tool call ({{"type": "tool_call", "id": ...}}) instead of plain arguments.',
    "value": "Use tool.with_injected({name}=...), or tool.invoke(args, injected={{{name!r}: ...}}).",
}


def find_injection(name: str, annotation: Any, default: Any, unannotated: bool) -> Injection | None:
    """How the parameter is injected, or None for one that the model fills.

    One named `runtime` counts only when it has no annotation (or `Any`): a film's `runtime: int` is the model's.
    """
    if name == "runtime" and (unannotated or annotation is Any):
        return Injection("runtime", None, default, by_name=True)
    for part in _parts(annotation):
        found = _marked(part)
        if found is not None:
            found.default = default
            return found
    return None


def _parts(annotation: Any) -> list[Any]:
    """The annotation's own metadata and classes: `Annotated[X, m] | None` gives m, X, NoneType."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *metadata = get_args(annotation)
        return [*metadata, *_parts(inner)]
    if origin is Union or origin is types.UnionType:
        return [part for member in get_args(annotation) for part in _parts(member)]
    return [origin if isinstance(origin, type) else annotation]


def _marked(part: Any) -> Injection | None:
    marker = part if isinstance(part, type) else type(part)
    if issubclass(marker, InjectedToolArg):
        if issubclass(marker, InjectedState):
            return Injection("state", None if part is marker else part.field)
        if issubclass(marker, InjectedStore):
            return Injection("store")
        return Injection("call_id") if issubclass(marker, InjectedToolCallId) else Injection("value")
    if part is not marker:
        return None
    if issubclass(marker, Runtime):
        return Injection("runtime")
    return Injection("config") if marker is RunnableConfig else None


def ambient_runtime(config: Mapping[str, Any] | None, tool_call_id: str | None) -> ToolRuntime[Any, Any]:
    """The runtime of a tool that is invoked by hand: what the surrounding graph task knows, if there is one."""
    scope = CURRENT_TASK.get()
    if scope is None:
        effective: Any = ensure_config(config)
        thread = effective["configurable"].get("thread_id")
        return ToolRuntime(config=effective, tool_call_id=tool_call_id, execution_info=ExecutionInfo(thread_id=thread))
    outer = scope.runtime
    return ToolRuntime(
        context=outer.context,
        store=outer.store,
        stream_writer=outer.stream_writer,
        previous=outer.previous,
        principal=outer.principal,
        config=cast(Any, merge_configs(outer.config, config)) if config else outer.config,
        execution_info=outer.execution_info,
        tool_call_id=tool_call_id,
    )
