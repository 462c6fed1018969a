"""`@task`: functions whose results are kept as soon as they are there."""

from __future__ import annotations

import inspect
import os
import random
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import replace
from datetime import timedelta
from functools import cached_property, partial, update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, get_type_hints, overload

from runwell.drivers.colour import callee
from runwell.drivers.deadline import Deadline
from runwell.effects import Call, Callee, Sleep
from runwell.errors import GraphError, InvalidInput
from runwell.graph.calls import calls_of, settled
from runwell.graph.future import TaskFuture
from runwell.graph.interrupts import interrupt_id
from runwell.graph.node import INJECTED, injected
from runwell.graph.node_cache import caller_of, identity, seen_in
from runwell.graph.policies import CachePolicy, RetryPolicy, TimeoutPolicy
from runwell.graph.recorded import Copier, copier_of, recorded
from runwell.observe.context import CURRENT
from runwell.observe.run import dispatch_custom_event, open_run
from runwell.ports.cache import FullKey
from runwell.ports.runtime import CURRENT_TASK, Runtime, TaskScope
from runwell.ports.saver import TaskRecord

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine

__all__ = ["TaskFunction", "checked_function", "task", "types_in"]

P = ParamSpec("P")
R = TypeVar("R")

_NOTHING: frozenset[type] = frozenset()
_NAMES = frozenset(INJECTED) - {"previous"}


def checked_function(function: Any, what: str) -> Any:
    """The function, if it is one that gives a result. `what` names the decorator."""
    if not callable(function) or inspect.isclass(function):
        raise GraphError(f"{what} was given {function!r}.", hint=f"Put {what} above a function, plain or `async`.")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise GraphError(
            f"{what} was given the generator {function.__qualname__!r}.",
            hint="Return the result; to tell more on the way, take a parameter `writer` and call it.",
        )
    return function


def types_in(function: Any) -> frozenset[type]:
    """The classes that the annotations of a function speak of: its results may consist of them when they are kept."""
    from runwell.persistence.serialization import reachable_types

    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError):  # annotations that cannot be read allow nothing
        return _NOTHING
    return frozenset().union(*map(reachable_types, hints.values()))


class TaskFunction(Generic[P, R]):
    """What `@task` makes of a function, its `.func`. Calling it begins the work and gives a `TaskFuture`."""

    def __init__(
        self,
        function: Callable[P, Any],
        *,
        name: str | None = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        cache_policy: CachePolicy | None = None,
        timeout: float | timedelta | TimeoutPolicy | None = None,
        check_arguments: bool = True,
    ) -> None:
        update_wrapper(self, checked_function(function, "@task"))
        self.func = function
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        if any(mark in self.name for mark in "|:"):
            raise GraphError(f"{self.name!r} cannot be a task's name.", hint="Avoid '|' and ':'.")
        self.retry = (retry_policy,) if isinstance(retry_policy, RetryPolicy) else tuple(retry_policy or ())
        self.cache = cache_policy
        self.timeout = TimeoutPolicy.of(timeout)
        self.check_arguments = check_arguments
        self._callee: Callee[Any] = callee(function)
        self._signature = inspect.signature(function)
        parameters = list(self._signature.parameters.values())
        self._wants = {
            p.name: place if p.kind is p.POSITIONAL_OR_KEYWORD else len(parameters)
            for place, p in enumerate(parameters)
            if p.name in _NAMES and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        }

    @cached_property
    def types(self) -> frozenset[type]:
        return types_in(self.func)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else partial(self, instance)

    def __repr__(self) -> str:
        return f"<task {self.name!r}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> TaskFuture[R]:
        for given in (*args, *kwargs.values()):
            if isinstance(given, TaskFuture):
                raise InvalidInput(
                    f"Task {self.name!r} was given the future of task {given.name!r} as an argument.",
                    hint="Pass its result: `.result()` in plain code, `await` in async code.",
                )
        scope = CURRENT_TASK.get()
        future: TaskFuture[R] = TaskFuture(self.name)
        if scope is None or scope.run is None:  # called by itself: runs, and nothing is kept
            future.begin(lambda: self._work(Runtime(), args, kwargs), copy_context())
            return future
        calls = calls_of(scope)
        place = calls.place()
        run, copier = scope.run, copier_of(scope.run)
        mark = copier.mark(args, kwargs, self.types) if self.check_arguments and run.saver is not None else None
        record = calls.known(place, self.name, mark)
        if record is not None:
            future.set_result(self._result_of(record, copier))
            return future
        given_args = tuple(copier.copy(value, self.types) for value in args)
        given_kwargs = {name: copier.copy(value, self.types) for name, value in kwargs.items()}
        inner = _scope_inside(scope, place, self.name)
        context = copy_context()
        context.run(CURRENT_TASK.set, inner)
        calls.start(
            future,
            partial(future.begin, lambda: self._recorded(inner, given_args, given_kwargs, mark), context),
        )
        return future

    # -- one call

    def _result_of(self, record: TaskRecord, copier: Copier) -> R:
        data = record.writes[0][1]
        return cast("R", copier.unpack(data, self.name, self.types) if isinstance(data, bytes) else data.value)

    async def _recorded(self, scope: TaskScope, args: tuple[Any, ...], kwargs: dict[str, Any], mark: str | None) -> R:
        """The call inside a run: told to handlers, kept when it has ended."""
        ambient = CURRENT.get()
        if ambient is not None and ambient.handlers:
            observed = open_run("node", self.name, {"args": args, "kwargs": kwargs})
            if observed is not None:
                with observed:
                    return observed.end(await self._kept(scope, args, kwargs, mark))
        return await self._kept(scope, args, kwargs, mark)

    async def _kept(self, scope: TaskScope, args: tuple[Any, ...], kwargs: dict[str, Any], mark: str | None) -> R:
        run = scope.run
        try:
            value = await self._cached(scope, args, kwargs)
        except Exception as error:
            error.add_note(f"in task {self.name!r} ({scope.task_id})")
            await run.keep_call(scope, TaskRecord(scope.task_id, self.name, error=f"{type(error).__name__}: {error}"))
            raise
        copier = copier_of(run)
        data: Any = copier.pack(value, self.name, self.types) if run.saver is not None else _Held(value)
        await run.keep_call(scope, recorded(scope.task_id, self.name, mark, data, not _was_answered(scope)))
        if isinstance(data, bytes):
            value = copier.unpack(data, self.name, self.types)
        if "updates" in run.modes and run.sink is not None:
            run.sink((run.ns, "updates", {self.name: value}))
        return value

    async def _cached(self, scope: TaskScope, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        """The work, or what a cache has of it."""
        run, runtime, key = scope.run, scope.runtime, None
        if self.cache is not None and run.cache is None and run.graph.cache is not False:
            raise InvalidInput(
                f"Task {self.name!r} has a cache_policy, and {run.graph.get_name()!r} no cache to keep results in.",
                hint="Pass cache=InMemoryCache() or SqliteCache(path) where that is made, or cache=False to keep none.",
            )
        if self.cache is not None and run.cache is not None:
            key = self._cache_key(runtime, args, kwargs)
            kept = await run.cache.get(key, run.graph.all_types | self.types)
            if kept is not None:
                dispatch_custom_event("task_cached", {"task": self.name, "task_id": scope.task_id})
                return cast("R", kept[0][1])
        value = await settled(scope, self._work(runtime, args, kwargs, scope))
        if key is not None and self.cache is not None and not scope.asked:
            await run.cache.set(key, [("return", value)], self.cache.ttl, run.graph.all_types | self.types)
        return value

    def _cache_key(self, runtime: Runtime[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> FullKey:
        """As for a node: its code counts, on whose behalf the run acts, and without a `key_func` what it can see."""
        from runwell.persistence.caches.keys import cache_key

        assert self.cache is not None
        code = self._code
        if self.cache.key_func is not None:
            return self._namespace, cache_key(code, caller_of(runtime), self.cache.key_func(*args, **kwargs))
        bound = self._signature.bind(*args, **kwargs) if not self._wants else None
        given = [args, kwargs] if bound is None else [bound.args, bound.kwargs]
        knows = self._wants.keys() & {"runtime", "config"}
        seen = seen_in(runtime) if knows else None
        return self._namespace, cache_key(code, caller_of(runtime), given, runtime.context if knows else None, seen)

    @cached_property
    def _code(self) -> Any:
        return identity(self.func) or os.urandom(12).hex()  # told from no other code: kept in this process alone

    @property
    def _namespace(self) -> tuple[str, ...]:
        return ("tasks", self.func.__module__, getattr(self.func, "__qualname__", self.name))

    def clear_cache(self, cache: Any) -> None:
        """Forget what `cache` keeps of this task."""
        cache.clear([self._namespace])

    async def _work(
        self,
        runtime: Runtime[Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        scope: TaskScope | None = None,
    ) -> R:
        """The function itself, again as the retry policies say."""
        given = [name for name, place in self._wants.items() if name not in kwargs and len(args) <= place]
        if given:
            kwargs = {**kwargs, **injected(given, runtime)}
        called, attempt = self._callee, 1
        if kwargs:
            sync, aio = called.sync, called.aio
            called = Callee(
                None if sync is None else partial(sync, **kwargs), None if aio is None else partial(aio, **kwargs)
            )
        while True:
            deadline = None
            if self.timeout is not None:
                deadline = Deadline(self.timeout.run_timeout, self.timeout.idle_timeout)
                if deadline.idle is not None:
                    runtime.pulse = deadline.beat
            try:
                return cast("R", await Call(called, *args, timeout=deadline))
            except Exception as error:
                policy = next((each for each in self.retry if each.retries(error)), None)
                if policy is None or attempt >= policy.max_attempts:
                    raise
                if scope is not None:
                    if scope.calls is not None:
                        await scope.calls.failed(error)
                    scope.calls, scope.pause = None, None
                    scope.asked = scope.children = 0
                await Sleep(policy.wait_s(attempt, random.random()))
                attempt += 1
                runtime.execution_info.attempt = attempt


class _Held:
    """A result in a run that nothing saves, for another attempt at the node."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _scope_inside(outer: TaskScope, place: str, name: str) -> TaskScope:
    """The scope of a call: a task of its own, whose answers and records are kept by the node it is called in."""
    runtime = outer.runtime.at(replace(outer.runtime.execution_info, task_id=place, attempt=1), outer.runtime.budget)
    scope = TaskScope(place, outer.node, runtime, outer.place, outer.run, outer.can_pause, outer.in_process)
    scope.records, scope.inside, scope.prefix = outer.records, outer, f"{place}/"
    records, count = scope.records, 0
    while any(key.startswith("answer/") for key in records):
        key = f"answer/{interrupt_id(records, scope.place[1], place, count)}"
        if key not in records:
            break
        scope.answers.append(records[key])
        count += 1
    return scope


def _was_answered(scope: TaskScope) -> bool:
    """Whether anything in the node had an answer by now, or was asked of someone in this process."""
    while scope.inside is not None:
        scope = scope.inside
    return (
        scope.in_process is not None or bool(scope.answers) or any(key.startswith("answer/") for key in scope.records)
    )


@overload
def task(function: Callable[P, Coroutine[Any, Any, R]], /) -> TaskFunction[P, R]: ...
@overload
def task(function: Callable[P, R], /) -> TaskFunction[P, R]: ...
@overload
def task(
    *,
    name: str | None = None,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    cache_policy: CachePolicy | None = None,
    timeout: float | timedelta | TimeoutPolicy | None = None,
    check_arguments: bool = True,
) -> Callable[[Callable[P, Awaitable[R]] | Callable[P, R]], TaskFunction[P, R]]: ...
def task(function: Any = None, /, **settings: Any) -> Any:
    """Make a function a task: `@task`, or `@task(name=..., retry_policy=..., timeout=...)`.

    Calling it in an entrypoint, a node, a tool or another task begins the work, side by side with the caller, and gives
    a `TaskFuture`: `.result()` in plain code, `await` in `async` code, whatever the colour of the function. Its
    result is kept as soon as it is there. When the code around it runs again, after a pause, a failure or a crash, the
    same call gives that result and does not run. What it raises is raised where its result is asked for; it runs again
    when the code around it does. The node around it ends when all its tasks have ended, and fails with what failed in a
    task that nobody asked for its result.

    A task works on copies of its arguments, so far as they can be saved; others are passed as they are. Its result has
    to be something that can be saved, if the run is saved. It may ask (`interrupt`), and take `runtime`, `config`,
    `store` and `writer` by name, unless the caller passes them. Called outside a run it just runs.

    `timeout` bounds each attempt: seconds, a timedelta, or a `TimeoutPolicy`. `retry_policy` may be several: the first
    that takes an error decides. `cache_policy` gives again what the task gave for the same arguments, also in other
    runs, from the cache of the entrypoint or graph; its `key_func` is given the arguments. `check_arguments=False` lets
    a call that goes on from its record have other arguments than it had; otherwise that raises `CallOrderChanged`.
    """
    if function is not None:
        return TaskFunction(function, **settings)
    return lambda function: TaskFunction(function, **settings)
