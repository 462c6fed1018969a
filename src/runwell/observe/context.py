"""The run that the running code belongs to, and what a nested call inherits from it."""

from __future__ import annotations

import functools
import inspect
import os
from _random import Random  # what `random` is made of, without the rest of it
from collections.abc import Callable, Sequence
from contextvars import Context, ContextVar
from contextvars import copy_context as _copy_context
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast
from uuid import UUID, SafeUUID

if TYPE_CHECKING:
    from runwell.observe.handlers import Handler
    from runwell.observe.run import Run

__all__ = [
    "CURRENT",
    "DEFAULT_RECURSION_LIMIT",
    "UNSET",
    "BoundCallbacks",
    "RunContext",
    "copy_context",
    "new_run_id",
    "random_hex",
]

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_RECURSION_LIMIT: Final = 1000
"""Super-steps a graph may take when no config says otherwise."""


class _Unset:
    """Not given, where None has a meaning of its own (`max_concurrency=None` is "no bound")."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = _Unset()


def new_run_id() -> UUID:
    """A random identifier for a run."""
    return _uuid_of(_bits(128) & _NOT_VERSION | _VERSION_4)


def random_hex(size: int) -> str:
    """So many random bytes in hex, for what has to differ from all others and need not be kept secret."""
    return _bits(size * 8).to_bytes(size, "big").hex()


def _uuid_of(number: int) -> UUID:
    made = object.__new__(UUID)  # as `UUID(int=number)`, without its checks: they cost more than a run's events
    _set(made, "int", number)
    _set(made, "is_safe", _UNKNOWN)
    return made


def _seed() -> None:
    """Begin a row of random numbers of our own, which neither a program's `random.seed` nor a fork repeats. Asking the
    system for each would be a call into its kernel."""
    global _bits
    _bits = Random(int.from_bytes(os.urandom(32), "big")).getrandbits


_bits: Callable[[int], int]
_seed()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_seed)
_NOT_VERSION = ~(0xF000 << 64 | 0xC000 << 48)
_VERSION_4 = 4 << 76 | 0x8000 << 48
_UNKNOWN = SafeUUID.unknown
_set = object.__setattr__


class BoundCallbacks(list["Handler"]):
    """The `callbacks` of a config handed to user code: the handlers, and the run that nested calls belong to.

    A function that forwards its config into a thread of its own, where the context variable is not set, keeps its
    place in the tree this way.
    """

    __slots__ = ("run",)

    def __init__(self, run: RunContext) -> None:
        super().__init__(run.handlers)
        self.run = run


class RunContext:
    """What nested calls inherit, and which run they belong to. `run_id` is None in one that only carries config.

    `handlers` is empty when nobody watches; then no runs are opened, and the context only carries `tags`, `metadata`,
    `configurable`, `max_concurrency` (UNSET: not said) and `recursion_limit`. `parent` is the run around this one.
    `started` is when it began, in seconds since the epoch. `wants_tokens` says that a handler wants a model to stream
    although the caller did not ask for it; `wants_chunks` that one wants each chunk of each step; `tells_runs` that one
    wants to know how runs begin and end. `home` is the async
    run at whose boundaries awaitable handlers are awaited; `holds_loop` that plain code is holding up its loop.
    `goes_on` says that the code that is next in it, outside the runs inside it, is the engine's own, which tells of
    something before it waits or calls anybody's code: what is told now may be written together with that.
    `about` is the id of the component that it is a run of;
    `owner` is the id of the runnable of a user's own class that the run was opened around, else 0; `delegates` the same
    until its own code is reached.
    """

    __slots__ = (
        "_id",
        "_text",
        "about",
        "configurable",
        "delegates",
        "goes_on",
        "handlers",
        "holds_loop",
        "home",
        "kind",
        "max_concurrency",
        "metadata",
        "name",
        "owner",
        "parent",
        "recursion_limit",
        "started",
        "tags",
        "tells_runs",
        "wants_chunks",
        "wants_tokens",
    )

    def __init__(
        self,
        *,
        run_id: UUID | None = None,
        parent: RunContext | None = None,
        name: str = "",
        kind: str = "chain",
        tags: tuple[str, ...] = (),
        metadata: dict[str, Any] | None = None,
        configurable: dict[str, Any] | None = None,
        handlers: tuple[Handler, ...] = (),
        max_concurrency: int | _Unset | None = UNSET,
        recursion_limit: int = DEFAULT_RECURSION_LIMIT,
        home: Run | None = None,
    ) -> None:
        self._text: str | None = None
        self._id: UUID | int | None = run_id
        """The run's id, or its number: few ask for the id of every run, so it is made when somebody does."""
        self.parent = parent
        self.name = name
        self.kind = kind
        self.tags = tags
        self.metadata = metadata if metadata is not None else {}
        self.configurable = configurable if configurable is not None else {}
        self.handlers = handlers
        self.max_concurrency = max_concurrency
        self.recursion_limit = recursion_limit
        self.home = home
        self.started = 0.0
        self.goes_on = False
        self.holds_loop = False
        self.wants_tokens = False
        self.wants_chunks = False
        self.tells_runs = False
        self.about = 0
        self.owner = 0
        self.delegates = 0
        for handler in handlers:
            self.wants_tokens = self.wants_tokens or getattr(handler, "wants_tokens", False)
            self.wants_chunks = self.wants_chunks or getattr(handler, "wants_chunks", False)
            self.tells_runs = self.tells_runs or getattr(handler, "wants_runs", True)

    def inside(self, kind: str, name: str) -> RunContext:
        """The context of a run in this one that inherits everything."""
        child = object.__new__(RunContext)
        handlers = child.handlers = self.handlers
        child._text = None
        child._id = _bits(128) & _NOT_VERSION | _VERSION_4 if handlers else None
        parent: RunContext | None = self
        while parent is not None and parent._id is None:  # one that only carries config has no id to be a parent
            parent = parent.parent
        child.parent = parent
        child.name = name
        child.kind = kind
        child.tags = self.tags
        child.metadata = self.metadata
        child.configurable = self.configurable
        child.max_concurrency = self.max_concurrency
        child.recursion_limit = self.recursion_limit
        child.home = self.home
        child.holds_loop = self.holds_loop
        child.wants_tokens = self.wants_tokens
        child.wants_chunks = self.wants_chunks
        child.tells_runs = self.tells_runs
        child.started = 0.0
        child.goes_on = False
        child.about = child.owner = child.delegates = 0
        return child

    @property
    def run_id(self) -> UUID | None:
        """The id of this run; None in a context that is no run."""
        made = self._id
        if type(made) is int:
            made = self._id = _uuid_of(made)
        return cast("UUID | None", made)

    @property
    def id_text(self) -> str | None:
        """`str(run_id)`, without making one."""
        text, made = self._text, self._id
        if text is None and made is not None:
            number: int = made if type(made) is int else cast("UUID", made).int
            digits = number.to_bytes(16).hex()
            text = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
            self._text = text
        return text

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
    context = _copy_context()
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
