"""A call of a graph as a run that is ready to be driven. All that can be wrong with a call is refused here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from runwell.errors import InvalidConfig, InvalidInput, NoCheckpointer
from runwell.graph import thread
from runwell.graph.context_given import context_for
from runwell.graph.engine import Run
from runwell.graph.nesting import nest
from runwell.graph.run_options import take_options
from runwell.graph.streaming import inherit
from runwell.observe.context import CURRENT, UNSET, RunContext
from runwell.observe.inherit import add_handlers
from runwell.observe.run import open_run
from runwell.ports.runtime import CURRENT_TASK, ExecutionInfo, LaterConfig, Runtime, TaskScope

if TYPE_CHECKING:
    from runwell.graph.compiled import CompiledStateGraph
    from runwell.observe.run import OpenRun as Observed

__all__ = ["called", "called_inside"]

_NOWHERE = ExecutionInfo()
"""One for all runs: where its code runs, each task says for itself."""


def called(
    graph: CompiledStateGraph, given: Any, config: Mapping[str, Any] | None, options: Mapping[str, Any]
) -> tuple[Run, Observed | None]:
    """A run ready to be driven. Everything about the call that can be wrong is refused here."""
    run = Run(graph)
    scope = CURRENT_TASK.get()
    run.breaks_before, run.breaks_after = graph.breaks_before, graph.breaks_after
    if options:
        take_options(graph, run, options)
        if run.messages is not None:
            config = {**(config or {})}
            config["callbacks"] = list(add_handlers((run.messages,), config.get("callbacks")))
    observed = open_run("graph", graph, given, config)
    known: RunContext | None = observed if observed is not None else CURRENT.get()
    configurable: Mapping[str, Any] = known.configurable if known is not None else {}
    if known is not None:
        run.limit = known.recursion_limit
        run.max_concurrency = known.max_concurrency if isinstance(known.max_concurrency, int) else None
        run.metadata = known.metadata
    if run.max_concurrency is None and (known is None or known.max_concurrency is UNSET):
        run.max_concurrency = graph.default_concurrency
    if graph.default_limit is not None and not (config and config.get("recursion_limit")):
        run.limit = max(run.limit, graph.default_limit)
    own = configurable.get("thread_id")
    asked = (config or {}).get("configurable") or {}
    inside = scope is not None and scope.run is not None
    if inside and (graph.saver_calls is None or asked.get("thread_id") is None):
        assert scope is not None
        nest(run, graph, scope)
    elif graph.checkpointer is True:
        raise NoCheckpointer(
            f"Graph {graph.name!r} keeps its memory in the thread of the graph that calls it, and none does.",
            hint="Compile it with a checkpointer of its own to call it by itself.",
        )
    elif graph.saver_calls is not None:
        if own is None:
            raise InvalidConfig(
                f"Graph {graph.name!r} has a checkpointer, and the call names no thread.",
                hint='Pass config={"configurable": {"thread_id": "..."}}.',
            )
        run.saver = graph.saver_calls
        run.thread_id = thread.named(own)
        ns, pick = str(asked.get("checkpoint_ns") or ""), asked.get("checkpoint_id")
        if inside and scope is not None and pick in (scope.run.asked, None):
            ns, pick = "", None  # a config handed on: that was a checkpoint of the graph around this one
        run.ns = ns
        if pick is not None:
            run.pick = run.asked = pick
    run.base = base = Runtime(
        context=context_for(graph.context_schema, options.get("context"), scope),
        store=graph.store,
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
    _refuse(graph, run)
    return run, observed


def called_inside(graph: CompiledStateGraph, outer: Run, scope: TaskScope) -> Run:
    """A run as a node of another graph's."""
    run = Run(graph)
    run.base = outer.base.override(budget=scope.runtime.budget)
    run.limit, run.max_concurrency, run.metadata = outer.limit, outer.max_concurrency, outer.metadata
    nest(run, graph, scope)
    run.answer_in_process = outer.answer_in_process
    run.breaks_before, run.breaks_after = graph.breaks_before, graph.breaks_after
    inherit(run, outer)
    _refuse(graph, run)
    return run


def _refuse(graph: CompiledStateGraph, run: Run) -> None:
    """What can be known to fail is refused before anything runs."""
    if graph.pauses and run.saver is None and run.answer_in_process is None:
        raise NoCheckpointer(
            f"{graph.name!r} may pause ({'; '.join(graph.pauses)}), and nothing can save the pause.",
            hint="Give it a checkpointer (InMemorySaver, SqliteSaver) and a thread_id, or pass answer_interrupts=.",
        )
    if run.saver is None and (breaks := run.breaks_before | run.breaks_after):
        raise NoCheckpointer(
            f"{graph.name!r} has a breakpoint at {sorted(breaks)}, and nothing can save the pause.",
            hint="Give it a checkpointer (InMemorySaver, SqliteSaver) and a thread_id.",
        )
    if graph.caching and run.cache is None and graph.cache is not False:
        raise InvalidInput(
            f"{graph.name!r} has nodes with a cache_policy ({graph.caching}), and no cache to keep results in.",
            hint="Compile it with cache=InMemoryCache() or SqliteCache(path), or cache=False to keep nothing.",
        )
    if graph.needs_store and run.base.store is None:
        raise InvalidInput(
            f"{graph.name!r} needs a store ({'; '.join(graph.needs_store)}), and has none.",
            hint="Pass store= when it is built.",
        )
