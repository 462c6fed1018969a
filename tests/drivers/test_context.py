"""Rule 6: a run has a context of its own, each task a copy, and nothing leaks to or from its reader."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest

from runwell.drivers import (
    AsyncStream,
    InlineStream,
    SyncStream,
    acompleted,
    callee,
    cheap,
    completed,
    iterate_async,
    iterate_sync,
    run_async,
    run_sync,
)
from runwell.effects import Call, CallHook, Emit, RunTasks

VAR: ContextVar[str] = ContextVar("var", default="nobody")


@pytest.fixture(autouse=True)
def callers_value():
    token = VAR.set("caller")
    yield
    VAR.reset(token)


async def aget():
    return VAR.get()


FORMS = {
    "plain": callee(lambda: VAR.get()),
    "async": callee(aget),
    "cheap": callee(cheap(lambda: VAR.get())),
    "given": callee(lambda: aget()),
}


@pytest.mark.parametrize("form", FORMS)
def test_user_code_sees_the_callers_context_and_the_runs(driver, form):
    async def flow():
        before = await Call(FORMS[form])
        VAR.set("run")
        return (
            before,
            await Call(FORMS[form]),
            await Call(FORMS[form], timeout=20),
            await Call(FORMS[form], shield=True),
        )

    assert driver.run(flow()) == ("caller", "run", "run", "run")
    assert VAR.get() == "caller"


def test_nothing_stays_set_in_an_async_callers_own_task():
    async def flow():
        VAR.set("run")
        return await Call(FORMS["async"])

    async def main():
        return await run_async(flow()), VAR.get()

    assert asyncio.run(main()) == ("run", "caller")


@pytest.mark.parametrize("count", [1, 4])
def test_each_task_has_a_copy(driver, count):
    async def task(number):
        before = VAR.get()
        VAR.set(f"task {number}")
        await Call(callee(lambda: None))
        return before, await Call(FORMS["async"])

    async def flow():
        VAR.set("run")
        outcomes = await RunTasks([lambda n=n: task(n) for n in range(count)])
        return [outcome.unwrap() for outcome in outcomes], VAR.get()

    tasks, after = driver.run(flow())
    assert tasks == [("run", f"task {n}") for n in range(count)]
    assert after == "run"


@pytest.mark.parametrize("colour", ["plain", "async"])
def test_what_a_hook_sets_is_seen_inside(driver, colour):
    """A hook that opens a span around its handler: what runs inside belongs to the span."""

    def plain(request, handler):
        VAR.set("hook")
        return handler(request)

    async def coloured(request, handler):
        VAR.set("hook")
        return await handler(request)

    async def inner(request):
        return VAR.get(), await Call(FORMS["plain"]), await Call(FORMS["async"])

    async def flow():
        return await CallHook(callee(plain if colour == "plain" else coloured), None, inner)

    assert driver.run(flow()) == ("hook", "hook", "hook")


async def aset(value):
    VAR.set(value)


SETS = {
    "plain": callee(lambda value: VAR.set(value)),
    "async": callee(aset),
    "cheap": callee(cheap(lambda value: VAR.set(value))),
    "given": callee(lambda value: aset(value)),
}


@pytest.mark.parametrize("timeout", [None, 20])
@pytest.mark.parametrize("form", SETS)
def test_what_user_code_sets_is_seen_by_what_comes_later(driver, form, timeout):
    async def failing(value):
        VAR.set(value)
        raise ValueError("bad")

    async def flow():
        await Call(SETS[form], "first", timeout=timeout)
        seen = [VAR.get(), await Call(FORMS["plain"]), await Call(FORMS["async"])]
        for fails in (callee(failing), callee(lambda value: failing(value))):
            with pytest.raises(ValueError, match="bad"):
                await Call(fails, f"{len(seen)}", timeout=timeout)
            seen.append(VAR.get())
        return seen

    assert driver.run(flow()) == ["first"] * 3 + ["3", "4"]
    assert VAR.get() == "caller"


@pytest.mark.parametrize("form", SETS)
@pytest.mark.parametrize("colour", ["plain", "async"])
def test_what_is_set_inside_is_seen_by_the_hook_and_after_it(driver, colour, form):
    seen = []

    def plain(request, handler):
        handler(request)
        seen.append(VAR.get())

    async def coloured(request, handler):
        await handler(request)
        seen.append(VAR.get())

    async def flow():
        await CallHook(callee(plain if colour == "plain" else coloured), "inside", lambda r: call(SETS[form], r))
        seen.append(VAR.get())

    driver.run(flow())
    assert seen == ["inside", "inside"]


async def call(target, *args):
    return await Call(target, *args)


async def chatty():
    """A run that sets its variable and tells, chunk by chunk, what it sees."""
    VAR.set("run")
    for _ in range(3):
        await Emit(VAR.get())
    VAR.set("run, later")
    await Emit(await Call(FORMS["plain"]))


def plain_source():
    VAR.set("run")
    for _ in range(3):
        yield VAR.get()
    VAR.set("run, later")
    yield VAR.get()


async def async_source():
    for item in plain_source():
        yield item


SYNC_STREAMS = {
    "inline": lambda: InlineStream(lambda driver: chatty()),
    "thread": lambda: SyncStream(lambda pipe: run_sync(chatty(), pipe.put), limit=1),
    "async source": lambda: iterate_sync(async_source(), limit=1),
}
ASYNC_STREAMS = {
    "task": lambda: AsyncStream(lambda pipe: run_async(chatty(), pipe.aput), limit=1),
    "thread": lambda: AsyncStream(lambda pipe: run_sync(chatty(), pipe.put), thread=True, limit=1),
    "plain source": lambda: iterate_async(plain_source(), limit=1),
}
WANT = ["run", "run", "run", "run, later"]


@pytest.mark.parametrize("kind", SYNC_STREAMS)
def test_nothing_leaks_between_chunks(kind):
    stream, got = SYNC_STREAMS[kind](), []
    for item in stream:
        assert VAR.get() in {"caller", "reader"}
        got.append(item)
        VAR.set("reader")
    assert got == WANT
    assert VAR.get() == "reader"


@pytest.mark.parametrize("kind", ASYNC_STREAMS)
def test_nothing_leaks_between_chunks_of_async_streams(kind):
    async def main():
        stream, got = ASYNC_STREAMS[kind](), []
        async for item in stream:
            assert VAR.get() in {"caller", "reader"}
            got.append(item)
            VAR.set("reader")
        return got, VAR.get()

    assert asyncio.run(main()) == (WANT, "reader")


@pytest.mark.parametrize("kind", SYNC_STREAMS)
def test_clean_up_runs_in_the_runs_context(kind):
    stream = SYNC_STREAMS[kind]()
    next(stream)
    stream.close()
    assert VAR.get() == "caller"


def test_an_inline_streams_clean_up_sees_its_own_context():
    seen = []

    async def flow():
        VAR.set("run")
        try:
            await Emit(1)
            await Emit(2)
        finally:
            seen.append(VAR.get())

    stream = InlineStream(lambda driver: flow())
    next(stream)
    stream.close()
    assert seen == ["run"]


def test_items_of_a_completed_batch_have_copies():
    def work(number):
        before = VAR.get()
        VAR.set(str(number))
        return before

    assert {outcome.value for _, outcome in completed([lambda n=n: work(n) for n in range(8)], 2)} == {"caller"}

    async def main():
        async def awork(number):
            return work(number)

        return {outcome.value async for _, outcome in acompleted([lambda n=n: awork(n) for n in range(8)], 2)}

    assert asyncio.run(main()) == {"caller"}
    assert VAR.get() == "caller"
