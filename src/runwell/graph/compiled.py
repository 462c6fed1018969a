"""A compiled graph: a runnable whose runs can be saved, paused, resumed and streamed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, TypedDict, get_args, overload

from typing_extensions import Unpack, is_typeddict

from runwell.drivers.sync import InlineStream, SyncDriver, run_sync
from runwell.effects import Callee
from runwell.errors import GraphError, InvalidConfig, InvalidInput, NoCheckpointer, nearest
from runwell.graph import thread
from runwell.graph.engine import Run
from runwell.graph.nesting import nest
from runwell.graph.node import Node
from runwell.graph.node_cache import CacheCalls, checked_cache, namespace_of
from runwell.graph.plan import Blueprint, Write
from runwell.graph.saver_calls import SaverCalls
from runwell.graph.schema import Channel, ContextT, InputT, OutputT, StateSchema, StateT, is_schema, told_errors
from runwell.graph.snapshot import StateSnapshot
from runwell.graph.spent import SPENT, add_spent
from runwell.graph.streaming import (
    INLINE,
    GraphOutput,
    MessagesHandler,
    StreamMode,
    StreamPart,
    check_modes,
    inherit,
    shaped,
)
from runwell.graph.updates import as_update, changed_only
from runwell.observe.context import CURRENT, UNSET, RunContext, context_with
from runwell.observe.inherit import add_handlers
from runwell.observe.run import open_run
from runwell.ports.command import START, Command
from runwell.ports.control import RunControl
from runwell.ports.runtime import CURRENT_TASK, ExecutionInfo, LaterConfig, Principal, Runtime, TaskScope
from runwell.runnables.runnable import Runnable

if TYPE_CHECKING:
    from runwell.drivers.streams import Pipe
    from runwell.graph.bound import BoundStateGraph
    from runwell.graph.builder import StateGraph
    from runwell.graph.managed import Managed
    from runwell.observe.run import Run as Observed
    from runwell.persistence.checkpoints.threads import PendingInterrupt
    from runwell.runnables.graph_view import Graph

__all__ = ["CompiledStateGraph", "Durability", "RunOptions", "StreamOptions"]

Config = Mapping[str, Any] | None
Given: TypeAlias = Mapping[str, Any] | Command[Any] | None
"""What a run takes beside its own input: a dict for any kind of state, a `Command`, or None to go on."""
Durability = Literal["sync", "async", "exit"]
DURABILITY = get_args(Durability)
ON_BUSY = ("raise", "wait", "take")


class RunOptions(TypedDict, total=False):
    """What a call may say beside input and config.

    `context` is what nodes find in `runtime.context`. `interrupt_before`/`interrupt_after` pause at these nodes in
    this run ("*": all). `durability`: `"sync"` (default) saves a step before the next begins, `"async"` while the
    next runs, `"exit"` only at the end. `answer_interrupts(interrupt)` answers questions in process instead of
    pausing. `control` can stop the run between steps; `principal` says on whose behalf it acts. `on_busy` is for a
    thread that another run has: `"raise"` (default) raises ThreadBusy before anything runs, `"wait"` waits for its
    end, `"take"` takes the thread over, and that run stops at its next save.
    """

    context: Any
    control: RunControl | None
    principal: Principal | None
    interrupt_before: Sequence[str] | str
    interrupt_after: Sequence[str] | str
    durability: Durability
    answer_interrupts: Callable[[Any], Any]
    on_busy: Literal["raise", "wait", "take"]


class StreamOptions(RunOptions, total=False):
    """`stream_mode` (default `"updates"`) is one mode, whose chunks are given, or a list, which gives (mode, chunk).

    `"updates"` gives `{node: its update}`, `"values"` the state after each step, `"messages"` (chunk, metadata) as
    models speak, `"custom"` what nodes write, `"tasks"` how each task begins and ends, `"checkpoints"` what was saved,
    `"debug"` the last two with step and time. `subgraphs=True` also streams what happens in nested graphs, and puts
    their path in front: (path, chunk) or (path, mode, chunk).
    """

    stream_mode: StreamMode | Sequence[StreamMode]
    subgraphs: bool


_NOWHERE = ExecutionInfo()
"""One for all runs: where its code runs, each task says for itself."""
OPTIONS = frozenset({*StreamOptions.__annotations__, "version"})


class CompiledStateGraph(Runnable[Any, Any], Generic[StateT, ContextT, InputT, OutputT]):
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
        self.hidden: frozenset[str] = frozenset()
        """Keys of the state that a reader of updates is not shown."""
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

    def input_of(self, run: Run, node: str) -> Any:
        """What a node of a run is given."""
        return run.view(self.nodes_and_start[node].schema, run.values)

    def cached_by(self, run: Run, node: Node) -> Any:
        """What makes two runs of a node the same."""
        return self.input_of(run, node.name)

    def update_of(self, writes: list[Write]) -> Any:
        """What a node gave, from its writes."""
        return as_update(writes, self.hidden)

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
        _check_invoke(version, options)
        run, observed = self._run(input, config, options)
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
        _check_invoke(version, options)
        going = self._going(input, config, options)
        del input, config, options  # not needed while it waits
        return _given(await going, version)

    def _going(self, given: Any, config: Config, options: Mapping[str, Any]) -> Awaitable[Any]:
        from runwell.drivers.aio import running

        run, observed = self._run(given, config, options)
        emit = None if run.sink is None else _awaited(run.sink)
        if observed is None:
            return running(run.flow(given), emit)
        if not observed.watched:
            return running(run.flow(given), emit, context_with(observed.context))
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
        modes, shape = _reading(options, version)
        run, observed = self._run(input, config, options)
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

        _, shape = _reading(options, version)
        run, observed = self._run(input, config, options)

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

    def _run(self, given: Any, config: Config, options: Mapping[str, Any]) -> tuple[Run, Observed | None]:
        """A run ready to be driven. Everything about the call that can be wrong is refused here."""
        run = Run(self)
        scope = CURRENT_TASK.get()
        run.breaks_before, run.breaks_after = self.breaks_before, self.breaks_after
        if options:
            self._take_options(run, options)
            if run.messages is not None:
                config = {**(config or {})}
                config["callbacks"] = list(add_handlers((run.messages,), config.get("callbacks")))
        observed = open_run("graph", self, given, config)
        known: RunContext | None = observed.context if observed is not None else CURRENT.get()
        configurable: Mapping[str, Any] = known.configurable if known is not None else {}
        if known is not None:
            run.limit = known.recursion_limit
            run.max_concurrency = known.max_concurrency if isinstance(known.max_concurrency, int) else None
            run.metadata = known.metadata
        if run.max_concurrency is None and (known is None or known.max_concurrency is UNSET):
            run.max_concurrency = self.default_concurrency
        if self.default_limit is not None and not (config and config.get("recursion_limit")):
            run.limit = max(run.limit, self.default_limit)
        own = configurable.get("thread_id")
        called = (config or {}).get("configurable") or {}
        inside = scope is not None and scope.run is not None
        if inside and (self.saver_calls is None or called.get("thread_id") is None):
            assert scope is not None
            nest(run, self, scope)
        elif self.checkpointer is True:
            raise NoCheckpointer(
                f"Graph {self.name!r} keeps its memory in the thread of the graph that calls it, and none does.",
                hint="Compile it with a checkpointer of its own to call it by itself.",
            )
        elif self.saver_calls is not None:
            if own is None:
                raise InvalidConfig(
                    f"Graph {self.name!r} has a checkpointer, and the call names no thread.",
                    hint='Pass config={"configurable": {"thread_id": "..."}}.',
                )
            run.saver = self.saver_calls
            run.thread_id = thread.named(own)
            ns, pick = str(called.get("checkpoint_ns") or ""), called.get("checkpoint_id")
            if inside and scope is not None and pick in (scope.run.asked, None):
                ns, pick = "", None  # a config handed on: that was a checkpoint of the graph around this one
            run.ns = ns
            if pick is not None:
                run.pick = run.asked = pick
        run.base = base = Runtime(
            context=self._context(options.get("context"), scope),
            store=self.store,
            principal=options.get("principal"),
            config=LaterConfig(known) if known is not None else {},  # type: ignore[arg-type]
            execution_info=_NOWHERE,
            control=run.control,
        )
        if scope is not None:
            around = scope.runtime
            base.budget = around.budget
            base.store = around.store if base.store is None else base.store
            base.principal = around.principal if base.principal is None else base.principal
            if inside:
                base.stream_writer = around.stream_writer
                inherit(run, scope.run)
                if run.answer_in_process is None:
                    run.answer_in_process = scope.run.answer_in_process
        self._refuse(run)
        return run, observed

    def _take_options(self, run: Run, options: Mapping[str, Any]) -> None:
        """What a call says beside input and config, into its run; the context goes into its runtime."""
        for name in options:
            if name not in OPTIONS:
                raise InvalidInput(
                    f"{self.name!r} was called with an unknown option {name!r}{nearest(name, OPTIONS)}.",
                    hint=f"Options are {sorted(OPTIONS)}; the rest goes into config.",
                )
        get = options.get
        if "stream_mode" in options:
            run.modes = frozenset(check_modes(options["stream_mode"]))
            run.subgraphs = get("subgraphs", False)
            if "messages" in run.modes:
                run.messages = MessagesHandler(lambda item: None, run.subgraphs)
        if durability := get("durability"):
            if durability not in DURABILITY:
                raise InvalidInput(f"durability is {durability!r}.", hint=f"It is one of {DURABILITY}.")
            run.durability = durability
        if on_busy := get("on_busy"):
            if on_busy not in ON_BUSY:
                raise InvalidInput(f"on_busy is {on_busy!r}.", hint=f"It is one of {ON_BUSY}.")
            run.on_busy = on_busy
        run.answer_in_process, run.control = get("answer_interrupts"), get("control")
        for option, kind in (("control", RunControl), ("principal", Principal)):
            if get(option) is not None and not isinstance(options[option], kind):
                raise InvalidInput(f"{option} is {options[option]!r:.200}.", hint=f"Pass a {kind.__name__}.")
        before, after = get("interrupt_before"), get("interrupt_after")
        if before is not None:
            run.breaks_before = self._breaks(before)
        if after is not None:
            run.breaks_after = self._breaks(after)

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
        run = self._within(outer, scope)
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

    def _within(self, outer: Run, scope: TaskScope) -> Run:
        """A run as a node of another graph's."""
        run = Run(self)
        run.base = outer.base.override(budget=scope.runtime.budget)
        run.limit, run.max_concurrency, run.metadata = outer.limit, outer.max_concurrency, outer.metadata
        nest(run, self, scope)
        run.answer_in_process = outer.answer_in_process
        run.breaks_before, run.breaks_after = self.breaks_before, self.breaks_after
        inherit(run, outer)
        self._refuse(run)
        return run

    def _refuse(self, run: Run) -> None:
        """What can be known to fail is refused before anything runs."""
        if self.pauses and run.saver is None and run.answer_in_process is None:
            raise NoCheckpointer(
                f"{self.name!r} may pause ({'; '.join(self.pauses)}), and nothing can save the pause.",
                hint="Give it a checkpointer (InMemorySaver, SqliteSaver) and a thread_id, or pass answer_interrupts=.",
            )
        if run.saver is None and (breaks := run.breaks_before | run.breaks_after):
            raise NoCheckpointer(
                f"{self.name!r} has a breakpoint at {sorted(breaks)}, and nothing can save the pause.",
                hint="Give it a checkpointer (InMemorySaver, SqliteSaver) and a thread_id.",
            )
        if self.caching and run.cache is None and self.cache is not False:
            raise InvalidInput(
                f"{self.name!r} has nodes with a cache_policy ({self.caching}), and no cache to keep results in.",
                hint="Compile it with cache=InMemoryCache() or SqliteCache(path), or cache=False to keep nothing.",
            )
        if self.needs_store and run.base.store is None:
            raise InvalidInput(
                f"{self.name!r} needs a store ({'; '.join(self.needs_store)}), and has none.",
                hint="Pass store= when it is built.",
            )

    def _breaks(self, asked: Sequence[str] | str) -> frozenset[str]:
        problems: list[str] = []
        found = self.builder._breaks(asked, problems)
        if problems:
            raise InvalidInput("; ".join(problems), hint=f"Nodes are {sorted(self.nodes)}.")
        return found

    def _context(self, context: Any, scope: TaskScope | None) -> Any:
        if context is None:
            return scope.runtime.context if scope is not None else None
        schema = self.context_schema
        if schema is not None and isinstance(context, Mapping) and is_typeddict(schema):
            known = schema.__annotations__
            for key in context:
                if key not in known:
                    raise InvalidInput(
                        f"context has an unknown key {key!r}{nearest(str(key), known)}.",
                        hint=f"{schema.__qualname__!r} has {sorted(known)}.",
                    )
        if schema is None or not is_schema(schema) or (is_typeddict(schema) and isinstance(context, Mapping)):
            return context
        if not isinstance(context, Mapping):
            fields = (
                schema.__annotations__
                if is_typeddict(schema)
                else getattr(schema, "__dataclass_fields__", None) or getattr(schema, "model_fields", {})
            )
            if is_typeddict(schema) or not all(hasattr(context, name) for name in fields):
                raise InvalidInput(
                    f"context={context!r:.200} is no {schema.__qualname__!r}.",
                    hint=f"Pass one, or a dict of {sorted(fields)}.",
                )
            return context
        try:
            return schema(**context)
        except (TypeError, ValueError) as error:  # a Pydantic ValidationError is a ValueError
            told = told_errors(error) if hasattr(error, "errors") else str(error)
            raise InvalidInput(
                f"context={context!r:.200} does not fit {schema.__qualname__!r}: {told}.",
                hint="Pass the fields the context_schema declares.",
            ) from error

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

    # -- the thread's state

    def get_state(self, config: Mapping[str, Any], *, subgraphs: bool = False) -> StateSnapshot:
        """The thread as it stands, or stood at the config's `checkpoint_id`: values, what comes next, questions.

        `subgraphs` puts the state of a nested graph that has begun into its task's `state`.
        """
        return run_sync(thread.state(self, config, subgraphs=subgraphs))

    async def aget_state(self, config: Mapping[str, Any], *, subgraphs: bool = False) -> StateSnapshot:
        """`get_state`, on the running event loop."""
        from runwell.drivers.aio import run_async

        return await run_async(thread.state(self, config, subgraphs=subgraphs))

    def get_state_history(
        self, config: Mapping[str, Any], **options: Unpack[thread.HistoryOptions]
    ) -> Iterator[StateSnapshot]:
        """Every checkpoint of the thread, newest first."""
        return iter(run_sync(thread.history(self, config, options)))

    async def aget_state_history(
        self, config: Mapping[str, Any], **options: Unpack[thread.HistoryOptions]
    ) -> AsyncIterator[StateSnapshot]:
        """`get_state_history`, on the running event loop."""
        from runwell.drivers.aio import run_async

        for snapshot in await run_async(thread.history(self, config, options)):
            yield snapshot

    def update_state(self, config: Mapping[str, Any], values: Any, as_node: str | None = None) -> dict[str, Any]:
        """Change the thread's state as if `as_node` had returned `values`; gives the config of the new checkpoint.

        `as_node` defaults to the node that ran last; what comes next follows from its edges, or stays as it is if that
        node had jumped there with a `Command`. END ends the run. With a `checkpoint_id` in the config the change starts
        a branch there.
        """
        return run_sync(thread.update(self, config, values, as_node))

    async def aupdate_state(self, config: Mapping[str, Any], values: Any, as_node: str | None = None) -> dict[str, Any]:
        """`update_state`, on the running event loop."""
        from runwell.drivers.aio import run_async

        return await run_async(thread.update(self, config, values, as_node))

    def bulk_update_state(
        self, config: Mapping[str, Any], supersteps: Sequence[Sequence[thread.StateUpdate]]
    ) -> dict[str, Any]:
        """Make a history by hand: a checkpoint for each superstep, whose `StateUpdate`s count as one step's.

        Gives the config of the last one. What is saved before a superstep that is refused stays.
        """
        return run_sync(thread.bulk_update(self, config, supersteps))

    async def abulk_update_state(
        self, config: Mapping[str, Any], supersteps: Sequence[Sequence[thread.StateUpdate]]
    ) -> dict[str, Any]:
        """`bulk_update_state`, on the running event loop."""
        from runwell.drivers.aio import run_async

        return await run_async(thread.bulk_update(self, config, supersteps))

    def list_interrupts(self, *, limit: int | None = None) -> list[PendingInterrupt]:
        """The open questions of every thread of the checkpointer, the longest waiting first, each with its config."""
        return run_sync(thread.questions(self, limit))

    async def alist_interrupts(self, *, limit: int | None = None) -> list[PendingInterrupt]:
        """`list_interrupts`, on the running event loop."""
        from runwell.drivers.aio import run_async

        return await run_async(thread.questions(self, limit))


def _nothing(state: Any) -> None:
    """What START changes in the state."""


def checked_saver(given: Any) -> Any:
    """What a graph saves with, as it asks for it; GraphError if it cannot."""
    if isinstance(given, type):
        raise GraphError(f"checkpointer is the class {given.__name__!r}.", hint=f"Pass one: {given.__name__}(...).")
    if not hasattr(given, "commit") and (hasattr(given, "get_tuple") or hasattr(given, "aget_tuple")):
        from runwell.persistence.checkpoints.adapter import SaverAdapter  # written for another framework

        return SaverAdapter(given)
    if not (given is None or isinstance(given, bool) or callable(getattr(given, "commit", 0))):
        raise GraphError(
            f"checkpointer={given!r} cannot save a graph.",
            hint="Pass a saver such as InMemorySaver() or SqliteSaver(path). Inside another graph None saves each "
            "call by itself, True keeps a memory per thread, False saves nothing.",
        )
    return given


def _check_version(version: str) -> None:
    if version not in ("v1", "v2"):
        raise InvalidInput(f"version is {version!r}.", hint='It is "v1" (default) or "v2".')


def _check_invoke(version: str, options: Mapping[str, Any]) -> None:
    _check_version(version)
    for name in ("stream_mode", "subgraphs") if options else ():
        if options.get(name) not in (None, False, "values"):
            raise InvalidInput(
                f"invoke() got {name}={options[name]!r:.100}.",
                hint=f"invoke() gives the state at the end; stream(..., {name}=...) gives what happens on the way.",
            )


def _reading(options: StreamOptions, version: str) -> tuple[tuple[str, ...], Callable[[Any], Any]]:
    """The modes asked for, and what gives an emitted item the form the reader expects."""
    asked = options.setdefault("stream_mode", "updates")
    modes, several, subgraphs = check_modes(asked), not isinstance(asked, str), options.get("subgraphs", False)
    _check_version(version)
    parts = version == "v2"
    if not (several or subgraphs or parts):
        return modes, itemgetter(2)
    return modes, lambda item: shaped(item, several, subgraphs, parts)


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
