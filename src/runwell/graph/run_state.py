"""What a run knows of itself, and how it shows its state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runwell.effects import Emit
from runwell.graph.in_place import Watch
from runwell.graph.plan import NO_JOINS, Write
from runwell.graph.saver_calls import SaverCalls
from runwell.graph.streaming import MessagesHandler
from runwell.observe.ids import random_hex
from runwell.ports.on_demand import OnDemand, Rarely
from runwell.ports.runtime import Runtime
from runwell.ports.saver import Commit, PlannedTask, TaskRecord

if TYPE_CHECKING:
    from runwell.graph.compiled import CompiledStateGraph
    from runwell.graph.node_cache import CacheCalls
    from runwell.graph.schema import StateSchema
    from runwell.ports.control import RunControl

__all__ = ["NOTHING", "RunState"]

NOTHING: frozenset[str] = frozenset()
"""One for all runs: an empty set takes more room than a small dict."""


class RunState:
    """What one run of a graph carries along. Its parts are methods over it: `Keeping`, `Routing`, `Run`."""

    __slots__ = (
        "_answers",
        "_owned",
        "_records",
        "_unkept",
        "answer_in_process",
        "applied",
        "base",
        "breaks_after",
        "breaks_before",
        "cache",
        "can_pause",
        "control",
        "durability",
        "fence",
        "goes_on",
        "graph",
        "head",
        "joins",
        "limit",
        "max_concurrency",
        "metadata",
        "modes",
        "more",
        "nested",
        "next",
        "ns",
        "passes",
        "pending",
        "place",
        "saver",
        "spent",
        "step",
        "stop",
        "thread_id",
        "token",
        "values",
        "watch",
        "watched",
    )

    answers = OnDemand[dict[str, tuple[Any, str | None]]]("_answers", dict)
    hits = OnDemand[dict[str, bool]]("_hits", dict)
    """Tasks whose results came out of the cache."""
    owned = OnDemand[dict[Any, Any]]("_owned", dict)
    """What belongs to this run and ends with it, by whose it is."""
    picks = OnDemand[dict[str, str]]("_picks", dict)
    origins = OnDemand[dict[tuple[str, str], str]]("_origins", dict)
    memories = OnDemand[dict[str, tuple[int, str]]]("_memories", dict)
    busy = OnDemand[dict[str, bool]]("_busy", dict)
    records = OnDemand[dict[str, TaskRecord]]("_records", dict)
    unkept = OnDemand[list[TaskRecord]]("_unkept", list)

    # most runs set none of these
    pick = Rarely[str | None](None)
    """The checkpoint the caller named, if any."""
    on_busy = Rarely("raise")
    sink = Rarely[Callable[[Any], None] | None](None)
    messages = Rarely[MessagesHandler | None](None)
    subgraphs = Rarely(False)
    caller = Rarely[Any](None)
    """The task of another run that it was called by. What follows is `nesting`'s."""
    call = Rarely[str | None](None)
    shares = Rarely(NOTHING)
    asked = Rarely[str | None](None)
    lineage = Rarely[Sequence[list[str]]](())
    _hits = Rarely[Any](None)
    _picks = Rarely[Any](None)
    _origins = Rarely[Any](None)
    _memories = Rarely[Any](None)
    _busy = Rarely[Any](None)

    def __init__(self, graph: CompiledStateGraph) -> None:
        self._answers: dict[str, tuple[Any, str | None]] | None = None
        self._owned: dict[Any, Any] | None = None
        self.more: dict[str, Any] | None = None
        self.graph = graph
        self.base: Runtime[Any]  # given to it by who makes it
        self.saver: SaverCalls | None = None
        self.thread_id: str | None = None
        self.fence: int | None = None
        """What the saver fences this run's saves with; a nested run in the same saver has the outer one's."""
        self.ns = ""
        self.values: dict[str, Any] = {}
        self.next: list[PlannedTask] = []
        self.joins: Mapping[str, Sequence[str]] = NO_JOINS
        self.step = 0
        self.head: str | None = None
        self._records: dict[str, TaskRecord] | None = None
        self.answer_in_process: Callable[[Any], Any] | None = None
        self.applied: tuple[list[Write], dict[str, tuple[Any, Any]], dict[str, Any]] | None = None
        """A lone task's writes, what they change, and the values after, worked out for its conditional edges."""
        self.place: tuple[str | None, str] = (None, "")
        """Thread and namespace, once steps are taken."""
        self.modes = NOTHING
        self.limit = 1000
        self.max_concurrency: int | None = None
        self.breaks_before = NOTHING
        self.breaks_after = NOTHING
        self.durability = "sync"
        self.metadata: dict[str, Any] = {}
        self.nested = False
        """Called by a task of another run: `caller`."""
        self.can_pause = True
        """Whether the runs around it can; it can itself if it is saved."""
        self.pending: Commit | None = None
        self.watch: Watch | None = None
        self.watched = False
        """Whether anybody is told of its tasks, once steps are taken."""
        self.goes_on = False
        """Whether nobody's code is called between its tasks, then."""
        self.passes = False
        """Whether quiet tasks without writes are followed in place; see `Run._task`."""
        self.spent: dict[str, Any] | None = None
        """What its tasks used of a budget around it, where that stands beside the state: `spent`'s."""
        self._unkept: list[TaskRecord] | None = None
        self.cache: CacheCalls | None = graph.cache_calls
        self.token = ""
        self.control: RunControl | None = None
        self.stop: int | None = None
        """The number of the last step that the limit permits, once steps are taken."""

    @property
    def run_id(self) -> str:
        """Names this run among all; for one inside another that is saved, the same when its task runs again."""
        if not self.token:
            self.token = random_hex(8)
        return self.token

    def _thread(self) -> str:
        return f", thread {self.thread_id!r}" if self.thread_id else ""

    def view(self, schema: StateSchema, values: dict[str, Any]) -> Any:
        """The state as `schema` shows it, with what is worked out for this step."""
        if schema in self.graph.whole:
            return dict(values)
        return schema.view(values if not schema.managed else self.managed(values))

    def managed(self, values: dict[str, Any]) -> dict[str, Any]:
        """`values` with the graph's managed values as they are in this step."""
        left = self.limit if self.stop is None else self.stop - self.step
        return {**values, **{name: value.at(left) for name, value in self.graph.managed.items()}}

    def check(self, changes: dict[str, tuple[Any, Any]], node: str) -> None:
        """A step's changes as a Pydantic state takes them; its validators may change the values in `changes`."""
        self.graph.schema.check(node, self.values, changes)

    async def _emit(self, mode: str, chunk: Any) -> None:
        await Emit((self.ns, mode, chunk))

    def _unfinished(self, mark: str, what: Any) -> dict[str, Any]:
        """The output of a run that has not come to its end: the state so far, and why."""
        return {**(self._output() if self.graph.output_is_state else {}), mark: what}

    def _output(self) -> Any:
        return self.graph.output_of(self.values)
