"""How a run begins: load the thread, then take new input, answers to open questions, or nothing. Engine code."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from runwell.errors import GraphInterrupt, InvalidInput, NoCheckpointer, nearest
from runwell.graph.calls import settled
from runwell.graph.interrupts import answers_for, interrupt_id
from runwell.graph.lineage import begin_branch, memory_of, take_lineage
from runwell.graph.nesting import children_of, earlier_call, follow, go_inside
from runwell.graph.plan import JUMP, Write, apply_step, apply_writes, changed_values, plan_tasks
from runwell.graph.recorded import CALL, FRESH
from runwell.graph.run_state import NOTHING
from runwell.graph.spent import USED
from runwell.graph.updates import checked_targets, node_writes
from runwell.ports.command import END, START, Command, Interrupt, Overwrite, Send
from runwell.ports.runtime import CURRENT_TASK, TaskScope
from runwell.ports.saver import Checkpoint, PlannedTask, TaskRecord

if TYPE_CHECKING:
    from runwell.graph.engine import Run

__all__ = ["open_thread"]


async def open_thread(run: Run, given: Any) -> bool:
    """Load the thread and take the input: new values, answers, or nothing. Tells whether it goes on from before."""
    if isinstance(given, Command):
        _refuse_command(run, given)
    if run.ns and not run.nested:
        await go_inside(run)
    found = await run.saver.load(run.thread_id, run.ns, run.pick) if run.saver else None
    if run.nested and (mine := await earlier_call(run, found)) is not None:
        await _stand_on(run, mine)  # the task around it runs again: go on, or give what was found
        match_answers(run)
        return True
    if run.call is not None and found is not None and run.pick is None:
        found = await _rewound(run, found)
    if run.pick is not None and found is None:
        raise InvalidInput(
            f"Thread {run.thread_id!r} has no checkpoint {run.pick!r}.",
            hint="List them with get_state_history(config).",
        )
    if found is not None:
        await _stand_on(run, found)
    if isinstance(given, Command):
        await _take_command(run, given)
    elif given is None:
        if found is None:
            raise InvalidInput(
                f"invoke(None) continues a thread, and there is nothing to continue ({_where(run)}).",
                hint="Pass an input, or the thread_id of a thread that has a checkpoint.",
            )
    else:
        await _take_input(run, given)
    for task in run.next:
        if task.node not in run.graph.nodes_and_start:
            raise InvalidInput(
                f"Graph {run.graph.name!r} has no node {task.node!r}, which comes next ({_where(run)})"
                f"{nearest(task.node, run.graph.nodes)}.",
                hint="The thread was saved by a graph that had it: add it again, say with update_state(config, values, "
                "as_node=...) what was done in its place, or send new input.",
            )
    if run.next and run._records:
        match_answers(run)
    return given is None or isinstance(given, Command)


async def _rewound(run: Run, newest: Checkpoint) -> Checkpoint | None:
    """A memory per thread as it was where the graph around it stands now, in case that one has gone back."""
    found = await memory_of(run, newest)
    if found is None:  # it was called for the first time in what is undone: it begins anew
        begin_branch(run, None)
        await run.save_checkpoint("fork", {}, expect=newest.id)
    elif found is not newest:
        run.pick = found.id
    return found


def _where(run: Run) -> str:
    if run.saver is None:
        return "the graph has no checkpointer"
    if run.head is not None:
        return f"thread {run.thread_id!r}, checkpoint {run.head!r}"
    return f"thread {run.thread_id!r} is empty" if run.thread_id else "no thread_id is given"


async def _stand_on(run: Run, found: Checkpoint) -> None:
    known = run.graph.channels
    run.values = (
        found.values
        if found.values.keys() <= known.keys()
        else {name: value for name, value in found.values.items() if name in known}  # a key that the graph had once
    )
    run.next = found.next
    run.joins = found.joins
    run.step = found.step
    run.head = found.id
    run.spent = found.metadata.get(USED)
    take_lineage(run, found)
    # a task that is taken up again from within is no longer paused
    run.records = {record.task_id: record for record in found.tasks if (run.ns, record.task_id) not in run.origins}
    if run.pick is not None and run.saver is not None:
        newest = await run.saver.load(run.thread_id, run.ns, None)
        if newest is not None and newest.id != found.id:  # going on from the past: a branch of its own
            run.records = {id_: _unanswered(r) for id_, r in run.records.items() if _repeats(r)}
            follow(run)
            begin_branch(run, found)
            await run.save_checkpoint("fork", {}, parent=found.id, expect=newest.id, carry=True)


def _repeats(record: TaskRecord) -> bool:
    """Whether a branch can take a task over as it stands: it is done, or waits for its very first answers.

    A graph that the task called looks after its own answers. A `@task` is done only if nothing had been answered.
    """
    if CALL in record.records:
        return record.done and bool(record.records[FRESH])
    if record.done or (children_of(record) and not record.answers):
        return True
    asked = {question.id for question in record.interrupts}
    answered = {key.removeprefix("answer/") for key in record.records if key.startswith("answer/")}
    return bool(asked) and not record.answers and answered <= asked


def _refuse_command(run: Run, command: Command[Any]) -> None:
    if command.graph is not None:
        raise InvalidInput(
            f"Graph {run.graph.name!r} was called with a Command with graph={command.graph!r:.100}.",
            hint="graph= is for nodes; to go on inside a graph pass the config of its state.",
        )
    if command.actor is not None and not isinstance(command.actor, str):
        raise InvalidInput(f"actor is {command.actor!r:.100}.", hint="Say who answered as text.")
    if command.resume is None and command.update is None and not command.targets():
        raise InvalidInput(
            f"Graph {run.graph.name!r} was called with a Command that says nothing.",
            hint="Pass None to go on. An answer that is None is given by id: Command(resume={interrupt.id: None}).",
        )


async def _take_command(run: Run, command: Command[Any]) -> None:
    if command.resume is not None:
        if run.saver is None:
            raise NoCheckpointer(
                f"Command(resume={command.resume!r:.100}) needs a checkpointer; graph {run.graph.name!r} has none.",
                hint="Compile with the same checkpointer the run was paused under.",
            )
        given = answers_for(open_questions(run), command.resume)
        run.answers.update({id_: (answer, command.actor) for id_, answer in given.items()})
        await _keep_answers(run, given, command.actor)
    if command.update is not None or command.targets():
        writes = [
            *_update_writes(run, command.update),
            *((JUMP, t) for t in checked_targets(run.graph, "the caller", command)),
        ]
        if run.graph.check_caller is not None and not run.ns:
            run.graph.check_caller(writes)
        await _enter(run, writes, START, keep=command.resume is not None)


async def _take_input(run: Run, given: Any) -> None:
    graph = run.graph
    known = graph.input_schema.channels
    if graph.ignore_extra and isinstance(given, dict):
        given = {key: value for key, value in given.items() if key in known}
    writes = list(graph.input_schema.intake(given, known, thread_has=run.values).items())
    if graph.check_caller is not None and not run.ns:  # the graph around a nested one is the program
        graph.check_caller(writes)
    kept = run.values
    shared = run.shares & kept.keys() if run.shares else NOTHING
    if graph.on_input is not None:
        if shared:
            run.values = {name: value for name, value in kept.items() if name not in shared}
        writes = graph.on_input(run, writes)
        run.values = kept
    if shared:  # a memory that goes on keeps what is its own; what it shares is as the graph around it has it
        writes = [(name, Overwrite(value) if name in shared else value) for name, value in writes]
    await _enter(run, writes, START)


async def _enter(run: Run, writes: list[Write], source: str, *, keep: bool = False) -> None:
    """Apply input writes and plan the first tasks of this run. `keep` leaves the planned tasks, and adds to them."""
    if keep:
        changes = apply_writes(run.graph.channels, run.values, [(source, writes)])
    else:
        changes = apply_step(run.graph.blueprint, run.values, [(source, writes)])
    run.check(changes, source)
    before = run.values
    run.values = changed_values(before, changes)
    if keep:
        run.next = _beside(run, writes)
        await run.save_checkpoint("update", changes, carry=True)
        return
    led: list[Write] = []
    record: TaskRecord | None = None
    if START in run.graph.branches and all(name != JUMP for name, _ in writes):
        pauses = run.can_pause and run.saver is not None
        place = (run.thread_id, run.ns)
        scope = TaskScope(f"{START}:{run.step + 1}", START, run.base, place, run, pauses, run.answer_in_process)
        token = CURRENT_TASK.set(scope)
        try:
            led = await settled(scope, run.branch_writes(START, run.values, run.base))
        except GraphInterrupt as pause:
            record = TaskRecord(scope.task_id, START, interrupts=list(pause.interrupts))
        finally:
            CURRENT_TASK.reset(token)
    run._records, run.spent = None, None
    if record is None:
        run.next, run.joins = plan_tasks(run.graph.blueprint, run.step + 1, [(START, [*writes, *led])], {})
        await run.save_checkpoint("input", changes)
    else:  # the edges are asked again, in a step of their own, once there is an answer
        run.next, run.joins = [PlannedTask(record.task_id, START)], {}
        await run.save_checkpoint("input", changes)
        run.records[record.task_id] = record
        await run.keep(scope, record)


def _beside(run: Run, writes: list[Write]) -> list[PlannedTask]:
    """The planned tasks, and after them those of jumps: what was answered is not lost to a jump beside it."""
    planned = list(run.next)
    known = {task.id for task in planned}
    for name, target in writes:
        if name != JUMP or target == END:
            continue
        node, sent = (target.node, True) if isinstance(target, Send) else (target, False)
        id_ = f"{node}:{run.step + 1}" + (f":{len(planned)}" if sent else "")
        if id_ not in known:
            planned.append(PlannedTask(id_, node, sent, target.arg if isinstance(target, Send) else None))
            known.add(id_)
    return planned


def open_questions(run: Run) -> list[Interrupt]:
    return [
        question
        for record in run.records.values()
        if not record.done
        for question in record.interrupts
        if f"answer/{question.id}" not in record.records
    ]


async def _keep_answers(run: Run, given: dict[str, Any], actor: str | None) -> None:
    """Save answers before anything runs on them, so that a crash does not lose them."""
    for record in run.records.values():
        mine = [question for question in record.interrupts if question.id in given]
        if mine:
            for question in mine:
                record.records[f"answer/{question.id}"] = given[question.id]
                record.records[f"actor/{question.id}"] = actor
            await run.save_record(run.head, record)


def match_answers(run: Run) -> None:
    """Give each paused task the answers to its own questions; a nested graph's are found by id when it opens."""
    for record in run.records.values():
        if record.done:
            continue
        for question in record.interrupts:
            if f"answer/{question.id}" in record.records:
                answer, actor = record.records[f"answer/{question.id}"], record.records.get(f"actor/{question.id}")
                run.answers[question.id] = (answer, actor)
            elif question.id in run.answers:  # kept by the run around this one
                answer, actor = run.answers[question.id]
            else:
                continue
            if question.id == interrupt_id(record.records, run.ns, record.task_id, len(record.answers)):
                record.answers.append(answer)
                record.actors.append(actor)


def _unanswered(record: TaskRecord) -> TaskRecord:
    """The record as it was before its questions were answered."""
    kept = {key: value for key, value in record.records.items() if not key.startswith(("answer/", "actor/"))}
    return replace(record, records=kept, answers=[], actors=[], interrupts=list(record.interrupts))


def _update_writes(run: Run, update: Any) -> list[Write]:
    return [] if update is None else node_writes(run.graph, "input", update)
