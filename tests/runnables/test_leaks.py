"""What a stream or batch leaves behind: nothing. And what it holds while it runs: a bounded amount."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time

import pytest

from runwell.runnables import Runnable, RunnableGenerator, RunnableLambda, RunnableParallel, streamable

LIMIT = 2_000
"""More chunks than any buffer between a producer and its reader holds."""


def busy() -> set[int]:
    """Threads of ours at work. Idle workers wait for the next job, a few of them, and are no leak."""
    frames = sys._current_frames()
    found = set()
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        while frame is not None:
            if "threads.py" in frame.f_code.co_filename and "drivers" in frame.f_code.co_filename:
                if frame.f_code.co_name == "run" and frame.f_locals.get("job") is not None:
                    found.add(thread.ident)
                break
            frame = frame.f_back
    return found


def settled(condition, seconds=10.0):
    """Whether it becomes true in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        threading.Event().wait(0.005)
    return False


class Source:
    """An endless producer in one of four kinds, which counts what it made and says when it ended."""

    def __init__(self, kind):
        self.made = 0
        self.ended = threading.Event()
        self.part = getattr(self, kind)()

    def plain(self):
        def produce(chunks):
            try:
                while True:
                    self.made += 1
                    yield "x"
            finally:
                self.ended.set()

        return RunnableGenerator(produce)

    def asynchronous(self):
        async def produce(chunks):
            try:
                while True:
                    self.made += 1
                    yield "x"
                    await asyncio.sleep(0)
            finally:
                self.ended.set()

        return RunnableGenerator(produce)

    def parallel(self):
        return RunnableParallel(a=self.plain(), b=self.asynchronous()).pick("a")

    def timed(self):
        return self.plain().with_timeout(60)


KINDS = ["plain", "asynchronous", "parallel", "timed"]


def upper(chunks):
    for chunk in chunks:
        yield chunk.upper()


async def aupper(chunks):
    async for chunk in chunks:
        yield chunk.upper()


@pytest.fixture(params=KINDS)
def source(request):
    return Source(request.param)


def test_closing_early_ends_every_producer_and_frees_its_thread(source, driver):
    before = busy()
    chain = source.part | upper | aupper | streamable(str.strip)
    assert driver.stream(chain, "", take=3) == ["X", "X", "X"]
    assert source.ended.wait(10)
    assert settled(lambda: busy() <= before)


def test_dropping_a_stream_unread_or_half_read_ends_it(source):
    before = busy()
    chain = source.part | upper
    stream = chain.stream("")
    next(stream)
    del stream
    gc.collect()
    assert source.ended.wait(10)
    chain.stream("")  # never read
    gc.collect()
    assert settled(lambda: busy() <= before)


def test_cancelling_the_reader_cancels_the_producers_and_leaves_no_task(source):
    async def main():
        chain = source.part | aupper
        reading = asyncio.Event()

        async def read():
            async for _ in chain.astream(""):
                reading.set()
                await asyncio.sleep(0)

        task = asyncio.create_task(read())
        await asyncio.wait_for(reading.wait(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(200):
            if len(asyncio.all_tasks()) == 1 and source.ended.is_set():
                break
            await asyncio.sleep(0.01)
        return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    assert asyncio.run(main()) == []
    assert source.ended.wait(10)


def test_a_cancelled_reader_has_waited_for_the_clean_up_of_tasks():
    async def scene():
        reading, closed = asyncio.Event(), []

        async def letters(_):
            try:
                while True:
                    yield "a"
                    await asyncio.sleep(0)
            finally:
                await asyncio.sleep(0)
                closed.append("letters")

        async def read():
            async for _ in RunnableParallel(a=letters, b=letters).astream(1):
                reading.set()

        reader = asyncio.create_task(read())
        await reading.wait()
        reader.cancel()
        await asyncio.wait([reader])
        return closed, len(asyncio.all_tasks())

    assert asyncio.run(scene()) == (["letters", "letters"], 1)


def test_a_slow_reader_bounds_what_is_made(source):
    """However long it waits, the producer stops a bounded way ahead."""
    stream = (source.part | upper).stream("")
    next(stream)
    made = -1
    while made != source.made:
        made = source.made
        threading.Event().wait(0.1)
    assert made < LIMIT
    stream.close()
    assert source.ended.wait(10)


def test_a_slow_async_reader_too(source):
    async def main():
        stream = (source.part | aupper).astream("")
        await anext(stream)
        made = -1
        while made != source.made:
            made = source.made
            await asyncio.sleep(0.1)
        await stream.aclose()
        return made

    assert asyncio.run(main()) < LIMIT
    assert source.ended.wait(10)


def test_a_failing_consumer_ends_the_producers(source, driver):
    def fails(chunks):
        for number, _ in enumerate(chunks):
            if number == 2:
                raise ValueError("consumer")
            yield "y"

    with pytest.raises(ValueError, match="consumer"):
        driver.stream(source.part | fails, "")
    assert source.ended.wait(10)


def test_a_cancelled_batch_cancels_its_items():
    started, cancelled = [], []

    class Waits(Runnable):
        async def ainvoke(self, input, config=None, **kwargs):
            started.append(input)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(input)
                raise

    async def main():
        task = asyncio.create_task(Waits().abatch(list(range(10)), {"max_concurrency": 4}))
        while len(started) < 4:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return len(asyncio.all_tasks())

    assert asyncio.run(main()) == 1
    assert sorted(started) == sorted(cancelled) == [0, 1, 2, 3]


def test_closing_waits_for_a_read_under_way_in_another_thread(caplog):
    """A generator must not be closed while a worker thread is inside it."""
    inside, gate, ended = threading.Event(), threading.Event(), threading.Event()

    def slow(chunks):
        try:
            yield "x"
            inside.set()
            assert gate.wait(10)
            yield "y"
        finally:
            ended.set()

    stream = (RunnableGenerator(slow) | aupper).stream("")
    assert next(stream) == "X"
    assert inside.wait(10)
    threading.Timer(0.1, gate.set).start()
    stream.close()
    assert ended.is_set()
    assert "left behind" not in caplog.text


def test_a_busy_thread_is_seen():
    """Or the tests above would prove nothing."""
    before = busy()
    stream = Source("timed").part.stream("")
    next(stream)
    assert busy() - before
    stream.close()
    assert settled(lambda: busy() <= before)


def test_invoking_and_batching_leave_no_busy_thread(driver):
    before = busy()
    part = RunnableParallel(a=RunnableLambda(lambda x: x), b=RunnableLambda(lambda x: x))
    driver.batch(part, list(range(50)))
    driver.invoke(part, 1)
    assert settled(lambda: busy() <= before)
