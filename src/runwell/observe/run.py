"""Opening and closing runs, and telling handlers about them.

One class serves plain and `async` code: handlers are called at once, and what they want awaited is awaited at the next
`async` boundary of the same loop, in order; in plain code, right away on a loop that is free to do it.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Token
from time import time
from typing import TYPE_CHECKING, Any, Self, TypeVar

from runwell.errors import StreamClosed
from runwell.observe.context import CURRENT, RunContext, context_with
from runwell.observe.events import Chunk, Custom, Decision, Event, Retried, RunEnded, RunFailed, RunStarted, Serialized
from runwell.observe.inherit import add_handlers, child_context
from runwell.observe.resume import InContext

if TYPE_CHECKING:
    import asyncio

__all__ = [
    "Run",
    "adispatch_custom_event",
    "dispatch_custom_event",
    "observing",
    "open_run",
    "record_decision",
    "tell",
    "watched",
]

T = TypeVar("T")

MODEL_KINDS = frozenset({"chat_model", "llm"})


def open_run(
    kind: str,
    component: Any,
    inputs: Any = None,
    config: Mapping[str, Any] | None = None,
    *,
    serialized: Serialized = None,
) -> Run | None:
    """A run of `component` to be entered with `with` or `async with`; None when nobody watches and no config applies.

    `component` is a name, or something with `get_name()`. The config is checked here. Nothing is told before the run
    is entered.
    """
    parent = CURRENT.get()
    if config:
        name = component if type(component) is str else component.get_name()
        context = child_context(parent, config, kind, name)
    elif parent is None or not parent.handlers:
        return None
    else:
        context = parent.inside(kind, component if type(component) is str else component.get_name())
    context.about = id(component)
    return Run(context, inputs, serialized)


class Run:
    """An open run: the current one between `__enter__` and `__exit__`. Say how it ended with `end`; an exception that
    passes through is told as its failure.

    When nobody watches it only carries the config that nested calls inherit.
    """

    __slots__ = ("_ended", "_token", "context", "inputs", "loop", "pending", "serialized")

    def __init__(self, context: RunContext, inputs: Any, serialized: Serialized = None) -> None:
        self.context = context
        self.inputs = inputs
        self.serialized = serialized
        self.loop: asyncio.AbstractEventLoop | None = None
        self.pending: deque[tuple[Any, Awaitable[Any]]] | None = None
        self._ended = False
        self._token: Token[RunContext | None] | None = None

    # -- what user code may ask a run for

    @property
    def run_id(self) -> Any:
        return self.context.run_id

    @property
    def parent_run_id(self) -> Any:
        return self.context.parent_id

    @property
    def watched(self) -> bool:
        """Whether anybody is told."""
        return bool(self.context.handlers)

    # -- entering and leaving

    def start(self) -> None:
        """Tell that it begins, without making it current: for streams, which enter a context of their own."""
        context = self.context
        if context.tells_runs:
            event = RunStarted(context, self.inputs, self.serialized)
            context.started = event.time
            tell(context, event)
        elif context.handlers:
            context.started = time()

    def __enter__(self) -> Self:
        context = self.context
        home = context.home
        if home is not None and home is not self and home.loop is _running_loop():
            context.holds_loop = True
        if context.tells_runs:  # `start`, written out
            event = RunStarted(context, self.inputs, self.serialized)
            context.started = event.time
            tell(context, event)
        elif context.handlers:
            context.started = time()
        self._token = CURRENT.set(context)
        return self

    def __exit__(
        self, kind: type[BaseException] | None = None, error: BaseException | None = None, trace: object = None
    ) -> None:
        token, self._token = self._token, None
        if token is not None:
            CURRENT.reset(token)
        if not self._ended:
            if error is not None:
                self.fail(error)
            else:
                self.end(None)

    async def __aenter__(self) -> Self:
        self.settle_here()
        self.__enter__()
        if self.pending:
            await self.flush()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self.__exit__(kind, error, trace)
        if self.pending:
            await self.flush()

    def end(self, outputs: T, inputs: Any = None) -> T:
        """It ended well; gives `outputs` back."""
        if not self._ended:
            self._ended = True
            context = self.context
            if context.tells_runs:
                tell(context, RunEnded(context, outputs, inputs if inputs is not None else self.inputs))
        return outputs

    def fail(self, error: BaseException) -> None:
        """It ended with `error`."""
        if not self._ended:
            self._ended = True
            if self.context.tells_runs:
                tell(self.context, RunFailed(self.context, error, self.inputs))

    # -- between

    def token(self, chunk: Any, text: str | Callable[[Any], str] | None = None) -> None:
        """A model gave a chunk, whose text is `text`, or what `text` makes of it once somebody asks."""
        if self.context.handlers:
            tell(self.context, Chunk(self.context, chunk, text))

    def teller(self, text: Callable[[Any], str]) -> Callable[[Any], None]:
        """`token`, for a call that gives many chunks, all in the task that asks for it.

        Where each handler has a `taker(context)`, what that gives takes the chunks, and no event is made for them.
        """
        handlers = self.context.handlers
        if len(handlers) == 1 and (taker := getattr(handlers[0], "taker", None)) is not None:
            return taker(self.context)  # type: ignore[no-any-return]
        return lambda chunk: self.token(chunk, text)

    def retried(self, attempt: int, error: BaseException, wait: float) -> None:
        """Attempt number `attempt` failed; the next follows after `wait` seconds."""
        if self.context.handlers:
            tell(self.context, Retried(self.context, attempt, error, wait))

    def call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """`function(*args, **kwargs)` as this run."""
        with self:
            return self.end(function(*args, **kwargs))

    async def acall(self, function: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """`await function(*args, **kwargs)` as this run."""
        async with self:
            return self.end(await function(*args, **kwargs))

    def watch(
        self,
        make: Callable[[], Iterator[T]],
        combine: Callable[[Sequence[T]], Any],
        text: Callable[[T], str] | None = None,
    ) -> Iterator[T]:
        """The iterator that `make` gives, as this run: each of its steps runs inside the run, each of its consumer's
        outside. `combine` makes the run's output of all chunks; `text` gives a model chunk's text."""
        return _WatchedStream(self, make, combine, text)

    def awatch(
        self,
        make: Callable[[], AsyncIterator[T]],
        combine: Callable[[Sequence[T]], Any],
        text: Callable[[T], str] | None = None,
    ) -> AsyncIterator[T]:
        """`watch` for an async iterator."""
        return _WatchedAsyncStream(self, make, combine, text)

    # -- async handlers

    def settle_here(self) -> None:
        """Await what handlers want awaited at this run's own boundaries, on the running loop."""
        if self.context.handlers:
            import asyncio

            self.loop = asyncio.get_running_loop()
            self.pending = deque()
            self.context.home = self
            self.context.holds_loop = False

    async def flush(self) -> None:
        """Await what handlers left to be awaited."""
        while self.pending:
            await _finish([self.pending.popleft()])


def tell(context: RunContext, event: Event) -> None:
    """Hand an event to every handler of a run."""
    waiting: list[tuple[Any, Awaitable[Any]]] | None = None
    for handler in context.handlers:
        try:
            result = handler.handle(event)
        except Exception as error:
            _failed(handler, error)
        else:
            if result is not None:
                if waiting is None:
                    waiting = []
                waiting.append((handler, result))
    if waiting is not None:
        _await_somewhere(context, waiting)


def _failed(handler: Any, error: Exception) -> None:
    if getattr(handler, "raise_error", False):
        raise error
    import logging  # here: most programs never need it, and it is not small

    logging.getLogger("runwell.observe").error("%s failed in %r; the run goes on", handler, error, exc_info=error)


async def _finish(waiting: list[tuple[Any, Awaitable[Any]]]) -> None:
    for handler, awaitable in waiting:
        try:
            await awaitable
        except Exception as error:
            _failed(handler, error)


def _await_somewhere(context: RunContext, waiting: list[tuple[Any, Awaitable[Any]]]) -> None:
    """From plain code: at the next boundary of the loop we are on, on the loop of the async run around us if that is
    another thread's, else on a loop of our own."""
    home = context.home
    if home is not None and home.loop is not None and home.pending is not None:
        if context.holds_loop or _running_loop() is home.loop:
            home.pending.extend(waiting)  # waiting for the loop here would be waiting for ourselves
            return
        if home.loop.is_running():
            import asyncio

            asyncio.run_coroutine_threadsafe(_finish(waiting), home.loop).result()
            return
    from runwell.drivers import call_sync
    from runwell.effects import Callee

    call_sync(Callee(None, _finish), waiting)


def _running_loop() -> Any:
    aio = sys.modules.get("asyncio")
    return aio._get_running_loop() if aio is not None else None


class _WatchedStream(Iterator[T]):
    """An observed iterator. Closing it early is told as a failure by `StreamClosed`."""

    def __init__(
        self,
        run: Run,
        make: Callable[[], Iterator[T]],
        combine: Callable[[Sequence[T]], Any],
        text: Callable[[T], str] | None,
    ) -> None:
        self._run = run
        self._make = make
        self._combine = combine
        self._text = text
        self._context = context_with(run.context)
        self._source: Iterator[T] | None = None
        self._chunks: list[T] = []
        self._over = False
        self._tells = run.context.wants_chunks or run.context.kind in MODEL_KINDS

    def __next__(self) -> T:
        if self._over:
            raise StopIteration
        enter = self._context.run
        try:
            if self._source is None:
                self._run.start()
                self._source = enter(self._make)
            chunk = enter(next, self._source)
        except StopIteration:
            self._over = True
            if self._run.watched:
                self._run.end(self._combine(self._chunks))
            raise
        except BaseException as error:
            self._over = True
            self._run.fail(error)
            raise
        if self._run.watched:
            self._chunks.append(chunk)
            if self._tells:
                self._run.token(chunk, self._text)
        return chunk

    def close(self) -> None:
        """Close the source; an unfinished run is told to have been closed."""
        if self._over:
            return
        self._over = True
        if self._source is not None:
            try:
                close = getattr(self._source, "close", None)
                if close is not None:
                    self._context.run(close)
            finally:
                self._run.fail(StreamClosed())

    def __del__(self) -> None:
        if not self._over:
            self.close()


class _WatchedAsyncStream(AsyncIterator[T]):
    """An observed async iterator."""

    def __init__(
        self,
        run: Run,
        make: Callable[[], AsyncIterator[T]],
        combine: Callable[[Sequence[T]], Any],
        text: Callable[[T], str] | None,
    ) -> None:
        self._run = run
        self._make = make
        self._combine = combine
        self._text = text
        self._context = context_with(run.context)
        self._source: AsyncIterator[T] | None = None
        self._chunks: list[T] = []
        self._over = False
        self._tells = run.context.wants_chunks or run.context.kind in MODEL_KINDS

    async def __anext__(self) -> T:
        if self._over:
            raise StopAsyncIteration
        run = self._run
        try:
            if self._source is None:
                run.settle_here()
                run.start()
                if run.pending:
                    await run.flush()
                self._source = self._context.run(self._make)
            chunk = await InContext(self._context, self._source.__anext__())
        except StopAsyncIteration:
            self._over = True
            if run.watched:
                run.end(self._combine(self._chunks))
            if run.pending:
                await run.flush()
            raise
        except BaseException as error:
            self._over = True
            run.fail(error)
            if run.pending:
                await run.flush()
            raise
        if run.watched:
            self._chunks.append(chunk)
            if self._tells:
                run.token(chunk, self._text)
            if run.pending:
                await run.flush()
        return chunk

    async def aclose(self) -> None:
        """Close the source; an unfinished run is told to have been closed."""
        if self._over:
            return
        self._over = True
        if self._source is not None:
            try:
                close = getattr(self._source, "aclose", None)
                if close is not None:
                    await InContext(self._context, close())
            finally:
                self._run.fail(StreamClosed())
                if self._run.pending:
                    await self._run.flush()


@contextmanager
def observing(*handlers: Any) -> Iterator[None]:
    """Attach handlers to everything that runs inside the `with` block, in this thread or task and what it starts."""
    parent = CURRENT.get()
    inherited = parent.handlers if parent is not None else ()
    scope = child_context(parent, {"callbacks": list(handlers)}, "scope", "")
    scope.handlers = add_handlers(inherited, list(handlers))
    scope._id = None  # not a run itself: what runs inside belongs to the run around it, if any
    token = CURRENT.set(scope)
    try:
        yield
    finally:
        CURRENT.reset(token)


def dispatch_custom_event(name: str, data: Any, *, config: Mapping[str, Any] | None = None) -> None:
    """Tell handlers of the current run, and readers of `astream_events`, something of your own. From either colour.

    Outside any run it does nothing. `config` is only needed where the current run is not known: in a thread of yours.
    """
    run = _current(config)
    if run is not None and run.handlers:
        tell(run, Custom(run, name, data))


async def adispatch_custom_event(name: str, data: Any, *, config: Mapping[str, Any] | None = None) -> None:
    """`dispatch_custom_event` from `async` code; `async` handlers have been awaited when it returns."""
    dispatch_custom_event(name, data, config=config)
    run = _current(config)
    if run is not None and run.home is not None and run.home.pending:
        await run.home.flush()


def record_decision(seat: str, outcome: Any, reason: str, holder: str) -> None:
    """Tell handlers that the judgment named `seat` was made. Does nothing when nobody watches."""
    run = CURRENT.get()
    if run is not None and run._id is None:
        run = _current(None)
    if run is not None and run.handlers:
        tell(run, Decision(run, seat, outcome, reason, holder))


def watched() -> bool:
    """Whether a decision told now would be heard. Ask before making up its words."""
    run = CURRENT.get()
    return run is not None and bool(run.handlers)


def _current(config: Mapping[str, Any] | None) -> RunContext | None:
    run = CURRENT.get()
    if run is None and config:
        run = getattr(config.get("callbacks"), "run", None)
    while run is not None and run._id is None:  # only carries config: what happens in it belongs to the run around
        run = run.parent
    return run
