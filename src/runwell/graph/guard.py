"""A node that has policies: looked up in a cache, limited in time, tried again, and its error handled. Engine code."""

from __future__ import annotations

import random
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, ClassVar

from runwell.drivers.deadline import Deadline
from runwell.effects import Call, Callee, Sleep
from runwell.errors import NodeTimeoutError
from runwell.graph.node_cache import key_of
from runwell.graph.plan import Write
from runwell.observe.context import CURRENT
from runwell.observe.events import Event, Retried
from runwell.observe.run import dispatch_custom_event, observing, record_decision, tell

if TYPE_CHECKING:
    from runwell.graph.engine import Run, Task
    from runwell.graph.node import Node
    from runwell.ports.runtime import Runtime
    from runwell.ports.saver import PlannedTask

__all__ = ["guarded"]


async def guarded(run: Run, node: Node, planned: PlannedTask, runtime: Runtime[Any], scope: Task) -> list[Write]:
    """A task's writes, as its node's policies say: kept ones, or those of an attempt, or its error handler's."""
    key = None
    if node.cache is not None and run.cache is not None:
        given = planned.arg if planned.sent else run.graph.cached_by(run, node)
        key = key_of(node, run.graph.get_name(), given, runtime)
        kept = await run.cache.get(key, run.graph.all_types)
        if kept is not None:
            run.hits[planned.id] = True
            dispatch_custom_event("node_cached", {"node": node.name, "task_id": planned.id})
            return await run.routed(node, kept, runtime)
    try:
        writes = await _attempts(run, node, planned, runtime, scope)
    except Exception as error:
        if node.handler is None:
            raise
        scope.calls = scope.pushed = None
        return await _handled(run, node, planned, runtime, error)
    if key is not None and node.cache is not None and run.cache is not None and not scope.asked:
        # what a person answered is an answer to this run's question alone
        await run.cache.set(key, writes, node.cache.ttl, run.graph.all_types)
    return writes


async def _attempts(run: Run, node: Node, planned: PlannedTask, runtime: Runtime[Any], scope: Task) -> list[Write]:
    """Run a node, again as its retry policies say: the first that takes the error decides."""
    attempt = 1
    while True:
        try:
            return await _attempt(run, node, planned, runtime, scope)
        except Exception as error:
            if scope.calls is not None:
                await scope.calls.failed(error)
            if isinstance(error, NodeTimeoutError) and node.timeout is not None:
                outcome = "abandoned" if error.abandoned else "cancelled"
                record_decision("F2", outcome, f"node {node.name!r}: {error.kind} of {error.limit:g} s", "code")
            retry = next((policy for policy in node.retry if policy.retries(error)), None)
            if retry is None or attempt >= retry.max_attempts:
                raise
            wait = retry.wait_s(attempt, random.random())
            observed = CURRENT.get()
            if observed is not None and observed.handlers:
                tell(observed, Retried(observed, attempt, error, wait))
            await Sleep(wait)
            attempt += 1
            scope.asked = scope.children = 0
            scope.pause = scope.calls = scope.pushed = None
            runtime.execution_info.attempt = attempt


async def _attempt(run: Run, node: Node, planned: PlannedTask, runtime: Runtime[Any], scope: Task) -> list[Write]:
    policy = node.timeout
    if policy is None:
        return await run.attempt(node, planned, runtime, scope)
    deadline = Deadline(policy.run_timeout, policy.idle_timeout)
    with ExitStack() as stack:
        if policy.idle_timeout is not None:
            write = runtime.stream_writer
            runtime.pulse = deadline.beat
            runtime.stream_writer = _beating(write, deadline)
            stack.callback(setattr, runtime, "stream_writer", write)
            stack.enter_context(observing(_Beats(deadline)))
        if node.subgraph is None and node.flow is None:
            return await run.attempt(node, planned, runtime, scope, deadline)
        whole = _driven(run, node.name, lambda: run.attempt(node, planned, runtime, scope))
        return await Call(whole, timeout=deadline)  # type: ignore[no-any-return]


def _beating(write: Any, deadline: Deadline) -> Any:
    def beating(item: Any) -> None:
        deadline.beat()
        write(item)

    return beating


class _Beats:
    """Takes whatever the runs inside a node tell for a sign of life. Models stream, so that they give one."""

    raise_error: ClassVar[bool] = False
    wants_tokens: ClassVar[bool] = True
    wants_chunks: ClassVar[bool] = False

    def __init__(self, deadline: Deadline) -> None:
        self.deadline = deadline

    def handle(self, event: Event) -> None:
        self.deadline.beat()


def _driven(run: Run, name: str, begin: Any) -> Callee[list[Write]]:
    """Engine code as a callable with a deadline: driven by a driver of its own, in the colour of the one around."""
    put = run.sink

    def plain() -> list[Write]:
        from runwell.drivers.sync import SyncDriver

        return SyncDriver(put).drive(begin())

    async def loop() -> list[Write]:
        from runwell.drivers.aio import running

        async def emit(item: Any) -> None:
            if put is not None:
                put(item)

        return await running(begin(), emit)

    plain.__qualname__ = loop.__qualname__ = f"node {name!r} of {run.graph.name!r}"
    return Callee(plain, loop)


async def _handled(run: Run, node: Node, planned: PlannedTask, runtime: Runtime[Any], error: Exception) -> list[Write]:
    """The writes of a node's error handler, which stand for the node's. It may take as long as the node may."""
    handler = node.handler
    assert handler is not None
    given = planned.arg if planned.sent else run.view(node.schema, run.values)
    policy = node.timeout
    deadline = None if policy is None else Deadline(policy.run_timeout, policy.idle_timeout)
    if deadline is not None and deadline.idle is not None:
        runtime.pulse = deadline.beat
    try:
        result = await Call(handler.bound(runtime), given, error, timeout=deadline)
    except Exception as second:
        second.add_note(f"in the error handler of node {node.name!r}, for {type(error).__name__}: {error}")
        raise second from error
    dispatch_custom_event(
        "node_error_handled",
        {"node": node.name, "task_id": planned.id, "error": f"{type(error).__name__}: {error}"},
    )
    return await run.finish(node, result, runtime, given)
