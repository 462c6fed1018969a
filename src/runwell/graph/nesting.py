"""A graph that runs inside a task of another: which memory it has there, and where that is kept.

What the inner graph was compiled with decides:

- `checkpointer=None`: a memory per call. Each call starts afresh, is saved beside the outer graph, and can pause.
- `checkpointer=False`: no memory. Nothing of it is saved, so it cannot pause.
- `checkpointer=True`: a memory per thread, with the outer graph's saver. A node's next call goes on with the state
  that its last call left; it may be called by one task of a step.
- a saver of its own: as True, in that saver. Called with a `thread_id` of its own it is a run of its own.

A place is a namespace: `|task@origin` for a call, where `origin` is the outer checkpoint it was made from, and
`|node+name` for a thread.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from runwell.errors import InvalidConfig, NoCheckpointer, UsageError
from runwell.graph.interrupts import EDITED
from runwell.graph.lineage import CALLED_IN, PAGE, branch_of
from runwell.graph.saver_calls import SaverCalls
from runwell.ports.saver import TaskRecord

if TYPE_CHECKING:
    from runwell.graph.compiled import CompiledStateGraph
    from runwell.graph.engine import Run
    from runwell.ports.command import Interrupt
    from runwell.ports.runtime import TaskScope
    from runwell.ports.saver import Checkpoint

__all__ = [
    "ORIGIN",
    "begun_inside",
    "calls_at",
    "children_of",
    "earlier_call",
    "follow",
    "go_inside",
    "graph_at",
    "leave",
    "nest",
    "not_inside",
    "reopen",
]

ORIGIN = "__origin__"
"""Among a task's records: the checkpoint that the graphs it called started from."""
CHILDREN = "__children__"
"""Among a task's records: the namespaces of the graphs it called, and the checkpoint each stood at."""


def nest(run: Run, graph: CompiledStateGraph, scope: TaskScope) -> None:
    """Give `run`, a run of `graph` called by the task of `scope`, its memory, thread and answers."""
    outer: Run = scope.run
    run.nested, run.caller = True, scope
    run.answers, run.durability = outer.answers, outer.durability
    run.control = run.control or outer.control
    if graph.cache is None:
        run.cache = outer.cache
    run.picks, run.origins = outer.picks, outer.origins
    run.can_pause = outer.saver is not None and outer.can_pause
    count, scope.children = scope.children, scope.children + 1
    mode = graph.checkpointer
    forced = outer.origins.get((outer.ns, scope.task_id))
    if forced is not None:
        scope.records[ORIGIN] = forced
    origin = scope.records.setdefault(ORIGIN, outer.head)
    call = f"{outer.ns}|{scope.task_id}@{origin}"
    if mode is None or mode is False:
        run.ns = call + (f".{count}" if count else "")
        if mode is None and outer.saver is not None:
            _share(run, outer, graph)
    else:
        if mode is not True:
            run.saver, run.thread_id = graph.saver_calls, outer.thread_id or _thread(scope)
        elif outer.saver is None:
            raise NoCheckpointer(
                f"Graph {graph.name!r} was compiled with checkpointer=True, and the graph that calls it saves nothing.",
                hint="Compile the outer graph with a checkpointer, or this one with None.",
            )
        else:
            _share(run, outer, graph)
        run.ns = f"{outer.ns}|{scope.node}+{graph.name}"
        run.call = f"{call}#{count}" if outer.saver is not None else os.urandom(8).hex()
        run.metadata = {**run.metadata, "call": run.call, CALLED_IN: branch_of(outer)}
        step, user = outer.memories.get(run.ns, (-1, ""))
        if run.ns in outer.busy or (step == outer.step and user != scope.task_id):
            raise _shared(graph.get_name(), run.ns)
        outer.memories[run.ns] = (outer.step, scope.task_id)
        outer.busy[run.ns] = True
    if run.saver is None and scope.runtime.execution_info.task_id:
        run.token = f"{scope.runtime.idempotency_key}.{count}"
    if (pick := outer.picks.pop(run.ns, None)) is not None:
        run.pick = pick


def _share(run: Run, outer: Run, graph: CompiledStateGraph) -> None:
    """Save where the outer run saves, and be given up with it: both carry its attempt."""
    assert outer.saver is not None
    run.saver = SaverCalls(outer.saver.saver, outer.saver.types | graph.all_types)
    run.thread_id, run.fence = outer.thread_id, outer.fence


def _thread(scope: TaskScope) -> str:
    found = (scope.runtime.config.get("configurable") or {}).get("thread_id")
    if found is None:
        raise InvalidConfig(
            f"Node {scope.node!r} calls a graph that has a checkpointer, and the run names no thread.",
            hint='Pass config={"configurable": {"thread_id": "..."}}.',
        )
    return str(found)


def _shared(name: str, ns: str) -> UsageError:
    return UsageError(
        f"Graph {name!r} keeps its memory per thread ({ns!r}), and two calls would share it at the same time.",
        hint="Let one task of a step call it, one call after the other; or compile it with checkpointer=None "
        "(a memory per call), or once more under another name.",
    )


def _refuse_shared(run: Run, found: Checkpoint) -> None:
    """Refuse a memory that another task of the same step has used, in this process or one that ended since."""
    (other, before), (own, now) = _read(str(found.metadata.get("call", ""))), _read(run.call or "")
    if other != own and before == now and _step(other) == _step(own):
        raise _shared(run.graph.get_name(), run.ns)


def _step(task: str) -> str:
    return task.split(":")[1] if ":" in task else ""


def _read(call: str) -> tuple[str, str]:
    """The task and the origin in the last part of a namespace or the name of a call."""
    task, _, origin = call.rpartition("|")[2].partition("@")
    return task, origin.partition("#")[0].partition(".")[0]


async def earlier_call(run: Run, found: Checkpoint | None) -> Checkpoint | None:
    """Where this very call got to before, when the task around it runs again: `found`, or one behind later calls."""
    if found is None or run.call is None or found.metadata.get("call") == run.call:
        return found
    _refuse_shared(run, found)
    assert run.saver is not None
    assert run.thread_id is not None
    mine = await _behind(run, found)
    if mine is not None and mine.next:
        run.pick = mine.id
    return mine


async def _behind(run: Run, found: Checkpoint) -> Checkpoint | None:
    """The last checkpoint of this very call, behind those of later calls that the same task made from the same place.

    What was saved for another task, and before that place was, has all of this call behind it: the search ends there,
    so that a call costs the same however long the memory is.
    """
    assert run.saver is not None
    assert run.thread_id is not None
    origin = _read(run.call or "")
    page = [found]
    while page:
        for one in page:
            if one.metadata.get("call") == run.call:
                return one
            if _read(str(one.metadata.get("call", ""))) != origin and one.id < origin[1]:
                return None
        page = await run.saver.history(run.thread_id, run.ns, {"before": page[-1].id, "limit": PAGE})
    return None


def graph_at(graph: CompiledStateGraph, ns: str) -> CompiledStateGraph | None:
    """The graph whose states a namespace holds; None for one that a node's function calls."""
    for part in ns.split("|")[1:]:
        task, origin = _read(part)
        node = graph.nodes.get(task.partition(":")[0] if origin else part.rpartition("+")[0])
        if node is None or node.subgraph is None:
            return None
        graph = node.subgraph
    return graph


def calls_at(graph: CompiledStateGraph, calls: SaverCalls, ns: str) -> SaverCalls:
    """The saver that a namespace is kept in, given the outermost graph's: that of the nearest graph with its own."""
    above, types = "", calls.types
    for part in ns.split("|")[1:]:
        above = f"{above}|{part}"
        inner = graph_at(graph, above)
        if inner is None:
            break
        types |= inner.all_types
        calls = inner.saver_calls or calls
    return SaverCalls(calls.saver, calls.types | types) if ns else calls


async def begun_inside(
    graph: CompiledStateGraph, inner: CompiledStateGraph, at: Checkpoint, task_id: str, name: str
) -> tuple[str, str, str] | None:
    """Thread, namespace and checkpoint of the graph that a node of `inner` is, if its task at that checkpoint has
    begun it. It is known by its place, also where a process was killed before the task was recorded.
    """
    node = inner.nodes.get(name)
    if node is None or node.subgraph is None or node.subgraph.checkpointer is False or graph.saver_calls is None:
        return None
    call = f"{at.ns}|{task_id}@{at.id}"
    here = call if node.subgraph.checkpointer is None else f"{at.ns}|{name}+{node.subgraph.name}"
    found = await calls_at(graph, graph.saver_calls, here).load(at.thread_id, here, None)
    if found is None or (here != call and not str(found.metadata.get("call", "")).startswith(f"{call}#")):
        return None
    return at.thread_id, here, found.id


async def go_inside(run: Run) -> None:
    """Turn a config that names a checkpoint of an inner graph into one of this graph and of those on the way.

    Each stands on the checkpoint it had when the named one was current, so only what came after is run again.
    """
    ns, inner, run.ns = run.ns, run.pick, ""
    if run.saver is None:
        return
    if not ns.startswith("|"):
        raise not_inside(run.graph, ns, ns)
    if inner is None:
        raise InvalidConfig(
            f"checkpoint_ns={ns!r} names a graph inside {run.graph.name!r}, and no checkpoint_id goes with it.",
            hint="Pass the config of a state as get_state(config, subgraphs=True).tasks[...].state.config gives it.",
        )
    for above, task, origin, here in await way_down(run.graph, run.saver, run.thread_id, ns, inner):
        if above:
            run.picks[above] = origin
        else:
            run.pick = origin
        run.origins[above, task] = origin
        run.picks[here] = inner


async def way_down(
    graph: CompiledStateGraph, calls: SaverCalls, thread_id: str | None, ns: str, inner: str | None
) -> list[tuple[str, str, str, str]]:
    """The steps from the outermost graph to the one at `ns`, as it stood at checkpoint `inner` (None: newest).

    Each is a graph's namespace, its task that called the next, the checkpoint that task ran from, and the next's
    namespace.
    """
    steps: list[tuple[str, str, str, str]] = []
    above, parts = "", ns.split("|")[1:]
    for at, part in enumerate(parts):
        here = f"{above}|{part}"
        task, origin = _read(part)
        if not origin:  # a memory per thread: the checkpoint knows the call that made it
            kept = calls_at(graph, calls, here)
            found = await kept.load(thread_id, here, inner if at == len(parts) - 1 else None)
            task, origin = _read(str(found.metadata.get("call", "")) if found is not None else "")
        if not origin:
            raise not_inside(graph, ns, here)
        steps.append((above, task, origin, here))
        above = here
    return steps


def not_inside(graph: CompiledStateGraph, ns: str, here: str) -> InvalidConfig:
    why = "does not name a graph inside this one"
    if graph_at(graph, here) is None and "+" in here.rpartition("|")[2]:
        why += " whose saver this one knows: a node's function calls that graph, and it has a saver of its own"
    return InvalidConfig(
        f"checkpoint_ns={ns!r} {why}.",
        hint="Take the config of a state: get_state(config, subgraphs=True).tasks[...].state.config. To go on inside a "
        "graph with a saver of its own, make it a node: add_node(name, graph).",
    )


async def reopen(
    graph: CompiledStateGraph,
    calls: SaverCalls,
    thread_id: str,
    ns: str,
    fence: int | None,
    questions: Sequence[Interrupt],
) -> None:
    """After a change by hand inside: the tasks around it run again, and ask no more than the `questions` still open."""
    known = {each.id: each.value for each in questions}
    for above, task, _, _ in await way_down(graph, calls, thread_id, ns, None):
        kept = calls_at(graph, calls, above)
        found = await kept.load(thread_id, above, None)
        for record in found.tasks if found is not None else ():
            if found is not None and record.task_id == task and not record.done:
                fenced = fence if kept.saver is calls.saver else None
                asks = [each for each in record.interrupts if each.id in known]
                noted = {**record.records, EDITED: known} if asks else record.records
                changed = replace(record, interrupts=asks, records=noted)
                await kept.save_task(thread_id, above, found.id, changed, fenced)


def leave(run: Run) -> None:
    """Note in the calling task where this run stands, and free its memory for the next call."""
    outer: Run = run.caller.run
    outer.busy.pop(run.ns, None)
    around, own = run.caller.runtime.budget, run.base.budget
    if around is not None and own is not around and run.saver is not None:
        around.kept_inside(own.used)
    if run.saver is not None and run.head is not None:
        run.caller.records.setdefault(CHILDREN, {})[run.ns] = run.head


def follow(run: Run) -> None:
    """On a branch, take the graphs that unfinished tasks had called from where they stood, not from where they got."""
    for record in run.records.values():
        if not record.done:
            run.picks.update(children_of(record))


def children_of(record: TaskRecord) -> dict[str, str]:
    """The namespaces of the graphs that a task called, with the checkpoint each stood at."""
    found: dict[str, str] = record.records.get(CHILDREN, {})
    return found
