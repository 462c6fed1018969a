"""`@entrypoint`: a function as a graph of one node, saved, paused, resumed and streamed like any other."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, partial
from typing import Any, Generic, TypedDict, TypeVar, get_args, get_origin, get_type_hints

from typing_extensions import Unpack

from runwell.drivers.colour import callee
from runwell.effects import Call, Callee, flow
from runwell.errors import GraphError
from runwell.graph.builder import StateGraph
from runwell.graph.called import called_inside
from runwell.graph.compiled import CompiledStateGraph
from runwell.graph.engine import Run, Task
from runwell.graph.node import INJECTED, Node, injected
from runwell.graph.node_cache import identity
from runwell.graph.plan import Write
from runwell.graph.policies import CachePolicy, RetryPolicy, TimeoutPolicy
from runwell.graph.schema import Channel, StateSchema
from runwell.graph.snapshot import StateSnapshot
from runwell.graph.tasks import checked_function, types_in
from runwell.graph.thread import HistoryOptions
from runwell.graph.updates import node_writes
from runwell.ports.command import END, START
from runwell.ports.runtime import TaskScope

__all__ = ["Entrypoint", "entrypoint"]

R = TypeVar("R")
S = TypeVar("S")

INPUT, RESULT, SAVED, FINAL = "input", "result", "previous", "final"


class _State(TypedDict, total=False):
    """What a thread of an entrypoint holds. `final` says that `previous` is another value than the last result."""

    input: Any
    result: Any
    final: bool
    previous: Any


class _Whole(StateSchema):
    """An input of any kind, as it is."""

    def intake(self, given: Any, known: Collection[str], *, thread_has: Collection[str] = ()) -> dict[str, Any]:
        return {INPUT: given}


class Entrypoint(CompiledStateGraph):
    """What `@entrypoint` makes of a function. `.func` is the function."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        checkpointer: Any = None,
        store: Any = None,
        context_schema: type | None = None,
        cache: Any = None,
        cache_policy: CachePolicy | None = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        timeout: float | timedelta | TimeoutPolicy | None = None,
        name: str | None = None,
    ) -> None:
        self.func = checked_function(function, "@entrypoint")
        name = name or str(getattr(function, "__name__", type(function).__name__))
        self._wants = _parameters(function, name)
        self._callee: Callee[Any] = callee(function)
        builder = StateGraph(_State, context_schema)
        builder.input = _Whole(_State)
        builder.add_node(name, self._body, retry_policy=retry_policy, cache_policy=cache_policy, timeout=timeout)
        builder.add_edge(START, name).add_edge(name, END)
        if cache_policy is not None:
            builder.nodes[name].code = identity(function)
        super().__init__(builder, builder._blueprint(), checkpointer=checkpointer, cache=cache, store=store, name=name)
        self.__doc__ = function.__doc__

    @flow
    async def _body(self, task: Task) -> list[Write]:
        """The one node: calls the function, and writes what it gave."""
        values, runtime = task.values, task.runtime
        runtime.previous = _previous(values)
        called, given = self._callee, injected(self._wants, runtime)
        if given:
            sync, aio = called.sync, called.aio
            called = Callee(
                None if sync is None else partial(sync, **given), None if aio is None else partial(aio, **given)
            )
        value = await Call(called, task.arg if task.sent else values[INPUT])
        if isinstance(value, entrypoint.final):
            return [(RESULT, value.value), (FINAL, True), (SAVED, value.save)]
        return [(RESULT, value), (FINAL, False)]

    @cached_property
    def all_types(self) -> frozenset[type]:
        return super().all_types | types_in(self.func)

    @property
    def InputType(self) -> Any:
        return self._hints[0]

    @property
    def OutputType(self) -> Any:
        return self._hints[1]

    @cached_property
    def _hints(self) -> tuple[Any, Any]:
        """What the annotations say of the input, and of what a caller is given."""
        try:
            hints = get_type_hints(self.func, include_extras=True)
        except (NameError, TypeError):  # annotations that cannot be read say nothing
            return Any, Any
        given = next(iter(inspect.signature(self.func).parameters))
        result = hints.get("return", Any)
        if get_origin(result) is entrypoint.final:
            result = get_args(result)[0]
        return hints.get(given, Any), Any if result is entrypoint.final else result

    def as_tool(self, args_schema: Any = None, **options: Any) -> Any:
        """As `Runnable.as_tool`; the function's docstring describes it unless `description` does."""
        if not options.get("description"):
            options["description"] = inspect.getdoc(self.func)
        return super().as_tool(args_schema, **options)

    async def run_nested(
        self, outer: Run, scope: TaskScope, given: Any, channels: Mapping[str, Channel]
    ) -> list[Write]:
        """Run as a node of another graph: its input is the state (or what was sent), its result the node's."""
        run = called_inside(self, outer, scope)
        if given is outer.values:
            given = outer.view(outer.graph.schema, given)
        return node_writes(outer.graph, scope.node, await self._told(run, given))

    # -- what a caller sees of the state

    output_is_state = False

    def output_of(self, values: dict[str, Any]) -> Any:
        return values.get(RESULT)

    def shown_of(self, values: dict[str, Any]) -> Any:
        return values.get(RESULT)

    def input_of(self, run: Run, node: str) -> Any:
        return run.values[INPUT]

    def cached_by(self, run: Run, node: Node) -> Any:
        if node.cache is not None and node.cache.key_func is not None:
            return run.values[INPUT]
        knows = "previous" in self._wants or "runtime" in self._wants
        return (run.values[INPUT], _previous(run.values) if knows else None)

    def update_of(self, writes: list[Write]) -> Any:
        return dict(writes).get(RESULT)

    def get_state(self, config: Mapping[str, Any], *, subgraphs: bool = False) -> StateSnapshot:
        """The thread as it stands: `values` is what the function returned last, None before that."""
        return _shown(super().get_state(config, subgraphs=subgraphs))

    async def aget_state(self, config: Mapping[str, Any], *, subgraphs: bool = False) -> StateSnapshot:
        """`get_state`, on the running event loop."""
        return _shown(await super().aget_state(config, subgraphs=subgraphs))

    def get_state_history(
        self, config: Mapping[str, Any], **options: Unpack[HistoryOptions]
    ) -> Iterator[StateSnapshot]:
        """Every checkpoint of the thread, newest first: two for each call, with the input and with the result."""
        return map(_shown, super().get_state_history(config, **options))

    async def aget_state_history(
        self, config: Mapping[str, Any], **options: Unpack[HistoryOptions]
    ) -> AsyncIterator[StateSnapshot]:
        """`get_state_history`, on the running event loop."""
        async for snapshot in super().aget_state_history(config, **options):
            yield _shown(snapshot)

    def update_state(self, config: Mapping[str, Any], values: Any, as_node: str | None = None) -> dict[str, Any]:
        """End the call under way, if any, as if the function had returned `values` (also an `entrypoint.final`)."""
        return super().update_state(config, _returned(values), as_node or self.name)

    async def aupdate_state(self, config: Mapping[str, Any], values: Any, as_node: str | None = None) -> dict[str, Any]:
        """`update_state`, on the running event loop."""
        return await super().aupdate_state(config, _returned(values), as_node or self.name)


def _shown(snapshot: StateSnapshot) -> StateSnapshot:
    snapshot.values = snapshot.values.get(RESULT)  # type: ignore[assignment]
    return snapshot


def _returned(value: Any) -> dict[str, Any]:
    if isinstance(value, entrypoint.final):
        return {RESULT: value.value, FINAL: True, SAVED: value.save}
    return {RESULT: value, FINAL: False}


def _previous(values: dict[str, Any]) -> Any:
    return values[SAVED] if values.get(FINAL) else values.get(RESULT)


def _parameters(function: Any, name: str) -> tuple[str, ...]:
    """Which injected values it takes, beside its one input."""
    parameters = list(inspect.signature(function).parameters.values())
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if not positional or positional[0].name in INJECTED:
        raise GraphError(
            f"The entrypoint {name!r} takes no input.",
            hint="Give it one parameter for its input, before any of " + ", ".join(INJECTED) + ".",
        )
    rest = [p for p in parameters if p is not positional[0]]
    unknown = [
        p.name
        for p in rest
        if p.name not in INJECTED and p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if unknown:
        raise GraphError(
            f"The entrypoint {name!r} takes {unknown} beside its input, which nobody passes.",
            hint="An entrypoint takes one input: pass a dict, dataclass or model with all that it needs. By name it is "
            "given " + ", ".join(INJECTED) + ".",
        )
    return tuple(p.name for p in rest if p.name in INJECTED and p.kind is not p.POSITIONAL_ONLY)


class entrypoint:  # noqa: N801 - reads as the decorator it is
    """Make a function a workflow that is saved, paused, resumed and streamed:

        @entrypoint(checkpointer=InMemorySaver())
        def workflow(topic: str, *, previous: str | None = None) -> str: ...

    It becomes an `Entrypoint`, a runnable (`invoke`, `ainvoke`, `stream`, `batch`, `get_state`, ...) of one input,
    anything but None. By name the function may take `previous` (what it returned last on this thread), `runtime`,
    `config`, `store` and `writer`. It runs from its start again after a pause or a crash: what must not happen twice
    belongs into a `@task`.

    `store` is the long-term store, `context_schema` the type of `context=`, `cache` keeps results of tasks with a
    `cache_policy`, and of the function if it has one itself. `retry_policy` tries the function again; tasks that have
    ended do not run again then. `timeout` is in seconds (or a timedelta or `TimeoutPolicy`), for each attempt.
    """

    @dataclass(slots=True)
    class final(Generic[R, S]):  # noqa: N801
        """As the return value: the caller is given `value`, and the next call finds `save` as `previous`."""

        value: R
        save: S

    def __init__(
        self,
        checkpointer: Any = None,
        store: Any = None,
        *,
        context_schema: type | None = None,
        cache: Any = None,
        cache_policy: CachePolicy | None = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        timeout: float | timedelta | TimeoutPolicy | None = None,
        name: str | None = None,
    ) -> None:
        if inspect.isroutine(checkpointer):
            raise GraphError("@entrypoint was used without parentheses.", hint="Write @entrypoint().")
        self._settings: dict[str, Any] = {
            "checkpointer": checkpointer,
            "store": store,
            "context_schema": context_schema,
            "cache": cache,
            "cache_policy": cache_policy,
            "retry_policy": retry_policy,
            "timeout": timeout,
            "name": name,
        }

    def __call__(self, function: Callable[..., Any]) -> Entrypoint:
        return Entrypoint(function, **self._settings)
