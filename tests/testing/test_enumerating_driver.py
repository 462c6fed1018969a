"""The driver with which tests cut runs off: what it writes down, and that after a kill nothing happens any more."""

from __future__ import annotations

import asyncio

import pytest

from runwell.drivers import callee, run_sync
from runwell.effects import Call, CallHook, Emit, Now, RunTasks, Sleep, Then
from runwell.errors import EngineBug, RunCancelled
from runwell.testing.effects import EnumeratingDriver, Killed, kills


class World:
    """What a run changes outside of itself."""

    def __init__(self):
        self.done = []

    def plain(self, what):
        self.done.append(what)
        return what

    async def coloured(self, what):
        await asyncio.sleep(0)
        self.done.append(what)
        return what

    async def task(self, name):
        await Call(callee(self.plain), f"{name} begins")
        await Emit(name)
        return await Call(callee(self.coloured), f"{name} ends")

    async def flow(self):
        try:
            await Now()
            await Sleep(1000)
            outcomes = await RunTasks([lambda: self.task("one"), lambda: self.task("two")])
            await CallHook(callee(lambda request, handler: handler(request) + "!"), "three", self.task)
            return [outcome.value for outcome in outcomes]
        finally:
            await Call(callee(self.plain), "cleaned up")


ALL = [
    "Now",
    "Sleep",
    "RunTasks(2)",
    "Call(plain)",
    "Emit('one')",
    "Call(coloured)",
    "Call(plain)",
    "Emit('two')",
    "Call(coloured)",
    "CallHook",
    "Call(plain)",
    "Emit('three')",
    "Call(coloured)",
    "Call(plain)",
]


def test_it_writes_down_every_effect_in_order_and_does_not_wait():
    driver = EnumeratingDriver()
    world = World()
    assert driver.run(world.flow()) == ["one ends", "two ends"]
    assert driver.names() == ALL
    assert driver.emitted == ["one", "two", "three"]
    assert world.done[-1] == "cleaned up"


def test_before_every_effect_in_turn_it_kills_and_then_nothing_happens():
    worlds = []

    def start():
        worlds.append(World())
        return worlds[-1].flow()

    whole = World()
    EnumeratingDriver().run(whole.flow())
    cut = list(kills(start))
    assert [driver.kill_before for driver in cut] == list(range(len(ALL)))
    assert len(worlds) == len(ALL) + 1  # the last came to its end
    for driver, world in zip(cut, worlds, strict=False):
        assert driver.names() == ALL[: driver.kill_before]
        # what was done is what the run had asked for by then: no clean-up, no other task
        assert world.done == whole.done[: len(world.done)]
        assert len(world.done) == sum(name.startswith("Call(") for name in driver.names())


def test_user_code_cannot_survive_a_kill():
    def careless(request, handler):
        try:
            return handler(request)
        except Exception:
            return "swallowed"

    async def inner(request):
        return await Now()

    async def flow():
        return await CallHook(callee(careless), 1, inner)

    with pytest.raises(Killed, match="before effect 1"):
        EnumeratingDriver(1).run(flow())


def test_tasks_run_in_the_order_asked_and_outcomes_stand_in_the_order_given():
    world = World()

    async def flow():
        tasks = [lambda name=name: world.task(name) for name in "abc"]
        return [outcome.value for outcome in await RunTasks(tasks, 1)]

    driver = EnumeratingDriver(order=lambda many: [2, 0, 1])
    assert driver.run(flow()) == ["a ends", "b ends", "c ends"]
    assert driver.emitted == ["c", "a", "b"]


@pytest.mark.parametrize("stop", [False, True])
def test_failures_are_outcomes(stop):
    async def fail():
        raise ValueError("no")

    async def fine():
        return 1

    async def flow():
        return await RunTasks([fine, fail, fine], stop_on_error=stop)

    first, second, third = EnumeratingDriver().run(flow())
    assert first.value == 1
    assert type(second.error) is ValueError
    assert type(third.error) is RunCancelled if stop else third.value == 1


def test_it_agrees_with_the_sync_driver():
    one, two = World(), World()
    assert EnumeratingDriver().run(one.flow()) == run_sync(_without_sleep(two))
    assert sorted(one.done) == sorted(two.done)


async def _without_sleep(world):
    outcomes = await RunTasks([lambda: world.task("one"), lambda: world.task("two")])
    await world.task("three")
    await Call(callee(world.plain), "cleaned up")
    return [outcome.value for outcome in outcomes]


def test_awaiting_something_else_is_a_bug():
    async def flow():
        await asyncio.sleep(0)

    with pytest.raises(EngineBug, match="sleep"):
        EnumeratingDriver().run(flow())


def test_effects_without_a_flow_between_them_are_written_down_too():
    def inner(request):
        return Then(Call(callee(str), request), str.upper)

    async def flow():
        return await CallHook(callee(lambda request, handler: handler(request) + "!"), "one", inner)

    driver = EnumeratingDriver()
    assert driver.run(flow()) == "ONE!"
    assert driver.names() == ["CallHook", "Call(str)"]
    assert [killed.names() for killed in kills(flow)] == [[], ["CallHook"]]
