"""The graph engine: one coroutine of effects that loads, plans, runs tasks and saves, step by step.

It imports no clock, thread or event loop; drivers carry out what it asks for. What follows from a step is decided
by the pure planner.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Sequence
from functools import partial
from types import CoroutineType, coroutine
from typing import TYPE_CHECKING, Any

from runwell.drivers.colour import is_coroutine
from runwell.effects import Call, Callee, Emit, Outcome, RunTask, RunTasks
from runwell.errors import (
    GraphDrained,
    GraphInterrupt,
    GraphRecursionError,
    InvalidUpdateError,
    ParentCommand,
    Signal,
)
from runwell.graph.calls import closed, ended_by
from runwell.graph.guard import guarded
from runwell.graph.in_place import Watch
from runwell.graph.interrupts import EDITED
from runwell.graph.keeping import Keeping
from runwell.graph.nesting import leave
from runwell.graph.node import Node
from runwell.graph.opening import open_thread
from runwell.graph.plan import JUMP, Write, apply_step, changed_values, plan_tasks, put_off, tasks_to
from runwell.graph.pushing import handed_over
from runwell.graph.recorded import contents_of
from runwell.graph.routes import Routing
from runwell.graph.run_state import NOTHING
from runwell.graph.spent import SPENT, USED, add_spent, used_before
from runwell.graph.streaming import INTERRUPT, NOSTREAM, STOPPED
from runwell.graph.task_stream import LOOKS_INSIDE, told
from runwell.graph.updates import Seen, changed_only, node_writes
from runwell.observe.context import CURRENT
from runwell.observe.events import Chunk
from runwell.observe.run import enter_run, fail_run, leave_run, tell, watched
from runwell.ports.command import Command, Interrupt
from runwell.ports.runtime import CURRENT_TASK, Runtime, TaskScope
from runwell.ports.saver import Commit, PlannedTask, TaskRecord

if TYPE_CHECKING:
    from runwell.drivers.deadline import Deadline
    from runwell.graph.compiled import CompiledStateGraph
    from runwell.observe.run import Run as Observed

__all__ = ["Run", "Task"]

Done = list[tuple[str, list[Write]]]
"""A step's tasks as (node, writes), in task order."""

NO_QUESTIONS: list[Interrupt] = []
"""Of a step that has ended."""
NOT_YET: list[PlannedTask] = []
"""The tasks that are put off, of a step that puts off none."""


Begin = Callable[..., Coroutine[Any, Any, list[Write]]]
"""How a planned task is run; with False if it is not alone in its step."""


class Task(TaskScope):
    """A task of a step, as a node written as engine code is given it: `values` (not to be changed), a `Send`'s `arg`,
    the runtime, which is made when it is first asked for. `budget` is what calls of models in it count for."""

    values: dict[str, Any]
    budget: Any = None
    _runtime: Runtime[Any] | None = None

    def __init__(self, run: Run, planned: PlannedTask, can_pause: bool) -> None:
        # all that a `TaskScope` has, here or in its run: one is made for every task
        self.task_id = planned.id
        self.node = planned.node
        self.run = run
        self.can_pause = can_pause
        self.sent = planned.sent
        self.arg = planned.arg
        self.head = run.head
        self.step = run.step + 1

    @property
    def runtime(self) -> Runtime[Any]:
        made = self._runtime
        if made is None:
            made = self._runtime = self.run.runtime_of(self)
        return made

    @runtime.setter
    def runtime(self, made: Runtime[Any]) -> None:
        self._runtime = made

    @property
    def place(self) -> tuple[str | None, str]:  # type: ignore[override]
        return self.run.place  # type: ignore[no-any-return]

    @property
    def in_process(self) -> Callable[[Any], Any] | None:  # type: ignore[override]
        return self.run.answer_in_process  # type: ignore[no-any-return]


class Run(Keeping, Routing):
    """One run of a graph, on one thread and namespace."""

    __slots__ = ()

    # -- the whole run

    def own(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make()` gave when this run was first asked for `key`. Its `close()` is called once the run has ended,
        in whichever way: done, paused, failed or cancelled."""
        found = self.owned.get(key)
        return self.owned.setdefault(key, make()) if found is None else found

    @coroutine  # to `yield` the usual step: `await` would keep a generator for it while its task waits
    def flow(self, given: Any) -> Generator[Any, Any, Any]:
        """Run to the end, a pause or an error; gives the state as the graph's output, and open questions."""
        graph, blueprint = self.graph, self.graph.blueprint
        interrupts = NO_QUESTIONS
        try:
            held = (yield from self._open(given)) or NOTHING
            del given  # not needed while the run waits
            begin = self._beginning()
            lone = RunTask(begin)
            watches = self.saver is not None and graph.output_is_state
            stops = self.control is not None or bool(blueprint.deferred or self.breaks_before)
            straight = not (blueprint.joins or blueprint.deferred or self.joins)  # no task waits for another
            while self.next:
                now, waiting = self.next, NOT_YET
                if stops:
                    self._drained()
                    now, waiting = put_off(blueprint, now)
                    if self.breaks_before and self._stands_before(now, held):
                        yield from self._paused([])
                        break
                if self.stop is not None and self.step >= self.stop:
                    raise _too_many(graph.name, now, self.limit)
                if watches and (self.watch is None or graph.debug):
                    self.watch = Watch(self.values, contents_of(self) if graph.debug else None, graph.hidden)
                if len(now) == 1 and not self._records and self.pending is None:  # the usual case, in short
                    lone.arg = now[0]
                    try:
                        writes = yield lone
                    except (Exception, Signal) as error:
                        done, interrupts = yield from self._results(now, now, [Outcome(error=error)], {}, [])
                    else:
                        done = [(now[0].node, writes)]  # that of one that followed, maybe: see `_task`
                else:
                    done, interrupts = yield from self._step(now, begin)
                if not done:
                    yield from self._paused(interrupts)  # none: at a breakpoint in a nested graph
                    break
                changes = self._apply(done)
                if straight and len(done) == 1:
                    targets: Any = self.led(*done[0])
                    if type(targets) is CoroutineType:
                        targets = yield from targets  # type: ignore[misc]  # in a coroutine it can
                    self.next = tasks_to(self.step + 1, targets)
                else:
                    self.next, self.joins = plan_tasks(
                        blueprint, self.step + 1, (yield from self.with_joint_routes(done)), self.joins, waiting
                    )
                if self._records or self.saver is not None or self.modes:
                    yield from self._show(done, changes)
                if self.breaks_after and not self.breaks_after.isdisjoint(node for node, _ in done):
                    yield from self._paused([])
                    break
        except GraphDrained as drained:
            if self.nested:
                raise
            return (yield from self._stopped(drained))
        except ParentCommand as jump:
            if self.nested:
                raise
            raise InvalidUpdateError(
                f"A node of {graph.name!r} returned {jump.command!r:.200}, and no graph is around this one.",
                hint="Command(graph=Command.PARENT) is for a graph that a node of another one is or calls.",
            ) from None
        finally:
            yield from self._close()
        if not interrupts:
            return self._output()
        if self.nested:
            raise GraphInterrupt(interrupts)
        return self._unfinished(INTERRUPT, interrupts)

    async def _open(self, given: Any) -> frozenset[str] | None:
        """Take the thread and the input. Gives the tasks that a run that goes on from before stands at: it goes past
        breakpoints there."""
        if self.saver is not None and not self.nested:
            self.fence = await self.saver.take(self.thread_id, self.on_busy)
        going_on = await open_thread(self, given)
        if self.graph.on_open is not None:
            self.graph.on_open(self)
        if self.nested and self.base.budget is not None and self.saver is not None and not self.graph.counts:
            self.base.budget = self.base.budget.run_inside(used_before(self))
            self.spent = self.spent or {}
        if "values" in self.modes and self.graph.output_is_state:
            await self._emit("values", self._output())
        self.stop = self.step + self.limit
        if self.thread_id is not None or self.ns:
            self.place = (self.thread_id, self.ns)
        return frozenset(task.id for task in self.next) if going_on else None

    def _beginning(self) -> Begin:
        self.watched = watched()
        self.goes_on = (
            self.watched and self.saver is None and not (self.modes or self.nested) and self.graph.asks_nobody
        )
        self.passes = self.graph.passes and not (self.modes or self.watched or self.breaks_before or self.breaks_after)
        return self._task if LOOKS_INSIDE.isdisjoint(self.modes) else partial(told, self)

    async def _close(self) -> None:
        """Save what was put off, end what belongs to the run, let the thread go."""
        try:
            await self._settle()
        finally:
            try:
                while self._owned:
                    await Call(Callee(self._owned.popitem()[1].close, None), shield=True)
            finally:
                if self.nested:
                    leave(self)
                await self.let_go()

    async def let_go(self) -> None:
        """Let the thread go.

        Others call it for a run that is stuck in a call that cannot be stopped: once another run has taken the thread,
        this one saves nothing more.
        """
        if self.saver is not None and self.fence is not None and not self.nested:
            await self.saver.release(self.thread_id, self.fence)

    async def _stopped(self, drained: GraphDrained) -> dict[str, Any]:
        """The result of a run that was asked to stop: the state so far, and that it is not the end."""
        mark = {"reason": drained.reason, "next": [task.node for task in self.next]}
        if "updates" in self.modes:
            await self._emit("updates", {STOPPED: mark})
        return self._unfinished(STOPPED, mark)

    def _drained(self) -> None:
        """Raise GraphDrained for a run that was asked to stop, if it can go on later or is in no other."""
        control = self.control
        if control is not None and control.stopped and (self.saver is not None or not self.nested):
            raise GraphDrained(control.reason)

    def _stands_before(self, tasks: Sequence[PlannedTask], held: frozenset[str]) -> bool:
        """Whether one of the tasks is to be paused before; those `held` have been."""
        return any(task.node in self.breaks_before and task.id not in held for task in tasks)

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
            elif record is None or EDITED in record.records:
                todo.append(task)
            elif record.interrupts and (still := self._unanswered(record)):
                waiting.extend(still)
            else:
                todo.append(task)
        return todo

    async def _step(self, tasks: list[PlannedTask], begin: Begin) -> tuple[Done, list[Interrupt]]:
        """Run a step's tasks that have no result yet, each by `begin`; gives all results in task order, or the open
        questions."""
        alone = len(tasks) == 1
        results: dict[str, list[Write]] = {}
        waiting: list[Interrupt] = []
        todo = tasks if not self._records else self._unfinished_of(tasks, results, waiting)
        flows: list[Callable[[], Any]] = [partial(begin, task, alone) for task in todo]
        pending: Commit | None = None
        if self.durability == "async" and self.pending is not None:  # the last step is saved while this one runs
            pending, self.pending = self.pending, None
            flows.append(partial(self._save, pending))
        # a save that runs beside them is never stopped
        stop = self.graph.stop_on_error and pending is None
        outcomes: list[Outcome[Any]] = await RunTasks(flows, self.max_concurrency, stop_on_error=stop)
        if pending is not None:
            outcomes.pop().unwrap()
        return await self._results(tasks, todo, outcomes, results, waiting)

    async def _results(
        self,
        tasks: list[PlannedTask],
        todo: list[PlannedTask],
        outcomes: list[Outcome[Any]],
        results: dict[str, list[Write]],
        waiting: list[Interrupt],
    ) -> tuple[Done, list[Interrupt]]:
        """What a step comes to, from the outcomes of those of its `tasks` that were `todo`."""
        if self._unkept:
            unkept, self.unkept = self._unkept, []
            for record in unkept:
                await self._keep_now(record)
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

    async def _task(self, planned: PlannedTask, alone: bool = True) -> list[Write]:
        """One task to its writes. A result beside siblings is saved at once; a pause or failure always is.

        While it is a quiet one that had nothing to say, and nobody watches, what follows it is run too, without a round
        of the engine. Nothing tells such steps from those that are taken one by one: they count, and a task that fails
        or pauses is kept under its own name.
        """
        while True:
            node = self.graph.nodes_and_start[planned.node]
            scope = self._scope(planned)
            CURRENT_TASK.set(scope)
            observed: Observed | None = None
            try:
                try:  # `settled`, written out: a coroutine less in every step
                    if self.watched:
                        observed = self._observed(node, planned, alone)
                    if node.bare:
                        scope.values = self.values if not self.graph.managed else self.managed(self.values)
                        made = node.flow(scope)  # type: ignore[misc]
                        if made is None and scope.pushed is None:  # as hooks with nothing to say do
                            writes = []
                        else:
                            writes = self._written(node, scope, made if made is None else await made)
                    elif node.guarded:
                        writes = await guarded(self, node, planned, scope.runtime, scope)
                    else:
                        writes = await self.attempt(node, planned, scope.runtime, scope)
                    if scope.calls is not None or scope.pause is not None:
                        await closed(scope)
                except BaseException as error:
                    if scope.calls is not None:
                        await ended_by(scope.calls, error)
                    raise
                if observed is not None:
                    self._seen_to_end(node, writes, observed)
            except BaseException as error:
                if observed is not None:
                    fail_run(observed, error)
                await self._not_done(planned, scope, error)
                raise
            if self.saver is not None:
                self._count(scope, writes)
                if not alone:
                    await self._keep_done(scope, writes)
            if self.modes:
                await self._tell(node, scope, writes)
            if writes or not (alone and self.passes and self._passes(node)):
                return writes
            target = self.graph.only_edge.get(node.name)
            if target is not None:
                following = PlannedTask(f"{target}:{self.step + 2}", target)
            else:
                targets: Any = self.led(node.name, writes)
                tasks = tasks_to(self.step + 2, await targets if is_coroutine(targets) else targets)
                if len(tasks) != 1:
                    return writes
                following = tasks[0]
            self.step += 1
            self.next[0] = planned = following

    def _count(self, scope: Task, writes: list[Write]) -> None:
        """Add to a task's writes what it used of a budget, which is saved with them."""
        budget = scope.budget
        if budget is not self.base.budget and (used := budget.used):
            self.applied = None  # worked out without what comes now
            writes.append((SPENT if self.graph.counts else USED, used))

    def _scope(self, planned: PlannedTask) -> Task:
        saved, spends = self.saver is not None, self.base.budget
        scope = Task(self, planned, saved and self.can_pause)
        if spends is not None:  # what it uses is told with its result, where that is kept
            scope.budget = spends.part() if saved or self.nested else spends
        if self._records and (record := self._records.get(planned.id)) is not None:
            scope.answers = list(record.answers)
            scope.records = dict(record.records)
            if spends is not None and USED in record.records:
                scope.budget = spends.part(record.records[USED][0])
        return scope

    def runtime_of(self, scope: Task) -> Runtime[Any]:
        """What a task knows of the run; one that none of its node's code asks for has the run's own."""
        base = self.base
        if self.saver is None and scope.budget is None and not self.graph.nodes_and_start[scope.node].own_runtime:
            return base
        run_id = self.token or self.run_id
        return base.at(
            (self.thread_id, scope.head, self.ns, scope.task_id, scope.node, scope.step, 1, run_id), scope.budget
        )

    async def _keep_done(self, scope: Task, writes: list[Write]) -> None:
        kept = _tracked(self.graph, writes)
        await self.keep(scope, TaskRecord(scope.task_id, scope.node, done=True, writes=kept))

    async def _not_done(self, planned: PlannedTask, scope: Task, error: BaseException) -> None:
        """Keep how a task stands that did not come to its end."""
        if isinstance(error, GraphInterrupt):
            await self.keep(scope, TaskRecord(planned.id, planned.node, interrupts=list(error.interrupts)))
        elif isinstance(error, GraphDrained):
            await self.keep(scope, TaskRecord(planned.id, planned.node))
        elif isinstance(error, Exception) and not isinstance(error, ParentCommand):
            error.add_note(
                f"in node {planned.node!r} of graph {self.graph.name!r}, step {self.step + 1}{self._thread()}"
            )
            await self.keep(scope, TaskRecord(planned.id, planned.node, error=f"{type(error).__name__}: {error}"))

    def _passes(self, node: Node) -> bool:
        """Whether what follows a node without writes may run in its task; else that is for the engine to say."""
        control = self.control
        if not node.passes or (control is not None and control.stopped) or self._records:
            return False
        if self.stop is None or self.step + 1 >= self.stop:
            return False
        if self.watch is not None:
            self.watch.check([(node.name, [])], self.values, {}, self.graph.untracked)
        return True

    def _observed(self, node: Node, planned: PlannedTask, alone: bool) -> Observed | None:
        """A node's run of its own, entered, for those who watch."""
        graph = self.graph
        given = planned.arg if planned.sent else graph.watched_of(self.values)
        observed = enter_run("node", node.name, given, node.name in graph.goes_on and not node.guarded, node.metadata)
        if self.goes_on and observed is not None and (around := observed.parent) is not None:
            around.goes_on = alone and not self._owned  # what comes after the node, in the run of the graph
        return observed

    def _seen_to_end(self, node: Node, writes: list[Write], observed: Observed) -> None:
        """Tell what a node gave, and leave its run."""
        inherited = observed.inherited
        if not inherited.wants_chunks:
            leave_run(observed, self.graph.update_of(writes) if inherited.tells_runs else None)
            return
        update = self.graph.update_of(writes)
        if update is not None:
            tell(observed, Chunk(observed, update))
        leave_run(observed, update)
        around = CURRENT.get()
        if around is not None and around.inherited.wants_chunks and update is not None:
            tell(around, Chunk(around, {node.name: update}))  # the graph's own piece

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

    async def attempt(
        self,
        node: Node,
        planned: PlannedTask,
        runtime: Runtime[Any],
        scope: Task,
        deadline: Deadline | None = None,
    ) -> list[Write]:
        """Run a node once; gives its writes."""
        state: Any = None
        if node.flow is not None:
            scope.values = self.values if not self.graph.managed else self.managed(self.values)
            result = node.flow(scope)
            if result is not None:
                result = await result
        elif node.subgraph is not None:
            return await self._nested(node, planned, scope)
        else:
            state = (
                planned.arg if planned.sent
                else dict(self.values) if node.whole
                else self.view(node.schema, self.values)
            )  # fmt: skip
            called = node.callee if not node.wants else node.bound(runtime)
            try:
                if node.around is None:
                    result = await Call(called, state, timeout=deadline)
                else:
                    result = await self._around(node, called, state, deadline)
            except ParentCommand as jump:  # of a graph that the node called
                result = Command(update=jump.command.update, goto=jump.command.goto)
        writes = self._written(node, scope, result, state)
        if node.branches and (seen := self.seen_after(node, writes)) is not None:
            await self.ask(node.name, node.branches, seen, runtime, writes)
        return writes

    def _written(self, node: Node, scope: Task, result: Any, given: Any = None) -> list[Write]:
        """What a node that was called with `given` returned, and what its code pushed, as writes."""
        if type(result) is dict:
            writes = list(result.items())
        elif result is None:
            writes = []
        else:
            writes = node_writes(self.graph, node.name, result, Seen(given, self.values))
        return writes if scope.pushed is None else handed_over(scope, writes)

    async def _around(self, node: Node, called: Callee[Any], state: Any, deadline: Deadline | None) -> Any:
        """A graph with settings bound to it (`graph.with_config(...)`) as a node: it writes only what it changed."""
        if isinstance(state, dict):
            state = {name: value for name, value in state.items() if name in node.around.input_schema.channels}
        result = await Call(called, state, timeout=deadline)
        if not isinstance(state, dict) or not isinstance(result, dict):
            return result
        return dict(changed_only(self.graph.channels, state, result))

    async def finish(self, node: Node, result: Any, runtime: Runtime[Any], given: Any = None) -> list[Write]:
        """A return in a node's stead as writes, and where its conditional edges lead."""
        return await self.routed(node, node_writes(self.graph, node.name, result, Seen(given, self.values)), runtime)

    async def _nested(self, node: Node, planned: PlannedTask, scope: TaskScope) -> list[Write]:
        """A compiled graph as a node: in this run, in a namespace of its own; writes what it changed."""
        given = planned.arg if planned.sent else self.values
        try:
            writes = await node.subgraph.run_nested(self, scope, given, self.graph.channels)
        except ParentCommand as jump:
            return node_writes(self.graph, node.name, Command(update=jump.command.update, goto=jump.command.goto))
        if node.branches:
            changes = apply_step(self.graph.blueprint, self.values, [(node.name, writes)])
            writes.extend(await self.branch_writes(node.name, changed_values(self.values, changes), scope.runtime))
        return writes  # type: ignore[no-any-return]

    # -- after a step

    def _apply(self, done: Done) -> dict[str, tuple[Any, Any]]:
        """Apply a step's writes; gives what they changed."""
        graph, applied, after = self.graph, self.applied, None
        if applied is None:
            changes = apply_step(graph.blueprint, self.values, done)
        else:
            self.applied = None
            if len(done) == 1 and done[0][1] is applied[0]:
                _, changes, after = applied
            else:
                changes = apply_step(graph.blueprint, self.values, done)
        if self.watch is not None:
            self.watch.check(done, self.values, changes, graph.untracked)
        if changes:
            if graph.schema.kind == "pydantic":
                self.check(changes, ", ".join(node for node, _ in done))
                after = None
            self.values = changed_values(self.values, changes) if after is None else after
            if self.watch is not None:
                self.watch.after(changes)
        if self.spent is not None:
            for _, writes in done:
                for name, used in writes:
                    if name == USED:
                        self.spent = add_spent(self.spent, used)
        self.step += 1
        return changes

    async def _show(self, done: Done, changes: dict[str, tuple[Any, Any]]) -> None:
        """Save a step that has been applied, and tell of it."""
        graph = self.graph
        if not changes and graph.quiet and self.next and all(graph.nodes_and_start[node].quiet for node, _ in done):
            return  # hooks that changed nothing are not worth a checkpoint; a resume plans them again
        self._records = None
        if self.saver is not None:
            ran: list[str] = []
            jumped: list[str] = []
            for node, writes in done:
                ran.append(node)
                for name, _ in writes:
                    if name == JUMP:
                        jumped.append(node)
                        break
            actors = self._answered() if self._answers else None
            await self.save_checkpoint("loop", changes, ran=ran, jumped=jumped, actors=actors)
        if "values" in self.modes:
            await self._emit("values", self._output())

    # -- breakpoints and streaming

    async def _paused(self, questions: list[Interrupt]) -> None:
        """Tell that the run ends here; a breakpoint, where there are no questions, ends those around it too."""
        if "updates" in self.modes:
            await self._emit("updates", {INTERRUPT: tuple(questions)})
        if questions and "values" in self.modes:
            await self._emit("values", self._unfinished(INTERRUPT, tuple(questions)))
        if self.nested and not questions:
            raise GraphInterrupt([])


def _tracked(graph: CompiledStateGraph, writes: list[Write]) -> list[Write]:
    """Those of a task's writes that are saved."""
    return [one for one in writes if one[0] not in graph.untracked] if graph.untracked else writes


def _too_many(graph: str | None, now: list[PlannedTask], limit: int) -> GraphRecursionError:
    return GraphRecursionError(
        f"Graph {graph!r} took {limit} steps and wants to go on with {[task.node for task in now]}.",
        kind="steps",
        value=limit,
        limit=limit,
        hint='If it is meant to run longer, pass {"recursion_limit": ...} in the config; '
        "otherwise look for an edge that leads back for ever.",
    )


def _first(errors: list[BaseException]) -> BaseException:
    """The error to raise of a step's: an exception before a signal, in task order; the others stand in its notes."""
    chosen = next((error for error in errors if not isinstance(error, Signal)), errors[0])
    for other in errors:
        if other is not chosen and isinstance(chosen, Exception):
            chosen.add_note(f"in the same step also: {type(other).__name__}: {other}")
    return chosen
