"""Several tool calls in one task of a graph: each asks its questions, calls its graphs and keeps its results apart."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from runwell.errors import GraphInterrupt
from runwell.graph.interrupts import interrupt_id
from runwell.messages.message import ToolMessage
from runwell.ports.command import Interrupt
from runwell.ports.runtime import CURRENT_TASK, Runtime, TaskScope

__all__ = ["apart", "keep", "kept", "questions_of"]


async def apart(around: TaskScope, call_id: str, runtime: Runtime[Any], work: Coroutine[Any, Any, Any]) -> Any:
    """What `work` gives, run as the call's own part of the task. To be run under a copy of the context."""
    scope = TaskScope(f"{around.task_id}/{_mark(call_id)}", around.node, runtime, around.place)
    scope.run, scope.can_pause, scope.in_process = around.run, around.can_pause, around.in_process
    scope.records, scope.prefix = around.records, f"{around.prefix}{_mark(call_id)}/"
    given = around.run.answers if around.run is not None else {}
    while True:  # questions that were answered, in the order asked
        question = interrupt_id(scope.records, scope.place[1], scope.task_id, len(scope.answers))
        if f"answer/{question}" in scope.records:
            scope.answers.append(scope.records[f"answer/{question}"])
        elif question in given:
            scope.answers.append(given[question][0])
        else:
            break
    CURRENT_TASK.set(scope)
    made = await work
    if scope.pause is not None:
        raise scope.pause
    if scope.pushed:
        around.records[f"{around.prefix}{_mark(call_id)}/pushed"] = [list(each) for each in scope.pushed]
        _push(around, call_id)
    return made


def _push(around: TaskScope, call_id: str) -> None:
    """What a call said by `push_message` goes into the state with the task's update."""
    pushed = around.records.get(f"{around.prefix}{_mark(call_id)}/pushed", ())
    if pushed:
        around.pushed = [*(around.pushed or ()), *((key, message) for key, message in pushed)]


def kept(around: TaskScope | None, call_id: str) -> list[ToolMessage] | None:
    """The answer to a call that was made before the task paused or failed."""
    if around is None:
        return None
    found: list[ToolMessage] | None = around.records.get(f"{around.prefix}{_mark(call_id)}/result")
    if found is not None:
        _push(around, call_id)
    return found


def keep(around: TaskScope | None, call_id: str, made: Any) -> None:
    """Keep it with the task, should that not end now."""
    parts = made if isinstance(made, list) else [made]
    if around is not None and all(isinstance(part, ToolMessage) for part in parts):
        around.records[f"{around.prefix}{_mark(call_id)}/result"] = parts


def questions_of(errors: list[BaseException]) -> list[Interrupt]:
    """The questions that calls are paused on."""
    return [question for error in errors if isinstance(error, GraphInterrupt) for question in error.interrupts]


def _mark(call_id: str) -> str:
    from hashlib import blake2b

    return blake2b(call_id.encode(), digest_size=6).hexdigest()
