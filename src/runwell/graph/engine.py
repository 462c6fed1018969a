"""The graph engine: one coroutine of effects that loads, plans, runs tasks and saves, step by step.

It imports no clock, thread or event loop; drivers carry out what it asks for. What follows from a step is decided by the
pure planner.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from runwell.effects import Call, Callee, Emit, Now, Outcome, RunTasks, Sleep
from runwell.errors import (
    GraphInterrupt,
    GraphRecursionError,
    InvalidInput,
    InvalidUpdateError,
    ParentCommand,
    Signal,
    nearest,
)
from runwell.graph.interrupts import answers_for, interrupt_id
from runwell.graph.node import Branch, Node, injected
from runwell.graph.streaming import NOSTREAM, MessagesHandler
from runwell.graph.plan import JUMP, ROUTE, Write, apply_writes, plan_tasks, put_off
from runwell.observe.context import CURRENT
from runwell.observe.run import open_run
from runwell.ports.command import END, START, Command, Interrupt, Send
from runwell.ports.runtime import CURRENT_TASK, ExecutionInfo, Runtime, TaskScope
from runwell.ports.saver import GONE, Checkpoint, Commit, PlannedTask, TaskRecord

if TYPE_CHECKING:
    from runwell.graph.compiled import CompiledStateGraph

__all__ = ["INTERRUPT", "Run", "Task", "node_writes"]

INTERRUPT = "__interrupt__"
"""The key under which a paused run's open questions are returned and streamed."""


class Task:
    """What a node written as engine code is given: `values` (not to be changed), the `Send`'s `arg`, and the runtime."""

    __slots__ = ("arg", "run", "runtime", "scope", "sent", "values")

    def __init__(self, run: Run, planned: PlannedTask, runtime: Runtime[Any], scope: TaskScope) -> None:
        self.run = run
        self.values = run.values
        self.sent = planned.sent
        self.arg = planned.arg
        self.runtime = runtime
        self.scope = scope


class Run:
    """One run of a graph, on one thread and namespace."""

    __slots__ = (
        "actor",
        "answer_in_process",
        "answers",
        "base",
        "breaks_after",
        "breaks_before",
        "config",
        "durability",
        "graph",
        "head",
        "joins",
        "limit",
        "max_concurrency",
        "messages",
        "metadata",
        "modes",
        "nested",
        "next",
        "ns",
        "pending",
        "pick",
        "records",
        "saver",
        "sink",
        "step",
        "subgraphs",
        "thread_id",
        "unkept",
        "values",
    )

    def __init__(self, graph: CompiledStateGraph) -> None:
        self.graph = graph
        self.base: Runtime[Any] = Runtime()
        self.config: dict[str, Any] = {}
        self.saver: SaverCalls | None = None
        self.thread_id: str | None = None
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
        """Called by a task of another run, whose saver and thread it shares."""
        self.pending: Commit | None = None
        self.unkept: list[TaskRecord] = []

    # -- the whole run

    async def flow(self, given: Any) -> dict[str, Any]:
        """Run to the end, a pause or an error; gives the state as the graph's output, and open questions."""
        try:
            await self._open(given)
            if "values" in self.modes:
                await self._emit("values", self._output())
            interrupts = await self._steps(going_on=given is None or isinstance(given, Command))
        finally:
            await self._settle()
        output = self._output()
        if interrupts:
            if self.nested:
                raise GraphInterrupt(interrupts)
            output[INTERRUPT] = interrupts
        return output

    async def _steps(self, going_on: bool) -> list[Interrupt]:
        blueprint, taken = self.graph.blueprint, 0
        # going on from where the thread stands goes past a breakpoint that it stands at
        held = frozenset(task.id for task in self.next) if going_on else frozenset()
        while self.next:
            now, waiting = put_off(blueprint, self.next)
            if self.breaks_before and any(t.node in self.breaks_before and t.id not in held for t in now):
                await self._paused()
                return []
            if taken >= self.limit:
                raise GraphRecursionError(
                    f"The graph {self.graph.name!r} took {taken} steps and wants to go on with {[t.node for t in now]}.",
                    kind="steps",
                    value=taken,
                    limit=self.limit,
                    hint='If it is meant to run longer, pass {"recursion_limit": ...} in the config; '
                    "otherwise look for an edge that leads back for ever.",
                )
            done, interrupts = await self._step(now)
            if interrupts:
                if "updates" in self.modes:
                    await self._emit("updates", {INTERRUPT: tuple(interrupts)})
                if "values" in self.modes:
                    await self._emit("values", {**self._output(), INTERRUPT: tuple(interrupts)})
                return interrupts
            await self._advance(done, waiting)
            taken += 1
            if self.breaks_after and any(node in self.breaks_after for node, _ in done):
                await self._paused()
                return []
        return []

    # -- opening

    async def _open(self, given: Any) -> None:
        """Load the thread and take the input: new values, answers, or nothing (go on)."""
        found = await self.saver.load(self.thread_id, self.ns, self.pick) if self.saver else None
        if self.nested and found is not None:  # the task around it runs again: go on, or give what was found
            await self._stand_on(found)
            self._match_answers()
            return
        if self.pick is not None and found is None:
            raise InvalidInput(
                f"Thread {self.thread_id!r} has no checkpoint {self.pick!r}.",
                hint="List them with get_state_history(config).",
            )
        if found is not None:
            await self._stand_on(found)
        if isinstance(given, Command):
            await self._take_command(given)
        elif given is None:
            if found is None:
                raise InvalidInput(
                    f"invoke(None) continues a thread, and there is nothing to continue ({self._where()}).",
                    hint="Pass an input, or the thread_id of a thread that has a checkpoint.",
                )
        else:
            await self._take_input(given)
        if self.next and self.records:
            self._match_answers()

    def _where(self) -> str:
        if self.saver is None:
            return "the graph has no checkpointer"
        return f"thread {self.thread_id!r} is empty" if self.thread_id else "no thread_id is given"

    async def _stand_on(self, found: Checkpoint) -> None:
        self.values = found.values
        self.next = found.next
        self.joins = found.joins
        self.step = found.step
        self.head = found.id
        self.records = {record.task_id: record for record in found.tasks}
        if self.pick is not None and self.saver is not None:
            newest = await self.saver.load(self.thread_id, self.ns, None)
            if newest is not None and newest.id != found.id:  # going on from the past: a branch of its own
                self.records = {id_: unanswered(r) for id_, r in self.records.items() if self._repeats(r)}
                await self._commit("fork", {}, parent=found.id, expect=newest.id, carry=True)

    def _repeats(self, record: TaskRecord) -> bool:
        """Whether a branch can take a task over as it stands: it is done, or waits for its very first answer."""
        if record.done:
            return True
        first = interrupt_id(self._scope(PlannedTask(record.task_id, record.node), self.base), 0)
        return len(record.interrupts) == 1 and record.interrupts[0].id == first

    async def _take_command(self, command: Command[Any]) -> None:
        if command.resume is not None:
            if self.saver is None:
                from runwell.errors import NoCheckpointer

                raise NoCheckpointer(
                    f"Command(resume={command.resume!r:.100}) needs a checkpointer, and graph {self.graph.name!r} has none.",
                    hint="Compile with the same checkpointer the run was paused under.",
                )
            given = answers_for(self._open_questions(), command.resume)
            self.answers.update({id_: (answer, command.actor) for id_, answer in given.items()})
            await self._keep_answers(given, command.actor)
        if command.update is not None or command.targets():
            writes = [*self._update_writes("input", command.update), *((JUMP, t) for t in self._targets(command))]
            await self._enter(writes, START, keep=command.resume is not None and not command.targets())

    async def _take_input(self, given: Any) -> None:
        graph = self.graph
        known = frozenset(graph.input_schema.channels)
        if graph.ignore_extra and isinstance(given, dict):
            given = {key: value for key, value in given.items() if key in known}
        writes = list(graph.input_schema.intake(given, known, thread_has=frozenset(self.values)).items())
        if graph.on_input is not None:
            writes = graph.on_input(self, writes)
        await self._enter(writes, START)

    async def _enter(self, writes: list[Write], source: str, *, keep: bool = False) -> None:
        """Apply input writes and plan the first tasks of this run. `keep` leaves the planned tasks as they are."""
        changes = apply_writes(self.graph.channels, self.values, [(source, writes)])
        self._check(changes, source)
        before = self.values
        self.values = _changed(before, changes)
        if keep:
            await self._commit("update", changes, carry=True)
            return
        jumps = [target for name, target in writes if name == JUMP]
        routes = [] if jumps else await self._branch_writes(START, self.values, self.base)
        self.next, self.joins = plan_tasks(self.graph.blueprint, self.step + 1, [(START, [*writes, *routes])], {})
        self.records = {}
        await self._commit("input", changes)

    # -- answers

    def _open_questions(self) -> list[Interrupt]:
        return [
            question
            for record in self.records.values()
            if not record.done
            for question in record.interrupts
            if f"answer/{question.id}" not in record.records
        ]

    async def _keep_answers(self, given: dict[str, Any], actor: str | None) -> None:
        """Save answers before anything runs on them, so that a crash does not lose them."""
        assert self.saver is not None
        for record in self.records.values():
            mine = [question for question in record.interrupts if question.id in given]
            if mine:
                for question in mine:
                    record.records[f"answer/{question.id}"] = given[question.id]
                    record.records[f"actor/{question.id}"] = actor
                await self.saver.save_task(self.thread_id, self.ns, self.head, record)

    def _match_answers(self) -> None:
        """Give each paused task the answers to its own questions; a nested graph's are found by id when it opens."""
        for record in self.records.values():
            if record.done:
                continue
            scope = self._scope(PlannedTask(record.task_id, record.node), self.base)
            for question in record.interrupts:
                if f"answer/{question.id}" in record.records:
                    answer, actor = record.records[f"answer/{question.id}"], record.records.get(f"actor/{question.id}")
                    self.answers[question.id] = (answer, actor)
                elif question.id in self.answers:  # kept by the run around this one
                    answer, actor = self.answers[question.id]
                else:
                    continue
                if question.id == interrupt_id(scope, len(record.answers)):
                    record.answers.append(answer)
                    record.actors.append(actor)

    def _unanswered(self, record: TaskRecord) -> list[Interrupt]:
        """A paused task's questions that nobody has answered: while there is one it is not run again."""
        return [question for question in record.interrupts if question.id not in self.answers]

    # -- one step

    async def _step(self, tasks: list[PlannedTask]) -> tuple[list[tuple[str, list[Write]]], list[Interrupt]]:
        """Run a step's tasks that have no result yet; gives all results in task order, or the open questions."""
        results: dict[str, list[Write]] = {}
        waiting: list[Interrupt] = []
        todo: list[PlannedTask] = []
        for task in tasks:
            record = self.records.get(task.id) if self.records else None
            if record is not None and record.done:
                results[task.id] = record.writes
            elif record is not None and record.interrupts and (still := self._unanswered(record)):
                waiting.extend(still)
            else:
                todo.append(task)
        alone = len(tasks) == 1
        flows: list[Any] = [lambda task=task: self._task(task, alone) for task in todo]
        pending: Commit | None = None
        if self.durability == "async":  # the last step is saved while this one runs
            pending, self.pending = self.pending, None
        if pending is not None:
            flows.append(lambda: self._save(pending))
        outcomes: list[Outcome[Any]] = await RunTasks(flows, self.max_concurrency)
        if pending is not None:
            outcomes.pop().unwrap()
        unkept, self.unkept = self.unkept, []
        for record in unkept:
            await self._keep_now(record)
        failed: list[BaseException] = []
        for task, outcome in zip(todo, outcomes, strict=True):
            error = outcome.error
            if error is None:
                results[task.id] = outcome.value
            elif isinstance(error, GraphInterrupt):
                waiting.extend(error.interrupts)
            else:
                failed.append(error)
        if failed:
            raise _first(failed)
        if waiting:
            return [], waiting
        return [(task.node, results[task.id]) for task in tasks], []

    async def _task(self, planned: PlannedTask, alone: bool) -> list[Write]:
        """One task to its writes. A result beside siblings is saved at once; a pause or failure always is."""
        node = self.graph.nodes[planned.node]
        runtime = self.base
        if node.wants or node.flow is not None or self.saver is not None or node.subgraph is not None:
            runtime = runtime.override(
                execution_info=ExecutionInfo(
                    self.thread_id, self.head, self.ns, planned.id, planned.node, self.step + 1
                )
            )
        scope = self._scope(planned, runtime)
        record = self.records.get(planned.id) if self.records else None
        if record is not None:
            scope.answers = list(record.answers)
            scope.records = dict(record.records)
        CURRENT_TASK.set(scope)
        try:
            writes = await self._attempts(node, planned, runtime, scope)
        except GraphInterrupt as pause:
            await self._keep(scope, TaskRecord(planned.id, planned.node, interrupts=list(pause.interrupts)))
            raise
        except ParentCommand:
            raise
        except Exception as error:
            error.add_note(f"in node {planned.node!r} of graph {self.graph.name!r}, step {self.step + 1}{self._thread()}")
            await self._keep(scope, TaskRecord(planned.id, planned.node, error=f"{type(error).__name__}: {error}"))
            raise
        if not alone:
            await self._keep(scope, TaskRecord(planned.id, planned.node, done=True, writes=writes))
        if self.modes:
            await self._tell(node, scope, writes)
        return writes

    async def _tell(self, node: Node, scope: TaskScope, writes: list[Write]) -> None:
        """Stream what a task gave."""
        update = _as_update(writes)
        if "updates" in self.modes and (update is not None or not node.quiet):
            await self._emit("updates", {node.name: update})
        if self.messages is not None and "messages" in self.modes and NOSTREAM.isdisjoint(node.tags):
            for name, value in writes:
                if name not in (ROUTE, JUMP):
                    for item in self.messages.finished(scope, value, node.tags):
                        await Emit(item)

    def _thread(self) -> str:
        return f", thread {self.thread_id!r}" if self.thread_id else ""

    def _scope(self, planned: PlannedTask, runtime: Runtime[Any]) -> TaskScope:
        scope = TaskScope(planned.id, planned.node, runtime, f"{self.thread_id}|{self.ns}|{planned.id}")
        scope.can_pause = self.saver is not None
        scope.in_process = self.answer_in_process
        scope.run = self
        return scope

    async def _keep(self, scope: TaskScope, record: TaskRecord) -> None:
        """Keep how a task stands beside its checkpoint."""
        if not record.done:
            record.answers = list(scope.answers)
            record.records = dict(scope.records)
        if self.saver is None:
            return
        if self.durability == "sync":
            await self._keep_now(record)
        else:
            self.unkept.append(record)  # its checkpoint may not be on disk yet

    async def _keep_now(self, record: TaskRecord) -> None:
        assert self.saver is not None
        if self.durability == "exit":
            await self._settle()
        self.records[record.task_id] = record
        await self.saver.save_task(self.thread_id, self.ns, self.head, record)

    async def _settle(self) -> None:
        """Save a commit that was put off."""
        pending, self.pending = self.pending, None
        if pending is not None:
            await self._save(pending)
            self.head = pending.id

    async def _attempts(self, node: Node, planned: PlannedTask, runtime: Runtime[Any], scope: TaskScope) -> list[Write]:
        attempt = 1
        while True:
            try:
                return await self._once(node, planned, runtime, scope)
            except Exception as error:
                retry = node.retry
                if retry is None or attempt >= retry.max_attempts or not retry.retries(error):
                    raise
                await Sleep(retry.wait_s(attempt, random.random()))
                attempt += 1
                scope.asked = 0
                runtime.execution_info.attempt = attempt

    async def _once(self, node: Node, planned: PlannedTask, runtime: Runtime[Any], scope: TaskScope) -> list[Write]:
        ambient = CURRENT.get()
        if ambient is None or not ambient.handlers:
            return await self._work(node, planned, runtime, scope)
        observed = open_run("node", node.name, planned.arg if planned.sent else self.values)
        if observed is None:
            return await self._work(node, planned, runtime, scope)
        with observed:
            writes = await self._work(node, planned, runtime, scope)
            observed.end(_as_update(writes))
        return writes

    async def _work(self, node: Node, planned: PlannedTask, runtime: Runtime[Any], scope: TaskScope) -> list[Write]:
        if node.flow is not None:
            result = await node.flow(Task(self, planned, runtime, scope))
        elif node.subgraph is not None:
            return await self._nested(node, planned, scope)
        else:
            state = planned.arg if planned.sent else node.schema.view(self.values)
            result = await Call(node.bound(runtime), state, timeout=node.timeout)
        return await self._finish(node, result, runtime)

    async def _finish(self, node: Node, result: Any, runtime: Runtime[Any]) -> list[Write]:
        """A node's return as writes, and where its conditional edges lead."""
        writes = node_writes(self.graph, node.name, result)
        if node.name in self.graph.branches and not any(name == JUMP for name, _ in writes):
            seen = self.values
            if writes:
                changes = apply_writes(self.graph.channels, seen, [(node.name, writes)])
                seen = _changed(seen, changes)
            writes.extend(await self._branch_writes(node.name, seen, runtime))
        return writes

    async def _branch_writes(self, source: str, values: dict[str, Any], runtime: Runtime[Any]) -> list[Write]:
        writes: list[Write] = []
        for branch in self.graph.branches.get(source, ()):
            state = self.graph.schema.view(values)
            called: Callee[Any] = branch.callee
            if branch.wants:
                given = injected(branch.wants, runtime)
                from functools import partial

                called = Callee(
                    None if called.sync is None else partial(called.sync, **given),
                    None if called.aio is None else partial(called.aio, **given),
                    cheap=called.cheap,
                )
            chosen = await Call(called, state)
            writes.extend((ROUTE, target) for target in self._chosen(source, branch, chosen))
        return writes

    def _chosen(self, source: str, branch: Branch, chosen: Any) -> list[str | Send]:
        targets: list[str | Send] = []
        for one in chosen if isinstance(chosen, (list, tuple)) else [chosen]:
            if isinstance(one, Send):
                target: str | Send = one
                name = one.node
            else:
                mapped = one if branch.ends is None else branch.ends.get(one, None)
                if mapped is None:
                    raise InvalidUpdateError(
                        f"The conditional edge {branch.name!r} from {source!r} chose {one!r}, which is not in its path map.",
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
            writes = node_writes(self.graph, node.name, Command(update=jump.command.update, goto=jump.command.goto))
            return writes
        if node.name in self.graph.branches:
            changes = apply_writes(self.graph.channels, self.values, [(node.name, writes)])
            writes.extend(await self._branch_writes(node.name, _changed(self.values, changes), scope.runtime))
        return writes  # type: ignore[no-any-return]

    # -- after a step

    async def _advance(self, done: list[tuple[str, list[Write]]], waiting: list[PlannedTask]) -> None:
        """Apply a step's writes, plan the next, save."""
        graph = self.graph
        changes = apply_writes(graph.channels, self.values, done)
        if changes:
            self._check(changes, ", ".join(node for node, _ in done))
            self.values = _changed(self.values, changes)
        self.step += 1
        routed = [*done, *await self._joint_routes(done)] if graph.joint else done
        self.next, self.joins = plan_tasks(graph.blueprint, self.step + 1, routed, self.joins, waiting)
        if not changes and graph.quiet and self.next and all(graph.nodes[node].quiet for node, _ in done):
            return  # hooks that changed nothing are not worth a checkpoint; a resume plans them again
        self.records = {}
        if self.saver is not None:
            await self._commit("loop", changes, ran=[node for node, _ in done])
        if "values" in self.modes:
            await self._emit("values", self._output())

    async def _joint_routes(self, done: list[tuple[str, list[Write]]]) -> list[tuple[str, list[Write]]]:
        """Where conditional edges lead that look at the state after the whole step, once for all tasks of their node."""
        routes: list[tuple[str, list[Write]]] = []
        for node in dict.fromkeys(name for name, _ in done):
            branch = self.graph.joint.get(node)
            if branch is None:
                continue
            jumps = [target for name, writes in done if name == node for key, target in writes if key == JUMP]
            if jumps:
                if any(jump != jumps[0] for jump in jumps):
                    raise InvalidUpdateError(
                        f"Tasks of node {node!r} jump to different places in one step: {jumps!r:.300}.",
                        hint="Let only one of them jump, or all to the same place.",
                    )
                continue
            chosen = await Call(branch.callee, self.graph.schema.view(self.values))
            routes.append((node, [(ROUTE, target) for target in self._chosen(node, branch, chosen)]))
        return routes

    def _check(self, changes: dict[str, tuple[Any, Any]], node: str) -> None:
        schema = self.graph.schema
        if schema.kind == "pydantic":
            for name, (old, new) in changes.items():
                changes[name] = (old, schema.check(node, name, new))

    async def _commit(
        self,
        source: Any,
        changes: dict[str, tuple[Any, Any]],
        *,
        ran: list[str] | None = None,
        parent: str | None = None,
        expect: str | None = None,
        carry: bool = False,
    ) -> None:
        if self.saver is None:
            return
        now = await Now()
        metadata = dict(self.metadata)
        if ran:
            metadata["ran"] = ran
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
                await self.saver.save_task(self.thread_id, self.ns, commit.id, record)
        if "checkpoints" in self.modes:
            await self._emit("checkpoints", {"id": commit.id, "step": commit.step, "source": source})

    async def _save(self, commit: Commit) -> None:
        assert self.saver is not None
        await self.saver.commit(commit)

    # -- breakpoints and streaming

    async def _paused(self) -> None:
        """A breakpoint ends the run here."""
        if "updates" in self.modes:
            await self._emit("updates", {INTERRUPT: ()})

    async def _emit(self, mode: str, chunk: Any) -> None:
        await Emit((self.ns, mode, chunk))

    def _output(self) -> dict[str, Any]:
        channels = self.graph.output_schema.channels
        if len(channels) == len(self.graph.channels):
            return dict(self.values)
        return {name: value for name, value in self.values.items() if name in channels}

    # -- what callers and nodes say

    def _targets(self, command: Command[Any]) -> list[str | Send]:
        return checked_targets(self.graph, "the caller", command)

    def _update_writes(self, node: str, update: Any) -> list[Write]:
        return [] if update is None else node_writes(self.graph, node, update)


class SaverCalls:
    """A saver's methods as effects, each in whatever colour the saver has it, with the graph's own types allowed."""

    __slots__ = ("_commit", "_history", "_load", "_save_task", "saver", "types")

    def __init__(self, saver: Any, types: frozenset[type]) -> None:
        self.saver = saver
        self.types = types
        self._commit = _method(saver, "commit")
        self._save_task = _method(saver, "save_task")
        self._load = _method(saver, "load")
        self._history = _method(saver, "history")

    async def commit(self, commit: Commit) -> None:
        await Call(self._commit, commit, self.types, shield=True)

    async def save_task(self, thread_id: str | None, ns: str, checkpoint_id: str | None, record: TaskRecord) -> None:
        await Call(self._save_task, thread_id, ns, checkpoint_id, record, self.types, shield=True)

    async def load(self, thread_id: str | None, ns: str, checkpoint_id: str | None) -> Checkpoint | None:
        found: Checkpoint | None = await Call(self._load, thread_id, ns, checkpoint_id, self.types)
        return found

    async def history(self, thread_id: str, ns: str, options: dict[str, Any]) -> list[Checkpoint]:
        from functools import partial

        called = self._history
        bound = Callee[Any](
            None if called.sync is None else partial(called.sync, **options, types=self.types),
            None if called.aio is None else partial(called.aio, **options, types=self.types),
            cheap=called.cheap,
        )
        return list(await Call(bound, thread_id, ns))


def _method(saver: Any, name: str) -> Callee[Any]:
    from runwell.drivers.colour import is_async

    method = getattr(saver, name)
    if is_async(method):
        return Callee(None, method)
    return Callee(method, getattr(saver, f"a{name}", None), cheap=bool(getattr(saver, "cheap", False)))


def _changed(values: dict[str, Any], changes: dict[str, tuple[Any, Any]]) -> dict[str, Any]:
    after = dict(values)
    for name, (_, new) in changes.items():
        if new is GONE:
            after.pop(name, None)
        else:
            after[name] = new
    return after


def _merged(first: Commit, second: Commit) -> Commit:
    """Two commits as one, for durability "exit": only the last is saved, with all that changed."""
    changes = dict(first.changes)
    for name, (old, new) in second.changes.items():
        changes[name] = (changes[name][0] if name in changes else old, new)
    second.changes = changes
    second.parent_id = first.parent_id
    second.expect_head = first.expect_head
    return second


def unanswered(record: TaskRecord) -> TaskRecord:
    """The record as it was before its questions were answered."""
    kept = {key: value for key, value in record.records.items() if not key.startswith(("answer/", "actor/"))}
    return replace(record, records=kept, answers=[], actors=[], interrupts=list(record.interrupts))


def _first(errors: list[BaseException]) -> BaseException:
    """The error to raise of a step's: an exception before a signal, in task order; the others stand in its notes."""
    chosen = next((error for error in errors if not isinstance(error, Signal)), errors[0])
    for other in errors:
        if other is not chosen and isinstance(chosen, Exception):
            chosen.add_note(f"in the same step also: {type(other).__name__}: {other}")
    return chosen


def _as_update(writes: list[Write]) -> dict[str, Any] | None:
    """A task's writes as the update its node returned."""
    update = {name: value for name, value in writes if name not in (ROUTE, JUMP)}
    return update or None


def checked_targets(graph: CompiledStateGraph, node: str, command: Command[Any]) -> list[str | Send]:
    targets = command.targets()
    for target in targets:
        name = target.node if isinstance(target, Send) else target
        if name != END and name not in graph.nodes:
            raise InvalidUpdateError(
                f"{node!r} jumps to {name!r}, which is not a node of graph {graph.name!r}{nearest(str(name), graph.nodes)}.",
                hint=f"Nodes are {sorted(graph.nodes)}, and END; for the graph above pass graph=Command.PARENT.",
            )
    return targets


def node_writes(graph: CompiledStateGraph, node: str, result: Any) -> list[Write]:
    """What a node returned, as writes: a dict, a Command, a list of these, an object of the state's class, or None."""
    if result is None:
        return []
    if type(result) is dict:
        return list(result.items())
    if isinstance(result, Command):
        if result.graph == Command.PARENT:
            raise ParentCommand(result)
        writes = node_writes(graph, node, result.update)
        writes.extend((JUMP, target) for target in checked_targets(graph, node, result))
        return writes
    if isinstance(result, dict):
        return list(result.items())
    if isinstance(result, (list, tuple)):
        if result and all(isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str) for one in result):
            return list(result)
        return [write for one in result for write in node_writes(graph, node, one)]
    if hasattr(type(result), "__pydantic_validator__"):
        return [(name, getattr(result, name)) for name in result.model_fields_set if name in graph.channels]
    if hasattr(type(result), "__dataclass_fields__"):
        names = [name for name in type(result).__dataclass_fields__ if name in graph.channels]
        if names:
            return [(name, getattr(result, name)) for name in names]
    raise InvalidUpdateError(
        f"Node {node!r} returned {result!r:.200}, of type {type(result).__name__!r}.",
        hint="Return a dict of state keys, a Command, a list of these, or None.",
    )


