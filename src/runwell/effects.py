"""What engine code asks for: small values that a driver carries out.

Engine code is a coroutine that awaits effects and nothing else. It never touches a clock, a thread, a
socket or an event loop, so the same code runs under the sync and the async driver (`drivers.py`), and
under a test driver that looks at every effect. Awaiting anything else is an `EngineBug`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from runwell.drivers.deadline import Deadline

__all__ = [
    "Call",
    "CallHook",
    "Callee",
    "Effect",
    "Emit",
    "Flow",
    "Later",
    "NOW",
    "Now",
    "Outcome",
    "RunTask",
    "RunTasks",
    "Sleep",
    "Then",
    "flow",
    "is_flow",
]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

Flow = Coroutine[Any, Any, T]
"""A running piece of engine code: awaits effects, returns T."""


class Effect(Generic[T]):
    """Awaiting one hands it to the driver and gives back the driver's result."""

    __slots__ = ()

    def __await__(self) -> Generator[Effect[T], T, T]:
        return (yield self)


class Outcome(Generic[T]):
    """How a task ended: `value`, or `error` (an exception or a signal)."""

    __slots__ = ("error", "value")

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self.value = value
        self.error = error

    def unwrap(self) -> T:
        """The value; raises the error if there is one."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"Outcome(error={self.error!r})" if self.error is not None else f"Outcome({self.value!r})"


class Later(Generic[T]):
    """In place of a result that may take long to come by: `work()`, in a thread, gives it. Nothing is done yet."""

    __slots__ = ("work",)

    def __init__(self, work: Callable[[], T]) -> None:
        self.work = work


class Callee(Generic[T]):
    """A user's callable with its colour worked out once.

    At least one of `sync` and `aio` is set. `cheap` says the sync form never blocks, so an event loop may
    run it in place instead of in a worker thread. `now` is what it asks before a thread: gives what `sync` would, or
    `Later` where that may take long.
    """

    __slots__ = ("aio", "cheap", "now", "sync")

    def __init__(
        self,
        sync: Callable[..., T] | None,
        aio: Callable[..., Awaitable[T]] | None,
        *,
        cheap: bool = False,
        now: Callable[..., T | Later[T]] | None = None,
    ) -> None:
        self.sync = sync
        self.aio = aio
        self.cheap = cheap
        self.now = now

    def __str__(self) -> str:
        called = self.sync or self.aio
        while (inner := getattr(called, "func", None)) is not None:  # a partial with what is injected
            called = inner
        return str(getattr(called, "__qualname__", None) or repr(called))

    def __repr__(self) -> str:
        return f"Callee({self})"


class Call(Effect[T]):
    """Call user code in the form that suits the driver; gives its result or raises its exception.

    `shield` lets it finish even if the run is cancelled meanwhile (saves).
    `timeout` is in seconds, or a `Deadline`; past it `NodeTimeoutError` is raised, async work is cancelled and sync
    work abandoned.
    """

    __slots__ = ("args", "callee", "shield", "timeout")

    def __init__(
        self, callee: Callee[T], *args: Any, shield: bool = False, timeout: float | Deadline | None = None
    ) -> None:
        self.callee = callee
        self.args = args
        self.shield = shield
        self.timeout = timeout


class CallHook(Effect[T]):
    """Call a hook around an inner flow: `hook(request, handler)`, where `handler(request)` runs `inner(request)`.

    The one effect with a callback. The hook may have either colour, whatever the inner flow does; it may
    call the handler never, once or several times.
    """

    __slots__ = ("hook", "inner", "request")

    def __init__(self, hook: Callee[T], request: Any, inner: Callable[[Any], Flow[Any] | Then[Any]]) -> None:
        self.hook = hook
        self.request = request
        self.inner = inner


class RunTask(Effect[T]):
    """Run one flow, `begin(arg)`, under a copy of the context and as a task of its own: gives what it gives, and raises
    what it raises.

    Who asks may ask with the same object again, with another `arg`: an object for a run and not for each of its steps.
    """

    __slots__ = ("arg", "begin")

    def __init__(self, begin: Callable[[Any], Flow[T]], arg: Any = None) -> None:
        self.begin = begin
        self.arg = arg


class Then(Generic[T]):
    """One effect, and what `then` makes of its result: a flow that needs no frame of its own. A class made from it may
    have that as a method.

    What a hook's `inner` gives may be one. A driver that calls the hook in place does what it asks for at once.
    """

    __slots__ = ("effect", "then")

    def __init__(self, effect: Effect[Any], then: Callable[[Any], T]) -> None:
        self.effect = effect
        self.then = then

    def __await__(self) -> Generator[Effect[Any], Any, T]:
        return self.then((yield self.effect))


class RunTasks(Effect[list[Outcome[T]]]):
    """Run flows side by side, at most `limit` at once (None: all), each under a copy of the context.

    Gives one `Outcome` per flow in the order given; never raises for a task's own failure. With
    `stop_on_error`, once a task has failed with an exception (not a signal) tasks that have not started
    are not started (their outcome carries `RunCancelled`) and running ones are cancelled where that is possible.
    """

    __slots__ = ("limit", "stop_on_error", "tasks")

    def __init__(
        self,
        tasks: Sequence[Callable[[], Flow[T]]],
        limit: int | None = None,
        *,
        stop_on_error: bool = False,
    ) -> None:
        self.tasks = tasks
        self.limit = limit
        self.stop_on_error = stop_on_error


class Emit(Effect[None]):
    """Hand an item to whoever streams the run; waits while the reader is too far behind."""

    __slots__ = ("item",)

    def __init__(self, item: Any) -> None:
        self.item = item


class Sleep(Effect[None]):
    """Wait `seconds`."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Now(Effect[float]):
    """Seconds since the epoch, UTC. `NOW` is one for all who ask."""

    __slots__ = ()


NOW: Final = Now()


def flow(function: F) -> F:
    """Mark an `async def` as engine code: it awaits effects, not asyncio.

    A conditional edge may be a plain function, and a node one that gives a coroutine, or None for nothing to do.
    """
    function.__runwell_flow__ = True  # type: ignore[attr-defined]
    return function


def is_flow(function: Any) -> bool:
    """Whether `flow` marked it (bound methods and partials included)."""
    return getattr(getattr(function, "func", function), "__runwell_flow__", False) is True
