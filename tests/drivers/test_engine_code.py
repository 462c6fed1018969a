"""Rule 1 and 5: engine code awaits effects only; what user code raises arrives as it is, in both colours."""

from __future__ import annotations

import asyncio
import traceback

import pytest

from runwell.drivers import callee, cheap
from runwell.effects import Call, Callee, CallHook, Effect, Emit, Now, Outcome, RunTasks, Sleep, Then
from runwell.errors import EngineBug, GraphInterrupt, NodeError, Signal


class Halt(Signal):
    """A signal of a test's own."""


async def calls(target, *args, **options):
    return await Call(target, *args, **options)


# -- only effects


async def foreign_sleep():
    await Call(callee(lambda: 1, cheap=True))
    await asyncio.sleep(0)


class Foreign:
    def __await__(self):
        yield "something else"


async def foreign_object():
    await Foreign()


@pytest.mark.parametrize(
    ("flow", "named", "where"),
    [(foreign_sleep, "sleep", "foreign_sleep"), (foreign_object, "Foreign.__await__", "foreign_object")],
)
def test_engine_code_that_awaits_something_else_is_a_bug_that_names_it(driver, flow, named, where):
    with pytest.raises(EngineBug) as caught:
        driver.run(flow())
    assert named in str(caught.value)
    assert where in str(caught.value)
    assert "@flow" in str(caught.value)


def test_an_effect_nobody_knows_is_a_bug(driver):
    class Unknown(Effect[None]):
        __slots__ = ()

    async def flow():
        await Unknown()

    with pytest.raises(EngineBug, match="Unknown"):
        driver.run(flow())


def test_engine_code_may_catch_what_an_effect_raises_and_go_on(driver):
    def fail():
        raise KeyError("x")

    async def flow():
        try:
            await Call(callee(fail))
        except KeyError as error:
            seen = error
        return seen, await Call(callee(lambda: 5))

    seen, five = driver.run(flow())
    assert (seen.args, five) == (("x",), 5)


def test_time_and_sleep(driver):
    async def flow():
        start = await Now()
        await Sleep(0.01)
        return await Now() - start

    assert 0.009 < driver.run(flow()) < 5


# -- signals


def raising(error):
    def plain(*_):
        raise error

    async def coloured(*_):
        raise error

    return {
        "plain": callee(plain),
        "async": callee(coloured),
        "cheap": callee(cheap(plain)),
        "given": callee(lambda *args: coloured(*args)),  # a plain function that gives back a coroutine
    }


FORMS = ["plain", "async", "cheap", "given"]


def careless(kind):
    """User code that wraps everything in `except Exception`."""
    inner = raising(Halt("stop"))[kind]
    if kind == "async":

        async def user():
            try:
                return await inner.aio()
            except Exception:
                return "swallowed"
    else:

        def user():
            try:
                return inner.sync()
            except Exception:
                return "swallowed"

    return callee(user, cheap=kind == "cheap")


@pytest.mark.parametrize("kind", FORMS)
def test_a_signal_passes_user_code_and_every_boundary(driver, kind):
    async def flow():
        return await RunTasks([lambda: calls(careless(kind)), lambda: calls(careless(kind))])

    outcomes = driver.run(flow())
    assert [type(outcome.error) for outcome in outcomes] == [Halt, Halt]
    with pytest.raises(Halt):
        driver.run(calls(careless(kind)))


@pytest.mark.parametrize("hook_kind", ["plain", "async"])
def test_a_signal_passes_a_hook(driver, hook_kind):
    def plain(request, handler):
        try:
            return handler(request)
        except Exception:
            return "swallowed"

    async def coloured(request, handler):
        try:
            return await handler(request)
        except Exception:
            return "swallowed"

    async def flow():
        return await CallHook(
            callee(plain if hook_kind == "plain" else coloured), 1, lambda _: calls(careless("async"))
        )

    with pytest.raises(Halt):
        driver.run(flow())


@pytest.mark.parametrize("inner", ["plain", "async"])
@pytest.mark.parametrize("outer", ["plain", "async", "gives a coroutine"])
def test_hooks_inside_one_another_need_no_flow_between_them(driver, outer, inner):
    def plain(request, handler):
        return [*handler([*request, "plain"]), "plain"]

    async def coloured(request, handler):
        return [*await handler([*request, "async"]), "async"]

    hooks = {"plain": plain, "async": coloured, "gives a coroutine": lambda *given: coloured(*given)}

    def innermost(request):
        if "fail" in request:
            return Then(Call(callee(careless_plain)), list)
        return Then(Call(callee(lambda: request)), lambda made: [*made, "then"])

    def around(kind, within):
        return lambda request: Then(CallHook(callee(hooks[kind]), request, within), tuple)

    async def flow(request):
        return await around(outer, around(inner, innermost))(request)

    one, other = ("async" if kind != "plain" else kind for kind in (outer, inner))
    assert driver.run(flow([])) == (one, other, "then", other, one)
    with pytest.raises(LookupError, match="careless"):
        driver.run(flow(["fail"]))


def careless_plain():
    raise LookupError("careless")


def test_a_signal_among_failures_stays_itself(driver):
    async def flow():
        return await RunTasks(
            [
                lambda: calls(raising(ValueError("v"))["plain"]),
                lambda: calls(raising(GraphInterrupt())["async"]),
                lambda: calls(callee(lambda: "fine")),
            ]
        )

    failed, interrupted, fine = driver.run(flow())
    assert type(failed.error) is ValueError
    assert type(interrupted.error) is GraphInterrupt
    assert fine.value == "fine"


# -- StopIteration


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("in_task", [False, True])
def test_stop_iteration_of_user_code_becomes_a_node_error(driver, kind, in_task):
    target = raising(StopIteration("item"))[kind]

    async def flow():
        if not in_task:
            return await Call(target)
        first, _ = await RunTasks([lambda: calls(target), lambda: calls(target)])
        return first.unwrap()

    with pytest.raises(NodeError, match=r"StopIteration\('item'\)"):
        driver.run(flow())


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("timeout", [None, 10.0])
def test_stop_iteration_with_a_timeout_or_shield(driver, kind, timeout):
    target = raising(StopIteration())[kind]
    with pytest.raises(NodeError):
        driver.run(calls(target, timeout=timeout, shield=True))


@pytest.mark.parametrize("kind", ["plain", "async", "given"])
def test_stop_iteration_of_a_hook_becomes_a_node_error(driver, kind):
    async def nothing():
        return None

    async def flow():
        return await CallHook(raising(StopIteration(3))[kind], None, lambda _: nothing())

    with pytest.raises(NodeError, match="StopIteration"):
        driver.run(flow())


def test_stop_iteration_in_the_direct_bridges():
    from runwell.drivers import acompleted, afan_out, call_async, call_sync, completed, fan_out

    for kind in FORMS:
        target = raising(StopIteration(kind))[kind]
        with pytest.raises(NodeError, match=kind):
            call_sync(target)
        with pytest.raises(NodeError, match=kind):
            asyncio.run(call_async(target))

    def fail():
        raise StopIteration

    async def afail():
        raise StopIteration

    assert type(fan_out([fail, fail])[0].error) is NodeError
    assert type(next(completed([fail]))[1].error) is NodeError

    async def main():
        outcomes = await afan_out([afail])
        _, outcome = await anext(acompleted([afail]))
        return outcomes[0], outcome

    assert [type(outcome.error) for outcome in asyncio.run(main())] == [NodeError, NodeError]


def test_a_runtime_error_of_the_user_stays_one(driver):
    def user():
        raise RuntimeError("mine") from StopIteration()

    async def auser():
        raise RuntimeError("mine") from StopIteration()

    for function in (user, auser):
        with pytest.raises(RuntimeError, match="mine"):
            driver.run(calls(callee(function)))


# -- errors arrive short and whole


def test_an_error_keeps_its_type_and_its_traceback_is_short(driver):
    class Mine(Exception):
        def __init__(self, code):
            super().__init__(code)
            self.code = code

    def boom():
        raise Mine(7)

    async def aboom():
        raise Mine(7)

    for function, most in ((boom, {"sync": 7, "async": 11}), (aboom, {"sync": 9, "async": 8})):
        with pytest.raises(Mine) as caught:
            driver.run(calls(callee(function)))
        assert caught.value.code == 7
        frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        ours = frames[frames.index("run_sync" if driver.colour == "sync" else "run_async") :]
        assert ours[-1] in {"boom", "aboom"}
        assert len(ours) <= most[driver.colour], ours


def test_an_outcome_reports_itself():
    assert repr(Outcome(3)) == "Outcome(3)"
    assert "ValueError" in repr(Outcome(error=ValueError("no")))
    assert Outcome(3).unwrap() == 3


def test_keyboard_interrupt_of_a_task_is_about_the_program(driver):
    async def flow():
        await RunTasks([lambda: calls(raising(KeyboardInterrupt())["async"]), lambda: calls(callee(lambda: 1))])

    with pytest.raises(KeyboardInterrupt):
        driver.run(flow())


def test_items_emitted_arrive_in_order(driver):
    async def flow():
        for number in range(3):
            await Emit(number)

    items = []
    driver.run(flow(), items.append)
    assert items == [0, 1, 2]
    driver.run(flow())  # nobody listens


def test_callee_tells_colours_apart():
    from functools import partial

    from runwell.drivers import is_async

    class Plain:
        def __call__(self):
            return 1

    class Coloured:
        async def __call__(self):
            return 1

    async def coloured():
        return 1

    class Runnable:
        def invoke(self):
            return 1

        async def ainvoke(self):
            return 1

    assert is_async(coloured)
    assert is_async(partial(coloured))
    assert is_async(Coloured())
    assert not is_async(Plain())
    assert not is_async(Coloured)
    both = callee(Runnable())
    assert both.sync is not None
    assert both.aio is not None
    assert callee(both) is both
    assert callee(partial(cheap(lambda: 1))).cheap
    assert isinstance(callee(Plain()), Callee)
