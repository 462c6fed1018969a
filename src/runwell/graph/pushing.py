"""Messages that a node says before it ends: into the stream at once, and into the state with its update."""

from __future__ import annotations

from typing import Any

from runwell.errors import InvalidInput, UsageError, nearest
from runwell.graph.streaming import NOSTREAM, metadata_of
from runwell.messages.convert import convert_to_message
from runwell.messages.message import AIMessage, BaseMessage, ToolMessage, new_id, with_id
from runwell.messages.validity import call_ids
from runwell.ports.runtime import CURRENT_TASK, TaskScope

__all__ = ["handed_over", "push_message"]


def push_message(message: Any, *, state_key: str | None = "messages") -> BaseMessage:
    """Say a message from inside a node or tool: readers of `stream_mode="messages"` get it now, the state gets it under
    `state_key` when the node ends, before what the node returns. None: it is only shown. From either colour, and from
    any thread that has the node's context.

    `message` is a message, or what stands for one (a tuple, a dict with a `role`). Gives the message as it was said;
    one without an id gets one, by which a later message of the node may replace it. A node that runs again (a retry, a
    pause) says it again: what an attempt that failed said is not in the state.

    Raises UsageError outside a graph; in a `@task` unless `state_key` is None, as its result is taken from its record,
    which would not say it again; and where a call of a tool in that history has no answer yet, as in a tool. Raises
    InvalidInput for a key that the state does not have.
    """
    scope = CURRENT_TASK.get()
    if scope is None or scope.run is None:
        raise UsageError("push_message() was called outside a graph.", hint="Call it in a node or a tool of a graph.")
    run = scope.run
    said = convert_to_message(message)
    if said.type == "remove":
        raise InvalidInput("push_message() got a RemoveMessage.", hint="Return it from the node.")
    if said.id is None:
        said = with_id(said, new_id())
    if state_key is not None:
        if scope.inside is not None:
            raise UsageError(
                f"A @task pushed a message into {state_key!r}, and its record would not do so again.",
                hint="Return the message, or only show it: push_message(message, state_key=None).",
            )
        if state_key not in run.graph.channels:
            raise InvalidInput(
                f"push_message(state_key={state_key!r}): the state of {run.graph.get_name()!r} has no such "
                f"key{nearest(state_key, run.graph.channels)}.",
                hint=f"It has {sorted(run.graph.channels)}; state_key=None shows the message and keeps it nowhere.",
            )
        _refuse_between(run.values.get(state_key), said, state_key)
        scope.pushed = [*(scope.pushed or ()), (state_key, said)]
    _show(scope, said)
    return said


def _refuse_between(history: Any, said: BaseMessage, state_key: str) -> None:
    """Refuse what would stand between a call of a tool and its answer: no model takes such a history."""
    if said.type == "tool" or not isinstance(history, list):
        return
    answered: set[str] = set()
    for message in reversed(history):
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, BaseMessage):
            asked = call_ids(message) if isinstance(message, AIMessage) else []
            missing = [each for each in asked if each not in answered]
            if missing:
                raise UsageError(
                    f"push_message({said.text!r:.60}) would put it between the call {missing[0]!r} and its answer in "
                    f"{state_key!r}, and no model takes such a history.",
                    hint="Only show it: push_message(message, state_key=None); or push it into another key.",
                )
            return


def _show(scope: TaskScope, said: BaseMessage) -> None:
    run = scope.run
    node = run.graph.nodes_and_start[scope.node]
    told = run.messages
    if told is None or (run.ns and not told.subgraphs) or not NOSTREAM.isdisjoint(node.tags):
        return
    told.seen.add(said.id)
    told.put((run.ns, "messages", (said, metadata_of(scope, node.tags, node.metadata))))


def handed_over(scope: TaskScope, writes: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """What a task's code pushed, before what it returned."""
    pushed, scope.pushed = scope.pushed, None
    return [*(pushed or ()), *writes]
