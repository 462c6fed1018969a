"""Parameters that the program fills and no model sees: the run's state, store, config, call id, the caller's values.

An injected parameter is not in the schema, cannot be filled by the model, and is not named in any text the model reads.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from runwell.errors import InvalidInput
from runwell.ports.config import RunnableConfig
from runwell.ports.runtime import Runtime

__all__ = [
    "NOTHING",
    "InjectedState",
    "InjectedStore",
    "InjectedToolArg",
    "InjectedToolCallId",
    "Injection",
    "find_injection",
]

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

    def fill(self, name: str, tool: str, runtime: Any, values: Mapping[str, Any]) -> Any:
        """The value for the parameter `name` from a `ToolRuntime` or `values`; NOTHING when its own default applies."""
        if name in values:
            return values[name]
        found = self._look(runtime)
        if found is not NOTHING:
            return found
        if self.default is not NOTHING:
            return NOTHING
        if self.field is not None and runtime.state is not None:
            raise InvalidInput(
                f"Tool {tool!r} needs {self.field!r} of the state for its parameter {name!r}, and it is not set.",
                hint="Give the run a value for it, or the parameter a default.",
            )
        raise InvalidInput(
            f"Tool {tool!r} needs {_WHAT[self.kind]} for its parameter {name!r}, and the run has none.",
            hint=_HOW[self.kind].format(name=name, tool=tool),
        )

    def _look(self, runtime: Any) -> Any:
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
    "state": "Run the tool in an agent, or pass injected=ToolRuntime(state=...).",
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
