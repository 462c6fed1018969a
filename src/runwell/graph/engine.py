"""The graph engine: one coroutine of effects that loads, plans, runs tasks and saves, step by step.

It imports no clock, thread or event loop; drivers carry out what it asks for. What follows from a step is decided
by the pure planner.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from runwell.effects import Call, Callee, Emit, Now, Outcome, RunTasks
from runwell.errors import (
    GraphDrained,
    GraphInterrupt,
    GraphRecursionError,
    InvalidUpdateError,
    ParentCommand,
    Signal,
    nearest,
)
from runwell.graph.calls import settled
from runwell.graph.guard import guarded
from runwell.graph.in_place import Watch
from runwell.graph.lineage import LINEAGE
from runwell.graph.nesting import leave
from runwell.graph.node import Branch, Node
from runwell.graph.opening import open_thread
from runwell.graph.plan import JUMP, ROUTE, Write, apply_step, changed_values, plan_tasks, put_off
from runwell.graph.recorded import contents_of
from runwell.graph.saver_calls import SaverCalls
from runwell.graph.streaming import INTERRUPT, NOSTREAM, STOPPED, MessagesHandler
from runwell.graph.task_stream import LOOKS_INSIDE, TELLS_SAVED, tell_saved, told
from runwell.graph.updates import Seen, changed_only, no_task, node_writes
from runwell.observe.context import CURRENT
from runwell.observe.run import open_run
from runwell.ports.command import END, Command, Interrupt, Send
from runwell.ports.runtime import CURRENT_TASK, ExecutionInfo, Runtime, TaskScope
from runwell.ports.saver import Commit, PlannedTask, TaskRecord

if TYPE_CHECKING:
    from runwell.drivers.deadline import Deadline
    from runwell.graph.compiled import CompiledStateGraph
    from runwell.graph.node_cache import CacheCalls
    from runwell.graph.schema import StateSchema
    from runwell.ports.control import RunControl

__all__ = ["Run", "Task"]

SPENT = "spent"
"""The key under which a graph that has it keeps what its tasks used of a budget, so that a resume counts on."""


class Task:
    """What a node written as engine code is given: `values` (not to be changed), a `Send`'s `arg`, the runtime."""

    __slots__ = ("arg", "run", "runtime", "scope", "sent", "values")

    def __init__(self, run: Run, planned: PlannedTask, runtime: Runtime[Any], scope: TaskScope) -> None:
        self.run = run
        self.values = run.values if not run.graph.managed else run.managed(run.values)
        self.sent = planned.sent
        self.arg = planned.arg
        self.runtime = runtime
        self.scope = scope


class Run:
    """One run of a graph, on one thread and namespace."""

    __slots__ = (
        "answer_in_process",
        "answers",
        "applied",
        "asked",
        "base",
        "breaks_after",
        "breaks_before",
        "busy",
        "cache",
        "call",
        "caller",
        "can_pause",
        "control",
        "durability",
        "fence",
        "graph",
        "head",
        "hits",
        "joins",
        "limit",
        "lineage",
        "max_concurrency",
        "memories",
        "messages",
        "metadata",
        "modes",
        "nested",
        "next",
        "ns",
        "on_busy",
        "origins",
        "owned",
        "pending",
        "pick",
        "picks",
        "records",
        "saver",
        "shares",
        "sink",
        "step",
        "stop",
        "subgraphs",
        "thread_id",
        "token",
        "unkept",
        "values",
        "watch",
    )

    def __init__(self, graph: CompiledStateGraph) -> None:
        self.graph = graph
        self.base: Runtime[Any] = Runtime()
        self.saver: SaverCalls | None = None
        self.thread_id: str | None = None
        self.on_busy = "raise"
        self.fence: int | None = None
        """What the saver fences this run's saves with; a nested run in the same saver has the outer one's."""
        self.ns = ""
        self.pick: str | None = None
        """The checkpoint the caller named, if any."""
        self.values: dict[str, Any] = {}
        self.next: list[PlannedTask] = []
        self.joins: dict[str, list[str]] = {}
        self.step = 0
        self.head: str | None = None
        self.records: dict[str, TaskRecord] = {}
        self.answers: dict[str, tuple[Any, str | None]] = {}
        self.answer_in_process: Callable[[Any], Any] | None = None
        self.applied: tuple[list[Write], dict[str, tuple[Any, Any]], dict[str, Any]] | None = None
        """A lone task's writes, what they change, and the values after, worked out for its conditional edges."""
        self.modes: frozenset[str] = frozenset()
        self.sink: Callable[[Any], None] | None = None
        self.limit = 1000
        self.max_concurrency: int | None = None
        self.breaks_before: frozenset[str] = frozenset()
        self.breaks_after: frozenset[str] = frozenset()
        self.durability = "sync"
        self.metadata: dict[str, Any] = {}
        self.messages: MessagesHandler | None = None
        self.subgraphs = False
        self.nested = False
        """Called by a task of another run: `caller`. What follows is `nesting`'s."""
        self.caller: Any = None
        self.call: str | None = None
        self.can_pause = True
        self.shares: frozenset[str] = frozenset()
        self.asked: str | None = None
        self.picks: dict[str, str] = {}
        self.origins: dict[tuple[str, str], str] = {}
        self.memories: dict[str, tuple[int, str]] = {}
        self.busy: set[str] = set()
        self.lineage: list[list[str]] = []
        self.pending: Commit | None = None
        self.watch: Watch | None = None
        self.unkept: list[TaskRecord] = []
        self.cache: CacheCalls | None = graph.cache_calls
        self.token = ""
        self.hits: set[str] = set()
        """Tasks whose results came out of the cache."""
        self.control: RunControl | None = None
        self.stop: int | None = None
        """The number of the last step that the limit permits, once steps are taken."""
        self.owned: dict[Any, Any] = {}
        """What belongs to this run and ends with it, by whose it is."""

    @property
    def run_id(self) -> str:
        """Names this run among all; for one inside another that is saved, the same when its task runs again."""
        if not self.token:
            self.token = os.urandom(8).hex()
        return self.token

    # -- the whole run

    def own(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make()` gave when this run was first asked for `key`. Its `close()` is called once the run has ended,
        in whichever way: done, paused, failed or cancelled."""
        found = self.owned.get(key)
        return self.owned.setdefault(key, make()) if found is None else found

    async def flow(self, given: Any) -> Any:
        """Run to the end, a pause or an error; gives the state as the graph's output, and open questions."""
        taken: int | None = None
        try:
            if self.saver is not None and not self.nested:
                taken = self.fence = await self.saver.take(self.thread_id, self.on_busy)
            going_on = await open_thread(self, given)
            if self.graph.on_open is not None:
                self.graph.on_open(self)
            if "values" in self.modes and self.graph.output_is_state:
                await self._emit("values", self._output())
            interrupts = await self._steps(going_on)
        except GraphDrained as drained:
            if self.nested:
                raise
            return await self._stopped(drained)
        except ParentCommand as jump:
            if self.nested:
                raise
            raise InvalidUpdateError(
                f"A node of {self.graph.name!r} returned {jump.command!r:.200}, and no graph is around this one.",
                hint="Command(graph=Command.PARENT) is for a graph that a node of another one is or calls.",
            ) from None
        finally:
            try:
                await self._settle()
            finally:
                try:
                    while self.owned:
                        await Call(Callee(self.owned.popitem()[1].close, None), shield=True)
                finally:
                    if self.nested:
                        leave(self)
                    if taken is not None and self.saver is not None:
                        await self.saver.release(self.thread_id, taken)
        if not interrupts:
            return self._output()
        if self.nested:
            raise GraphInterrupt(interrupts)
        return self._unfinished(INTERRUPT, interrupts)

    async def _stopped(self, drained: GraphDrained) -> dict[str, Any]:
        """The result of a run that was asked to stop: the state so far, and that it is not the end."""
        mark = {"reason": drained.reason, "next": [task.node for task in self.next]}
        if "updates" in self.modes:
            await self._emit("updates", {STOPPED: mark})
        return self._unfinished(STOPPED, mark)

    async def _steps(self, going_on: bool) -> list[Interrupt]:
        blueprint, taken = self.graph.blueprint, 0
        self.stop = self.step + self.limit
        # going on from where the thread stands goes past a breakpoint that it stands at
        held = frozenset(task.id for task in self.next) if going_on else frozenset()
        while self.next:
            control = self.control
            if control is not None and control.stopped and (self.saver is not None or not self.nested):
                raise GraphDrained(control.reason)
            now, waiting = put_off(blueprint, self.next) if blueprint.deferred else (self.next, [])
            if self.breaks_before and any(t.node in self.breaks_before and t.id not in held for t in now):
                await self._paused()
                return []
            if taken >= self.limit:
                raise GraphRecursionError(
                    f"Graph {self.graph.name!r} took {taken} steps and wants to go on with {[t.node for t in now]}.",
                    kind="steps",
                    value=taken,
                    limit=self.limit,
                    hint='If it is meant to run longer, pass {"recursion_limit": ...} in the config; '
                    "otherwise look for an edge that leads back for ever.",
                )
            if self.saver is not None and self.graph.output_is_state:
                self.watch = Watch(self.values, contents_of(self) if self.graph.debug else None)
            done, interrupts = await self._step(now)
            if not done and not interrupts:  # a breakpoint in a nested graph
                await self._paused()
                return []
            if interrupts:
                if "updates" in self.modes:
                    await self._emit("updates", {INTERRUPT: tuple(interrupts)})
                if "values" in self.modes:
                    await self._emit("values", self._unfinished(INTERRUPT, tuple(interrupts)))
                return interrupts
            await self._advance(done, waiting)
            taken += 1
            if self.breaks_after and any(node in self.breaks_after for node, _ in done):
                await self._paused()
                return []
        return []

    # -- one step

    def _unanswered(self, record: TaskRecord) -> list[Interrupt]:
        """A paused task's questions that nobody has answered: while there is one it is not run again."""
        return [question for question in record.interrupts if question.id not in self.answers]

    def _unfinished_of(
        self, tasks: list[PlannedTask], results: dict[str, list[Write]], waiting: list[Interrupt]
    ) -> list[PlannedTask]:
        """Those of a step's tasks that are to be run; the results of others go to `results`, questions to `waiting`."""
        todo: list[PlannedTask] = []
        for task in tasks:
            record = self.records.get(task.id)
            if record is not None and record.done:
                results[task.id] = record.writes
            elif record is not None and record.interrupts and (still := self._unanswered(record)):
                waiting.extend(still)
            else:
                todo.append(task)
        return todo

    async def _step(self, tasks: list[PlannedTask]) -> tuple[list[tuple[str, list[Write]]], list[Interrupt]]:
        """Run a step's tasks that have no result yet; gives all results in task order, or the open questions."""
        results: dict[str, list[Write]] = {}
        waiting: list[Interrupt] = []
        todo = tasks if not self.records else self._unfinished_of(tasks, results, waiting)
        alone = len(tasks) == 1
        begin = self._task if not self.modes or LOOKS_INSIDE.isdisjoint(self.modes) else partial(told, self)
        flows: list[Any] = [partial(begin, task, alone) for task in todo]
        pending: Commit | None = None
        if self.durability == "async":  # the last step is saved while this one runs
            pending, self.pending = self.pending, None
        if pending is not None:
            flows.append(partial(self._save, pending))
        # a save that runs beside them is never stopped
        stop = self.graph.stop_on_error and pending is None
        outcomes: list[Outcome[Any]] = await RunTasks(flows, self.max_concurrency, stop_on_error=stop)
        if pending is not None:
            outcomes.pop().unwrap()
        if self.unkept:
            unkept, self.unkept = self.unkept, []
            for record in unkept:
                await self._keep_now(record)
        if alone and outcomes and outcomes[0].error is None:
            return [(tasks[0].node, outcomes[0].value)], []
        failed: list[BaseException] = []
        drained: GraphDrained | None = None
        paused = bool(waiting)
        for task, outcome in zip(todo, outcomes, strict=True):
            error = outcome.error
            if error is None:
                results[task.id] = outcome.value
            elif isinstance(error, GraphInterrupt):
                error.__traceback__ = None  # its frames would keep alive whoever drives the run
                waiting.extend(error.interrupts)
                paused = True
            elif isinstance(error, GraphDrained):
                drained = error
            else:
                failed.append(error)
        if failed:
            raise _first(failed)
        if paused:
            return [], waiting
        if drained is not None:
            raise drained
        return [(task.node, results[task.id]) for task in tasks], []

    async def _task(self, planned: PlannedTask, alone: bool) -> list[Write]:
        """One task to its writes. A result beside siblings is saved at once; a pause or failure always is."""
        node = self.graph.nodes[planned.node]
        runtime, spends = self.base, self.base.budget
        if node.wants or node.own_runtime or self.saver is not None or spends is not None:
            runtime = runtime.at(
                ExecutionInfo(
                    self.thread_id, self.head, self.ns, planned.id, planned.node, self.step + 1, run_id=self.run_id
                )
            )
            if spends is not None:
                runtime.budget = spends.part()
        scope = self.scope_of(planned, runtime)
        record = self.records.get(planned.id) if self.records else None
        if record is not None:
            scope.answers = list(record.answers)
            scope.records = dict(record.records)
        CURRENT_TASK.set(scope)
        run_node = self.attempt if not node.guarded else partial(guarded, self)
        try:
            ambient = CURRENT.get()
            observed = None
            if ambient is not None and ambient.handlers:
                config: Any = {"metadata": node.metadata} if node.metadata else None
                given = planned.arg if planned.sent else self.graph.watched_of(self.values)
                observed = open_run("node", node.name, given, config)
            if observed is None:
                writes = await settled(scope, run_node(node, planned, runtime, scope))
            else:
                with observed:
                    writes = await settled(scope, run_node(node, planned, runtime, scope))
                    observed.end(self.graph.update_of(writes))
            if spends is not None and self.graph.counts and runtime.budget.used:
                self.applied = None  # worked out without what comes now
                writes.append((SPENT, dict(runtime.budget.used)))
        except GraphInterrupt as pause:
            await self._keep(scope, TaskRecord(planned.id, planned.node, interrupts=list(pause.interrupts)))
            raise
        except GraphDrained:
            await self._keep(scope, TaskRecord(planned.id, planned.node))
            raise
        except ParentCommand:
            raise
        except Exception as error:
            error.add_note(
                f"in node {planned.node!r} of graph {self.graph.name!r}, step {self.step + 1}{self._thread()}"
            )
            await self._keep(scope, TaskRecord(planned.id, planned.node, error=f"{type(error).__name__}: {error}"))
            raise
        if not alone and self.saver is not None:
            kept = [one for one in writes if one[0] not in self.graph.untracked] if self.graph.untracked else writes
            await self._keep(scope, TaskRecord(planned.id, planned.node, done=True, writes=kept))
        if self.modes:
            await self._tell(node, scope, writes)
        return writes

    async def _tell(self, node: Node, scope: TaskScope, writes: list[Write]) -> None:
        """Stream what a task gave."""
        update = self.graph.update_of(writes)
        if "updates" in self.modes and (update is not None or not node.quiet):
            cached = {"__metadata__": {"cached": True}} if scope.task_id in self.hits else {}
            await self._emit("updates", {node.name: update, **cached})
        if self.messages is not None and "messages" in self.modes and NOSTREAM.isdisjoint(node.tags):
            for item in self.messages.finished(scope, writes, node.tags):
                await Emit(item)
            self.applied = None  # it may know messages from before they had ids

    def _thread(self) -> str:
        return f", thread {self.thread_id!r}" if self.thread_id else ""

    def scope_of(self, planned: PlannedTask, runtime: Runtime[Any]) -> TaskScope:
        can_pause = self.can_pause and self.saver is not None
        place = (self.thread_id, self.ns)
        return TaskScope(planned.id, planned.node, runtime, place, self, can_pause, self.answer_in_process)

    async def _keep(self, scope: TaskScope, record: TaskRecord) -> None:
        """Keep how a task stands beside its checkpoint."""
        if not record.done:
            record.answers = list(scope.answers)
            record.records = dict(scope.records)
        if self.saver is None:
            return
        if self.durability == "sync":
            await self._keep_now(record)
        else:  # its checkpoint may not be on disk yet
            if scope.calls is not None and not record.done:
                mine = (f"{scope.task_id}:t", f"{scope.task_id}:b")
                self.unkept.extend(call for id_, call in self.records.items() if id_.startswith(mine))
            self.unkept.append(record)

    async def keep_call(self, scope: TaskScope, record: TaskRecord) -> None:
        """Keep how the call of a `@task` ended, as soon as it has; not of one left behind by a run that went on."""
        if scope.runtime.execution_info.checkpoint_id != self.head:
            return
        self.records[record.task_id] = record
        if self.saver is not None and self.durability == "sync":
            await self.save_record(self.head, record)

    async def _keep_now(self, record: TaskRecord) -> None:
        assert self.saver is not None
        if self.durability == "exit":
            await self._settle()
        self.records[record.task_id] = record
        await self.save_record(self.head, record)

    async def _settle(self) -> None:
        """Save a commit that was put off."""
        pending, self.pending = self.pending, None
        if pending is not None:
            await self._save(pending)
            self.head = pending.id
            if not TELLS_SAVED.isdisjoint(self.modes) and self.durability == "exit":
                await tell_saved(self, pending)

    async def attempt(
        self,
        node: Node,
        planned: PlannedTask,
        runtime: Runtime[Any],
        scope: TaskScope,
        deadline: Deadline | None = None,
    ) -> list[Write]:
        """Run a node once; gives its writes."""
        if node.flow is not None:
            return await self.finish(node, await node.flow(Task(self, planned, runtime, scope)), runtime)
        if node.subgraph is not None:
            return await self._nested(node, planned, scope)
        state = planned.arg if planned.sent else self.view(node.schema, self.values)
        called = node.callee if not node.wants else node.bound(runtime)
        try:
            if node.around is None:
                result = await Call(called, state, timeout=deadline)
            else:
                result = await self._around(node, called, state, deadline)
        except ParentCommand as jump:  # of a graph that the node called
            result = Command(update=jump.command.update, goto=jump.command.goto)
        writes = node_writes(self.graph, node.name, result, Seen(state, self.values))
        return writes if node.name not in self.graph.branches else await self.routed(node, writes, runtime)

    async def _around(self, node: Node, called: Callee[Any], state: Any, deadline: Deadline | None) -> Any:
        """A graph with settings bound to it (`graph.with_config(...)`) as a node: it writes only what it changed."""
        if isinstance(state, dict):
            state = {name: value for name, value in state.items() if name in node.around.input_schema.channels}
        result = await Call(called, state, timeout=deadline)
        if not isinstance(state, dict) or not isinstance(result, dict):
            return result
        return dict(changed_only(self.graph.channels, state, result))

    def view(self, schema: StateSchema, values: dict[str, Any]) -> Any:
        """The state as `schema` shows it, with what is worked out for this step."""
        if schema in self.graph.whole:
            return dict(values)
        return schema.view(values if not schema.managed else self.managed(values))

    def managed(self, values: dict[str, Any]) -> dict[str, Any]:
        """`values` with the graph's managed values as they are in this step."""
        left = self.limit if self.stop is None else self.stop - self.step
        return {**values, **{name: value.at(left) for name, value in self.graph.managed.items()}}

    async def finish(self, node: Node, result: Any, runtime: Runtime[Any], given: Any = None) -> list[Write]:
        """A return in a node's stead as writes, and where its conditional edges lead."""
        writes = node_writes(self.graph, node.name, result, Seen(given, self.values))
        return writes if node.name not in self.graph.branches else await self.routed(node, writes, runtime)

    async def routed(self, node: Node, writes: list[Write], runtime: Runtime[Any]) -> list[Write]:
        """Writes of a node with where its conditional edges lead."""
        if node.name not in self.graph.branches:
            return writes
        seen = self.values
        if writes:
            for name, _ in writes:
                if name == JUMP:
                    return writes
            changes = apply_step(self.graph.blueprint, seen, [(node.name, writes)])
            seen = changed_values(seen, changes)
            self.applied = (writes, changes, seen)
        writes.extend(await self.branch_writes(node.name, seen, runtime))
        return writes

    async def branch_writes(self, source: str, values: dict[str, Any], runtime: Runtime[Any]) -> list[Write]:
        writes: list[Write] = []
        for branch in self.graph.branches.get(source, ()):
            called = branch.callee if not branch.wants else branch.bound(runtime)
            chosen = await Call(called, self.view(self.graph.schema, values))
            writes += [(ROUTE, target) for target in self._chosen(source, branch, chosen)]
        return writes

    def _chosen(self, source: str, branch: Branch, chosen: Any) -> list[str | Send]:
        if type(chosen) is str:
            mapped = chosen if branch.ends is None else branch.ends.get(chosen)
            if mapped in self.graph.nodes:
                return [mapped]
        targets: list[str | Send] = []
        for one in chosen if isinstance(chosen, (list, tuple)) else [chosen]:
            if isinstance(one, Send):
                target: str | Send = one
                name = one.node
                if name not in self.graph.nodes:
                    raise no_task(f"The conditional edge {branch.name!r} from {source!r}", name, self.graph.nodes)
            else:
                if one is None and branch.ends is None:
                    raise InvalidUpdateError(
                        f"The conditional edge {branch.name!r} from {source!r} chose None.",
                        hint="Return a node, a Send, a list of these, or END to go nowhere.",
                    )
                mapped = one if branch.ends is None else branch.ends.get(one)
                if mapped is None:
                    raise InvalidUpdateError(
                        f"The conditional edge {branch.name!r} from {source!r} chose {one!r}, not in its path map.",
                        hint=f"It maps {list(branch.ends or ())}; add the case or return one of them.",
                    )
                target = name = mapped
            if name != END and name not in self.graph.nodes:
                raise InvalidUpdateError(
                    f"The conditional edge {branch.name!r} from {source!r} chose {name!r}, which is not a node"
                    f"{nearest(str(name), self.graph.nodes)}.",
                    hint=f"Nodes are {sorted(self.graph.nodes)}, and END.",
                )
            targets.append(target)
        return targets

    async def _nested(self, node: Node, planned: PlannedTask, scope: TaskScope) -> list[Write]:
        """A compiled graph as a node: in this run, in a namespace of its own; writes what it changed."""
        given = planned.arg if planned.sent else self.values
        try:
            writes = await node.subgraph.run_nested(self, scope, given, self.graph.channels)
        except ParentCommand as jump:
            return node_writes(self.graph, node.name, Command(update=jump.command.update, goto=jump.command.goto))
        if node.name in self.graph.branches:
            changes = apply_step(self.graph.blueprint, self.values, [(node.name, writes)])
            writes.extend(await self.branch_writes(node.name, changed_values(self.values, changes), scope.runtime))
        return writes  # type: ignore[no-any-return]

    # -- after a step

    async def _advance(self, done: list[tuple[str, list[Write]]], waiting: list[PlannedTask]) -> None:
        """Apply a step's writes, plan the next, save."""
        graph = self.graph
        applied, self.applied = self.applied, None
        if applied is not None and len(done) == 1 and done[0][1] is applied[0]:
            _, changes, after = applied
        else:
            changes, after = apply_step(graph.blueprint, self.values, done), None
        if self.watch is not None:
            self.watch.check((node for node, _ in done), self.values, changes, graph.untracked)
        if changes:
            if graph.schema.kind == "pydantic":
                self.check(changes, ", ".join(node for node, _ in done))
                after = None
            self.values = changed_values(self.values, changes) if after is None else after
        self.step += 1
        routed = await self.with_joint_routes(done) if graph.joint else done
        self.next, self.joins = plan_tasks(graph.blueprint, self.step + 1, routed, self.joins, waiting)
        if not changes and graph.quiet and self.next and all(graph.nodes[node].quiet for node, _ in done):
            return  # hooks that changed nothing are not worth a checkpoint; a resume plans them again
        if self.records:
            self.records = {}
        if self.saver is not None:
            jumped = [node for node, writes in done if any(name == JUMP for name, _ in writes)]
            actors = self._answered() if self.answers else None
            await self.save_checkpoint("loop", changes, ran=[node for node, _ in done], jumped=jumped, actors=actors)
        if "values" in self.modes:
            await self._emit("values", self._output())

    def _answered(self) -> dict[str, str]:
        """Who answered the questions of the step that has ended, by question; the checkpoint after it says so."""
        actors = {question: actor for question, (_, actor) in self.answers.items() if actor is not None}
        if not self.nested:  # those inside share the answers, and their checkpoints come first
            self.answers.clear()
        return actors

    async def with_joint_routes(self, done: list[tuple[str, list[Write]]]) -> list[tuple[str, list[Write]]]:
        """`done`, with where conditional edges lead that look at the state after the whole step.

        They are asked once for all of a node's tasks.
        """
        joint = self.graph.joint
        if len(done) == 1:
            node, writes = done[0]
            return [(node, [*writes, *await self._joint_route(node, writes)])] if node in joint else done
        routes: list[tuple[str, list[Write]]] = []
        for node in dict.fromkeys(name for name, _ in done):
            if node in joint:
                together = [write for name, writes in done if name == node for write in writes]
                routes.append((node, await self._joint_route(node, together)))
        return [*done, *routes]

    async def _joint_route(self, node: str, writes: list[Write]) -> list[Write]:
        """Where a node's conditional edge leads, if none of its tasks jumped."""
        jumps = [target for name, target in writes if name == JUMP]
        if jumps:
            if any(jump != jumps[0] for jump in jumps):
                raise InvalidUpdateError(
                    f"Tasks of node {node!r} jump to different places in one step: {jumps!r:.300}.",
                    hint="Let only one of them jump, or all to the same place.",
                )
            return []
        branch = self.graph.joint[node]
        chosen = await Call(branch.callee, self.view(self.graph.schema, self.values))
        return [(ROUTE, target) for target in self._chosen(node, branch, chosen)]

    def check(self, changes: dict[str, tuple[Any, Any]], node: str) -> None:
        """A step's changes as a Pydantic state takes them; its validators may change the values in `changes`."""
        self.graph.schema.check(node, self.values, changes)

    async def save_checkpoint(
        self,
        source: Any,
        changes: dict[str, tuple[Any, Any]],
        *,
        ran: list[str] | None = None,
        jumped: Sequence[str] = (),
        actors: Mapping[str, str] | None = None,
        parent: str | None = None,
        expect: str | None = None,
        carry: bool = False,
    ) -> None:
        if self.saver is None:
            return
        if self.graph.untracked:
            changes = {name: change for name, change in changes.items() if name not in self.graph.untracked}
        now = await Now()
        metadata = dict(self.metadata)
        if ran:
            metadata["ran"] = ran
        if jumped:
            metadata["jumped"] = list(jumped)
        if actors:
            metadata["actors"] = dict(actors)
        if self.lineage:
            metadata[LINEAGE] = self.lineage
        commit = Commit(
            id=f"{int(now * 1e6):014x}-{os.urandom(5).hex()}",
            thread_id=self.thread_id or "",
            ns=self.ns,
            parent_id=parent or self.head,
            expect_head=expect or self.head,
            step=self.step,
            created_at=now,
            source=source,
            changes=changes,
            next=self.next,
            joins=self.joins,
            metadata=metadata,
            fence=self.fence,
        )
        if self.durability == "exit":
            previous, self.pending = self.pending, None
            if previous is not None:
                commit = _merged(previous, commit)
            self.pending = commit
            self.head = commit.expect_head
        elif self.durability == "async":
            self.pending = commit
            self.head = commit.id
        else:
            await self._save(commit)
            self.head = commit.id
        if carry:
            for record in self.records.values():
                await self.save_record(commit.id, record)
        if not TELLS_SAVED.isdisjoint(self.modes) and self.durability != "exit":
            await tell_saved(self, commit)

    async def _save(self, commit: Commit) -> None:
        assert self.saver is not None
        await self.saver.commit(commit)

    async def save_record(self, checkpoint_id: str | None, record: TaskRecord) -> None:
        assert self.saver is not None
        await self.saver.save_task(self.thread_id, self.ns, checkpoint_id, record, self.fence)

    # -- breakpoints and streaming

    async def _paused(self) -> None:
        """A breakpoint ends the run here, and those around it."""
        if "updates" in self.modes:
            await self._emit("updates", {INTERRUPT: ()})
        if self.nested:
            raise GraphInterrupt([])

    async def _emit(self, mode: str, chunk: Any) -> None:
        await Emit((self.ns, mode, chunk))

    def _unfinished(self, mark: str, what: Any) -> dict[str, Any]:
        """The output of a run that has not come to its end: the state so far, and why."""
        return {**(self._output() if self.graph.output_is_state else {}), mark: what}

    def _output(self) -> Any:
        return self.graph.output_of(self.values)


def _merged(first: Commit, second: Commit) -> Commit:
    """Two commits as one, for durability "exit": only the last is saved, with all that changed."""
    changes = dict(first.changes)
    for name, (old, new) in second.changes.items():
        changes[name] = (changes[name][0] if name in changes else old, new)
    second.changes = changes
    second.parent_id = first.parent_id
    second.expect_head = first.expect_head
    return second


def _first(errors: list[BaseException]) -> BaseException:
    """The error to raise of a step's: an exception before a signal, in task order; the others stand in its notes."""
    chosen = next((error for error in errors if not isinstance(error, Signal)), errors[0])
    for other in errors:
        if other is not chosen and isinstance(chosen, Exception):
            chosen.add_note(f"in the same step also: {type(other).__name__}: {other}")
    return chosen
