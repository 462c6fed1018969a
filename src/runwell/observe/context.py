"""The run that the running code belongs to, and what a nested call inherits from it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from contextvars import Context, ContextVar, Token
from contextvars import copy_context as _copy_context
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast
from uuid import UUID

from runwell.observe.ids import uuid_of
from runwell.observe.recorder import Recorder, recorder_of

if TYPE_CHECKING:
    from runwell.observe.handlers import Handler
    from runwell.observe.run import Home

__all__ = [
    "CURRENT",
    "DEFAULT_RECURSION_LIMIT",
    "MODEL_KINDS",
    "UNSET",
    "BoundCallbacks",
    "Inherited",
    "RunContext",
    "copy_context",
]

P = ParamSpec("P")
R = TypeVar("R")

MODEL_KINDS: Final = frozenset(("chat_model", "llm"))
DEFAULT_RECURSION_LIMIT: Final = 1000
"""Super-steps a graph may take when no config says otherwise."""


class _Unset:
    """Not given, where None has a meaning of its own (`max_concurrency=None` is "no bound")."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = _Unset()


class BoundCallbacks(list["Handler"]):
    """The `callbacks` of a config handed to user code: the handlers, and the run that nested calls belong to.

    A function that forwards its config into a thread of its own, where the context variable is not set, keeps its
    place in the tree this way.
    """

    __slots__ = ("run",)

    def __init__(self, run: RunContext) -> None:
        super().__init__(run.handlers)
        self.run = run


class Inherited:
    """What a call hands on to the calls in it: one for all of them that change nothing of it, and never changed itself.

    `handlers` is empty when nobody watches; then no runs are opened. `labelled` says that there are tags or metadata.
    `max_concurrency` is UNSET where it was not said. `wants_tokens` says that a handler wants a model to stream
    although the caller did not ask for it; `wants_chunks` that one wants each chunk of each step; `tells_runs` that one
    wants to know how runs begin and end. `recorder` is that of the handler that is told of runs, where it is the only.
    """

    __slots__ = (
        "configurable",
        "handlers",
        "labelled",
        "max_concurrency",
        "metadata",
        "recorder",
        "recursion_limit",
        "tags",
        "tells_runs",
        "wants_chunks",
        "wants_tokens",
    )

    def __init__(
        self,
        handlers: tuple[Handler, ...] = (),
        tags: tuple[str, ...] = (),
        metadata: dict[str, Any] | None = None,
        configurable: dict[str, Any] | None = None,
        max_concurrency: int | _Unset | None = UNSET,
        recursion_limit: int = DEFAULT_RECURSION_LIMIT,
    ) -> None:
        self.handlers = handlers
        self.tags = tags
        self.metadata = metadata if metadata is not None else {}
        self.configurable = configurable if configurable is not None else {}
        self.labelled = bool(tags or metadata)
        self.max_concurrency = max_concurrency
        self.recursion_limit = recursion_limit
        self.wants_tokens = self.wants_chunks = self.tells_runs = False
        self.recorder: Recorder | None = None
        if handlers:
            self.wants_tokens = any(getattr(handler, "wants_tokens", False) for handler in handlers)
            self.wants_chunks = any(getattr(handler, "wants_chunks", False) for handler in handlers)
            self.tells_runs = any(getattr(handler, "wants_runs", True) for handler in handlers)
            self.recorder = recorder_of(handlers)


class RunContext:
    """What nested calls inherit, and which run they belong to. `run_id` is None in one that only carries config.

    `parent` is the run around this one. `started` is when it began, in seconds since the epoch. `home` is where
    awaitable handlers are awaited: the async run around.
    `goes_on` says that the code that is next in it, outside the runs inside it, is the engine's own, which tells of
    something before it waits or calls anybody's code: what is told now may be written together with that.
    `notes` is where handlers may keep something for it and the runs inside it, each under itself.
    `component` is what it is a run of, or the name of that; `owner` the id of a runnable of a user's own class that it
    was opened around, else 0.
    """

    __slots__ = (
        "_id",
        "_token",
        "goes_on",
        "home",
        "inherited",
        "inputs",
        "kind",
        "name",
        "notes",
        "parent",
        "started",
    )

    component: Any = None
    owner: int = 0

    inputs: Any
    notes: dict[Any, Any]
    _token: Token[RunContext | None] | None

    def __init__(self, inherited: Inherited) -> None:
        self.inherited = inherited
        self._id: UUID | str | None = None
        """The run's id, or its text: few ask for the id of every run, so it is made when somebody does."""
        self.parent: RunContext | None = None
        self.name = ""
        self.kind = "scope"
        self.home: Home | None = None
        self.started = 0.0
        self.goes_on = False

    @property
    def handlers(self) -> tuple[Handler, ...]:
        """Who is told what happens in it; nobody when it only carries config."""
        return self.inherited.handlers

    @property
    def tags(self) -> tuple[str, ...]:
        return self.inherited.tags

    @property
    def metadata(self) -> dict[str, Any]:
        return self.inherited.metadata

    @property
    def configurable(self) -> dict[str, Any]:
        return self.inherited.configurable

    @property
    def max_concurrency(self) -> int | _Unset | None:
        return self.inherited.max_concurrency

    @property
    def recursion_limit(self) -> int:
        return self.inherited.recursion_limit

    @property
    def run_id(self) -> UUID | None:
        """The id of this run; None in a context that is no run."""
        made = self._id
        if type(made) is str:
            made = self._id = uuid_of(made)
        return cast("UUID | None", made)

    @property
    def id_text(self) -> str | None:
        """`str(run_id)`, without making one."""
        made = self._id
        return made if made is None or type(made) is str else str(made)

    @property
    def nearest(self) -> RunContext | None:
        """This run, or the one around it where this only carries config: what happens in it belongs to that."""
        run: RunContext | None = self
        while run is not None and run._id is None:
            run = run.parent
        return run

    @property
    def parent_id(self) -> UUID | None:
        """The id of the run around this one; None at the top."""
        return self.parent.run_id if self.parent is not None else None

    @property
    def parent_ids(self) -> list[UUID]:
        """The ids of all runs around this one, the outermost first."""
        ids: list[UUID] = []
        above = self.parent
        while above is not None:
            run_id = above.run_id
            if run_id is not None:
                ids.append(run_id)
            above = above.parent
        ids.reverse()
        return ids

    @property
    def config(self) -> dict[str, Any]:
        """A fresh config dict saying what nested calls inherit anyway, for code that declares a `config` parameter."""
        config: dict[str, Any] = {
            "tags": list(self.tags),
            "metadata": dict(self.metadata),
            "callbacks": BoundCallbacks(self),
            "recursion_limit": self.recursion_limit,
            "configurable": dict(self.configurable),
        }
        if self.max_concurrency is not UNSET:
            config["max_concurrency"] = self.max_concurrency
        return config

    def __repr__(self) -> str:
        return f"RunContext({self.kind} {self.name!r}, run_id={self.run_id}, parent_id={self.parent_id})"


CURRENT: ContextVar[RunContext | None] = ContextVar("runwell_run", default=None)
"""The run that the running code belongs to; None when nothing is observed and no config applies."""


def copy_context(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, bound to the run that is current now.

    Python carries the current run into coroutines and tasks, and runwell into the threads it starts; neither reaches
    an executor or thread of your own. There, wrap what you submit: `pool.submit(runwell.copy_context(work), item)`.
    May be called any number of times, from several threads at once. `async` functions stay `async`.
    """
    from runwell.drivers.cancel import run_context

    context = run_context(None)  # the thread may be waited for here, on a loop of ours
    if inspect.iscoroutinefunction(function):
        from runwell.observe.resume import InContext

        @functools.wraps(function)
        async def resumed(*args: P.args, **kwargs: P.kwargs) -> Any:
            return await InContext(context.copy(), function(*args, **kwargs))

        return resumed  # type: ignore[return-value]

    @functools.wraps(function)
    def bound(*args: P.args, **kwargs: P.kwargs) -> R:
        return context.copy().run(function, *args, **kwargs)

    return bound


def context_with(run: RunContext | None, others: Sequence[tuple[ContextVar[Any], Any]] = ()) -> Context:
    """A copy of the caller's context in which `run` is the current run."""
    context = _copy_context()
    context.run(CURRENT.set, run)
    for variable, value in others:
        context.run(variable.set, value)
    return context
