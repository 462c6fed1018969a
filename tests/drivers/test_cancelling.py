"""Rule 7: timeouts, cancellation, shields, Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time

import pytest

from runwell.drivers import callee, cheap, run_async, run_sync
from runwell.effects import Call, CallHook, RunTasks
from runwell.errors import NodeTimeoutError, RunCancelled


async def call(target, *args, **options):
    return await Call(target, *args, **options)


# -- timeouts


@pytest.mark.parametrize("shield", [False, True])
def test_async_work_past_its_timeout_is_cancelled(driver, shield):
    cleaned = []

    async def slow():
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    with pytest.raises(NodeTimeoutError) as caught:
        driver.run(call(callee(slow), timeout=0.01, shield=shield))
    assert cleaned == [True]
    assert caught.value.kind == "timeout"
    assert caught.value.limit == 0.01
    assert "slow" in str(caught.value)


@pytest.mark.parametrize("form", ["plain", "cheap"])
def test_plain_work_past_its_timeout_is_abandoned_and_logged(driver, form, gate, caplog):
    with pytest.raises(NodeTimeoutError):
        driver.run(call(callee(gate.hold, cheap=form == "cheap"), timeout=0.01))
    assert "abandoned" in caplog.text
    assert "hold" in caplog.text


def test_async_work_of_an_abandoned_plain_call_is_cancelled(driver):
    from runwell.drivers import call_sync

    cleaned = threading.Event()

    async def slow():
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    with pytest.raises(NodeTimeoutError):
        driver.run(call(callee(lambda: call_sync(callee(slow))), timeout=0.05))
    assert cleaned.wait(20)


def test_work_in_time_gives_its_result(driver):
    async def quick():
        return 1

    assert driver.run(call(callee(quick), timeout=20)) == 1
    assert driver.run(call(callee(lambda: 2), timeout=20)) == 2
    assert driver.run(call(callee(lambda: quick()), timeout=20)) == 1


@pytest.mark.parametrize("form", ["plain", "async", "cheap", "given"])
def test_the_users_own_timeout_error_is_not_taken_for_ours(driver, form):
    def plain():
        raise TimeoutError("mine")

    async def coloured():
        raise TimeoutError("mine")

    target = {
        "plain": callee(plain),
        "async": callee(coloured),
        "cheap": callee(cheap(plain)),
        "given": callee(lambda: coloured()),
    }[form]
    for timeout in (None, 20):
        with pytest.raises(TimeoutError, match="mine") as caught:
            driver.run(call(target, timeout=timeout))
        assert type(caught.value) is TimeoutError


def test_an_empty_queue_in_user_code_is_not_taken_for_a_timeout(driver):
    from queue import Empty, SimpleQueue

    with pytest.raises(Empty):
        driver.run(call(callee(SimpleQueue().get_nowait), timeout=20))


def test_a_timeout_does_not_hide_a_cancellation_from_outside():
    async def stubborn():
        try:
            await asyncio.Event().wait()
        finally:
            me.cancel()  # while our timeout is being carried out
            await asyncio.sleep(0)

    async def main():
        nonlocal me
        me = asyncio.ensure_future(run_async(call(callee(stubborn), timeout=0.01)))
        with pytest.raises(asyncio.CancelledError):
            await me

    me = None
    asyncio.run(main())


# -- shields


@pytest.mark.parametrize("form", ["plain", "async"])
@pytest.mark.parametrize("timeout", [None, 20])
def test_a_save_is_completed_although_the_run_is_cancelled(form, timeout, gate):
    saved, next_step = [], []

    def save():
        gate.hold()
        saved.append(True)

    async def asave():
        gate.reached.set()
        while not gate.opened.is_set():
            await asyncio.sleep(0.001)
        saved.append(True)

    async def flow():
        await Call(callee(save if form == "plain" else asave), shield=True, timeout=timeout)
        next_step.append(True)

    async def main():
        run = asyncio.ensure_future(run_async(flow()))
        while not gate.reached.is_set():
            await asyncio.sleep(0.001)
        run.cancel()
        await asyncio.sleep(0)
        gate.opened.set()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(main())
    assert saved == [True]
    assert next_step == []


@pytest.mark.parametrize("form", ["plain", "async"])
def test_a_save_under_the_sync_driver_is_completed_although_its_group_is_cancelled(form, gate):
    from runwell.drivers import SyncStream, call_sync

    saved = []

    async def asave():
        gate.reached.set()
        while not gate.opened.is_set():
            await asyncio.sleep(0.001)
        saved.append(True)

    save = (lambda: call_sync(callee(asave))) if form == "plain" else asave

    stream = SyncStream(lambda pipe: run_sync(call(callee(save), shield=True)), grace_s=0.01)
    gate.wait()
    stream.close()
    gate.opened.set()
    assert stream._producer.ended.wait(20)
    assert saved == [True]


# -- cancelling an async run


def test_cancelling_reaches_async_work_under_a_plain_hook():
    waiting, cleaned, after = threading.Event(), threading.Event(), []

    async def slow():
        try:
            waiting.set()
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    def hook(request, handler):
        try:
            return handler(request)
        except BaseException as error:
            after.append(type(error))
            try:
                handler(request)  # nothing new begins in a cancelled run
            except BaseException as again:
                after.append(type(again))
            raise

    async def flow():
        return await CallHook(callee(hook), None, lambda _: call(callee(slow)))

    async def main():
        run = asyncio.ensure_future(run_async(flow()))
        while not waiting.is_set():
            await asyncio.sleep(0.001)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        for _ in range(10_000):
            if len(after) == 2:
                break
            await asyncio.sleep(0.001)

    asyncio.run(main())
    assert cleaned.is_set()
    assert after == [RunCancelled, RunCancelled]


def test_cancelling_abandons_a_blocked_plain_call(gate):
    async def main():
        run = asyncio.ensure_future(run_async(call(callee(gate.hold))))
        while not gate.reached.is_set():
            await asyncio.sleep(0.001)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        return "at once"

    assert asyncio.run(main()) == "at once"  # `asyncio.to_thread` would hold up the end of the loop


def test_cancelling_waits_for_the_clean_up_of_all_tasks():
    cleaned = []

    async def slow():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    async def flow():
        await RunTasks([lambda: call(callee(slow))] * 5)

    async def main():
        run = asyncio.ensure_future(run_async(flow()))
        for _ in range(10):
            await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
    assert cleaned == [True] * 5


# -- Ctrl-C

PREAMBLE = """
import asyncio, sys, threading, time
from runwell.drivers import SyncStream, callee, completed, call_sync, fan_out, iterate_sync, run_sync
from runwell.effects import Call, CallHook, Emit, RunTasks

started = threading.Semaphore(0)

async def node():
    try:
        started.release()
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0.01)
        print("cleaned")

async def call(function, *args, **options):
    return await Call(callee(function), *args, **options)

def ready(count):
    for _ in range(count):
        started.acquire()
    stood, still = None, 0
    while still < 5:  # until the main thread waits
        time.sleep(0.01)
        frame = sys._current_frames()[threading.main_thread().ident]
        here = (frame.f_code, frame.f_lasti)
        still = still + 1 if here == stood else 0
        stood = here
    print("ready")

def main(waits, count=1):
    threading.Thread(target=ready, args=(count,), daemon=True).start()
    try:
        waits()
    except KeyboardInterrupt:
        print("interrupted")
"""

WAITS = {
    "a call": ("main(lambda: run_sync(call(node)))", 1),
    "a call with a timeout": ("main(lambda: run_sync(call(node, timeout=600)))", 1),
    "a plain call that waits": ("main(lambda: run_sync(call(lambda: call_sync(callee(node)), timeout=600)))", 1),
    "one task": ("main(lambda: run_sync(call_tasks(1)))", 1),
    "tasks": ("main(lambda: run_sync(call_tasks(4)), 4)", 4),
    "nested tasks": ("main(lambda: run_sync(call_nested()), 4)", 4),
    "a batch": ("main(lambda: list(completed([lambda: call_sync(callee(node))] * 3)), 3)", 3),
    "a fan-out": ("main(lambda: fan_out([lambda: call_sync(callee(node))] * 3), 3)", 3),
    "a stream": ("main(lambda: list(SyncStream(lambda pipe: run_sync(call(node), pipe.put))))", 1),
    "an async source": ("main(lambda: list(iterate_sync(source())))", 1),
    "a hook": ("main(lambda: run_sync(hooked()))", 1),
    "inside a hook": ("main(lambda: run_sync(hooked_inside()))", 2),
}

MORE = """
async def call_tasks(count):
    return await RunTasks([lambda: call(node)] * count)

async def call_nested():
    return await RunTasks([lambda: call_tasks(2)] * 2)

async def source():
    yield 1
    await node()

async def hook(request, handler):
    await node()

async def hooked():
    return await CallHook(callee(hook), None, lambda _: call(node))

async def patient(request, handler):
    try:
        return await handler(request)
    finally:
        print("cleaned")

async def hooked_inside():
    return await CallHook(callee(patient), None, lambda _: call(node))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("waits", WAITS)
def test_ctrl_c_lets_async_work_clean_up_and_reaches_the_caller(program, waits):
    line, cleaned = WAITS[waits]
    process = program(PREAMBLE + MORE + line)
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert time.monotonic() - start < 5
    assert process.returncode == 0, err
    assert out == "cleaned\n" * cleaned + "interrupted\n"
    assert err == ""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize(
    "waits",
    [
        "run_sync(call(blocked))",
        "run_sync(call(blocked, timeout=600))",
        "fan_out([blocked] * 3)",
        "list(SyncStream(lambda pipe: blocked()))",
        "list(completed([blocked]))",
    ],
)
def test_ctrl_c_does_not_wait_long_for_plain_work(program, waits):
    process = program(
        PREAMBLE
        + """
def blocked():
    started.release()
    threading.Event().wait()

"""
        + f"main(lambda: {waits})"
    )
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert time.monotonic() - start < 5
    assert (out, process.returncode) == ("interrupted\n", 0), err


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("colour", ["plain", "async"])
def test_ctrl_c_waits_for_a_save_in_another_thread(program, colour):
    process = program(
        PREAMBLE
        + f"""
interrupted = threading.Event()

def save():
    started.release()
    interrupted.wait(10)
    time.sleep(0.05)
    print("saved")

async def asave():
    started.release()
    while not interrupted.is_set():
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.05)
    print("saved")

def hold():
    started.release()
    try:
        threading.Event().wait()
    finally:
        interrupted.set()

async def task():
    if threading.current_thread() is threading.main_thread():
        await call(hold)
    else:
        await call({"save" if colour == "plain" else "asave"}, shield=True)

async def both():
    await RunTasks([task, task])

main(lambda: run_sync(both()), 2)
"""
    )
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (out, process.returncode) == ("saved\ninterrupted\n", 0), err


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_in_an_async_program(program):
    process = program(
        PREAMBLE
        + MORE
        + """
from runwell.drivers import run_async
main(lambda: asyncio.run(run_async(call_tasks(3))), 3)
"""
    )
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (out, process.returncode) == ("cleaned\n" * 3 + "interrupted\n", 0), err


@pytest.mark.parametrize("scheduled", [False, True])
@pytest.mark.parametrize("shield", [False, True])
def test_ctrl_c_in_the_moment_a_call_starts_leaves_no_task_behind(monkeypatch, scheduled, shield):
    from runwell.drivers.portal import portal

    bridge, ran, ended, finished = portal(), [], [], []
    original = bridge.loop.call_soon_threadsafe
    presses = [True]

    def pressed(callback, *args):
        press = presses and presses.pop()
        if not press or scheduled:
            original(callback, *args)
        if press:
            raise KeyboardInterrupt

    async def node():
        ran.append(True)
        try:
            await asyncio.sleep(0.01 if shield else 600)
            finished.append(True)
        finally:
            ended.append(True)

    monkeypatch.setattr(bridge.loop, "call_soon_threadsafe", pressed)
    with pytest.raises(KeyboardInterrupt):
        bridge.call(node, shield=shield)
    assert not bridge.tasks
    assert ran == ended
    assert finished == ([True] if scheduled and shield else [])


def test_ctrl_c_does_not_wait_for_ever_for_async_work_that_will_not_end(monkeypatch, caplog, gate):
    from runwell.drivers import portal as module

    bridge = module.Portal(depth=90)  # its loop is about to be blocked

    class Pressed(module.SimpleQueue):
        pressed = False

        def get(self, *args, **options):
            if not self.pressed:
                gate.wait()
                self.pressed = True
                raise KeyboardInterrupt
            return super().get(*args, **options)

    async def stubborn():
        gate.hold()

    monkeypatch.setattr(module, "SimpleQueue", Pressed)
    monkeypatch.setattr(module, "CLEAN_UP_S", 0.05)
    with pytest.raises(KeyboardInterrupt):
        bridge.call(stubborn)
    assert "left behind" in caplog.text


def test_the_engines_own_clean_up_sees_ctrl_c(driver):
    seen = []

    def press():
        raise KeyboardInterrupt

    async def flow():
        try:
            await Call(callee(press, cheap=True))
        except KeyboardInterrupt:
            await Call(callee(seen.append), "saved", shield=True)
            raise

    with pytest.raises(KeyboardInterrupt):
        driver.run(flow())
    assert seen == ["saved"]
