"""A compiled graph: a runnable whose runs can be saved, paused, resumed and streamed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from runwell.drivers.sync import InlineStream, run_sync
from runwell.errors import GraphError, InvalidConfig, InvalidInput, NoCheckpointer
from runwell.graph.engine import Run, SaverCalls, node_writes
from runwell.graph.plan import JUMP, Blueprint, Write, apply_writes, plan_tasks
from runwell.graph.schema import Channel
from runwell.graph.snapshot import StateSnapshot, config_of, snapshot_of
from runwell.graph.streaming import INLINE, MessagesHandler, check_modes, shaped
from runwell.observe.context import CURRENT, UNSET, RunContext
from runwell.observe.run import open_run
from runwell.ports.command import START
from runwell.ports.runtime import CURRENT_TASK, Runtime, TaskScope
from runwell.runnables.runnable import Runnable

if TYPE_CHECKING:
    from runwell.graph.builder import StateGraph
    from runwell.observe.run import Run as Observed

__all__ = ["CompiledStateGraph"]

DURABILITY = ("sync", "async", "exit")


class CompiledStateGraph(Runnable[Any, Any]):
    """What `StateGraph.compile()` gives. Safe to share: every call is a run of its own.

    With a checkpointer a call needs `config={"configurable": {"thread_id": ...}}`. `invoke(None, config)` goes on where
    the thread stands; `invoke(Command(resume=...), config)` answers its open question.
    """

    def __init__(
        self,
        builder: StateGraph[Any],
        blueprint: Blueprint,
        *,
        checkpointer: Any = None,
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
        self.nodes = dict(builder.nodes)
        self.branches = {source: tuple(branches) for source, branches in builder.branches.items()}
        self.joint = dict(builder.joint)
        self.store = store
        self.breaks_before = breaks_before
        self.breaks_after = breaks_after
        self.ignore_extra = ignore_extra
        self.quiet = any(node.quiet for node in self.nodes.values())
        self.on_input: Callable[[Run, list[Write]], list[Write]] | None = None
        self.pauses: tuple[str, ...] = ()
        """Why a run of this graph may pause; with reasons given, a run that nothing can save is refused at once."""
        self.needs_store: tuple[str, ...] = ()
        self.types: frozenset[type] = frozenset()
        self.default_limit: int | None = None
        self.default_concurrency: int | None = None
        self.checkpointer = checkpointer
        if checkpointer not in (None, False) and not callable(getattr(checkpointer, "commit", None)):
            raise GraphError(
                f"checkpointer={checkpointer!r} cannot save a graph.",
                hint="Pass a saver such as InMemorySaver() or SqliteSaver(path); None inherits, False means none.",
            )

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        return f"{name or self.name}{suffix or ''}"

    @cached_property
    def saver_calls(self) -> SaverCalls | None:
        return SaverCalls(self.checkpointer, self.all_types) if self.checkpointer not in (None, False) else None

    # -- running

    def invoke(
        self,
        input: Any,
        config: Mapping[str, Any] | None = None,
        *,
        context: Any = None,
        interrupt_before: Sequence[str] | str | None = None,
        interrupt_after: Sequence[str] | str | None = None,
        durability: str | None = None,
        answer_interrupts: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Run to the end, or to a pause (open questions stand under `"__interrupt__"`), and give the state.

        `context` is what nodes find in `runtime.context`. `durability`: `"sync"` (default) saves a step before the next
        begins, `"async"` while the next runs, `"exit"` only at the end. `answer_interrupts` answers questions in process
        instead of pausing.
        """
        run, observed = self._run(
            input, config, context, interrupt_before, interrupt_after, durability, answer_interrupts
        )
        if observed is None:
            return run_sync(run.flow(input))
        with observed:
            return observed.end(run_sync(run.flow(input)))

    async def ainvoke(
        self,
        input: Any,
        config: Mapping[str, Any] | None = None,
        *,
        context: Any = None,
        interrupt_before: Sequence[str] | str | None = None,
        interrupt_after: Sequence[str] | str | None = None,
        durability: str | None = None,
        answer_interrupts: Callable[[Any], Any] | None = None,
    ) -> Any:
        """`invoke`, on the running event loop."""
        from runwell.drivers.aio import run_async

        run, observed = self._run(
            input, config, context, interrupt_before, interrupt_after, durability, answer_interrupts
        )
        if observed is None:
            return await run_async(run.flow(input))
        async with observed:
            return observed.end(await run_async(run.flow(input)))

    def stream(
        self,
        input: Any,
        config: Mapping[str, Any] | None = None,
        *,
        stream_mode: str | Sequence[str] = "updates",
        subgraphs: bool = False,
        context: Any = None,
        interrupt_before: Sequence[str] | str | None = None,
        interrupt_after: Sequence[str] | str | None = None,
        durability: str | None = None,
        answer_interrupts: Callable[[Any], Any] | None = None,
    ) -> Iterator[Any]:
        """What happens as it happens; close it (or drop it) to stop the run.

        Modes: `"updates"` (`{node: its update}`), `"values"` (the state after each step), `"messages"` ((chunk, metadata) as models
        speak), `"custom"` (what nodes write), `"checkpoints"`. A list of modes gives (mode, item); `subgraphs=True` puts the
        path of the nested graph in front. With `"messages"` or `"custom"` the nodes run in another thread.
        """
        modes = check_modes(stream_mode)
        several = not isinstance(stream_mode, str)
        run, observed = self._run(
            input, config, context, interrupt_before, interrupt_after, durability, answer_interrupts, modes, subgraphs
        )
        if INLINE.issuperset(modes):

            def start(driver: Any) -> Any:
                put = driver.emit
                driver.emit = lambda item: put(shaped(item, several, subgraphs))
                run.sink = driver.emit
                return _watched(run, observed, input)

            return InlineStream(start)
        from runwell.drivers.streams import SyncStream

        def produce(pipe: Any) -> None:
            def put(item: Any) -> None:
                pipe.put(shaped(item, several, subgraphs))

            self._listen(run, put)
            if observed is None:
                run_sync(run.flow(input), put)
            else:
                with observed:
                    observed.end(run_sync(run.flow(input), put))

        return SyncStream(produce)

    def astream(
        self,
        input: Any,
        config: Mapping[str, Any] | None = None,
        *,
        stream_mode: str | Sequence[str] = "updates",
        subgraphs: bool = False,
        context: Any = None,
        interrupt_before: Sequence[str] | str | None = None,
        interrupt_after: Sequence[str] | str | None = None,
        durability: str | None = None,
        answer_interrupts: Callable[[Any], Any] | None = None,
    ) -> AsyncIterator[Any]:
        """`stream`, on the running event loop; the run goes on in one task while you read."""
        from runwell.drivers.aio import run_async
        from runwell.drivers.streams import AsyncStream

        modes = check_modes(stream_mode)
        several = not isinstance(stream_mode, str)
        run, observed = self._run(
            input, config, context, interrupt_before, interrupt_after, durability, answer_interrupts, modes, subgraphs
        )

        async def produce(pipe: Any) -> None:
            self._listen(run, lambda item: pipe.put(shaped(item, several, subgraphs)))

            async def emit(item: Any) -> None:
                await pipe.aput(shaped(item, several, subgraphs))

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

    def _run(
        self,
        given: Any,
        config: Mapping[str, Any] | None,
        context: Any = None,
        before: Sequence[str] | str | None = None,
        after: Sequence[str] | str | None = None,
        durability: str | None = None,
        answer: Callable[[Any], Any] | None = None,
        modes: tuple[str, ...] = (),
        subgraphs: bool = False,
    ) -> tuple[Run, Observed | None]:
        """A run ready to be driven. Everything about the call that can be wrong is refused here."""
        run = Run(self)
        scope = CURRENT_TASK.get()
        if modes:
            run.modes = frozenset(modes)
            run.subgraphs = subgraphs
            if "messages" in modes:
                run.messages = MessagesHandler(lambda item: None, subgraphs)
                config = dict(config or {})
                from runwell.observe.inherit import add_handlers

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
        if durability is not None and durability not in DURABILITY:
            raise InvalidInput(f"durability is {durability!r}.", hint=f"It is one of {DURABILITY}.")
        run.durability = durability or "sync"
        run.answer_in_process = answer
        run.breaks_before = self.breaks_before if before is None else self._breaks(before)
        run.breaks_after = self.breaks_after if after is None else self._breaks(after)
        own = configurable.get("thread_id")
        if self.checkpointer is None and scope is not None and scope.run is not None:
            self._inherit(run, scope)
        elif self.saver_calls is not None:
            if own is None:
                raise InvalidConfig(
                    f"Graph {self.name!r} has a checkpointer, and the call names no thread.",
                    hint='Pass config={"configurable": {"thread_id": "..."}}.',
                )
            run.saver = self.saver_calls
            run.thread_id = str(own)
            run.ns = str(configurable.get("checkpoint_ns") or "")
            run.pick = configurable.get("checkpoint_id")
        store = self.store if self.store is not None else scope.runtime.store if scope is not None else None
        run.base = Runtime(
            context=self._context(context, scope),
            store=store,
            config=known.config if known is not None else {},
        )
        if scope is not None and scope.run is not None and run.answer_in_process is None:
            run.answer_in_process = scope.run.answer_in_process
        self._refuse(run)
        return run, observed

    def _inherit(self, run: Run, scope: TaskScope) -> None:
        """Share the saver, thread and answers of the task that calls this graph, in a namespace of its own."""
        outer: Run = scope.run
        run.saver = SaverCalls(outer.saver.saver, outer.saver.types | self.all_types) if outer.saver else None
        run.nested = True
        run.thread_id = outer.thread_id
        count, scope.children = scope.children, scope.children + 1
        origin = scope.records.setdefault("__origin__", outer.head)
        run.ns = f"{outer.ns}|{scope.task_id}@{origin}" + (f".{count}" if count else "")
        run.answers = outer.answers
        run.durability = outer.durability

    @cached_property
    def all_types(self) -> frozenset[type]:
        """The classes that this graph's state may hold."""
        from runwell.persistence.serialization import reachable_types

        types = set(self.types)
        for schema in self.builder._schemas:
            types |= reachable_types(schema.type)
        return frozenset(types)

    async def run_nested(
        self, outer: Run, scope: TaskScope, given: Any, channels: Mapping[str, Channel]
    ) -> list[Write]:
        """Run as a node of another graph: same driver, same thread, own namespace. Gives what changed, as writes."""
        run = Run(self)
        run.nested = True
        if self.checkpointer is None:
            self._inherit(run, scope)
        elif self.saver_calls is not None:
            run.saver, run.thread_id = self.saver_calls, outer.thread_id
        run.base = outer.base.override()
        run.limit, run.max_concurrency, run.metadata = outer.limit, outer.max_concurrency, outer.metadata
        run.answer_in_process = outer.answer_in_process
        run.breaks_before, run.breaks_after = self.breaks_before, self.breaks_after
        run.messages = outer.messages
        if outer.subgraphs:
            run.modes, run.subgraphs = outer.modes, True
            if outer.sink is not None:
                self._listen_as(run, outer)
        self._refuse(run)
        known = self.input_schema.channels
        if isinstance(given, Mapping):
            given = {name: value for name, value in given.items() if name in known}
        result = await run.flow(given)
        before = given if isinstance(given, Mapping) else {}
        return [
            (name, _grown(channels[name], before.get(name), value))
            for name, value in result.items()
            if name in channels and value is not before.get(name)
        ]

    @staticmethod
    def _listen_as(run: Run, outer: Run) -> None:
        put = outer.sink
        assert put is not None
        run.sink = put
        if "custom" in run.modes:
            run.base.stream_writer = lambda item: put((run.ns, "custom", item))

    def _refuse(self, run: Run) -> None:
        """What can be known to fail is refused before anything runs."""
        if self.pauses and run.saver is None and run.answer_in_process is None:
            raise NoCheckpointer(
                f"{self.name!r} may pause ({'; '.join(self.pauses)}), and nothing can save the pause.",
                hint="Give it checkpointer=InMemorySaver() (or SqliteSaver) and a thread_id, or pass answer_interrupts=.",
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
        if schema is None or not isinstance(context, Mapping) or isinstance(context, schema if isinstance(schema, type) and not hasattr(schema, "__total__") else ()):
            return context
        if hasattr(schema, "__total__"):  # a TypedDict: a dict is what it is
            return context
        try:
            return schema(**context)
        except TypeError as error:
            raise InvalidInput(
                f"context={context!r:.200} does not fit {schema.__qualname__!r}: {error}.",
                hint="Pass the fields the context_schema declares.",
            ) from error

    # -- the thread's state

    def get_state(self, config: Mapping[str, Any], *, subgraphs: bool = False) -> StateSnapshot:
        """The thread as it stands (or stood, when the config names a `checkpoint_id`): values, what comes next, questions."""
        return run_sync(self._state(config))

    async def aget_state(self, config: Mapping[str, Any], *, subgraphs: bool = False) -> StateSnapshot:
        """`get_state`, on the running event loop."""
        from runwell.drivers.aio import run_async

        return await run_async(self._state(config))

    def get_state_history(
        self,
        config: Mapping[str, Any],
        *,
        filter: dict[str, Any] | None = None,
        before: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> Iterator[StateSnapshot]:
        """Every checkpoint of the thread, newest first."""
        return iter(run_sync(self._history(config, filter, before, limit)))

    async def aget_state_history(
        self,
        config: Mapping[str, Any],
        *,
        filter: dict[str, Any] | None = None,
        before: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[StateSnapshot]:
        """`get_state_history`, on the running event loop."""
        from runwell.drivers.aio import run_async

        for snapshot in await run_async(self._history(config, filter, before, limit)):
            yield snapshot

    def update_state(self, config: Mapping[str, Any], values: Any, as_node: str | None = None) -> dict[str, Any]:
        """Change the thread's state as if `as_node` had returned `values`; gives the config of the new checkpoint.

        `as_node` defaults to the node that ran last; what comes next follows from its edges. With a `checkpoint_id` in the
        config the change starts a branch there.
        """
        return run_sync(self._update(config, values, as_node))

    async def aupdate_state(
        self, config: Mapping[str, Any], values: Any, as_node: str | None = None
    ) -> dict[str, Any]:
        """`update_state`, on the running event loop."""
        from runwell.drivers.aio import run_async

        return await run_async(self._update(config, values, as_node))

    def _thread_of(self, config: Mapping[str, Any]) -> tuple[SaverCalls, str, str, str | None]:
        calls = self.saver_calls
        if calls is None:
            raise NoCheckpointer(
                f"Graph {self.name!r} has no checkpointer, so it has no saved state.",
                hint="Compile it with checkpointer=InMemorySaver() or SqliteSaver(path).",
            )
        configurable = config.get("configurable") or {}
        if configurable.get("thread_id") is None:
            raise InvalidConfig(
                "The config names no thread.", hint='Pass {"configurable": {"thread_id": "..."}}.'
            )
        return (
            calls,
            str(configurable["thread_id"]),
            str(configurable.get("checkpoint_ns") or ""),
            configurable.get("checkpoint_id"),
        )

    @property
    def _shown(self) -> frozenset[str]:
        return frozenset(self.channels)

    async def _state(self, config: Mapping[str, Any]) -> StateSnapshot:
        calls, thread_id, ns, pick = self._thread_of(config)
        found = await calls.load(thread_id, ns, pick)
        if found is None:
            return StateSnapshot(values={}, next=(), config={"configurable": dict(config["configurable"])})
        return snapshot_of(found, self._shown)

    async def _history(
        self,
        config: Mapping[str, Any],
        filter: dict[str, Any] | None,
        before: Mapping[str, Any] | None,
        limit: int | None,
    ) -> list[StateSnapshot]:
        calls, thread_id, ns, _ = self._thread_of(config)
        start = (before.get("configurable") or {}).get("checkpoint_id") if before else None
        found = await calls.history(thread_id, ns, {"before": start, "limit": limit, "filter": filter})
        return [snapshot_of(one, self._shown) for one in found]

    async def _update(self, config: Mapping[str, Any], values: Any, as_node: str | None) -> dict[str, Any]:
        calls, thread_id, ns, pick = self._thread_of(config)
        run = Run(self)
        run.saver, run.thread_id, run.ns, run.pick = calls, thread_id, ns, pick
        found = await calls.load(thread_id, ns, pick)
        newest = found
        if found is not None:
            run.values, run.next, run.joins, run.step, run.head = (
                found.values, found.next, found.joins, found.step, found.id,
            )  # fmt: skip
            if pick is not None:
                newest = await calls.load(thread_id, ns, None)
            if as_node is None:
                ran = found.metadata.get("ran") or []
                as_node = ran[0] if len(ran) == 1 else None
                if len(ran) > 1:
                    raise InvalidInput(
                        f"The last step ran {ran}, so it is not clear whose update this is.",
                        hint="Say as_node=.",
                    )
        if as_node is not None and as_node != START and as_node not in self.nodes:
            raise InvalidInput(f"as_node={as_node!r} is not a node.", hint=f"Nodes are {sorted(self.nodes)}.")
        writes = node_writes(self, as_node or START, values)
        changes = apply_writes(self.channels, run.values, [(as_node or START, writes)])
        run._check(changes, as_node or START)
        after = dict(run.values)
        after.update({name: new for name, (_, new) in changes.items()})
        run.values = after
        if as_node is not None:
            if not any(name == JUMP for name, _ in writes):
                writes.extend(await run._branch_writes(as_node, after, run.base))
            done = [(as_node, writes)]
            done.extend(await run._joint_routes(done))
            run.next, run.joins = plan_tasks(self.blueprint, run.step + 2, done, run.joins)
        run.step += 1
        await run._commit(
            "update",
            changes,
            ran=[as_node] if as_node else None,
            parent=found.id if found else None,
            expect=newest.id if newest else None,
        )
        assert run.head is not None
        return config_of(thread_id, ns, run.head)


async def _watched(run: Run, observed: Observed | None, given: Any) -> Any:
    """A run's flow inside its observed run, for a stream that is driven step by step in a context of its own."""
    if observed is None:
        return await run.flow(given)
    with observed:
        return observed.end(await run.flow(given))


def _grown(channel: Channel, before: Any, after: Any) -> Any:
    """What a nested graph's value adds, for a channel that merges lists: its new tail if the rest is untouched."""
    if channel.reducer is not None and isinstance(before, list) and isinstance(after, list):
        size = len(before)
        if len(after) >= size and all(a is b for a, b in zip(before, after, strict=False)):
            return after[size:]
    return after
