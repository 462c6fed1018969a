"""A graph's node: the user's callable with its colour and its injected parameters worked out once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from runwell.drivers.colour import callee
from runwell.effects import Callee, is_flow
from runwell.errors import GraphError
from runwell.graph.schema import StateSchema
from runwell.ports.runtime import Runtime

__all__ = ["INJECTED", "Branch", "Node", "RetryPolicy", "bind_parameters"]

INJECTED = ("runtime", "config", "writer", "store", "previous")
"""Parameters a node may declare, by name, beside the state."""


@dataclass(slots=True, frozen=True)
class RetryPolicy:
    """How a node that raises is tried again: `max_attempts` in all, waiting `initial_interval` s × `backoff_factor`^n,
    at most `max_interval`, with `jitter`. `retry_on` is exception classes or a predicate; by default errors that say
    they are retryable, and those of the network.
    """

    max_attempts: int = 3
    initial_interval: float = 0.5
    backoff_factor: float = 2.0
    max_interval: float = 30.0
    jitter: bool = True
    retry_on: type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool] | None = None

    def retries(self, error: BaseException) -> bool:
        if not isinstance(error, Exception):
            return False
        rule = self.retry_on
        if rule is None:
            return bool(getattr(error, "retryable", isinstance(error, ConnectionError)))
        if isinstance(rule, (type, tuple)):
            return isinstance(error, rule)
        return rule(error)

    def wait_s(self, attempt: int, chance: float) -> float:
        """Seconds before attempt number `attempt` + 1; `chance` in [0, 1) is the jitter's draw."""
        wait = min(self.initial_interval * self.backoff_factor ** (attempt - 1), self.max_interval)
        return wait * (0.5 + chance / 2) if self.jitter else wait


def bind_parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """Which of `INJECTED` a callable declares; the state is its first parameter and not among them."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin without signature
        return ()
    rest = parameters[1:] if parameters and parameters[0].kind is not inspect.Parameter.KEYWORD_ONLY else parameters
    return tuple(p.name for p in rest if p.name in INJECTED and p.kind is not p.POSITIONAL_ONLY)


def injected(wants: Sequence[str], runtime: Runtime[Any]) -> dict[str, Any]:
    """The values for those parameters."""
    given: dict[str, Any] = {}
    for name in wants:
        if name == "runtime":
            given[name] = runtime
        elif name == "config":
            given[name] = runtime.config
        elif name == "writer":
            given[name] = runtime.stream_writer
        elif name == "store":
            given[name] = runtime.store
        else:
            given[name] = runtime.previous
    return given


@dataclass(slots=True)
class Branch:
    """A conditional edge: `path(state)` names where to go, through `ends` if given."""

    name: str
    callee: Callee[Any]
    wants: tuple[str, ...]
    ends: dict[Any, str] | None

    @classmethod
    def of(cls, path: Any, ends: dict[Any, str] | None) -> Branch:
        name = getattr(path, "__name__", None) or getattr(path, "name", None) or type(path).__name__
        return cls(str(name), callee(path, cheap=True), bind_parameters(path) if callable(path) else (), ends)


@dataclass(slots=True)
class Node:
    """One node, ready to run."""

    name: str
    callee: Callee[Any]
    schema: StateSchema
    wants: tuple[str, ...] = ()
    flow: Callable[..., Any] | None = None
    subgraph: Any = None
    retry: RetryPolicy | None = None
    timeout: float | None = None
    quiet: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    destinations: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, action: Any, schema: StateSchema, **settings: Any) -> Node:
        config = getattr(action, "config", None)
        if isinstance(config, dict):
            settings.setdefault("tags", tuple(config.get("tags") or ()))
        if hasattr(action, "run_nested"):  # a compiled graph: runs in this run, in a namespace of its own
            return cls(name, callee(action), schema, subgraph=action, **settings)
        if is_flow(action):
            return cls(name, callee(action), schema, flow=action, **settings)
        runnable = hasattr(action, "invoke") and hasattr(action, "ainvoke")
        if not callable(action) and not runnable:
            raise GraphError(
                f"Node {name!r} is {action!r}, which cannot be called.",
                hint="Give a function of the state (plain or async), a runnable, or a compiled graph.",
            )
        wants = () if runnable else bind_parameters(action)
        return cls(name, callee(action), schema, wants=wants, **settings)

    def bound(self, runtime: Runtime[Any]) -> Callee[Any]:
        """The callable with this task's injected values; no frame of ours stands in between."""
        if not self.wants:
            return self.callee
        given = injected(self.wants, runtime)
        sync, aio = self.callee.sync, self.callee.aio
        return Callee(
            None if sync is None else partial(sync, **given),
            None if aio is None else partial(aio, **given),
            cheap=self.callee.cheap,
        )
