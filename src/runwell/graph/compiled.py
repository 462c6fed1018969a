"""A compiled graph: a runnable whose runs can be saved, paused, resumed and streamed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, overload

from typing_extensions import Unpack

from runwell.drivers.sync import InlineStream, SyncDriver, run_sync
from runwell.effects import Callee
from runwell.errors import InvalidInput, nearest
from runwell.graph.called import called, called_inside
from runwell.graph.engine import Run
from runwell.graph.node import Node
from runwell.graph.node_cache import CacheCalls, checked_cache, namespace_of
from runwell.graph.plan import BESIDE_STATE, Blueprint, Write
from runwell.graph.run_options import RunOptions, StreamOptions, check_invoke, reading
from runwell.graph.saver_calls import SaverCalls, checked_saver
from runwell.graph.schema import Channel, ContextT, InputT, OutputT, StateSchema, StateT
from runwell.graph.spent import SPENT, add_spent
from runwell.graph.streaming import (
    INLINE,
    GraphOutput,
    StreamPart,
)
from runwell.graph.thread_methods import ThreadMethods
from runwell.graph.updates import changed_only
from runwell.observe.context import context_with
from runwell.observe.run import open_run
from runwell.ports.command import START, Command
from runwell.ports.runtime import TaskScope
from runwell.runnables.runnable import Runnable

if TYPE_CHECKING:
    from runwell.drivers.streams import Pipe
    from runwell.graph.bound import BoundStateGraph
    from runwell.graph.builder import StateGraph
    from runwell.graph.managed import Managed
    from runwell.observe.run import OpenRun as Observed
    from runwell.runnables.graph_view import Graph

__all__ = ["CompiledStateGraph"]

Config = Mapping[str, Any] | None
Given: TypeAlias = Mapping[str, Any] | Command[Any] | None
"""What a run takes beside its own input: a dict for any kind of state, a `Command`, or None to go on."""


class CompiledStateGraph(ThreadMethods, Runnable[Any, Any], Generic[StateT, ContextT, InputT, OutputT]):
    """What `StateGraph.compile()` gives. Safe to share: every call is a run of its own.

    With a checkpointer a call needs `config={"configurable": {"thread_id": ...}}`. `invoke(None, config)` goes on where
    the thread stands; `invoke(Command(resume=...), config)` answers its open question.
    """

    def __init__(
        self,
        builder: StateGraph[StateT, ContextT, InputT, OutputT],
        blueprint: Blueprint,
        *,
        checkpointer: Any = None,
        cache: Any = None,
        store: Any = None,
        breaks_before: frozenset[str] = frozenset(),
        breaks_after: frozenset[str] = frozenset(),
        name: str = "graph",
        debug: bool = False,
        ignore_extra: bool = False,
    ) -> None:
        self.builder = builder
        self.blueprint = blueprint
        self.name = name
        self.debug = debug
        self.schema = builder.schema
        self.input_schema = builder.input
        self.output_schema = builder.output
        self.context_schema = builder.context_schema
        self.channels: dict[str, Channel] = blueprint.channels
        self.nodes = {
            name: node.compiled(builder.defaults, builder.branches.get(name, ()))
            for name, node in builder.nodes.items()
        }
        self.whole = frozenset(
            schema
            for schema in {self.schema, *(node.schema for node in self.nodes.values())}
            if schema.kind == "typeddict" and not schema.managed and schema.channels.keys() >= self.channels.keys()
        )
        """The schemas that show a node every channel, as a plain dict."""
        for node in self.nodes.values():
            node.whole = node.schema in self.whole
        entry = Node(START, Callee(_nothing, None, cheap=True), self.schema, quiet=True)
        self.nodes_and_start = {**self.nodes, START: entry.compiled({}, builder.branches.get(START, ()))}
        """What a step may run: a node, or the conditional edges from START where they have asked something."""
        self.branches = {source: tuple(branches) for source, branches in builder.branches.items()}
        self.joint = dict(builder.joint)
        self.store = store
        self.cache = checked_cache(cache)
        self.cache_calls = CacheCalls(cache) if cache else None
        self.managed: dict[str, Managed] = {name: m for each in builder.schemas for name, m in each.managed.items()}
        self.untracked = frozenset(name for name, channel in self.channels.items() if not channel.tracked)
        self.breaks_before = breaks_before
        self.breaks_after = breaks_after
        self.ignore_extra = ignore_extra
        self.caching = [name for name, node in self.nodes.items() if node.cache is not None]
        self.quiet = any(node.quiet for node in self.nodes.values())
        self.passes = (
            any(node.passes for node in self.nodes.values())
            and not self.blueprint.deferred
            and not self.blueprint.joins
        )
        """Whether steps may follow one another in a task; see `Run.through`."""
        self.only_edge = {
            name: edges[0]
            for name, edges in self.blueprint.edges.items()
            if len(edges) == 1 and edges[0] in self.nodes and name in self.nodes and name not in self.joint
        }
        """Where a node leads that says nothing, if that needs no asking."""
        self.on_input: Callable[[Run, list[Write]], list[Write]] | None = None
        self.check_caller: Callable[[list[Write]], None] | None = None
        """Refuses what the caller of a run that is in no other may not write, in an input and in a Command."""
        self.on_open: Callable[[Run], None] | None = None
        """Called when a run has its state, before anything runs."""
        self.counts = SPENT in self.channels and self.channels[SPENT].reducer is add_spent
        self.hidden: frozenset[str] = BESIDE_STATE
        """What a reader of updates is not shown: some keys of the state, and what is beside it."""
        self.goes_on: AbstractSet[str] = frozenset()
        """Nodes whose own code tells of something before it waits or calls anybody's code, at each turn."""
        self.pauses: tuple[str, ...] = ()
        """Why a run of this graph may pause; with reasons given, a run that nothing can save is refused at once."""
        self.needs_store: tuple[str, ...] = ()
        self.types: frozenset[type] = frozenset()
        self.default_limit: int | None = None
        self.default_concurrency: int | None = None
        self.stop_on_error = False
        """Whether a step's tasks are stopped when one of them fails, where that is possible."""
        self.checkpointer = checked_saver(checkpointer)

    def with_checkpointer(self, checkpointer: Any) -> CompiledStateGraph:
        """The same graph, saved by `checkpointer` and by nothing else. This one stays as it is."""
        changed = copy(self)
        changed.__dict__.pop("saver_calls", None)  # made from the other one, if it has run
        changed.checkpointer = checked_saver(checkpointer)
        return changed

    def with_config(self, config: Config = None, **kwargs: Any) -> BoundStateGraph:
        """The same, called with this config merged under each call's own, `get_state()` and the like included."""
        from runwell.graph.bound import BoundStateGraph
        from runwell.runnables.config import merge_configs

        return BoundStateGraph(self, config=merge_configs(config, kwargs))

    @cached_property
    def shown(self) -> frozenset[str]:
        """The keys of a state that a snapshot shows."""
        return frozenset(self.channels)

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        return str(name or self.name) + (suffix or "")

    @cached_property
    def saver_calls(self) -> SaverCalls | None:
        own = self.checkpointer is not None and not isinstance(self.checkpointer, bool)
        return SaverCalls(self.checkpointer, self.all_types) if own else None

    # -- what a caller sees of the state

    output_is_state: ClassVar[bool] = True

    def output_of(self, values: dict[str, Any]) -> Any:
        """What a run gives, from all values."""
        channels = self.output_schema.channels
        if len(channels) == len(self.channels):
            return dict(values)
        return {name: value for name, value in values.items() if name in channels}

    def shown_of(self, values: dict[str, Any]) -> Any:
        """What a snapshot of the state shows."""
        return {name: value for name, value in values.items() if name in self.shown}

    def watched_of(self, values: dict[str, Any]) -> dict[str, Any]:
        """What who watches a node is told of the state it begins with."""
        return values

    @cached_property
    def asks_nobody(self) -> bool:
        """Whether nothing of a user's is called between its nodes: no conditional edge, reducer or validator."""
        edges = [*self.joint.values(), *(branch for branches in self.branches.values() for branch in branches)]
        reducers = [channel.reducer for channel in self.channels.values() if channel.reducer is not None]
        return (
            self.schema.kind != "pydantic"
            and all(branch.flow is not None for branch in edges)
            and all(str(getattr(reducer, "__module__", "")).startswith("runwell.") for reducer in reducers)
        )

    def input_of(self, run: Run, node: str) -> Any:
        """What a node of a run is given."""
        return run.view(self.nodes_and_start[node].schema, run.values)

    def cached_by(self, run: Run, node: Node) -> Any:
        """What makes two runs of a node the same."""
        return self.input_of(run, node.name)

    def update_of(self, writes: list[Write]) -> Any:
        """What a node gave, from its writes."""
        hidden = self.hidden
        return {name: value for name, value in writes if name not in hidden} or None

    # -- running

    @overload  # type: ignore[override]
    def invoke(
        self,
        input: InputT | Given,
        config: Config = None,
        *,
        version: Literal["v1"] = "v1",
        **options: Unpack[RunOptions],
    ) -> dict[str, Any]: ...
    @overload
    def invoke(
        self, input: InputT | Given, config: Config = None, *, version: Literal["v2"], **options: Unpack[RunOptions]
    ) -> GraphOutput[OutputT]: ...
    def invoke(
        self, input: InputT | Given, config: Config = None, *, version: str = "v1", **options: Unpack[RunOptions]
    ) -> Any:
        """Run to the end, or to a pause (open questions stand under `"__interrupt__"`), and give the state.

        `options` are those of `RunOptions`. With `version="v2"` it gives a `GraphOutput`: `value` and `interrupts`.
        """
        check_invoke(version, options)
        run, observed = called(self, input, config, options)
        if observed is None:
            return _given(run_sync(run.flow(input), run.sink), version)
        with observed:
            return _given(observed.end(run_sync(run.flow(input), run.sink)), version)

    @overload  # type: ignore[override]
    async def ainvoke(
        self,
        input: InputT | Given,
        config: Config = None,
        *,
        version: Literal["v1"] = "v1",
        **options: Unpack[RunOptions],
    ) -> dict[str, Any]: ...
    @overload
    async def ainvoke(
        self, input: InputT | Given, config: Config = None, *, version: Literal["v2"], **options: Unpack[RunOptions]
    ) -> GraphOutput[OutputT]: ...
    async def ainvoke(
        self, input: InputT | Given, config: Config = None, *, version: str = "v1", **options: Unpack[RunOptions]
    ) -> Any:
        """`invoke`, on the running event loop."""
        check_invoke(version, options)
        going = self._going(input, config, options)
        del input, config, options  # not needed while it waits
        return _given(await going, version)

    def _going(self, given: Any, config: Config, options: Mapping[str, Any]) -> Awaitable[Any]:
        from runwell.drivers.aio import running

        run, observed = called(self, given, config, options)
        emit = None if run.sink is None else _awaited(run.sink)
        if observed is None:
            return running(run.flow(given), emit)
        if not observed.watched:
            return running(run.flow(given), emit, context_with(observed))
        return observed.acall(lambda: running(run.flow(given), emit))

    @overload  # type: ignore[override]
    def stream(
        self,
        input: InputT | Given,
        config: Config = None,
        *,
        version: Literal["v1"] = "v1",
        **options: Unpack[StreamOptions],
    ) -> Iterator[Any]: ...
    @overload
    def stream(
        self, input: InputT | Given, config: Config = None, *, version: Literal["v2"], **options: Unpack[StreamOptions]
    ) -> Iterator[StreamPart]: ...
    def stream(
        self, input: InputT | Given, config: Config = None, *, version: str = "v1", **options: Unpack[StreamOptions]
    ) -> Iterator[Any]:
        """What happens as it happens; close it (or drop it) to stop the run.

        `options` are those of `StreamOptions`; `version="v2"` gives `StreamPart`s whatever the modes. With `"messages"`
        or `"custom"` among the modes the nodes run in another thread, and go on while you read; else they run when you
        ask for the next item.
        """
        modes, shape = reading(options, version)
        run, observed = called(self, input, config, options)
        if INLINE.issuperset(modes):

            def start(driver: SyncDriver) -> Any:
                put = driver.emit
                assert put is not None
                run.sink = driver.emit = lambda item: put(shape(item))
                return _watched(run, observed, input)

            return InlineStream(start)
        from runwell.drivers.streams import SyncStream

        def produce(pipe: Pipe) -> None:
            def put(item: Any) -> None:
                pipe.put(shape(item))

            self._listen(run, put)
            if observed is None:
                run_sync(run.flow(input), put)
            else:
                with observed:
                    observed.end(run_sync(run.flow(input), put))

        return SyncStream(produce, given_up=lambda: run_sync(run.let_go()))

    @overload  # type: ignore[override]
    def astream(
        self,
        input: InputT | Given,
        config: Config = None,
        *,
        version: Literal["v1"] = "v1",
        **options: Unpack[StreamOptions],
    ) -> AsyncIterator[Any]: ...
    @overload
    def astream(
        self, input: InputT | Given, config: Config = None, *, version: Literal["v2"], **options: Unpack[StreamOptions]
    ) -> AsyncIterator[StreamPart]: ...
    def astream(
        self, input: InputT | Given, config: Config = None, *, version: str = "v1", **options: Unpack[StreamOptions]
    ) -> AsyncIterator[Any]:
        """`stream`, on the running event loop; the run goes on in one task while you read."""
        from runwell.drivers.aio import run_async
        from runwell.drivers.streams import AsyncStream

        _, shape = reading(options, version)
        run, observed = called(self, input, config, options)

        async def produce(pipe: Pipe) -> None:
            self._listen(run, lambda item: pipe.put(shape(item)))

            async def emit(item: Any) -> None:
                await pipe.aput(shape(item))

            if observed is None:
                await run_async(run.flow(input), emit)
            else:
                async with observed:
                    observed.end(await run_async(run.flow(input), emit))

        return AsyncStream(produce)

    @staticmethod
    def _listen(run: Run, put: Callable[[Any], None]) -> None:
        """Give nodes and models inside the run somewhere to write to."""
        run.sink = put
        if run.messages is not None:
            run.messages.put = put
        if "custom" in run.modes:
            run.base.stream_writer = lambda item: put((run.ns, "custom", item))

    @cached_property
    def all_types(self) -> frozenset[type]:
        """The classes that this graph's state may hold: those that its schemas, the context's included, speak of."""
        from runwell.persistence.serialization import reachable_types

        types = set(self.types)
        for schema in (*(each.type for each in self.builder.schemas), self.context_schema):
            types |= reachable_types(schema)
        return frozenset(types)

    async def run_nested(
        self, outer: Run, scope: TaskScope, given: Any, channels: Mapping[str, Channel]
    ) -> list[Write]:
        """Run as a node of another graph: same driver, same thread, own namespace. Gives what changed, as writes."""
        run = called_inside(self, outer, scope)
        run.shares = frozenset(channels)
        known = self.input_schema.channels
        if isinstance(given, Mapping):
            given = {name: value for name, value in given.items() if name in known}
        result = await self._told(run, given)
        return changed_only(channels, given if isinstance(given, Mapping) else {}, result)

    async def _told(self, run: Run, given: Any) -> Any:
        """The flow of a run as a node, a run of its own for those who watch."""
        observed = open_run("graph", self, given)
        if observed is None:
            return await run.flow(given)
        with observed:
            return observed.end(await run.flow(given))

    @property
    def InputType(self) -> Any:
        """The class of its input: the input schema."""
        return self.input_schema.type if self.output_is_state else Any

    @property
    def OutputType(self) -> Any:
        """The class whose keys its output has: the output schema."""
        return self.output_schema.type if self.output_is_state else Any

    def get_input_schema(self, config: Any = None) -> type[Any]:
        """A pydantic model of the input: a field for each key of the input schema."""
        return self._model_of("input", self.input_schema) if self.output_is_state else super().get_input_schema(config)

    def get_output_schema(self, config: Any = None) -> type[Any]:
        """A pydantic model of the output: a field for each key of the output schema."""
        return (
            self._model_of("output", self.output_schema) if self.output_is_state else super().get_output_schema(config)
        )

    def _model_of(self, side: str, schema: StateSchema) -> type[Any]:
        if schema.kind == "pydantic":
            return schema.type
        from runwell.runnables.schemas import model_of

        required = schema.required if side == "input" else ()
        keys = schema.channels.items()
        return model_of(self, side, {name: (key.annotation, ... if name in required else None) for name, key in keys})

    def get_subgraphs(self, *, recurse: bool = False) -> Iterator[tuple[str, CompiledStateGraph]]:
        """The graphs that are nodes, by name; with `recurse` those in them too, as `outer|inner`."""
        for name, node in self.nodes.items():
            inner = node.subgraph or node.around
            if inner is not None:
                yield name, inner
                if recurse:
                    yield from ((f"{name}|{deep}", graph) for deep, graph in inner.get_subgraphs(recurse=True))

    def get_graph(self, config: Config = None, *, xray: bool | int = False) -> Graph:
        """The nodes and the ways between them, to draw. `xray` shows what nested graphs are made of."""
        from runwell.graph.drawing import picture

        return picture(self, xray)

    # -- the cache

    def clear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """Forget the kept results of these nodes; None: of all, those of graphs inside included."""
        namespaces = self._namespaces(nodes)
        if self.cache_calls is not None:
            run_sync(self.cache_calls.clear(namespaces))

    async def aclear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """`clear_cache`, on the running event loop."""
        from runwell.drivers.aio import run_async

        namespaces = self._namespaces(nodes)
        if self.cache_calls is not None:
            await run_async(self.cache_calls.clear(namespaces))

    def _namespaces(self, nodes: Sequence[str] | None) -> list[tuple[str, ...]]:
        for name in nodes or ():
            if name not in self.nodes:
                raise InvalidInput(
                    f"{name!r} is not a node{nearest(name, self.nodes)}.", hint=f"Nodes are {sorted(self.nodes)}."
                )
        found = [namespace_of(self.get_name(), name) for name in (self.nodes if nodes is None else nodes)]
        for name, node in self.nodes.items():
            if node.subgraph is not None and (nodes is None or name in nodes):
                found += node.subgraph._namespaces(None)
        return found


def _nothing(state: Any) -> None:
    """What START changes in the state."""


def _given(output: Any, version: str) -> Any:
    """A run's output in the form the caller asked for."""
    return GraphOutput.of(output) if version == "v2" else output


def _awaited(put: Callable[[Any], None]) -> Callable[[Any], Awaitable[None]]:
    async def emit(item: Any) -> None:
        put(item)

    return emit


async def _watched(run: Run, observed: Observed | None, given: Any) -> Any:
    """A run's flow inside its observed run, for a stream that is driven step by step in a context of its own."""
    if observed is None:
        return await run.flow(given)
    with observed:
        return observed.end(await run.flow(given))
