"""Rules 3 and 4: colour changes hop, fan-out nests, nothing waits for a place in a pool."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from runwell.drivers import acompleted, afan_out, callee, completed, fan_out, run_async, run_sync
from runwell.drivers.threads import _idle
from runwell.effects import Call, CallHook, Emit, RunTasks
from runwell.errors import RunCancelled


def plain_hook(request, handler):
    return handler([*request, "p"])


async def async_hook(request, handler):
    await asyncio.sleep(0)
    return await handler([*request, "a"])


PLAIN, ASYNC = callee(plain_hook), callee(async_hook)


def onion(hooks, core):
    """An agent's step: hooks around hooks around a call."""

    async def layer(request, left):
        if not left:
            return await Call(core, request)
        return await CallHook(left[0], request, lambda changed: layer(changed, left[1:]))

    return lambda: layer([], hooks)


@pytest.mark.parametrize("core_colour", ["plain", "async"])
def test_two_hundred_agents_with_hooks_of_mixed_colours(driver, core_colour):
    """60 agents with two plain hooks used up anyio's 40 worker threads and stood still."""
    agents = 200
    meet = threading.Barrier(80) if core_colour == "plain" and driver.colour == "async" else None

    def core(request):
        if meet is not None and threading.current_thread() is not threading.main_thread():
            meet_once(meet)
        return "".join(request)

    async def acore(request):
        await asyncio.sleep(0)
        return "".join(request)

    orders = [[PLAIN, PLAIN], [PLAIN, ASYNC], [ASYNC, PLAIN], [ASYNC, ASYNC], [PLAIN, ASYNC, PLAIN, ASYNC]]

    async def flow():
        core_callee = callee(core if core_colour == "plain" else acore)
        return await RunTasks([onion(orders[n % len(orders)], core_callee) for n in range(agents)], limit=None)

    done = driver.run(flow())
    want = ["pp", "pa", "ap", "aa", "papa"]
    assert [outcome.unwrap() for outcome in done] == [want[n % len(want)] for n in range(agents)]


def meet_once(barrier):
    """The first 80 that come wait for each other: all of them must be under way at once."""
    if not barrier.broken and not getattr(barrier, "passed", False):
        barrier.wait(20)
        barrier.passed = True


def test_a_plain_hook_may_give_back_a_coroutine(driver):
    """`lambda request, handler: hook(request, handler)`: the handler is awaited, on a loop that it must not block."""

    def given(request, handler):
        return async_hook(request, handler)

    def eager(request, handler):
        early = handler([*request, "early"])  # called as a plain hook calls it

        async def rest():
            return early + await handler([*request, "late"])

        return rest()

    async def acore(request):
        await asyncio.sleep(0)
        return "".join(request)

    assert driver.run(onion([callee(given), callee(given), PLAIN], callee(acore))()) == "aap"
    assert driver.run(onion([callee(eager), callee(given)], callee(acore))()) == "earlyalatea"


def test_hooks_may_call_the_handler_never_once_or_several_times(driver):
    def never(request, handler):
        return "cached"

    async def twice(request, handler):
        first, second = await asyncio.gather(handler(request + 1), handler(request + 2))
        return [first, second]

    def again(request, handler):
        try:
            return handler(request)
        except ValueError:
            return handler(request + 1)

    async def inner(request):
        return await Call(callee(lambda: 10 // request if request != 5 else bad()))

    def bad():
        raise ValueError

    async def flow():
        return [
            await CallHook(callee(never), 1, inner),
            await CallHook(callee(twice), 1, inner),
            await CallHook(callee(again), 5, inner),
        ]

    assert driver.run(flow()) == ["cached", [5, 3], 1]


@pytest.mark.parametrize("leaf_colour", ["plain", "async"])
@pytest.mark.parametrize("limit", [None, 1, 3])
def test_fan_out_nests(driver, leaf_colour, limit):
    """8×8×8: with one shared pool the second level waits for places that the first holds."""

    async def acall(path):
        await asyncio.sleep(0)
        return path

    leaf = callee((lambda path: path) if leaf_colour == "plain" else acall)

    async def level(path):
        if len(path) == 3:
            return await Call(leaf, path)
        outcomes = await RunTasks([lambda n=n: level((*path, n)) for n in range(8)], limit)
        return [outcome.unwrap() for outcome in outcomes]

    got = driver.run(level(()))
    assert got == [[[(a, b, c) for c in range(8)] for b in range(8)] for a in range(8)]


def test_a_limit_is_kept(driver):
    running, most, lock = 0, 0, threading.Lock()

    def work():
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        together.wait(20)
        with lock:
            running -= 1

    together = threading.Barrier(3)

    async def task():
        return await Call(callee(work))

    async def flow():
        return await RunTasks([task] * 12, limit=3)

    assert len(driver.run(flow())) == 12
    assert most == 3  # the barrier lets nobody go before three are there


def test_no_tasks_are_no_outcomes(driver):
    async def flow():
        return await RunTasks([])

    assert driver.run(flow()) == []


def test_a_failure_stops_what_has_not_started(driver):
    ran = []

    def work(number):
        ran.append(number)
        if number == 1:
            raise ValueError(number)
        return number

    async def task(number):
        return await Call(callee(work), number)

    async def flow():
        return await RunTasks([lambda n=n: task(n) for n in range(5)], limit=1, stop_on_error=True)

    outcomes = driver.run(flow())
    assert ran == [0, 1]
    assert outcomes[0].value == 0
    assert type(outcomes[1].error) is ValueError
    assert [type(outcome.error) for outcome in outcomes[2:]] == [RunCancelled] * 3


def test_a_failure_cancels_async_work_under_way(driver):
    cleaned = []
    started = threading.Event()

    async def forever():
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    async def fail():
        while not started.is_set():
            await asyncio.sleep(0)
        raise ValueError

    async def task(function):
        return await Call(callee(function))

    async def flow():
        return await RunTasks([lambda: task(forever), lambda: task(fail)], stop_on_error=True)

    outcomes = driver.run(flow())
    assert [type(outcome.error) for outcome in outcomes] == [RunCancelled, ValueError]
    assert cleaned == [True]


def test_threads_run_out(monkeypatch):
    """A machine that gives no more threads still gets the work done."""
    from runwell.drivers import threads

    left = [2]
    spawn = threads.spawn

    def scarce(job):
        if not left[0]:
            raise RuntimeError("can't start new thread")
        left[0] -= 1
        spawn(job)

    monkeypatch.setattr(threads, "spawn", scarce)
    outcomes = fan_out([lambda n=n: n for n in range(50)])
    assert [outcome.value for outcome in outcomes] == list(range(50))


# -- as they end


class Bystander:
    """Ten async items: the first ends at once, the others wait; who was cancelled is counted."""

    def __init__(self):
        self.started = threading.Semaphore(0)
        self.cancelled = []
        self.finished = []

    async def item(self, number):
        if number == 0:
            return number
        self.started.release()
        try:
            await asyncio.Event().wait()
            self.finished.append(number)
        except asyncio.CancelledError:
            self.cancelled.append(number)
            raise

    def wait_started(self, count):
        for _ in range(count):
            assert self.started.acquire(timeout=20)


@pytest.mark.parametrize("how", ["close", "drop"])
def test_run_03_leaving_a_completed_batch_cancels_the_rest(how):
    work = Bystander()
    from runwell.drivers import call_sync

    batch = completed([lambda n=n: call_sync(callee(work.item), n) for n in range(10)])
    index, outcome = next(batch)
    assert (index, outcome.value) == (0, 0)
    work.wait_started(9)
    group = batch._job.group
    if how == "close":
        batch.close()
        assert list(batch) == []
    else:
        del batch
        gc.collect()
    group.settle(20)
    assert sorted(work.cancelled) == list(range(1, 10))
    assert work.finished == []


@pytest.mark.parametrize("how", ["close", "drop", "cancel"])
def test_run_03_leaving_an_async_completed_batch_cancels_the_rest(how):
    work = Bystander()

    async def main():
        batch = acompleted([lambda n=n: work.item(n) for n in range(10)])
        index, outcome = await anext(batch)
        assert (index, outcome.value) == (0, 0)
        pool = batch._pool
        if how == "close":
            await batch.aclose()
            assert [each async for each in batch] == []
        elif how == "cancel":
            reader = asyncio.ensure_future(anext(batch))
            await asyncio.sleep(0)
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
        else:
            running = list(pool.running)
            del batch
            gc.collect()
            await asyncio.wait(running)
        assert not pool.running

    asyncio.run(main())
    assert sorted(work.cancelled) == list(range(1, 10))
    assert work.finished == []


def test_completed_gives_everything_once():
    got = sorted((index, outcome.value) for index, outcome in completed([lambda n=n: n * n for n in range(20)], 4))
    assert got == [(n, n * n) for n in range(20)]

    async def main():
        async def square(n):
            return n * n

        return sorted([(i, o.value) async for i, o in acompleted([lambda n=n: square(n) for n in range(20)], 4)])

    assert asyncio.run(main()) == got
    assert list(completed([])) == []


def test_keyboard_interrupt_in_a_completed_batch_is_raised():
    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(completed([interrupt]))

    async def main():
        async def ainterrupt():
            raise KeyboardInterrupt

        async for _ in acompleted([ainterrupt]):
            pass

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())


# -- nothing is kept


def test_groups_let_go_of_what_has_ended():
    """A long run that fans out, streams and hops many times must not collect dead entries in its group."""
    from runwell.drivers.cancel import CANCEL, CancelGroup, run_context
    from runwell.drivers.streams import SyncStream

    group = CancelGroup()

    async def acall():
        return 1

    async def task():
        return await Call(callee(acall))

    async def flow():
        await RunTasks([task, task])
        await Call(callee(lambda: 1), timeout=20)
        return len(CANCEL.get()._members)

    def work():
        counts = [run_sync(flow()) for _ in range(20)]
        assert list(SyncStream(lambda pipe: pipe.put(1))) == [1]
        assert sorted(i for i, _ in completed([lambda: 1, lambda: 2])) == [0, 1]
        return counts

    run_context(group).run(work)
    for _ in range(1000):
        if not group._members:
            break
        threading.Event().wait(0.005)  # helper threads put down their tools
    assert not group._members


def test_worker_threads_are_used_again_and_are_daemons():
    fan_out([lambda: None] * 4)
    assert all(worker.daemon for worker in list(_idle))
    before = threading.active_count()
    for _ in range(100):
        fan_out([lambda: None] * 4)
    assert threading.active_count() <= before + 4


def test_emitting_from_tasks_and_hooks(driver):
    async def task(number):
        await Emit(number)

    async def flow():
        await RunTasks([lambda n=n: task(n) for n in range(5)])
        await CallHook(PLAIN, [], lambda _: task("plain"))
        await CallHook(ASYNC, [], lambda _: task("async"))

    items = []
    driver.run(flow(), items.append)
    assert sorted(items[:5]) == list(range(5))
    assert items[5:] == ["plain", "async"]


def test_afan_out_cancelled_cancels_all_and_waits():
    work = Bystander()

    async def main():
        for count in (1, 4):
            task = asyncio.ensure_future(afan_out([lambda: work.item(1)] * count))
            for _ in range(count):
                while not work.started.acquire(blocking=False):
                    await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
    assert len(work.cancelled) == 5


@pytest.mark.parametrize("tasks", [1, 3])
def test_a_run_that_is_cancelled_is_not_carried_on_by_outcomes(tasks):
    """RunTasks makes outcomes of whatever tasks raise; our own cancellation must not become one."""
    reached = []

    async def wait():
        await asyncio.Event().wait()

    async def task():
        return await Call(callee(wait))

    async def flow():
        await RunTasks([task] * tasks)
        reached.append("next step")

    async def main():
        run = asyncio.ensure_future(run_async(flow()))
        for _ in range(10):
            await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(main())
    assert reached == []
