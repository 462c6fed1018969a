"""A lone task under the async driver: user code runs in place, as a task of its own, and goes on in it if it waits."""

from __future__ import annotations

import asyncio
import gc
import io
from contextvars import ContextVar

import anyio
import pytest

from runwell.drivers import callee, run_async
from runwell.effects import Call, Outcome, RunTask, RunTasks

WORD: ContextVar[str] = ContextVar("word", default="none")


@pytest.fixture(params=["one", "of several"], autouse=True)
def asked(request, monkeypatch):
    """How engine code asks for it: by the effect of one task, or by that of several, of which there is one."""
    monkeypatch.setitem(ASKED, "as", request.param)


ASKED = {"as": ""}


def lone(function, *args):
    """A flow that runs user code as its only task, and gives the outcome."""

    async def call(_=None):
        return await Call(callee(function), *args)

    async def flow():
        if ASKED["as"] == "one":
            try:
                return Outcome(await RunTask(call))
            except (Exception, asyncio.CancelledError) as error:
                if asyncio.current_task().cancelling():  # that is the run's, and not the lone task's
                    raise
                return Outcome(error=error)
        (outcome,) = await RunTasks([call])
        return outcome

    return flow()


async def in_turn(*functions):
    """The outcomes of each, run as a lone task one after the other."""
    return [await lone(function) for function in functions]


def counted(main, monkeypatch):
    """What `main()` gives, and how many tasks were made meanwhile."""
    made = []

    class Task(asyncio.Task):
        def __init__(self, coroutine, **kwargs):
            made.append(coroutine)
            super().__init__(coroutine, **kwargs)

    async def counting():
        with monkeypatch.context() as patched:
            patched.setattr(asyncio, "Task", Task)
            patched.setattr(asyncio.tasks, "Task", Task)  # what a loop makes
            asyncio.get_running_loop().create_task(asyncio.sleep(0))
            assert len(made) == 1
            return await main(), len(made) - 1

    return asyncio.run(counting())


async def waits_nothing():
    return asyncio.current_task()


async def task_group_that_fails(wait):
    async def child():
        raise ValueError("child")

    async with asyncio.TaskGroup() as group:
        if wait:
            await asyncio.sleep(0)
        group.create_task(child())


def test_code_that_never_waits_takes_one_task_for_all(monkeypatch):
    tasks, made = counted(lambda: run_async(in_turn(*[waits_nothing] * 40)), monkeypatch)
    assert made == 1
    assert len({outcome.value for outcome in tasks}) == 1


def test_code_in_code_in_place_takes_one_more(monkeypatch):
    async def outer():
        return (await lone(waits_nothing)).unwrap()

    async def flow():
        for _ in range(30):
            (outcome,) = await RunTasks([outer])
            assert outcome.error is None
        return outcome.value

    task, made = counted(lambda: run_async(flow()), monkeypatch)
    assert isinstance(task, asyncio.Task)
    assert made == 2


def test_it_is_not_the_callers_task_and_stays_the_same_when_it_waits():
    async def node():
        before = asyncio.current_task()
        await asyncio.sleep(0)
        between = asyncio.current_task()
        await asyncio.sleep(0.001)
        return before, between, asyncio.current_task()

    async def main():
        outcome = await run_async(lone(node))
        return asyncio.current_task(), outcome.value

    here, seen = asyncio.run(main())
    assert len(set(seen)) == 1
    assert here not in seen


def test_each_that_waits_has_a_task_of_its_own():
    async def node():
        await asyncio.sleep(0)
        return asyncio.current_task()

    outcomes = asyncio.run(run_async(in_turn(node, node, waits_nothing, waits_nothing)))
    tasks = [outcome.value for outcome in outcomes]
    assert len(set(tasks[:3])) == 3
    assert tasks[2] is tasks[3]


@pytest.mark.parametrize("wait", [True, False], ids=["waited", "in-place"])
@pytest.mark.parametrize("open_", ["asyncio", "anyio"])
def test_a_timeout_opened_in_place_ends_what_waits_in_it(open_, wait):
    async def node():
        if wait:
            await asyncio.sleep(0)
        opened = asyncio.timeout(0.01) if open_ == "asyncio" else anyio.fail_after(0.01)
        if open_ == "asyncio":
            async with opened:
                await asyncio.sleep(60)
        else:
            with opened:
                await asyncio.sleep(60)

    async def main():
        first = await run_async(lone(node))
        here = asyncio.current_task()
        assert here is not None
        return first, here.cancelling(), await run_async(lone(waits_nothing))

    first, cancels, second = asyncio.run(main())
    assert isinstance(first.error, TimeoutError)
    assert cancels == 0
    assert second.error is None


@pytest.mark.parametrize("wait", [True, False], ids=["waited", "in-place"])
def test_a_task_group_that_fails_leaves_no_mark_on_what_follows(wait):
    async def limited():
        async with asyncio.timeout(0.01):
            await asyncio.sleep(60)

    async def main():
        outcomes = await run_async(in_turn(lambda: task_group_that_fails(wait), limited, waits_nothing))
        here = asyncio.current_task()
        assert here is not None
        return outcomes, here.cancelling()

    (failed, timed_out, fine), cancels = asyncio.run(main())
    assert isinstance(failed.error, ExceptionGroup)
    assert isinstance(timed_out.error, TimeoutError)
    assert fine.error is None
    assert cancels == 0


def test_a_cancel_scope_cancelled_before_its_first_wait_cancels_that_wait():
    async def node():
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anyio.sleep(60)
        return scope.cancelled_caught

    assert asyncio.run(run_async(lone(node))).value is True


def test_one_that_cancels_its_own_task_is_cancelled_where_it_waits_next():
    async def stubborn():
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        inner = asyncio.ensure_future(asyncio.sleep(60))
        try:
            await inner
        except asyncio.CancelledError:
            task.uncancel()
        return inner.cancelled()

    assert asyncio.run(run_async(lone(stubborn))).value is True


def test_one_that_cancels_its_own_task_and_waits_no_more_is_cancelled():
    async def node():
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "never seen"

    cancelled, after = asyncio.run(run_async(in_turn(node, waits_nothing)))
    assert isinstance(cancelled.error, asyncio.CancelledError)
    assert after.error is None


@pytest.mark.parametrize("wait", [True, False], ids=["waits", "in-place"])
def test_one_that_cancels_its_caller_cancels_the_run_once(wait):
    async def main():
        here = asyncio.current_task()
        assert here is not None
        ended = []

        async def node():
            here.cancel()
            if wait:
                try:
                    await asyncio.sleep(60)
                finally:
                    ended.append("cleaned up")
            return "never seen"

        with pytest.raises(asyncio.CancelledError):
            await run_async(in_turn(waits_nothing, node))
        here.uncancel()
        await asyncio.sleep(0)  # a second one would come here
        await asyncio.sleep(0)
        return ended

    assert asyncio.run(main()) == (["cleaned up"] if wait else [])


@pytest.mark.parametrize("swallows", [True, False])
def test_cancelling_the_run_cancels_what_waits_and_waits_for_its_clean_up(swallows):
    async def main():
        ended = []
        started = asyncio.Event()

        async def node():
            started.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                await asyncio.sleep(0)
                ended.append("cleaned up")
                if not swallows:
                    raise

        run = asyncio.ensure_future(run_async(in_turn(node, waits_nothing)))
        await started.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        return ended

    assert asyncio.run(main()) == ["cleaned up"]


def test_nothing_that_it_sets_in_the_context_is_seen_elsewhere():
    async def sets():
        WORD.set("set")
        await asyncio.sleep(0)
        return WORD.get()

    async def sets_in_place():
        WORD.set("set")
        return WORD.get()

    async def reads():
        return WORD.get()

    async def main():
        outcomes = await run_async(in_turn(sets_in_place, reads, sets, reads))
        return [outcome.value for outcome in outcomes], WORD.get()

    assert asyncio.run(main()) == (["set", "none", "set", "none"], "none")


def test_no_task_is_left_when_the_run_has_ended():
    async def main():
        outcomes = await run_async(in_turn(waits_nothing, waits_nothing))
        await asyncio.sleep(0)
        return outcomes, asyncio.all_tasks() - {asyncio.current_task()}

    outcomes, left = asyncio.run(main())
    assert [outcome.error for outcome in outcomes] == [None, None]
    assert left == set()


def test_a_loop_that_is_closed_right_after_the_run_destroys_no_waiting_task(caplog):
    async def nothing():
        return None

    loop = asyncio.new_event_loop()
    outcomes = loop.run_until_complete(run_async(in_turn(nothing, nothing)))
    loop.close()
    gc.collect()
    assert len(outcomes) == 2
    assert caplog.records == []


def test_ctrl_c_in_code_in_place_reaches_the_caller():
    async def node():
        raise KeyboardInterrupt

    async def main():
        try:
            await run_async(in_turn(waits_nothing, node))
        except KeyboardInterrupt:
            return "reached"
        return "lost"

    assert asyncio.run(main()) == "reached"


def test_an_error_in_place_is_an_outcome_with_the_users_own_frame():
    async def node():
        raise LookupError("nothing there")

    outcome: Outcome[None] = asyncio.run(run_async(lone(node)))
    assert isinstance(outcome.error, LookupError)
    trace = outcome.error.__traceback__
    names = []
    while trace is not None:
        names.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert names[-1] == "node"


def test_many_runs_side_by_side_keep_their_tasks_apart():
    async def node():
        before = asyncio.current_task()
        await asyncio.sleep(0.001)
        return before is asyncio.current_task()

    async def main():
        return await asyncio.gather(*(run_async(in_turn(waits_nothing, node, waits_nothing)) for _ in range(50)))

    for outcomes in asyncio.run(main()):
        assert outcomes[1].value is True
        assert [outcome.error for outcome in outcomes] == [None] * 3


def test_a_task_that_cancels_itself_and_waits_is_cancelled_whatever_ran_in_its_name_before():
    async def cancels_itself():
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    async def call(function):
        return await Call(callee(function))

    async def flow():
        errors = []
        for function in (waits_nothing, cancels_itself, waits_nothing):
            (outcome,) = await RunTasks([lambda function=function: call(function)])
            errors.append(outcome.error)
        return errors

    before, cancelled, after = asyncio.run(run_async(flow()))
    assert before is None
    assert isinstance(cancelled, asyncio.CancelledError)
    assert after is None


@pytest.mark.parametrize("debug", [False, True])
def test_a_task_that_waits_is_shown_with_the_code_that_waits_in_it(debug):
    async def my_node():
        await asyncio.sleep(3600)

    async def flow():
        await RunTasks([lambda: call(my_node)])

    async def call(function):
        return await Call(callee(function))

    async def main():
        run = asyncio.ensure_future(run_async(flow()))
        for _ in range(3):
            await asyncio.sleep(0)
        (task,) = asyncio.all_tasks() - {asyncio.current_task(), run}
        (frame,) = task.get_stack()
        said = io.StringIO()
        task.print_stack(file=said)
        run.cancel()
        await asyncio.wait([run])
        return frame.f_code.co_name, said.getvalue(), repr(task)

    name, said, shown = asyncio.run(main(), debug=debug)
    assert name == "my_node"
    assert "await asyncio.sleep(3600)" in said
    assert "my_node" in said
    assert "Host" not in said + shown
