"""Rule 7: a save that has begun is waited for, however often its run is cancelled; then the cancellation goes on."""

from __future__ import annotations

import asyncio
import threading

import anyio
import pytest

from runwell.drivers import AsyncStream, callee, run_async, run_sync
from runwell.effects import Call, RunTasks


class Save:
    """A save that goes on until it may end, in one of the forms that a saver may have."""

    def __init__(self, form, timeout):
        self.begun, self.may, self.log = threading.Event(), threading.Event(), []
        self.target = callee(self.asave if form == "async" else self.save)
        self.timeout = timeout

    def save(self):
        self.begun.set()
        assert self.may.wait(20)
        self.log.append("saved")

    async def asave(self):
        self.begun.set()
        while not self.may.is_set():
            await asyncio.sleep(0.001)
        self.log.append("saved")

    async def flow(self):
        await Call(self.target, shield=True, timeout=self.timeout)
        await Call(callee(self.log.append), "next step")

    async def waits(self):
        await asyncio.Event().wait()


async def alone(save):
    await run_async(save.flow())


async def in_a_task(save):
    async def flow():
        await RunTasks([save.flow])

    await run_async(flow())


async def beside_others(save):
    async def flow():
        await RunTasks([save.flow, lambda: other()])

    async def other():
        await Call(callee(save.waits))

    await run_async(flow())


async def in_a_plain_call(save):
    """A run inside another one, in the worker thread of a plain function of its."""

    async def flow():
        await Call(callee(lambda: run_sync(save.flow())))

    await run_async(flow())


async def streamed(save):
    async for _ in AsyncStream(lambda pipe: run_async(save.flow(), pipe.aput)):
        raise AssertionError


async def by_task(run, save):
    task = asyncio.ensure_future(run)
    await begun(save)
    for _ in range(5):
        task.cancel()
        await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.01, save.may.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def by_scope(run, save):
    with anyio.CancelScope() as scope:
        stopping = asyncio.ensure_future(stop(save, scope.cancel))
        await run
    assert scope.cancelled_caught
    await stopping


async def by_deadline(run, save):
    with anyio.CancelScope() as scope:
        stopping = asyncio.ensure_future(stop(save, lambda: setattr(scope, "deadline", 0)))
        await run
    assert scope.cancelled_caught
    await stopping


async def by_task_group(run, save):
    async def begin():
        await run

    async with anyio.create_task_group() as group:
        group.start_soon(begin)
        await stop(save, group.cancel_scope.cancel)


async def by_timeout(run, save):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as limit:
            stopping = asyncio.ensure_future(stop(save, lambda: limit.reschedule(0)))
            await run
    await stopping


async def by_timeout_in_scope(run, save):
    """Both at once: the inner one is not taken for the outer one, which ends it all."""
    with anyio.CancelScope() as scope:
        async with asyncio.timeout(None) as limit:

            def both():
                scope.cancel()
                limit.reschedule(0)

            stopping = asyncio.ensure_future(stop(save, both))
            await run
    assert scope.cancelled_caught
    await stopping


async def begun(save):
    while not save.begun.is_set():
        await asyncio.sleep(0.001)


async def stop(save, cancel):
    await begun(save)
    cancel()
    asyncio.get_running_loop().call_later(0.01, save.may.set)


@pytest.mark.parametrize("without_shields", [False, True], ids=["shielded", "no-anyio"])
@pytest.mark.parametrize("how", [by_task, by_scope, by_deadline, by_task_group, by_timeout, by_timeout_in_scope])
@pytest.mark.parametrize("shape", [alone, in_a_task, beside_others, in_a_plain_call, streamed])
@pytest.mark.parametrize(("form", "timeout"), [("plain", None), ("async", None), ("plain", 20), ("async", 20)])
def test_a_save_outlasts_every_further_cancellation(monkeypatch, form, timeout, shape, how, without_shields):
    """With anyio unseen its scopes cancel in every round, which must not hold up what is done."""
    if without_shields:
        monkeypatch.setattr("runwell.drivers.outlast.sys", type("sys", (), {"modules": {}}))

    async def main():
        save = Save(form, timeout)
        async with asyncio.timeout(15):
            await how(shape(save), save)
        assert save.log == ["saved"]
        assert asyncio.current_task().cancelling() == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
