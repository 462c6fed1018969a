"""A thread's saved state: reading it, listing its past, changing it by hand. Engine code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from runwell.errors import InvalidConfig, InvalidInput, NoCheckpointer
from runwell.graph.edited import still_open
from runwell.graph.engine import Run
from runwell.graph.lineage import CALL_KEYS, begin_branch, take_lineage
from runwell.graph.nesting import begun_inside, calls_at, graph_at, not_inside, reopen
from runwell.graph.plan import JUMP, apply_step, changed_values, plan_tasks
from runwell.graph.saver_calls import SaverCalls
from runwell.graph.snapshot import StateSnapshot, config_of, snapshot_of
from runwell.graph.updates import node_writes
from runwell.ports.command import END, START
from runwell.ports.runtime import Runtime

if TYPE_CHECKING:
    from runwell.graph.compiled import CompiledStateGraph
    from runwell.persistence.checkpoints.threads import PendingInterrupt

__all__ = ["HistoryOptions", "StateUpdate", "bulk_update", "history", "named", "state", "update"]


class StateUpdate(NamedTuple):
    """A change by hand: `values` as if `as_node` had returned them (None: the node that ran last)."""

    values: Any
    as_node: str | None = None


class HistoryOptions(TypedDict, total=False):
    """`filter` matches metadata, `source` and `step` exactly; `before` is a checkpoint's config; `limit` a number."""

    filter: dict[str, Any] | None
    before: Mapping[str, Any] | None
    limit: int | None


def _calls(graph: CompiledStateGraph) -> SaverCalls:
    calls = graph.saver_calls
    if calls is None:
        raise NoCheckpointer(
            f"Graph {graph.name!r} has no checkpointer, so it has no saved state.",
            hint="Compile it with checkpointer=InMemorySaver() or SqliteSaver(path).",
        )
    return calls


def named(thread_id: Any) -> str:
    """A thread's id as savers take it. Text, a number or a UUID will do; what would put many in one thread will not."""
    if thread_id == "" or isinstance(thread_id, (bool, bytes, float, list, tuple, dict, set, frozenset)):
        raise InvalidConfig(
            f"thread_id is {thread_id!r:.200}.", hint="Give text that is not empty, a number or a UUID."
        )
    return str(thread_id)


def _place(
    graph: CompiledStateGraph, config: Mapping[str, Any]
) -> tuple[CompiledStateGraph | None, SaverCalls, str, str, str | None]:
    """Graph, saver, thread, namespace and checkpoint that a config names; no graph where a function called it."""
    calls = _calls(graph)
    given: Any = config
    if not isinstance(given, Mapping) or not isinstance(given.get("configurable") or {}, Mapping):
        raise InvalidConfig(f"The config is {given!r:.200}.", hint='Pass {"configurable": {"thread_id": "..."}}.')
    configurable = config.get("configurable") or {}
    if configurable.get("thread_id") is None:
        raise InvalidConfig("The config names no thread.", hint='Pass {"configurable": {"thread_id": "..."}}.')
    thread_id, ns = named(configurable["thread_id"]), str(configurable.get("checkpoint_ns") or "")
    if ns and not ns.startswith("|"):
        raise not_inside(graph, ns, ns)
    inner = graph_at(graph, ns)
    calls = calls_at(graph, calls, ns)
    return inner, calls, thread_id, ns, configurable.get("checkpoint_id")


async def state(graph: CompiledStateGraph, config: Mapping[str, Any], *, subgraphs: bool = False) -> StateSnapshot:
    """The thread as it stands, or stood at the config's checkpoint; with `subgraphs` those in its tasks too."""
    inner, calls, thread_id, ns, pick = _place(graph, config)
    found = await calls.load(thread_id, ns, pick)
    if found is None:
        return StateSnapshot(values={}, next=(), config={"configurable": dict(config["configurable"])})
    snapshot = snapshot_of(found, inner.shown if inner is not None else None)
    if subgraphs:
        for task in snapshot.tasks:
            if task.state is None and inner is not None:  # cut off before the task could say what it had called
                begun = await begun_inside(graph, inner, found, task.id, task.name)
                task.state = config_of(*begun) if begun is not None else None
            if isinstance(task.state, dict):
                task.state = await state(graph, task.state, subgraphs=True)
    return snapshot


async def history(
    graph: CompiledStateGraph, config: Mapping[str, Any], options: HistoryOptions
) -> Iterator[StateSnapshot]:
    """Every checkpoint of the thread, newest first: all are read and checked at once, each is shown when it is asked
    for."""
    inner, calls, thread_id, ns, _ = _place(graph, config)
    before: Any = options.get("before")
    if before is not None and not (isinstance(before, Mapping) and isinstance(before.get("configurable"), Mapping)):
        raise InvalidInput(f"get_state_history() got before={before!r:.200}.", hint="Give the config of a state.")
    wanted = {
        "before": (before.get("configurable") or {}).get("checkpoint_id") if before else None,
        "limit": options.get("limit"),
        "filter": options.get("filter"),
    }
    shown = inner.shown if inner is not None else None
    return map(partial(snapshot_of, output=shown), await calls.history(thread_id, ns, wanted))


async def questions(graph: CompiledStateGraph, limit: int | None) -> list[PendingInterrupt]:
    """The open questions of all threads that the graph's checkpointer keeps."""
    return await _calls(graph).questions(limit)


async def update(
    graph: CompiledStateGraph, config: Mapping[str, Any], values: Any, as_node: str | None
) -> dict[str, Any]:
    """Save a change made by hand, as if `as_node` had returned it."""
    return await _change_all(graph, config, [[StateUpdate(values, as_node)]])


async def bulk_update(
    graph: CompiledStateGraph, config: Mapping[str, Any], supersteps: Sequence[Sequence[StateUpdate]]
) -> dict[str, Any]:
    """Save changes made by hand, a checkpoint for each superstep."""
    if not supersteps or isinstance(supersteps, StateUpdate) or any(isinstance(s, StateUpdate) for s in supersteps):
        raise InvalidInput(
            f"bulk_update_state() got {supersteps!r:.200} as its supersteps.",
            hint="Give a list of lists: [[StateUpdate(values, as_node), ...], ...], with at least one.",
        )
    for at, updates in enumerate(supersteps):
        if not updates:
            raise InvalidInput(f"Superstep {at} of bulk_update_state() is empty.", hint="Leave it out.")
        if len(updates) > 1 and not all(StateUpdate(*each).as_node for each in updates):
            raise InvalidInput(
                f"Superstep {at} of bulk_update_state() has {len(updates)} updates, and not all say which node's.",
                hint="StateUpdate(values, as_node) for each.",
            )
    return await _change_all(graph, config, [[StateUpdate(*each) for each in updates] for updates in supersteps])


async def _change_all(
    graph: CompiledStateGraph, config: Mapping[str, Any], supersteps: Sequence[Sequence[StateUpdate]]
) -> dict[str, Any]:
    """A checkpoint for each superstep, while nothing else runs on the thread."""
    _, _, thread_id, _, _ = _place(graph, config)
    calls = graph.saver_calls
    assert calls is not None
    attempt = await calls.take(thread_id, "raise")
    try:
        for updates in supersteps:
            config = await _change(graph, config, updates, calls, attempt)
        return dict(config)
    finally:
        if attempt is not None:
            await calls.release(thread_id, attempt)


async def _change(
    graph: CompiledStateGraph,
    config: Mapping[str, Any],
    updates: Sequence[StateUpdate],
    outermost: SaverCalls,
    attempt: int | None,
) -> dict[str, Any]:
    """One checkpoint with updates as if their nodes had run together."""
    inner, calls, thread_id, ns, pick = _place(graph, config)
    if inner is None:
        raise InvalidInput(
            f"checkpoint_ns={ns!r} is of a graph that a node's function calls, which {graph.name!r} does not know.",
            hint="Call update_state of that graph, compiled with the same checkpointer.",
        )
    outer, graph = graph, inner
    run = Run(graph)
    run.base = Runtime()
    run.saver, run.thread_id, run.ns = calls, thread_id, ns
    run.fence = attempt if calls.saver is outermost.saver else None
    found = await calls.load(thread_id, ns, pick)
    if pick is not None and found is None:
        raise InvalidInput(
            f"Thread {thread_id!r} has no checkpoint {pick!r}.", hint="List them with get_state_history(config)."
        )
    newest = await calls.load(thread_id, ns, None) if pick is not None else found
    kept: Sequence[str] = ()
    if found is not None:
        run.values, run.next, run.joins, run.step, run.head = (
            found.values, found.next, found.joins, found.step, found.id,
        )  # fmt: skip
        run.metadata = {key: found.metadata[key] for key in CALL_KEYS if key in found.metadata}
        take_lineage(run, found)
        if newest is not None and newest.id != found.id:
            begin_branch(run, found)
        if len(updates) == 1 and updates[0].as_node is None:
            updates = [StateUpdate(updates[0].values, _ran_last(found.metadata))]
        if found.metadata.get("ran") == [each.as_node for each in updates]:
            kept = found.metadata.get("jumped") or ()
    for _, node in updates:
        if node not in (None, START, END) and node not in graph.nodes:
            raise InvalidInput(f"as_node={node!r} is not a node.", hint=f"Nodes are {sorted(graph.nodes)}.")
    done = [(node or START, node_writes(graph, node or START, values)) for values, node in updates]
    changes = apply_step(graph.blueprint, run.values, done)
    run.check(changes, ", ".join(node for node, _ in done))
    run.values = changed_values(run.values, changes)
    jumped = [node for node, writes in done if any(name == JUMP for name, _ in writes)]
    if kept and not jumped:
        jumped = list(kept)  # a node that jumped has jumped to what comes next, whatever else is changed about it
    elif updates[0].as_node is not None:
        for node, writes in done:
            if node not in jumped:
                writes.extend(await run.branch_writes(node, run.values, run.base))
        done = await run.with_joint_routes(done)
        run.next, run.joins = plan_tasks(graph.blueprint, run.step + 2, done, run.joins)
    run.step += 1
    if found is not None:
        run.next, run.records = still_open(found, run.next, [node for node, _ in done])
    await run.save_checkpoint(
        "update",
        changes,
        ran=[each.as_node for each in updates if each.as_node],
        jumped=jumped,
        parent=found.id if found else None,
        expect=newest.id if newest else None,
        carry=True,
    )
    assert run.head is not None
    if ns:
        await reopen(
            outer, outermost, thread_id, ns, attempt, [q for one in run.records.values() for q in one.interrupts]
        )
    return config_of(thread_id, ns, run.head)


def _ran_last(metadata: Mapping[str, Any]) -> str | None:
    """The node whose update an unnamed one is taken for."""
    ran = metadata.get("ran") or []
    if len(ran) > 1:
        raise InvalidInput(f"The last step ran {ran}, so it is not clear whose update this is.", hint="Say as_node=.")
    return ran[0] if ran else None
