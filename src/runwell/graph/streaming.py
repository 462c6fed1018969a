"""What a reader of a run is given: the stream modes, and the tokens of models inside nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

from runwell.errors import InvalidInput, nearest
from runwell.messages.message import BaseMessage
from runwell.observe.events import Chunk, Event
from runwell.ports.runtime import CURRENT_TASK

__all__ = ["MODES", "NOSTREAM", "MessagesHandler", "StreamMode", "check_modes", "shaped"]

StreamMode = Literal["values", "updates", "messages", "custom", "checkpoints"]

MODES = frozenset({"values", "updates", "messages", "custom", "checkpoints"})
INLINE = frozenset({"values", "updates", "checkpoints"})
"""Modes that emit between steps only, so that a plain reader needs no thread."""
NOSTREAM = frozenset({"nostream", "langsmith:nostream"})
"""A run with one of these tags keeps its tokens and messages out of the stream."""


def check_modes(modes: str | Sequence[str]) -> tuple[str, ...]:
    """The modes asked for, as a tuple; InvalidInput for an unknown one."""
    asked = (modes,) if isinstance(modes, str) else tuple(modes)
    for mode in asked:
        if mode not in MODES:
            raise InvalidInput(
                f"Unknown stream mode {mode!r}{nearest(mode, MODES)}.", hint=f"Modes are {sorted(MODES)}."
            )
    return asked


def shaped(item: tuple[str, str, Any], several: bool, subgraphs: bool) -> Any:
    """An emitted (namespace, mode, chunk) in the form the reader asked for."""
    ns, mode, chunk = item
    if subgraphs:
        path = tuple(part for part in ns.split("|") if part)
        return (path, mode, chunk) if several else (path, chunk)
    return (mode, chunk) if several else chunk


class MessagesHandler:
    """Hands a model's chunks to the stream, and finished messages that no model streamed.

    One per streamed run; it is told of everything inside. `seen` are ids already handed on.
    """

    raise_error: ClassVar[bool] = True  # a closed stream has to stop the run
    wants_tokens: ClassVar[bool] = True
    wants_chunks: ClassVar[bool] = False

    __slots__ = ("put", "seen", "subgraphs")

    def __init__(self, put: Callable[[Any], None], subgraphs: bool) -> None:
        self.put = put
        self.subgraphs = subgraphs
        self.seen: set[str] = set()

    def handle(self, event: Event) -> None:
        if type(event) is not Chunk or event.run.kind != "chat_model":
            return
        if not NOSTREAM.isdisjoint(event.run.tags):
            return
        scope = CURRENT_TASK.get()
        if scope is None or (scope.run.ns and not self.subgraphs):
            return
        chunk = event.chunk
        chunk = getattr(chunk, "message", chunk)
        if chunk.id is not None:
            self.seen.add(chunk.id)
        self.put((scope.run.ns, "messages", (chunk, metadata_of(scope, event.run.tags, event.run.metadata))))

    def finished(self, scope: Any, value: Any, tags: Sequence[str] = ()) -> list[tuple[str, str, Any]]:
        """Messages in a node's update that were not streamed, to be handed on whole."""
        items = []
        for message in value if isinstance(value, list) else [value]:
            if isinstance(message, BaseMessage) and message.type != "remove" and message.id not in self.seen:
                if message.id is not None:
                    self.seen.add(message.id)
                items.append((scope.run.ns, "messages", (message, metadata_of(scope, tags, {}))))
        return items


def metadata_of(scope: Any, tags: Sequence[str], metadata: dict[str, Any]) -> dict[str, Any]:
    """What goes with a streamed message: where it came from.

    The `langgraph_*` names are what the field's readers look for.
    """
    info = scope.runtime.execution_info
    node, step = scope.node, scope.run.step + 1
    return {
        **metadata,
        "node": node,
        "step": step,
        "langgraph_node": node,
        "langgraph_step": step,
        "checkpoint_ns": scope.run.ns,
        "thread_id": info.thread_id,
        "task_id": scope.task_id,
        "tags": list(tags),
    }
