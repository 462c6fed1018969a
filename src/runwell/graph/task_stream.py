"""The streams that look into a run: `tasks`, `checkpoints` and `debug`. Engine code."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from runwell.effects import NOW, Emit
from runwell.errors import GraphDrained, GraphInterrupt, ParentCommand
from runwell.graph.plan import Write
from runwell.graph.snapshot import config_of
from runwell.ports.command import Interrupt
from runwell.ports.saver import Commit, PlannedTask

if TYPE_CHECKING:
    from runwell.graph.engine import Run
    from runwell.graph.run_state import RunState

__all__ = ["LOOKS_INSIDE", "TELLS_SAVED", "tell_saved", "told"]

LOOKS_INSIDE = frozenset({"tasks", "debug"})
TELLS_SAVED = frozenset({"checkpoints", "debug"})


async def told(run: Run, planned: PlannedTask, alone: bool = True) -> list[Write]:
    """Run a task, and stream that it begins and how it ends."""
    state = planned.arg if planned.sent else run.graph.input_of(run, planned.node)
    await _tell(run, "task", {"id": planned.id, "name": planned.node, "input": state})
    try:
        writes = await run._task(planned, alone)
    except GraphInterrupt as pause:
        await _ended(run, planned, interrupts=pause.interrupts)
        raise
    except GraphDrained:
        await _ended(run, planned)
        raise
    except ParentCommand as jump:
        await _ended(run, planned, result=jump.command.update)
        raise
    except Exception as error:
        await _ended(run, planned, error=f"{type(error).__name__}: {error}")
        raise
    await _ended(run, planned, result=run.graph.update_of(writes))
    return writes


async def _ended(
    run: Run,
    planned: PlannedTask,
    *,
    error: str | None = None,
    result: Any = None,
    interrupts: Sequence[Interrupt] = (),
) -> None:
    facts = {"id": planned.id, "name": planned.node, "error": error, "result": {} if result is None else result}
    if planned.id in run.hits:
        facts["cached"] = True
    await _tell(run, "task_result", {**facts, "interrupts": list(interrupts)})


async def tell_saved(run: RunState, commit: Commit) -> None:
    """Stream the checkpoint that was saved, as `get_state` would show it."""
    parent = commit.parent_id
    facts: dict[str, Any] = {
        "config": config_of(commit.thread_id, commit.ns, commit.id),
        "parent_config": config_of(commit.thread_id, commit.ns, parent) if parent else None,
        "values": run.graph.shown_of(run.values),
        "metadata": {**commit.metadata, "source": commit.source, "step": commit.step},
        "next": [task.node for task in commit.next],
        "tasks": [{"id": task.id, "name": task.node, "interrupts": [], "state": None} for task in commit.next],
    }
    await _tell(run, "checkpoint", facts)


async def _tell(run: RunState, what: str, facts: dict[str, Any]) -> None:
    mode = "checkpoints" if what == "checkpoint" else "tasks"
    if mode in run.modes:
        await Emit((run.ns, mode, facts))
    if "debug" in run.modes:
        step = run.step if what == "checkpoint" else run.step + 1
        at = datetime.fromtimestamp(await NOW, UTC).isoformat()
        await Emit((run.ns, "debug", {"step": step, "timestamp": at, "type": what, "payload": facts}))
