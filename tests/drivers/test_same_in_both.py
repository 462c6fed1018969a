"""Random programs of effects give the same results, errors and emitted items under every driver."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runwell.drivers import callee, cheap, run_async, run_sync
from runwell.effects import Call, CallHook, Emit, RunTask, RunTasks, Sleep
from runwell.errors import ParentCommand, Signal
from runwell.testing.effects import EnumeratingDriver

ERRORS = {"value": ValueError, "key": KeyError, "timeout": TimeoutError, "stop": StopIteration}
SIGNALS = {"parent": ParentCommand}
RAISED = {**ERRORS, **SIGNALS}
COLOURS = ["plain", "async", "cheap", "given", "both"]


def called(colour: str, function: Any) -> Any:
    """A plain function as user code of that colour."""

    async def coloured(*args):
        await asyncio.sleep(0)
        return function(*args)

    if colour == "plain":
        return callee(lambda *args: function(*args))
    if colour == "cheap":
        return callee(cheap(lambda *args: function(*args)))
    if colour == "given":  # a plain function that gives back a coroutine
        return callee(lambda *args: coloured(*args))
    if colour == "both":

        class Runnable:
            invoke = staticmethod(function)
            ainvoke = staticmethod(coloured)

        return callee(Runnable())
    return callee(coloured)


def raising(name: str) -> Any:
    def fail(*_: Any) -> Any:
        raise RAISED[name](name)

    return fail


def hook(colour: str, times: int, then: str | None) -> Any:
    """A hook that calls its handler so many times, and gives all it got, or raises."""

    def plain(request, handler):
        got = [handler([request, turn]) for turn in range(times)]
        if then is not None:
            raising(then)()
        return got

    async def coloured(request, handler):
        got = [await handler([request, turn]) for turn in range(times)]
        if then is not None:
            raising(then)()
        return got

    given = lambda request, handler: coloured(request, handler)  # noqa: E731 - plain, and gives back a coroutine
    return callee({"plain": plain, "async": coloured, "given": given}[colour])


# A program is a tuple; `play` is what runs it.

leaves = st.one_of(
    st.tuples(st.just("call"), st.sampled_from(COLOURS), st.integers(0, 9)),
    st.tuples(st.just("fail"), st.sampled_from(COLOURS), st.sampled_from(sorted(RAISED))),
    st.tuples(st.just("raise"), st.sampled_from(["value", "parent"])),
    st.tuples(st.just("sleep")),
    st.tuples(st.just("emit"), st.integers(0, 9)),
)
HOOKS = ("plain", "async", "given")


def deeper(programs: Any) -> Any:
    several = st.lists(programs, min_size=0, max_size=4)
    return st.one_of(
        st.tuples(st.just("each"), several),
        st.tuples(st.just("tasks"), several, st.one_of(st.none(), st.integers(1, 3)), st.booleans()),
        st.tuples(
            st.just("hook"),
            st.sampled_from(HOOKS),
            st.integers(0, 2),
            st.one_of(st.none(), st.sampled_from(["value", "parent"])),
            programs,
        ),
        st.tuples(st.just("task"), programs),
        st.tuples(st.just("try"), programs),
        st.tuples(st.just("finally"), programs, st.integers(0, 9)),
        st.tuples(st.just("limited"), st.sampled_from(COLOURS), st.booleans()),
    )


programs = st.recursive(leaves, deeper, max_leaves=12)


async def play(program: Any, request: Any = None) -> Any:
    match program:
        case ("call", colour, number):
            return await Call(called(colour, lambda: [number, request]))
        case ("fail", colour, name):
            return await Call(called(colour, raising(name)))
        case ("limited", colour, fails):
            return await Call(
                called(colour, raising("timeout") if fails else lambda: "in time"), timeout=60, shield=fails
            )
        case ("raise", name):
            raise RAISED[name](name)
        case ("sleep",):
            return await Sleep(0)
        case ("emit", item):
            return await Emit(item)
        case ("each", several):
            return [await play(one, request) for one in several]
        case ("tasks", several, limit, stop):
            if not several_may_stop(several, stop):
                stop = False
            outcomes = await RunTasks(
                [lambda one=one: play(one, request) for one in several], limit, stop_on_error=stop
            )
            return [
                ["outcome", told(outcome.error) if outcome.error is not None else outcome.value] for outcome in outcomes
            ]
        case ("task", inner):
            return await RunTask(lambda given: play(inner, given), request)
        case ("hook", colour, times, then, inner):
            return await CallHook(hook(colour, times, then), request, lambda given: play(inner, given))
        case ("try", inner):
            try:
                return await play(inner, request)
            except (Exception, Signal) as error:
                return ["caught", told(error)]
        case ("finally", inner, item):
            try:
                return await play(inner, request)
            finally:
                await Emit(item)
    raise AssertionError(program)


def several_may_stop(several: list[Any], stop: bool) -> bool:
    """Which siblings of a failed task still start depends on who is quicker; only a single task is certain."""
    return stop and len(several) <= 1


def told(error: BaseException) -> list[Any]:
    return [type(error).__name__, str(error)]


def concurrent(program: Any) -> bool:
    """Whether emitted items may come in any order."""
    if not isinstance(program, (tuple, list)):
        return False
    if isinstance(program, tuple) and program[0] == "tasks" and len(program[1]) > 1 and program[2] != 1:
        return True
    return any(concurrent(part) for part in program)


def under(driver: str, program: Any) -> tuple[Any, list[Any]]:
    items: list[Any] = []

    async def main() -> Any:
        async def put(item: Any) -> None:
            items.append(item)

        return await run_async(play(program), put)

    try:
        if driver == "sync":
            result = run_sync(play(program), items.append)
        elif driver == "async":
            result = asyncio.run(main())
        else:
            enumerating = EnumeratingDriver()
            try:
                result = enumerating.run(play(program))
            finally:
                items = enumerating.emitted
    except (Exception, Signal) as error:
        result = ["raised", told(error)]
    return result, sorted(items) if concurrent(program) else items


@settings(max_examples=150, deadline=None)
@given(programs)
def test_a_program_does_the_same_under_every_driver(program):
    wanted = under("enumerating", program)
    assert under("sync", program) == wanted
    assert under("async", program) == wanted


@pytest.mark.parametrize("colour", HOOKS)
@pytest.mark.parametrize("inner_colour", HOOKS)
@pytest.mark.parametrize("call_colour", COLOURS)
def test_hooks_of_every_colour_around_hooks_of_every_colour(colour, inner_colour, call_colour):
    program = ("hook", colour, 2, None, ("hook", inner_colour, 2, None, ("call", call_colour, 1)))
    wanted = under("enumerating", program)
    assert wanted[0] == [[[1, [[None, outer], inner]] for inner in range(2)] for outer in range(2)]
    assert under("sync", program) == wanted
    assert under("async", program) == wanted
