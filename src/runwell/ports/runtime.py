"""What a node, hook or tool can know of the run it is in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from runwell.ports.on_demand import OnDemand

if TYPE_CHECKING:
    from runwell.ports.control import RunControl

__all__ = [
    "CURRENT_TASK",
    "ExecutionInfo",
    "LaterConfig",
    "Principal",
    "Runtime",
    "Spending",
    "StreamWriter",
    "TaskScope",
    "spending",
]

C = TypeVar("C")


class Spending(Protocol):
    """What an agent's run has used of its budget; `runtime.budget` of everything inside it. Safe between threads.

    `before` and `after` are called around each call of a chat model, `part` for each task of a graph.
    """

    used: Mapping[str, Any]

    def before(self, model: Any) -> None:
        """A model is about to be called: counts it, or raises BudgetExceeded."""

    def after(self, model: Any, usage: Any) -> None:
        """It answered, and `usage` is its `usage_metadata`, if it told."""

    def failed(self) -> None:
        """It did not answer: it counts no longer."""

    def part(self, used: Mapping[str, Any] | None = None) -> Spending:
        """What one task uses: it counts for the whole too. `used` is what it had before it goes on, counted already."""

    def run_inside(self, used: Mapping[str, Any] | None) -> Spending:
        """What a run uses that the task calls, and what it had used before it goes on, which counts from now on."""

    def kept_inside(self, used: Mapping[str, Any]) -> None:
        """A run that the task called is left, and keeps so much itself: it says so if the task calls it again."""

    def split(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the task used itself, and what runs did that it called and that keep it."""


StreamWriter = Callable[[Any], None]
"""Hands a value to the reader of `stream_mode="custom"`; does nothing when nobody reads."""


def _silent(item: Any) -> None:
    """No reader."""


@dataclass(slots=True, frozen=True)
class Principal:
    """On whose behalf a run acts. `id` is the caller, `tenant` the isolation border."""

    id: str
    tenant: str | None = None
    roles: tuple[str, ...] = ()


@dataclass(slots=True)
class ExecutionInfo:
    """Where in a graph the code runs."""

    thread_id: str | None = None
    checkpoint_id: str | None = None
    checkpoint_ns: str = ""
    task_id: str = ""
    node: str = ""
    step: int = 0
    attempt: int = 1
    run_id: str = ""


@dataclass(slots=True)
class Runtime(Generic[C]):
    """Passed to a node, hook or tool that declares a parameter named `runtime`.

    `context` is what the caller gave as `context=`. `store` is the long-term store or None. `previous` is
    the value an `@entrypoint` returned last on this thread. `idempotency_key` names this task of this
    step of this thread: the same in every attempt and after a crash and resume, and another in every run that nothing
    saves. `control` is the caller's `RunControl`, if any. `budget` is what the agent's run has used and may use:
    `runtime.budget.spent`, `runtime.budget.left("tokens")`.
    """

    context: C = None  # type: ignore[assignment]
    store: Any = None
    stream_writer: StreamWriter = _silent
    previous: Any = None
    principal: Principal | None = None
    config: dict[str, Any] = field(default_factory=dict)
    execution_info: ExecutionInfo = field(default_factory=ExecutionInfo)
    control: RunControl | None = None
    budget: Any = None
    pulse: Callable[[], None] | None = field(default=None, repr=False)

    def heartbeat(self) -> None:
        """A sign of life, for a node with an `idle_timeout`: it is still at work. Does nothing without one."""
        if self.pulse is not None:
            self.pulse()

    @property
    def idempotency_key(self) -> str:
        info = self.execution_info
        place = f"{info.thread_id}:{info.checkpoint_id}" if info.checkpoint_id is not None else info.run_id
        return f"{place}:{info.task_id}"

    def at(self, place: ExecutionInfo | tuple[Any, ...], budget: Any) -> Runtime[C]:
        """A copy for another place and budget: what `override` gives, for code that runs at every step.

        The place may be the values of one, in their order: it is made of them when it is first read.
        """
        made: Any = object.__new__(Runtime)
        given: Any = self
        made.context = self.context
        made.store = self.store
        made.stream_writer = self.stream_writer
        made.previous = self.previous
        made.principal = self.principal
        made._held_config = given._held_config
        made._held_info = place
        made.control = self.control
        made.budget = budget
        made.pulse = self.pulse
        return made  # type: ignore[no-any-return]

    def override(self, **changes: Any) -> Runtime[C]:
        """A copy with some fields changed."""
        return replace(self, **changes)


class LaterConfig:
    """A runtime's config that is made of `source.config` when it is first read: most runs never do. The same for all
    copies of the runtime."""

    __slots__ = ("made", "source")

    def __init__(self, source: Any) -> None:
        self.source = source
        self.made: dict[str, Any] | None = None


_slot: Any = vars(Runtime)["config"]
_given_config: Callable[[Runtime[Any]], Any] = _slot.__get__
_info_slot: Any = vars(Runtime)["execution_info"]
_given_info: Callable[[Runtime[Any]], Any] = _info_slot.__get__


def _config(runtime: Runtime[Any]) -> dict[str, Any]:
    found = _given_config(runtime)
    if type(found) is not LaterConfig:
        return found  # type: ignore[no-any-return]
    if found.made is None:
        found.made = found.source.config
    return found.made


def _info(runtime: Runtime[Any]) -> ExecutionInfo:
    found = _given_info(runtime)
    if type(found) is tuple:
        found = ExecutionInfo(*found)
        _info_slot.__set__(runtime, found)
    return found  # type: ignore[no-any-return]


Runtime._held_config = _slot  # type: ignore[attr-defined]  # what they hold before, without a call
Runtime._held_info = _info_slot  # type: ignore[attr-defined]
Runtime.config = property(_config, _slot.__set__)  # type: ignore[assignment, misc]
Runtime.execution_info = property(_info, _info_slot.__set__)  # type: ignore[assignment, misc]


class TaskScope:
    """The engine's side of the task that user code is running in; `interrupt()` and `record()` find it here.

    `answers` are the values already given to this task's interrupts, in order. `asked` counts the
    interrupts reached so far. `records` are results kept from an earlier attempt, by key; what the attempt
    adds is kept with its pause or failure. `run` is the engine's run, `children` how many graphs the task has called,
    `pause` the pause that was asked for, which holds even if the node's code swallows it. `calls` are the `@task`s it
    has called; the scope of such a task is `inside` that of its caller, shares its records and keeps its own under
    `prefix`. `pushed` are messages that its code said before it ended, each with the key of the state it goes to.
    """

    _answers: list[Any] | None = None
    _records: dict[str, Any] | None = None
    answers = OnDemand[list[Any]]("_answers", list)
    records = OnDemand[dict[str, Any]]("_records", dict)
    asked = 0
    calls: Any = None
    children = 0
    inside: TaskScope | None = None
    pause: BaseException | None = None
    prefix = ""
    pushed: list[tuple[str, Any]] | None = None

    def __init__(
        self,
        task_id: str,
        node: str,
        runtime: Runtime[Any],
        place: tuple[str | None, str] = (None, ""),
        run: Any = None,
        can_pause: bool = False,
        in_process: Callable[[Any], Any] | None = None,
    ) -> None:
        self.task_id = task_id
        self.node = node
        self.place = place
        self.runtime = runtime
        self.run = run
        self.can_pause = can_pause
        self.in_process = in_process

    @property
    def budget(self) -> Any:
        """What the code's calls of models count for: its runtime's budget."""
        return self.runtime.budget


CURRENT_TASK: ContextVar[TaskScope | None] = ContextVar("runwell_task", default=None)
"""The graph task that the running code belongs to, or None outside a graph."""


def spending() -> Spending | None:
    """What the running code's calls of models count for, or None outside an agent."""
    scope = CURRENT_TASK.get()
    return None if scope is None else scope.budget
