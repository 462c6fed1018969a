"""Opening and closing runs, and telling handlers about them.

One class serves plain and `async` code: handlers are called at once, and what they want awaited is awaited at the next
`async` boundary of the same loop, in order; in plain code, right away on a loop that is free to do it.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import time
from typing import TYPE_CHECKING, Any, Self, TypeVar

from runwell.errors import StreamClosed
from runwell.observe import ids
from runwell.observe.context import CURRENT, MODEL_KINDS, RunContext, context_with
from runwell.observe.events import Chunk, Custom, Decision, Event, Retried, RunEnded, RunFailed, RunStarted, Serialized
from runwell.observe.inherit import check_config, given_id, inherited_by, run_around
from runwell.observe.recorder import Recorder
from runwell.observe.resume import InContext

if TYPE_CHECKING:
    import asyncio

__all__ = [
    "Home",
    "OpenRun",
    "Run",
    "adispatch_custom_event",
    "dispatch_custom_event",
    "enter_run",
    "fail_run",
    "leave_run",
    "observing",
    "open_run",
    "record_decision",
    "tell",
    "watched",
]

T = TypeVar("T")

NO_NOTES: dict[Any, Any] = {}
"""Of all runs that nobody watches."""
_new = object.__new__


def open_run(
    kind: str,
    component: Any,
    inputs: Any = None,
    config: Mapping[str, Any] | None = None,
    *,
    serialized: Serialized = None,
    made: type[OpenRun] | None = None,
) -> OpenRun | None:
    """A run of `component` to be entered with `with` or `async with`; None when nobody watches and no config applies.

    `component` is a name, or something with `get_name()`. The config is checked here. Nothing is told before the run
    is entered. `made` is its class, if it is one of `OpenRun`'s subclasses.
    """
    around = CURRENT.get()
    if config:
        check_config(config)
        around = run_around(around, config)
        name = config.get("run_name") or (component if type(component) is str else component.get_name())
        inherited = inherited_by(around, config)
        run_id = given_id(config)
        if not inherited.handlers:
            run_id = None
        elif run_id is None:
            run_id = ids.new_run_id()
    elif around is None:
        return None
    else:
        inherited = around.inherited
        if not inherited.handlers:
            return None
        name = component if type(component) is str else component.get_name()
        run_id = ids.new_run_id()
    run: Any = _new(made or OpenRun)  # each of what is watched is one: a call less
    run._id = run_id
    run.inherited = inherited
    if around is None:
        parent = run.home = None
    else:
        parent = around if around._id is not None else around.nearest
        run.home = around.home
    run.parent = parent
    run.notes = parent.notes if parent is not None else {} if run_id is not None else NO_NOTES
    run.kind = kind
    run.name = name
    run.component = component
    run.inputs = None if run_id is None else inputs
    run.serialized = serialized
    run.goes_on = run._ended = False
    run._token = None
    return run  # type: ignore[no-any-return]


def enter_run(
    kind: str,
    name: str,
    inputs: Any,
    goes_on: bool = False,
    metadata: Mapping[str, Any] | None = None,
    serialized: Serialized = None,
) -> Run | None:
    """A run that has begun and is the current one, for `leave_run` or `fail_run`; None when nobody watches.

    As `open_run` and entering, where there is no config, in fewer steps: an agent takes four of them at each turn.
    """
    around = CURRENT.get()
    if around is None:
        return None
    inherited = around.inherited
    recorder = inherited.recorder
    if recorder is None and not inherited.handlers:
        return None
    if metadata:
        inherited = inherited_by(around, {"metadata": metadata})
        recorder = inherited.recorder
    run = _new(Run)
    run._id = id_ = next(ids.texts)
    run.inherited = inherited
    run.parent = parent = around if around._id is not None else around.nearest
    run.notes = {} if parent is None else parent.notes
    run.home = home = around.home
    if home is not None and not home.held and home.loop is _running_loop():
        run.home = Home(home.loop, home.pending, True)
    run.kind = kind
    run.name = name
    run.inputs = inputs
    run.goes_on = goes_on
    if recorder is None:
        _began(run, inputs, serialized)
    else:  # written out
        run.started = at = time()
        made = recorder.started
        line = made(at, id_, None if parent is None else parent._id, name, kind, inputs)
        if inherited.labelled:
            inputs = recorder.label(run, line)
        recorder.heard.append((run, line, inputs))
        if not goes_on:
            try:
                recorder.write()
            except Exception as error:
                _refused(recorder.handler, error)
    run._token = CURRENT.set(run)
    return run


def leave_run(run: Run, outputs: Any) -> None:
    """A run that was entered by `enter_run` ended well, and is no longer the current one."""
    recorder = run.inherited.recorder
    if recorder is None:
        token, run._token = run._token, None
        try:
            _ended(run, outputs, _taken(run))
        finally:
            CURRENT.reset(token)  # type: ignore[arg-type]
    else:  # `_ended`, written out
        at, parent = time(), run.parent
        made = recorder.answered if run.kind in MODEL_KINDS else recorder.ended
        seconds = int((at - run.started) * 1e6 + 0.5) / 1e6  # to the microsecond
        line = made(at, run._id, None if parent is None else parent._id, run.name, run.kind, seconds, outputs)
        recorder.heard.append((run, line, line.content))
        CURRENT.reset(run._token)  # type: ignore[arg-type]
        run._token = run.inputs = None
        if parent is None or not parent.goes_on:
            _write(recorder)
            if parent is None:
                run.notes.clear()


def fail_run(run: Run, error: BaseException) -> None:
    """It ended with `error`, and is no longer the current one; unless it was left before."""
    token, run._token = run._token, None
    if token is not None:
        CURRENT.reset(token)
        _failed(run, error, _taken(run))


def _taken(run: RunContext) -> Any:
    """The inputs of a run that is over, which it holds no longer: whoever keeps a run, as each decision does and each
    context that was copied in it, keeps what it was called and nothing that it was about."""
    inputs, run.inputs = run.inputs, None
    if isinstance(run, OpenRun):
        run.component = run.serialized = None
    return inputs


def _began(run: RunContext, inputs: Any, serialized: Serialized) -> None:
    inherited = run.inherited
    if inherited.handlers:
        at = run.started = time()
        recorder = inherited.recorder
        if recorder is not None:
            parent, made = run.parent, recorder.started
            line = made(at, run._id, None if parent is None else parent._id, run.name, run.kind, inputs)
            if inherited.labelled:
                inputs = recorder.label(run, line)
            recorder.heard.append((run, line, inputs))
            if not run.goes_on:
                _write(recorder)
        elif inherited.tells_runs:
            tell(run, RunStarted(run, inputs, serialized, at))


def _ended(run: RunContext, outputs: Any, inputs: Any) -> None:
    inherited = run.inherited
    recorder = inherited.recorder
    if recorder is not None:
        at, parent = time(), run.parent
        made = recorder.answered if run.kind in MODEL_KINDS else recorder.ended
        seconds = int((at - run.started) * 1e6 + 0.5) / 1e6  # to the microsecond
        line = made(at, run._id, None if parent is None else parent._id, run.name, run.kind, seconds, outputs)
        recorder.heard.append((run, line, line.content))
        if parent is None or not parent.goes_on:
            _write(recorder)
            if parent is None:
                run.notes.clear()
    elif inherited.tells_runs:
        tell(run, RunEnded(run, outputs, inputs))
        if run.parent is None:
            run.notes.clear()


def _failed(run: RunContext, error: BaseException, inputs: Any) -> None:
    if run.inherited.tells_runs:
        tell(run, RunFailed(run, error, inputs))
        if run.parent is None:
            run.notes.clear()


def _write(recorder: Recorder) -> None:
    try:
        recorder.write()
    except Exception as error:
        _refused(recorder.handler, error)


class Home:
    """An async run's place, where awaitable handlers are awaited: in order, at its boundaries, on its loop.

    `held` says that plain code is holding up that loop.
    """

    __slots__ = ("held", "loop", "pending")

    def __init__(self, loop: asyncio.AbstractEventLoop, pending: deque[tuple[Any, Awaitable[Any]]], held: bool) -> None:
        self.loop = loop
        self.pending = pending
        self.held = held

    async def flush(self) -> None:
        """Await what handlers left to be awaited."""
        while self.pending:
            await _finish([self.pending.popleft()])


class Run(RunContext):
    """A run under way, as the code in it knows it."""

    __slots__ = ()

    @property
    def parent_run_id(self) -> Any:
        return self.parent_id

    @property
    def watched(self) -> bool:
        """Whether anybody is told."""
        return bool(self.inherited.handlers)

    def token(self, chunk: Any, text: str | Callable[[Any], str] | None = None) -> None:
        """A model gave a chunk, whose text is `text`, or what `text` makes of it once somebody asks."""
        if self.inherited.handlers:
            tell(self, Chunk(self, chunk, text))

    def teller(self, text: Callable[[Any], str]) -> Callable[[Any], None]:
        """`token`, for a call that gives many chunks, all in the task that asks for it.

        Where each handler has a `taker(context)`, what that gives takes the chunks, and no event is made for them.
        """
        handlers = self.inherited.handlers
        if len(handlers) == 1 and (taker := getattr(handlers[0], "taker", None)) is not None:
            return taker(self)  # type: ignore[no-any-return]
        return lambda chunk: self.token(chunk, text)

    def retried(self, attempt: int, error: BaseException, wait: float) -> None:
        """Attempt number `attempt` failed; the next follows after `wait` seconds."""
        if self.inherited.handlers:
            tell(self, Retried(self, attempt, error, wait))

    @property
    def pending(self) -> bool:
        """Whether handlers left something to be awaited."""
        return self.home is not None and bool(self.home.pending)

    async def flush(self) -> None:
        """Await what handlers left to be awaited."""
        if self.home is not None:
            await self.home.flush()


class OpenRun(Run):
    """A run to be entered: the current one between `__enter__` and `__exit__`. Say how it ended with `end`; an
    exception that passes through is told as its failure.

    When nobody watches it only carries the config that nested calls inherit.
    """

    __slots__ = ("_ended", "component", "serialized")

    component: Any
    serialized: Serialized
    _ended: bool

    # -- entering and leaving

    def start(self) -> None:
        """Tell that it begins, without making it current: for streams, which enter a context of their own."""
        _began(self, self.inputs, self.serialized)

    def __enter__(self) -> Self:
        home = self.home
        if home is not None and not home.held and home.loop is _running_loop():
            self.home = Home(home.loop, home.pending, True)
        _began(self, self.inputs, self.serialized)
        self._token = CURRENT.set(self)
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
        home = self.settle_here()
        self.start()
        self._token = CURRENT.set(self)
        if home is not None and home.pending:
            await home.flush()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self.__exit__(kind, error, trace)
        if self.pending:
            await self.flush()

    def end(self, outputs: T, inputs: Any = None) -> T:
        """It ended well; gives `outputs` back."""
        if not self._ended:
            self._ended = True
            given = _taken(self)
            _ended(self, outputs, inputs if inputs is not None else given)
        return outputs

    def fail(self, error: BaseException) -> None:
        """It ended with `error`."""
        if not self._ended:
            self._ended = True
            _failed(self, error, _taken(self))

    # -- calls

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

    def settle_here(self) -> Home | None:
        """Await what handlers want awaited at this run's own boundaries, on the running loop."""
        if not self.inherited.handlers:
            return None
        import asyncio

        self.home = home = Home(asyncio.get_running_loop(), deque(), False)
        return home


def tell(context: RunContext, event: Event, handlers: Sequence[Any] | None = None) -> None:
    """Hand an event to every handler of a run, or to some."""
    waiting: list[tuple[Any, Awaitable[Any]]] | None = None
    for handler in context.inherited.handlers if handlers is None else handlers:
        try:
            result = handler.handle(event)
        except Exception as error:
            _refused(handler, error)
        else:
            if result is not None:
                if waiting is None:
                    waiting = []
                waiting.append((handler, result))
    if waiting is not None:
        _await_somewhere(context, waiting)


def _refused(handler: Any, error: Exception) -> None:
    if getattr(handler, "raise_error", False):
        raise error
    import logging  # here: most programs never need it, and it is not small

    logging.getLogger("runwell.observe").error("%s failed in %r; the run goes on", handler, error, exc_info=error)


async def _finish(waiting: list[tuple[Any, Awaitable[Any]]]) -> None:
    for handler, awaitable in waiting:
        try:
            await awaitable
        except Exception as error:
            _refused(handler, error)


def _await_somewhere(context: RunContext, waiting: list[tuple[Any, Awaitable[Any]]]) -> None:
    """From plain code: at the next boundary of the loop we are on, on the loop of the async run around us if that is
    another thread's, else on a loop of our own."""
    home = context.home
    if home is not None:
        if home.held or _running_loop() is home.loop:
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
        run: OpenRun,
        make: Callable[[], Iterator[T]],
        combine: Callable[[Sequence[T]], Any],
        text: Callable[[T], str] | None,
    ) -> None:
        self._run = run
        self._make = make
        self._combine = combine
        self._text = text
        self._context = context_with(run)
        self._source: Iterator[T] | None = None
        self._chunks: list[T] = []
        self._over = False
        self._tells = run.inherited.wants_chunks or run.kind in MODEL_KINDS

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
            self._run.end(self._combine(self._chunks) if self._run.watched else None)
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
        run: OpenRun,
        make: Callable[[], AsyncIterator[T]],
        combine: Callable[[Sequence[T]], Any],
        text: Callable[[T], str] | None,
    ) -> None:
        self._run = run
        self._make = make
        self._combine = combine
        self._text = text
        self._context = context_with(run)
        self._source: AsyncIterator[T] | None = None
        self._chunks: list[T] = []
        self._over = False
        self._tells = run.inherited.wants_chunks or run.kind in MODEL_KINDS

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
            run.end(self._combine(self._chunks) if run.watched else None)
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
    config = {"callbacks": list(handlers)}
    parent = run_around(CURRENT.get(), config)
    scope = RunContext(inherited_by(parent, config))  # not a run itself: what runs inside belongs to the run around it
    if parent is not None:
        scope.parent, scope.home = parent, parent.home
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
    if run is not None and run.inherited.handlers:
        tell(run, Custom(run, name, data))


async def adispatch_custom_event(name: str, data: Any, *, config: Mapping[str, Any] | None = None) -> None:
    """`dispatch_custom_event` from `async` code; `async` handlers have been awaited when it returns."""
    dispatch_custom_event(name, data, config=config)
    run = _current(config)
    if run is not None and run.home is not None:
        await run.home.flush()


def record_decision(seat: str, outcome: Any, reason: str, holder: str) -> None:
    """Tell handlers that the judgment named `seat` was made. Does nothing when nobody watches."""
    run = CURRENT.get()
    if run is not None and run._id is None:
        run = run.nearest
    if run is None:
        return
    inherited = run.inherited
    recorder = inherited.recorder
    if recorder is not None:
        parent, made = run.parent, recorder.decided
        above = None if parent is None else parent._id
        line = made(time(), run._id, above, run.name, run.kind, seat, holder, outcome, reason)
        recorder.heard.append((run, line, line.content))
        if not (run.goes_on and recorder.quiet):
            _write(recorder)
        if recorder.others:
            tell(run, Decision(run, seat, outcome, reason, holder), recorder.others)
    elif inherited.handlers:
        tell(run, Decision(run, seat, outcome, reason, holder))


def watched() -> bool:
    """Whether a decision told now would be heard. Ask before making up its words."""
    run = CURRENT.get()
    return run is not None and bool(run.inherited.handlers)


def _current(config: Mapping[str, Any] | None) -> RunContext | None:
    run = CURRENT.get()
    if run is None and config:
        run = getattr(config.get("callbacks"), "run", None)
    return None if run is None else run.nearest
