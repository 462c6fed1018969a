"""What code inside a node can ask for without having been passed it."""

from __future__ import annotations

from typing import Any

from runwell.errors import UsageError
from runwell.ports.runtime import CURRENT_TASK, ExecutionInfo, Runtime, StreamWriter, TaskScope

__all__ = ["get_config", "get_runtime", "get_store", "get_stream_writer"]


def _scope(asked: str) -> TaskScope:
    scope = CURRENT_TASK.get()
    if scope is None:
        raise UsageError(
            f"{asked}() was called outside a graph's node.",
            hint="Call it in a node or tool; in a thread of your own, carry the run over with runwell.copy_context.",
        )
    return scope


def get_runtime() -> Runtime[Any]:
    """The runtime of the node or tool this runs in."""
    scope = _scope("get_runtime")
    run = scope.run
    if run is not None and not scope.runtime.execution_info.task_id:  # nobody had asked for its place
        scope.runtime = scope.runtime.at(
            ExecutionInfo(run.thread_id, run.head, run.ns, scope.task_id, scope.node, run.step + 1, run_id=run.run_id),
            scope.runtime.budget,
        )
    return scope.runtime


def get_stream_writer() -> StreamWriter:
    """A function that hands a value to the reader of `stream_mode="custom"`."""
    return _scope("get_stream_writer").runtime.stream_writer


def get_store() -> Any:
    """The long-term store, or None."""
    return _scope("get_store").runtime.store


def get_config() -> dict[str, Any]:
    """The config of the run."""
    return _scope("get_config").runtime.config
