"""What a reader of a run is given: the stream modes, and the tokens of models inside nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NotRequired, TypedDict

from typing_extensions import TypeVar

from runwell.errors import InvalidInput, nearest
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.history import MessageList
from runwell.messages.message import BaseMessage, new_id, with_id
from runwell.observe.context import RunContext
from runwell.observe.events import Chunk, Event
from runwell.ports.command import Interrupt
from runwell.ports.runtime import CURRENT_TASK

if TYPE_CHECKING:
    from runwell.graph.engine import Run

__all__ = [
    "INTERRUPT",
    "MODES",
    "NOSTREAM",
    "STOPPED",
    "TAG_NOSTREAM",
    "GraphOutput",
    "MessagesHandler",
    "StreamMode",
    "StreamPart",
    "check_modes",
    "inherit",
    "shaped",
]

INTERRUPT = "__interrupt__"
"""The key under which a paused run's open questions are returned and streamed."""
STOPPED = "__stopped__"
"""The key under which a run that `RunControl.stop` ended early says so: `{"reason": ..., "next": [nodes]}`."""

StreamMode = Literal["values", "updates", "messages", "custom", "checkpoints", "tasks", "debug"]

MODES = frozenset({"values", "updates", "messages", "custom", "checkpoints", "tasks", "debug"})
INLINE = frozenset({"values", "updates", "checkpoints", "tasks", "debug"})
"""Modes that emit between steps only, so that a plain reader needs no thread."""
NOSTREAM = frozenset({"nostream", "langsmith:nostream"})
"""A run with one of these tags keeps its tokens and messages out of the stream."""
TAG_NOSTREAM = "nostream"
"""The tag to give."""


def check_modes(modes: str | Sequence[str]) -> tuple[str, ...]:
    """The modes asked for, as a tuple; InvalidInput for an unknown one."""
    asked = (modes,) if isinstance(modes, str) else tuple(modes)
    for mode in asked:
        if mode not in MODES:
            raise InvalidInput(
                f"Unknown stream mode {mode!r}{nearest(mode, MODES)}.", hint=f"Modes are {sorted(MODES)}."
            )
    return asked


class StreamPart(TypedDict):
    """An item of `stream(version="v2")`: what it is (a stream mode), from where, and the chunk of that mode.

    `ns` is the path of nested graphs, outermost first, empty for the graph itself. A part of `"values"` has the open
    questions under `interrupts` instead of among the values.
    """

    type: StreamMode
    ns: tuple[str, ...]
    data: Any
    interrupts: NotRequired[tuple[Interrupt, ...]]


ValueT = TypeVar("ValueT", default=Any)


@dataclass(slots=True)
class GraphOutput(Generic[ValueT]):
    """What `invoke(version="v2")` gives: the state, the open questions of a run that paused, and the reason and
    what comes next of one that was stopped (None: it was not)."""

    value: ValueT
    interrupts: tuple[Interrupt, ...] = ()
    stopped: dict[str, Any] | None = None

    @staticmethod
    def of(output: Any) -> GraphOutput[Any]:
        """From what `invoke` gives otherwise."""
        if not isinstance(output, dict) or not (INTERRUPT in output or STOPPED in output):
            return GraphOutput(output)
        value = {name: value for name, value in output.items() if name not in (INTERRUPT, STOPPED)}
        return GraphOutput(value, tuple(output.get(INTERRUPT, ())), output.get(STOPPED))


def shaped(item: tuple[str, str, Any], several: bool, subgraphs: bool, parts: bool = False) -> Any:
    """An emitted (namespace, mode, chunk) in the form the reader asked for."""
    ns, mode, chunk = item
    if parts or subgraphs:
        path = tuple(part for part in ns.split("|") if part)
        if parts:
            part = {"type": mode, "ns": path, "data": chunk}
            if mode == "values":
                output = GraphOutput.of(chunk)
                part["data"], part["interrupts"] = output.value, output.interrupts
            return part
        return (path, mode, chunk) if several else (path, chunk)
    return (mode, chunk) if several else chunk


def inherit(run: Run, outer: Run) -> None:
    """Let the reader of `outer`'s stream see into `run`, a graph that a task of `outer` called, if it asked to."""
    if outer.messages is not None and run.messages is None:
        run.messages = outer.messages
    put = outer.sink
    if not outer.subgraphs or run.modes or put is None:
        return
    run.modes, run.subgraphs, run.sink = outer.modes, True, put
    if "custom" in run.modes:
        run.base.stream_writer = lambda item: put((run.ns, "custom", item))


class MessagesHandler:
    """Hands a model's chunks to the stream, and finished messages that no model streamed.

    One per streamed run; it is told of everything inside. `seen` are ids already handed on.
    """

    raise_error: ClassVar[bool] = True  # a closed stream has to stop the run
    wants_tokens: ClassVar[bool] = True
    wants_chunks: ClassVar[bool] = False

    __slots__ = ("last", "put", "seen", "subgraphs")

    def __init__(self, put: Callable[[Any], None], subgraphs: bool) -> None:
        self.put = put
        self.subgraphs = subgraphs
        self.seen: set[str] = set()
        self.last: tuple[Any, Any, Callable[[Any], None]] = (None, None, _ignored)
        """The model's run that spoke last, its task, and what takes its chunks: worked out once for all of them."""

    def handle(self, event: Event) -> None:
        if type(event) is not Chunk:
            return
        run, task, take = self.last
        scope = CURRENT_TASK.get()
        if run is not event.run or task is not scope:
            take = self.taker(event.run)
            self.last = (event.run, scope, take)
        take(event.chunk)

    def taker(self, context: RunContext) -> Callable[[Any], None]:
        """What hands on the chunks of a run, in the task that asks."""
        scope = CURRENT_TASK.get()
        if context.kind != "chat_model" or not NOSTREAM.isdisjoint(context.tags):
            return _ignored
        if scope is None or (scope.run.ns and not self.subgraphs):
            return _ignored
        told, tags = metadata_of(scope, context.tags, context.metadata), list(context.tags)
        put, saw, ns = self.put, self.seen.add, scope.run.ns

        def take(chunk: Any) -> None:
            if type(chunk) is not AIMessageChunk:
                chunk = getattr(chunk, "message", chunk)
            id_ = chunk.id
            if id_ is not None:
                saw(id_)
            own = told.copy()  # the reader's, to change
            own["tags"] = [*tags]
            put((ns, "messages", (chunk, own)))

        return take

    def finished(self, scope: Any, writes: list[tuple[str, Any]], tags: Sequence[str] = ()) -> list[Any]:
        """A task's messages that were not streamed, to be handed on whole.

        A message without an id is given one here, in the task's writes, so that the stream and the state agree on it.
        """
        items: list[Any] = []
        for at, (name, value) in enumerate(writes):
            many = isinstance(value, list)
            told = [self._whole(scope, name, one, tags, items) for one in (value if many else [value])]
            if any(new is not old for new, old in zip(told, value if many else [value], strict=True)):
                writes[at] = (name, told if many else told[0])
        return items

    def _whole(self, scope: Any, name: str, message: Any, tags: Sequence[str], items: list[Any]) -> Any:
        if not isinstance(message, BaseMessage) or message.type == "remove" or message.id in self.seen:
            return message
        history = scope.run.values.get(name)
        if isinstance(history, list) and _holds(history, message):
            return message  # said in an earlier turn
        if message.id is None:
            message = with_id(message, new_id())
        self.seen.add(message.id)
        items.append(
            (
                scope.run.ns,
                "messages",
                (message, metadata_of(scope, tags, scope.run.graph.nodes_and_start[scope.node].metadata)),
            )
        )
        return message


def _ignored(chunk: Any) -> None:
    """For chunks that are not of the stream."""


def _holds(history: list[Any], message: BaseMessage) -> bool:
    if isinstance(history, MessageList) and message.id is not None:
        return history.place_of(message.id) is not None
    return any(one is message or (message.id is not None and getattr(one, "id", None) == message.id) for one in history)


def metadata_of(scope: Any, tags: Sequence[str], metadata: dict[str, Any]) -> dict[str, Any]:
    """What goes with a streamed message: where it came from.

    The `langgraph_*` and `lc_*` names are what the field's readers look for.
    """
    info = scope.runtime.execution_info
    node, step = scope.node, scope.run.step + 1
    return {
        **metadata,
        "agent": scope.run.graph.name,
        "lc_agent_name": scope.run.graph.name,
        "node": node,
        "step": step,
        "langgraph_node": node,
        "langgraph_step": step,
        "checkpoint_ns": scope.run.ns,
        "thread_id": info.thread_id,
        "task_id": scope.task_id,
        "tags": list(tags),
    }
