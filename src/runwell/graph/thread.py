"""A thread's saved state: reading it, listing its past, changing it by hand. Engine code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from runwell.errors import InvalidConfig, InvalidInput, NoCheckpointer
from runwell.graph.engine import Run
from runwell.graph.nesting import graph_at, reopen
from runwell.graph.plan import JUMP, apply_step, changed_values, plan_tasks
from runwell.graph.saver_calls import SaverCalls
from runwell.graph.snapshot import StateSnapshot, config_of, snapshot_of
from runwell.graph.updates import node_writes
from runwell.ports.command import START

if TYPE_CHECKING:
    from runwell.graph.compiled import CompiledStateGraph

__all__ = ["HistoryOptions", "history", "state", "update"]


class HistoryOptions(TypedDict, total=False):
    """`filter` matches metadata, `source` and `step` exactly; `before` is a checkpoint's config; `limit` a number."""

    filter: dict[str, Any] | None
    before: Mapping[str, Any] | None
    limit: int | None


def _place(
    graph: CompiledStateGraph, config: Mapping[str, Any]
) -> tuple[CompiledStateGraph | None, SaverCalls, str, str, str | None]:
    """Graph, saver, thread, namespace and checkpoint that a config names; no graph where a function called it."""
    calls = graph.saver_calls
    if calls is None:
        raise NoCheckpointer(
            f"Graph {graph.name!r} has no checkpointer, so it has no saved state.",
            hint="Compile it with checkpointer=InMemorySaver() or SqliteSaver(path).",
        )
    configurable = config.get("configurable") or {}
    if configurable.get("thread_id") is None:
        raise InvalidConfig("The config names no thread.", hint='Pass {"configurable": {"thread_id": "..."}}.')
    thread_id, ns = str(configurable["thread_id"]), str(configurable.get("checkpoint_ns") or "")
    inner = graph_at(graph, ns)
    if inner is not None and inner.saver_calls is not None:
        calls = inner.saver_calls
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
            if isinstance(task.state, dict):
                task.state = await state(graph, task.state, subgraphs=True)
    return snapshot


async def history(graph: CompiledStateGraph, config: Mapping[str, Any], options: HistoryOptions) -> list[StateSnapshot]:
    """Every checkpoint of the thread, newest first."""
    inner, calls, thread_id, ns, _ = _place(graph, config)
    before = options.get("before")
    wanted = {
        "before": (before.get("configurable") or {}).get("checkpoint_id") if before else None,
        "limit": options.get("limit"),
        "filter": options.get("filter"),
    }
    shown = inner.shown if inner is not None else None
    return [snapshot_of(one, shown) for one in await calls.history(thread_id, ns, wanted)]


async def update(
    graph: CompiledStateGraph, config: Mapping[str, Any], values: Any, as_node: str | None
) -> dict[str, Any]:
    """Save a change made by hand, as if `as_node` had returned it."""
    inner, calls, thread_id, ns, pick = _place(graph, config)
    if inner is None:
        raise InvalidInput(
            f"checkpoint_ns={ns!r} is of a graph that a node's function calls, which {graph.name!r} does not know.",
            hint="Call update_state of that graph, compiled with the same checkpointer.",
        )
    outer, graph = graph.saver_calls, inner
    run = Run(graph)
    run.saver, run.thread_id, run.ns = calls, thread_id, ns
    found = await calls.load(thread_id, ns, pick)
    newest = await calls.load(thread_id, ns, None) if pick is not None else found
    if found is not None:
        run.values, run.next, run.joins, run.step, run.head = (
            found.values, found.next, found.joins, found.step, found.id,
        )  # fmt: skip
        as_node = as_node or _ran_last(found.metadata)
    if as_node is not None and as_node != START and as_node not in graph.nodes:
        raise InvalidInput(f"as_node={as_node!r} is not a node.", hint=f"Nodes are {sorted(graph.nodes)}.")
    source = as_node or START
    writes = node_writes(graph, source, values)
    changes = apply_step(graph.blueprint, run.values, [(source, writes)])
    run.check(changes, source)
    run.values = changed_values(run.values, changes)
    if as_node is not None:
        if not any(name == JUMP for name, _ in writes):
            writes.extend(await run.branch_writes(as_node, run.values, run.base))
        done = [(as_node, writes)]
        done.extend(await run.joint_routes(done))
        run.next, run.joins = plan_tasks(graph.blueprint, run.step + 2, done, run.joins)
    run.step += 1
    await run.save_checkpoint(
        "update",
        changes,
        ran=[as_node] if as_node else None,
        parent=found.id if found else None,
        expect=newest.id if newest else None,
    )
    assert run.head is not None
    if ns and calls is outer:
        await reopen(calls, thread_id, ns)
    return config_of(thread_id, ns, run.head)


def _ran_last(metadata: Mapping[str, Any]) -> str | None:
    """The node whose update an unnamed one is taken for."""
    ran = metadata.get("ran") or []
    if len(ran) > 1:
        raise InvalidInput(f"The last step ran {ran}, so it is not clear whose update this is.", hint="Say as_node=.")
    return ran[0] if ran else None
