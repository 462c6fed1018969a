"""A function as a step."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from types import CoroutineType
from typing import Any, get_type_hints

from runwell.drivers.closing import aclose
from runwell.drivers.colour import RETOLD, callee, told_apart
from runwell.drivers.other_colour import go_back_inside, leave_inside
from runwell.effects import Callee
from runwell.errors import InvalidInput
from runwell.observe.context import CURRENT
from runwell.observe.run import open_run
from runwell.runnables.addable import add_all
from runwell.runnables.config import RunnableConfig
from runwell.runnables.parameters import asked_for, generates, supplies, takes_nothing
from runwell.runnables.runnable import Input, Output, Runnable

__all__ = ["RunnableLambda", "get_lambda_source"]

_SPECIAL = (Runnable, CoroutineType)
"""What a function may give that is not yet its output."""


class RunnableLambda(Runnable[Input, Output]):
    """A function of one argument, plain or `async`, as a step.

    A parameter named `config` or `runtime` (after the first) is filled in. A function that gives a runnable has it
    called with the same input. A generator function is called with the whole input and its chunks are streamed; what
    should see the input chunk by chunk is a `RunnableGenerator`. A plain function called from `async` code runs in a
    worker thread, unless it is marked with `runwell.drivers.cheap`. `afunc` is its `async` form, if it has one.
    """

    def __init__(
        self, func: Callable[..., Any], afunc: Callable[..., Any] | None = None, name: str | None = None
    ) -> None:
        wanted: tuple[Any, ...] = (func,) if afunc is None else (func, afunc)
        for given in wanted:
            if not callable(given) and not callable(getattr(given, "invoke", None)):
                raise InvalidInput(
                    f"RunnableLambda wants a function, not {given!r:.200}.",
                    hint="Wrap a constant as `lambda _: value`.",
                )
            if takes_nothing(given):
                raise InvalidInput(
                    f"{given!r:.200} takes no argument; a step is called with its input.",
                    hint="Give it one, also if it makes nothing of it: `lambda _: value`.",
                )
        self.func = func
        self.afunc = afunc
        self.name = name or _name_of(func)
        self._asks = asked_for(func)
        self._aasks = asked_for(afunc) if afunc is not None else self._asks
        self._yields, self._ayields = generates(func)  # with the latter there is no other form of it
        self._generates = self._ayields if afunc is None else generates(afunc)[1]
        called: Callee[Any] = callee(func)
        self._callee = Callee(called.sync, afunc if afunc is not None else called.aio, cheap=called.cheap)
        self.never_blocks = called.cheap and not self._ayields and afunc is None
        self._direct = called.sync is not None and not (self._asks or self._yields or self._ayields)

    # -- one input

    def invoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        if config or CURRENT.get() is not None:
            run = open_run("chain", self, input, config)
            if run is not None:
                return run.call(self._call, input, kwargs)  # type: ignore[no-any-return]
        if self._direct and not kwargs and type(self) is RunnableLambda:
            try:
                output = self._callee.sync(input)  # type: ignore[misc]
            except RETOLD as error:
                raise told_apart(error)  # noqa: B904 - it has its cause
            if isinstance(output, _SPECIAL):
                return self._resolved(output, input)  # type: ignore[no-any-return]
            return output  # type: ignore[no-any-return]
        return self._call(input, kwargs)  # type: ignore[no-any-return]

    def _call(self, given: Any, kwargs: dict[str, Any]) -> Any:
        if self._yields or self._ayields:
            return add_all(list(self._chunks(given, kwargs)))
        if self._asks:
            kwargs = {**supplies(self._asks), **kwargs}
        from runwell.drivers.sync import call_sync

        inside = leave_inside()
        try:
            output = call_sync(self._callee, given, **kwargs)
        finally:
            go_back_inside(inside)
        return self._resolved(output, given)

    def _resolved(self, output: Any, given: Any) -> Any:
        """What the function gave, or what the runnable that it gave makes of the same input."""
        if isinstance(output, Runnable):
            other = self._other(output)
            try:
                return other.invoke(given)
            except RecursionError as error:
                raise self._in_circles(other) from error
        if type(output) is CoroutineType:
            from runwell.drivers.sync import call_sync

            return self._resolved(call_sync(Callee(lambda: output, None)), given)
        return output

    async def ainvoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        if config or CURRENT.get() is not None:
            run = open_run("chain", self, input, config)
            if run is not None:
                return await run.acall(self._acall, input, kwargs)
        return await self._acall(input, kwargs)  # type: ignore[no-any-return]

    async def _acall(self, given: Any, kwargs: dict[str, Any]) -> Any:
        if self._generates or (self._yields and self.afunc is None):
            return add_all([chunk async for chunk in self._achunks(given, kwargs)])
        aio = self._callee.aio
        asks = self._aasks if aio is not None else self._asks
        if asks:
            kwargs = {**supplies(asks), **kwargs}
        inside = leave_inside()
        try:
            if aio is not None:
                output = await aio(given, **kwargs)
            else:
                from runwell.drivers.aio import call_async

                output = await call_async(self._callee, given, **kwargs)
        except (*RETOLD, RuntimeError) as error:
            if aio is None:
                raise
            raise told_apart(error)  # noqa: B904 - it has its cause
        finally:
            go_back_inside(inside)
        if not isinstance(output, Runnable):
            return output
        other = self._other(output)
        try:
            return await other.ainvoke(given)
        except RecursionError as error:
            raise self._in_circles(other) from error

    def _other(self, output: Runnable[Any, Any]) -> Runnable[Any, Any]:
        if output is self:
            raise InvalidInput(
                f"{self!r} gives itself for the input, so it would never end.",
                hint="A function that gives a runnable has it called with the same input: give another one.",
            )
        return output

    def _in_circles(self, other: Runnable[Any, Any]) -> InvalidInput:
        return InvalidInput(
            f"{self.get_name()!r} gives {other.get_name()!r} for the input, and from there it goes in circles, or "
            "deeper than Python can.",
            hint="A function that gives a runnable has it called with the same input: one of them must give an output.",
        )

    # -- streams

    def stream(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Output]:
        if config or CURRENT.get() is not None:
            run = open_run("chain", self, input, config)
            if run is not None:
                return run.watch(lambda: self._chunks(input, kwargs), add_all)
        return self._chunks(input, kwargs)

    def _chunks(self, given: Any, kwargs: dict[str, Any]) -> Iterator[Any]:
        if self._ayields:
            from runwell.drivers.streams import iterate_sync

            kwargs = {**supplies(self._asks), **kwargs}
            with iterate_sync(self.func(given, **kwargs)) as chunks:
                yield from chunks
            return
        kwargs = {**supplies(self._asks), **kwargs} if self._asks else kwargs
        if self._yields:
            yield from self.func(given, **kwargs)
            return
        from runwell.drivers.sync import call_sync

        output = call_sync(self._callee, given, **kwargs)
        if isinstance(output, Runnable):
            other = self._other(output)
            try:
                yield from other.stream(given)
            except RecursionError as error:
                raise self._in_circles(other) from error
        else:
            yield self._resolved(output, given)

    def astream(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Output]:
        if config or CURRENT.get() is not None:
            run = open_run("chain", self, input, config)
            if run is not None:
                return run.awatch(lambda: self._achunks(input, kwargs), add_all)
        return self._achunks(input, kwargs)

    async def _achunks(self, given: Any, kwargs: dict[str, Any]) -> AsyncIterator[Any]:
        source: AsyncIterator[Any]
        other: Runnable[Any, Any] | None = None
        if self._generates:
            make: Any = self.afunc if self.afunc is not None else self.func
            source = make(given, **{**supplies(self._aasks), **kwargs})
        elif self._yields and self.afunc is None:
            from runwell.runnables.bridges import in_thread

            kwargs = {**supplies(self._asks), **kwargs}
            source = in_thread(lambda: self.func(given, **kwargs))
        else:
            asks = self._aasks if self._callee.aio is not None else self._asks
            from runwell.drivers.aio import call_async

            output = await call_async(self._callee, given, **{**supplies(asks), **kwargs})
            if not isinstance(output, Runnable):
                yield output
                return
            other = self._other(output)
            source = other.astream(given)
        try:
            async for chunk in source:
                yield chunk
        except RecursionError as error:
            if other is None:
                raise
            raise self._in_circles(other) from error
        finally:
            await aclose(source)

    # -- what it says of itself

    @property
    def InputType(self) -> Any:
        return _hint(self.func, "first")

    @property
    def OutputType(self) -> Any:
        return _hint(self.func, "return")

    def _streaming(self) -> tuple[bool, bool, str]:
        if self._yields or self._generates:
            return False, True, "it needs its whole input, and gives its output piece by piece"
        why = f"the function {_shown(self.func)} returns its output whole"
        code = getattr(self.func, "__code__", None)
        if code is not None and self.name is not None:
            why += f" ({code.co_filename.rsplit('/', 1)[-1]}:{code.co_firstlineno})"
        return False, False, why + "; mark it with @streamable, or write it as a generator of its input's chunks"

    def as_tool(self, args_schema: Any = None, **options: Any) -> Any:
        """As `Runnable.as_tool`; the function's docstring describes it unless `description` does."""
        if not options.get("description"):
            options["description"] = inspect.getdoc(self.func) if self.name is not None else None
        return super().as_tool(args_schema, **options)

    def __repr__(self) -> str:
        return f"RunnableLambda({_shown(self.func)})"


def _name_of(function: Any) -> str | None:
    inner = function.func if isinstance(function, partial) else function
    name = getattr(inner, "__name__", None)
    return name if name != "<lambda>" else None


def _shown(function: Any) -> str:
    """As it stands in the source: a function's name, or a lambda."""
    name = getattr(function, "__qualname__", None) or repr(function)
    if name.endswith("<lambda>"):
        code = function.__code__
        source = get_lambda_source(function)
        return (
            source if source is not None else f"<lambda at {code.co_filename.rsplit('/', 1)[-1]}:{code.co_firstlineno}>"
        )
    return name.rsplit("<locals>.", 1)[-1]


def get_lambda_source(function: Any) -> str | None:
    """The source of a lambda, in one line; None where it cannot be told, or is long."""
    import linecache

    code = function.__code__
    spots = [spot for spot in code.co_positions() if None not in spot and spot[:1] + spot[2:3] != spot[1:2] + spot[3:]]
    if not spots:  # compiled without positions
        return None
    first = min((line, column) for line, _, column, _ in spots)
    last = max((line, column) for _, line, _, column in spots)
    lines = [linecache.getline(code.co_filename, number).encode() for number in range(first[0], last[0] + 1)]
    if not all(lines):  # typed in, or the file is gone
        return None
    lines[-1] = lines[-1][: last[1]]
    lines[0] = lines[0][first[1] :]
    body = " ".join(b" ".join(lines).decode(errors="replace").split())
    taken = str(inspect.signature(function))[1:-1]
    shown = f"lambda {taken}: {body}"
    return shown if len(shown) <= 80 else None


def _hint(function: Any, which: str) -> Any:
    """A type hint of a function: read when somebody asks, never while composing."""
    target = function if inspect.isroutine(function) else getattr(type(function), "__call__", function)  # noqa: B004
    try:
        hints = get_type_hints(target)
        if which == "return":
            return hints.get("return", Any)
        names = list(inspect.signature(function).parameters)
        return hints.get(names[0], Any) if names else Any
    except (TypeError, ValueError, NameError):
        return Any
