"""Rule 3: the loop of ours on which plain programs run `async` functions."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import warnings

import pytest

from runwell.drivers import SyncStream, call_sync, callee, fan_out, iterate_sync, run_async, run_sync
from runwell.drivers.portal import portal
from runwell.effects import Call, CallHook, RunTasks, Sleep
from runwell.errors import RunningLoop


async def where():
    await asyncio.sleep(0)
    return threading.current_thread().name


async def call(target, *args):
    return await Call(target, *args)


def test_async_functions_of_a_plain_run_share_one_loop():
    async def flow():
        return [(await Call(callee(where))) for _ in range(3)]

    assert run_sync(flow()) == ["runwell-portal-0"] * 3


def test_a_plain_run_inside_an_async_tool_gets_the_next_portal():
    """The tool blocks the first portal's thread; waiting for that portal again would never end."""

    async def tool():
        mine = threading.current_thread().name
        return mine, run_sync(call(callee(where))), call_sync(callee(where))

    assert run_sync(call(callee(tool))) == ("runwell-portal-0", "runwell-portal-1", "runwell-portal-1")


def test_threads_that_a_blocked_portal_waits_for_use_the_next_one():
    """An async tool runs a plain graph: its helper threads must not ask the loop that waits for them."""

    async def tool():
        async def flow():
            outcomes = await RunTasks([lambda: call(callee(where))] * 4)
            timed = await Call(callee(lambda: call_sync(callee(where))), timeout=20)
            return [outcome.unwrap() for outcome in outcomes] + [timed]

        names = run_sync(flow())
        names += [outcome.unwrap() for outcome in fan_out([lambda: call_sync(callee(where))] * 3)]
        names += SyncStream(lambda pipe: pipe.put(call_sync(callee(where))))
        return names

    async def deeper():
        return await tool(), run_sync(call(callee(tool)))

    first, second = run_sync(call(callee(deeper)))
    assert set(first) == {"runwell-portal-1"}
    assert set(second) == {"runwell-portal-2"}


def test_one_caller_cannot_end_the_loop_others_share():
    async def quit_from_a_task():
        async def leave():
            raise SystemExit(3)

        task = asyncio.get_running_loop().create_task(leave())
        await asyncio.wait([task])
        return task.exception()

    async def stop():
        asyncio.get_running_loop().stop()

    async def leave():
        raise SystemExit(4)

    shared = portal()
    assert isinstance(call_sync(callee(quit_from_a_task)), SystemExit)
    call_sync(callee(stop))
    with pytest.raises(SystemExit):
        call_sync(callee(leave))
    assert call_sync(callee(where)) == "runwell-portal-0"
    assert portal() is shared


def test_a_plain_run_works_under_a_running_loop_and_says_so():
    async def main():
        async def flow():
            await Sleep(0)
            return await Call(callee(where))

        def invoke():
            return run_sync(flow())

        with pytest.warns(RuntimeWarning, match="run_async"):
            return run_sync(flow())

    assert asyncio.run(main()) == "runwell-portal-0"


def test_the_warning_names_the_call_to_use_instead(monkeypatch):
    namespace = {"__name__": "runwell.some.module", "run_sync": run_sync}
    exec("def invoke(flow):\n    return shell(flow)\ndef shell(flow):\n    return run_sync(flow)\n", namespace)

    async def flow():
        return 1

    async def main():
        return namespace["invoke"](flow())

    with pytest.warns(RuntimeWarning, match=r"`invoke` is called.*ainvoke") as seen:
        asyncio.run(main())
    assert seen[0].filename == __file__

    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    with warnings.catch_warnings(record=True) as quiet:
        warnings.simplefilter("always")
        assert asyncio.run(main()) == 1
    assert not quiet


def test_no_warning_where_no_loop_runs_or_the_loop_is_ours():
    async def flow():
        return 1

    async def tool():
        return run_sync(flow())

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert run_sync(flow()) == 1
        assert run_sync(call(callee(tool))) == 1
    assert not seen


def test_the_inner_part_of_an_async_hook_runs_in_the_callers_thread():
    async def hook(request, handler):
        return threading.current_thread().name, await handler(request)

    async def inner(request):
        return await Call(callee(lambda: threading.current_thread()))

    async def flow():
        return await CallHook(callee(hook), None, inner)

    assert run_sync(flow()) == ("runwell-portal-0", threading.current_thread())


def test_async_functions_met_by_a_plain_hook_run_on_the_users_loop():
    async def main():
        mine = asyncio.get_running_loop()

        async def loop_of():
            return asyncio.get_running_loop() is mine

        def hook(request, handler):
            return threading.current_thread() is threading.main_thread(), handler(request)

        async def flow():
            return await CallHook(callee(hook), None, lambda _: call(callee(loop_of)))

        return await run_async(flow())

    assert asyncio.run(main()) == (False, True)


def test_cheap_functions_run_in_place_and_others_hop():
    async def main():
        async def flow():
            here = await Call(callee(threading.get_ident, cheap=True))
            there = await Call(callee(threading.get_ident))
            return here, there

        return await run_async(flow())

    here, there = asyncio.run(main())
    assert here == threading.get_ident() != there


def test_a_cheap_function_that_blocks_the_loop_is_named(caplog, monkeypatch):
    from runwell.drivers import colour

    monkeypatch.setattr(colour, "SLOW_S", -1.0)

    def router():
        return 1

    assert asyncio.run(run_async(call(callee(router, cheap=True)))) == 1
    assert "router" in caplog.text
    assert "held the event loop" in caplog.text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_has_threads_and_portals_of_its_own(program):
    process = program(
        """
        import asyncio, os, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forks with threads
        from runwell.drivers import SyncStream, call_sync, callee, fan_out

        async def three():
            await asyncio.sleep(0)
            return 3

        def everything():
            outcomes = fan_out([lambda: call_sync(callee(three))] * 4)
            return sum(outcome.value for outcome in outcomes) + sum(SyncStream(lambda pipe: pipe.put(1)))

        assert everything() == 13
        child = os.fork()
        if not child:
            os._exit(everything())
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 13
        assert everything() == 13
        print("both")
        """
    )
    out, err = process.communicate(timeout=30)
    assert (out, process.returncode) == ("both\n", 0), err


def test_iterating_an_async_source_from_plain_code():
    closed = []

    async def numbers():
        try:
            for number in range(1000):
                yield number
        finally:
            closed.append(True)

    assert list(iterate_sync(numbers())) == list(range(1000))
    assert closed == [True]


def test_a_bridge_does_not_wait_on_the_loop_it_would_hold_up():
    from runwell.drivers.portal import LoopBridge

    async def work():
        return 1

    async def main():
        with pytest.raises(RunningLoop):
            LoopBridge(asyncio.get_running_loop()).call(work)

    asyncio.run(main())


@pytest.mark.parametrize("inner_colour", ["plain", "async"])
def test_a_plain_hook_may_give_back_a_coroutine_that_awaits_the_handler(driver, inner_colour):
    """`lambda request, handler: an_async_hook(request, handler)` is as good as the hook itself."""

    async def coloured(request, handler):
        return [await handler(request), await handler(request + 1)]

    async def afunction(number):
        await asyncio.sleep(0)
        return number * 10

    target = callee((lambda number: number * 10) if inner_colour == "plain" else afunction)

    async def inner(number):
        return await Call(target, number)

    async def flow():
        return await CallHook(callee(lambda request, handler: coloured(request, handler)), 1, inner)

    assert driver.run(flow()) == [10, 20]
