"""A graph's node: the user's callable with its colour and its injected parameters worked out once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, get_type_hints

from runwell.drivers.colour import callee, is_async
from runwell.effects import Callee, is_flow
from runwell.errors import GraphError
from runwell.graph.policies import CachePolicy, RetryPolicy, TimeoutPolicy
from runwell.graph.schema import StateSchema, is_schema
from runwell.ports.runtime import Runtime

__all__ = ["INJECTED", "Branch", "Handler", "Node", "bind_parameters"]

INJECTED = ("runtime", "config", "writer", "store", "previous")
"""Parameters a node may declare, by name, beside the state."""


def bind_parameters(function: Callable[..., Any], *, first: bool = False) -> tuple[str, ...]:
    """Which of `INJECTED` a callable declares; the state is its first parameter and not among them, unless `first`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin without signature
        return ()
    skip = not first and parameters and parameters[0].kind is not inspect.Parameter.KEYWORD_ONLY
    rest = parameters[1:] if skip else parameters
    return tuple(p.name for p in rest if p.name in INJECTED and p.kind is not p.POSITIONAL_ONLY)


def _by_name(node: str, function: Callable[..., Any]) -> bool | None:
    """For a function whose first parameter is one of `INJECTED`: whether it takes the state, by that name. Else None.

    Raises GraphError for a function that can take nothing at all.
    """
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # a builtin without signature
        return None
    if not parameters:
        raise GraphError(
            f"Node {node!r} is {function!r}, which takes no parameter.",
            hint="A node takes the state: def node(state), and by name any of runtime, config, writer, store.",
        )
    if next(iter(parameters)) not in INJECTED:
        return None
    return "state" in parameters


def _refuse_unknown(what: str, function: Callable[..., Any], by_name: bool | None = None) -> None:
    """Refuse a function that cannot be called with the state and what it may ask for by name."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin without signature
        return
    given = dict.fromkeys(bind_parameters(function, first=by_name is not None))
    if by_name:
        given["state"] = None
    try:
        signature.bind(*(() if by_name is not None else (None,)), **given)
    except TypeError as error:
        raise GraphError(
            f"{what} is {function!r:.200}, which cannot be called with a state: {error}.",
            hint="It takes the state, and by name any of runtime, config, writer, store, previous. What else it needs "
            "can be bound with functools.partial.",
        ) from None


def _inside(action: Any) -> Any:
    """The compiled graph that a runnable such as `graph.with_config(...)` wraps, or None."""
    inner = vars(action).get("bound") if hasattr(action, "__dict__") else None
    while inner is not None and not hasattr(inner, "run_nested"):
        inner = vars(inner).get("bound") if hasattr(inner, "__dict__") else None
    return inner


def state_annotation(action: Any, known: type) -> type | None:
    """The class that a function says its state is of, where that is a schema and not the one that is `known`."""
    if not (inspect.isfunction(action) or inspect.ismethod(action)) or is_flow(action):
        return None
    parameters = inspect.signature(action).parameters
    name = next(iter(parameters), None)
    if name in INJECTED:
        name = "state" if "state" in parameters else None
    said = parameters[name].annotation if name is not None else inspect.Parameter.empty
    if said is known or said is inspect.Parameter.empty or said == known.__name__:
        return None
    if isinstance(said, str):
        try:
            said = get_type_hints(action).get(str(name))
        except (NameError, TypeError, AttributeError):  # a name that only a type checker can find
            return None
    return said if said is not known and is_schema(said) else None


def _called(function: Callable[..., Any], with_state: bool, state: Any, **given: Any) -> Any:
    return function(state=state, **given) if with_state else function(**given)


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
    """A conditional edge: `path(state)` names where to go, through `ends` if given.

    `flow`: it is engine code, which is given the values themselves. A `rule` is such code that is a plain function.
    """

    name: str
    callee: Callee[Any]
    wants: tuple[str, ...]
    ends: dict[Any, str] | None
    flow: Callable[[Any], Any] | None = None
    rule: Callable[[Any], Any] | None = None

    @classmethod
    def of(cls, path: Any, ends: dict[Any, str] | None) -> Branch:
        name = getattr(path, "__name__", None) or getattr(path, "name", None) or type(path).__name__
        if callable(path) and not hasattr(path, "ainvoke"):
            _refuse_unknown(f"The path {name!r} of a conditional edge", path)
        wants = bind_parameters(path) if callable(path) else ()
        flow = path if is_flow(path) else None
        rule = flow if flow is not None and not is_async(flow) else None
        return cls(str(name), callee(path, cheap=True), wants, ends, flow, rule)

    def bound(self, runtime: Runtime[Any]) -> Callee[Any]:
        """The callable with this task's injected values."""
        return _bound(self.callee, self.wants, runtime)


def _bound(callee: Callee[Any], wants: tuple[str, ...], runtime: Runtime[Any]) -> Callee[Any]:
    if not wants:
        return callee
    given = injected(wants, runtime)
    sync, aio = callee.sync, callee.aio
    return Callee(
        None if sync is None else partial(sync, **given),
        None if aio is None else partial(aio, **given),
        cheap=callee.cheap,
    )


@dataclass(slots=True)
class Handler:
    """What is asked when a node has failed for good: `handler(state, error)`."""

    callee: Callee[Any]
    wants: tuple[str, ...]

    @classmethod
    def of(cls, name: str, given: Any) -> Handler:
        if not callable(given):
            raise GraphError(
                f"The error handler of node {name!r} is {given!r}, which cannot be called.",
                hint="Give a function of the state and the error.",
            )
        wants = bind_parameters(given)
        try:
            inspect.signature(given).bind(None, None, **dict.fromkeys(wants))
        except ValueError:  # a builtin without signature
            pass
        except TypeError as error:
            raise GraphError(
                f"The error handler of node {name!r} cannot be called with (state, error): {error}.",
                hint="Write it as def handler(state, error), with runtime or config by name if it needs them.",
            ) from None
        return cls(callee(given), wants)

    def bound(self, runtime: Runtime[Any]) -> Callee[Any]:
        """The callable with this task's injected values."""
        return _bound(self.callee, self.wants, runtime)


@dataclass(slots=True)
class Node:
    """One node, ready to run."""

    name: str
    callee: Callee[Any]
    schema: StateSchema
    wants: tuple[str, ...] = ()
    flow: Callable[..., Any] | None = None
    subgraph: Any = None
    around: Any = None
    """The graph that the node's runnable has bound settings to."""
    retry: tuple[RetryPolicy, ...] = ()
    timeout: TimeoutPolicy | None = None
    cache: CachePolicy | None = None
    handler: Handler | None = None
    code: Any = False
    """For its cache: what code it is, once worked out; and what stands for that where it cannot be said."""
    token: str = ""
    guarded: bool = False
    """Whether any policy applies."""
    branches: tuple[Branch, ...] = ()
    """Its conditional edges in the graph that it is compiled into."""
    whole: bool = False
    """Whether it sees every channel of that graph, as a plain dict."""
    own_runtime: bool = False
    """Whether its tasks need a runtime of their own."""
    quiet: bool = False
    tidy: bool = False
    """Whether its code, engine code marked so, leaves nothing set in the context of its task."""
    passes: bool = False
    """Whether what follows it, when it had nothing to say, may run in its task."""
    bare: bool = False
    """Whether it is engine code and nothing else: no policy applies, and no conditional edge looks at its result."""
    metadata: dict[str, Any] = field(default_factory=dict)
    destinations: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()

    def compiled(self, policies: dict[str, Any], branches: Sequence[Branch]) -> Node:
        """This node in a graph, with these policies where it has none of its own, and these conditional edges."""
        missing = {name: policy for name, policy in policies.items() if not getattr(self, name)}
        return replace(self, branches=tuple(branches), **missing)

    def __post_init__(self) -> None:
        self.guarded = bool(self.retry or self.timeout or self.cache or self.handler)
        self.passes = self.quiet and self.tidy
        self.bare = self.flow is not None and not self.guarded and not self.branches
        self.own_runtime = bool(self.wants) or self.guarded or self.flow is not None or self.subgraph is not None

    @classmethod
    def of(cls, name: str, action: Any, schema: StateSchema, **settings: Any) -> Node:
        config = getattr(action, "config", None)
        if isinstance(config, dict):
            settings.setdefault("tags", tuple(config.get("tags") or ()))
        if hasattr(action, "run_nested"):  # a compiled graph: runs in this run, in a namespace of its own
            return cls(name, callee(action), schema, subgraph=action, **settings)
        if is_flow(action):
            tidy = getattr(action, "__runwell_tidy__", False)
            return cls(name, callee(action), schema, flow=action, tidy=tidy, **settings)
        runnable = hasattr(action, "invoke") and hasattr(action, "ainvoke")
        if not callable(action) and not runnable:
            raise GraphError(
                f"Node {name!r} is {action!r}, which cannot be called.",
                hint="Give a function of the state (plain or async), a runnable, or a compiled graph.",
            )
        if runnable:
            return cls(name, callee(action), schema, around=_inside(action), **settings)
        called = callee(action)
        by_name = _by_name(name, action)
        _refuse_unknown(f"Node {name!r}", action, by_name)
        if by_name is not None:
            called = Callee(
                None if called.sync is None else partial(_called, called.sync, by_name),
                None if called.aio is None else partial(_called, called.aio, by_name),
                cheap=called.cheap,
            )
        return cls(name, called, schema, wants=bind_parameters(action, first=by_name is not None), **settings)

    def bound(self, runtime: Runtime[Any]) -> Callee[Any]:
        """The callable with this task's injected values; no frame of ours stands in between."""
        return _bound(self.callee, self.wants, runtime)
