"""Rule 2: streams are objects that can be left at any place, in any combination of colours."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import weakref

import pytest

from runwell.drivers import (
    AsyncStream,
    InlineStream,
    Pipe,
    SyncStream,
    callee,
    drained,
    iterate_async,
    iterate_sync,
    run_async,
    run_sync,
)
from runwell.drivers.portal import portal
from runwell.effects import Call, Emit, RunTasks, Sleep
from runwell.errors import NodeError, RunCancelled, StreamClosed


def thread_source(pipe):
    for number in range(100_000):
        pipe.put(number)


async def task_source(pipe):
    for number in range(100_000):
        await pipe.aput(number)


class Combination:
    """A producer of one colour, a reader of the other or the same, driven step by step from plain code."""

    def __init__(self, reader, producer):
        self.reader, self.producer = reader, producer
        self.loop = asyncio.new_event_loop() if reader == "async" else None

    def open(self, produce, aproduce, **options):
        if self.reader == "sync":
            if self.producer == "thread":
                return SyncStream(produce, **options)
            return SyncStream(aproduce, on=portal().loop, **options)
        if self.producer == "thread":
            return AsyncStream(produce, thread=True, **options)
        return AsyncStream(aproduce, **options)

    def next(self, stream):
        if self.loop is None:
            return next(stream)

        async def one():
            return await anext(stream)

        return self.loop.run_until_complete(one())

    def close(self, stream):
        if self.loop is None:
            stream.close()
        else:
            self.loop.run_until_complete(stream.aclose())

    def rest(self, stream):
        if self.loop is None:
            return list(stream)

        async def everything():
            return [item async for item in stream]

        return self.loop.run_until_complete(everything())

    def wait(self, event):
        """Until the producer has done something, without reading."""
        if self.loop is None:
            assert event.wait(20)
        else:

            async def waiting():
                for _ in range(20_000):
                    if event.is_set():
                        return
                    await asyncio.sleep(0.001)
                raise AssertionError("never came")

            self.loop.run_until_complete(waiting())

    def finish(self):
        if self.loop is not None:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()


@pytest.fixture(params=["sync-thread", "sync-task", "async-thread", "async-task"])
def pair(request):
    combination = Combination(*request.param.split("-"))
    yield combination
    combination.finish()


def test_everything_arrives_in_order(pair):
    def produce(pipe):
        for number in range(2000):
            pipe.put(number)

    async def aproduce(pipe):
        for number in range(2000):
            await pipe.aput(number)

    assert pair.rest(pair.open(produce, aproduce, limit=7)) == list(range(2000))


def test_several_producers_of_one_pipe_lose_no_wake_up():
    """Threads that put at once must neither wake the reader twice nor leave it asleep."""

    def produce(pipe):
        together = threading.Barrier(8)

        def write():
            together.wait(20)
            for number in range(500):
                pipe.put(number)

        writers = [threading.Thread(target=write, daemon=True) for _ in range(8)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()

    for limit in (1, 3, 256):
        assert sorted(SyncStream(produce, limit=limit)) == sorted(list(range(500)) * 8)


@pytest.mark.parametrize("limit", [1, 4])
def test_a_slow_reader_holds_its_producer_back(pair, limit):
    made, full = 0, threading.Event()

    def count():
        nonlocal made
        made += 1
        if made == limit:
            full.set()

    def produce(pipe):
        for number in range(1000):
            count()
            pipe.put(number)

    async def aproduce(pipe):
        for number in range(1000):
            count()
            await pipe.aput(number)

    stream = pair.open(produce, aproduce, limit=limit)
    for number in range(100):
        assert pair.next(stream) == number
        assert made <= number + 1 + limit + 1
    pair.wait(full)
    pair.close(stream)
    assert made < 120


def test_async_code_that_puts_without_waiting_can_wait_until_drained():
    most = 0

    async def produce(pipe):
        nonlocal most
        for number in range(100):
            pipe.put(number)  # on a loop: does not block
            most = max(most, len(pipe.items))
            await drained()

    assert list(SyncStream(produce, on=portal().loop, limit=4)) == list(range(100))
    assert most <= 4
    asyncio.run(drained())  # not streamed: nothing to wait for


@pytest.mark.parametrize("way", ["close", "drop"])
def test_leaving_early_ends_the_producer(pair, way):
    ended = threading.Event()
    seen = []

    def produce(pipe):
        try:
            thread_source(pipe)
        except BaseException as error:
            seen.append(type(error))
            raise
        finally:
            ended.set()

    async def aproduce(pipe):
        try:
            await task_source(pipe)
        except BaseException as error:
            seen.append(type(error))
            raise
        finally:
            ended.set()

    stream = pair.open(produce, aproduce)
    assert pair.next(stream) == 0
    if way == "close":
        pair.close(stream)
        assert ended.is_set()
        assert pair.rest(stream) == []
    else:
        gone = weakref.ref(stream)
        del stream
        gc.collect()
        assert gone() is None
        pair.wait(ended)
    assert seen[0] in (StreamClosed, asyncio.CancelledError)


def test_break_does_not_cancel_the_readers_own_task():
    """A cancel scope left open across a yield would."""
    ended = []

    async def produce(pipe):
        try:
            await task_source(pipe)
        finally:
            ended.append(True)

    async def main():
        async for item in AsyncStream(produce):
            if item == 3:
                break
        async for item in iterate_async(range(1000)):
            if item == 3:
                break
        gc.collect()
        for _ in range(5):
            await asyncio.sleep(0)
        assert asyncio.current_task().cancelling() == 0
        return "went on"

    assert asyncio.run(main()) == "went on"
    assert ended == [True]


@pytest.mark.parametrize("source", ["generator", "async generator"])
def test_break_closes_the_source(source):
    closed = threading.Event()

    def numbers():
        try:
            yield from range(100_000)
        finally:
            closed.set()

    async def anumbers():
        try:
            for number in range(100_000):
                yield number
        finally:
            closed.set()

    if source == "generator":

        async def main():
            async with iterate_async(numbers()) as stream:
                async for item in stream:
                    if item == 3:
                        break

        asyncio.run(main())
    else:
        for item in iterate_sync(anumbers()):
            if item == 3:
                break
        gc.collect()
    assert closed.wait(20)


def test_closing_cancels_an_await_and_waits_for_its_clean_up(pair):
    """The node is silent: there is no next emit that could raise StreamClosed."""
    waiting, cleaned = threading.Event(), []

    async def node():
        try:
            waiting.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    async def flow():
        await Emit("first")
        await Call(callee(node))

    async def aproduce(pipe):
        await run_async(flow(), pipe.aput)

    stream = pair.open(lambda pipe: run_sync(flow(), pipe.put), aproduce, grace_s=20)
    assert pair.next(stream) == "first"
    pair.wait(waiting)
    pair.close(stream)
    assert cleaned == [True]


def test_closing_abandons_a_plain_call_and_says_so(pair, caplog, gate):
    async def flow():
        await Emit("first")
        await Call(callee(gate.hold))

    async def aproduce(pipe):
        await run_async(flow(), pipe.aput)

    stream = pair.open(lambda pipe: run_sync(flow(), pipe.put), aproduce, grace_s=0.01)
    assert pair.next(stream) == "first"
    pair.wait(gate.reached)
    with caplog.at_level(logging.WARNING, "runwell.drivers"):
        pair.close(stream)
    if pair.producer == "thread":
        assert "left behind" in caplog.text
    # a task awaits its worker thread, and leaves it there: the stream itself has ended


def test_a_program_exits_although_a_node_hangs(program):
    process = program(
        """
        import threading
        from runwell.drivers import SyncStream, fan_out

        def hang(pipe):
            pipe.put(1)
            threading.Event().wait()

        stream = SyncStream(hang, grace_s=0.01)
        print(next(stream))
        stream.close()
        left = SyncStream(hang)
        print(next(left))
        """
    )
    out, err = process.communicate(timeout=20)
    assert (out, process.returncode) == ("1\n1\n", 0), err
    assert "left behind" in err


def test_closing_ends_a_pause_of_the_engine_at_once():
    pausing = threading.Event()
    ended = []

    async def flow():
        try:
            await Emit(1)
            pausing.set()
            await Sleep(600)
        except BaseException as error:
            ended.append(type(error))
            raise

    stream = SyncStream(lambda pipe: run_sync(flow(), pipe.put), grace_s=20)
    assert next(stream) == 1
    assert pausing.wait(20)
    stream.close()
    assert ended == [RunCancelled]


def test_closing_ends_a_run_of_plain_calls_at_its_next_call(gate):
    calls = []

    async def flow():
        await Emit(1)
        await Call(callee(gate.hold))
        await Call(callee(calls.append), "saved", shield=True)
        await Call(callee(calls.append), "more work")

    stream = SyncStream(lambda pipe: run_sync(flow(), pipe.put), grace_s=0.01)
    assert next(stream) == 1
    gate.wait()
    stream.close()
    gate.opened.set()
    assert stream._producer.ended.wait(20)
    assert calls == ["saved"]


def test_closing_reaches_streams_that_the_run_reads():
    """The run waits for an async generator's next item; that generator is silent."""
    waiting, cleaned = threading.Event(), threading.Event()

    async def silent():
        try:
            yield 1
            waiting.set()
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    def produce(pipe):
        for item in iterate_sync(silent()):
            pipe.put(item)

    stream = SyncStream(produce, grace_s=20)
    assert next(stream) == 1
    assert waiting.wait(20)
    stream.close()
    assert stream._producer.ended.done
    assert cleaned.wait(20)


def test_a_cancelled_reader_cancels_its_producer():
    for thread in (False, True):
        waiting, cleaned = threading.Event(), threading.Event()

        async def node(waiting=waiting, cleaned=cleaned):
            try:
                waiting.set()
                await asyncio.Event().wait()
            finally:
                cleaned.set()

        async def flow(node=node):
            await Call(callee(node))

        async def main(thread=thread, flow=flow, waiting=waiting, cleaned=cleaned):
            async def aproduce(pipe):
                await run_async(flow())

            stream = AsyncStream((lambda pipe: run_sync(flow())) if thread else aproduce, thread=thread)
            reader = asyncio.ensure_future(anext(stream))
            while not waiting.is_set():
                await asyncio.sleep(0.001)
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
            assert await stream._producer.ended.await_(20)
            assert cleaned.is_set()

        asyncio.run(main())


def test_an_error_comes_after_the_items_before_it(pair):
    class Mine(Exception):
        pass

    def produce(pipe):
        pipe.put(1)
        raise Mine

    async def aproduce(pipe):
        await pipe.aput(1)
        raise Mine

    stream = pair.open(produce, aproduce)
    assert pair.next(stream) == 1
    with pytest.raises(Mine):
        pair.next(stream)
    assert pair.rest(stream) == []


@pytest.mark.parametrize("end", [StopIteration, StopAsyncIteration])
def test_an_error_that_looks_like_an_end_is_not_taken_for_one(pair, end):
    def produce(pipe):
        pipe.put(1)
        raise end("by accident")

    async def aproduce(pipe):
        await pipe.aput(1)
        raise StopAsyncIteration("by accident")

    stream = pair.open(produce, aproduce)
    assert pair.next(stream) == 1
    with pytest.raises(NodeError, match="by accident"):
        pair.next(stream)


def test_a_producer_that_is_cancelled_does_not_look_like_a_cancelled_reader(pair):
    def produce(pipe):
        raise asyncio.CancelledError

    async def aproduce(pipe):
        raise asyncio.CancelledError

    with pytest.raises(RunCancelled):
        pair.next(pair.open(produce, aproduce))


def test_a_failure_after_the_close_is_logged(pair, caplog):
    def produce(pipe):
        try:
            thread_source(pipe)
        finally:
            raise ValueError("clean-up failed")

    async def aproduce(pipe):
        try:
            await task_source(pipe)
        finally:
            raise ValueError("clean-up failed")

    stream = pair.open(produce, aproduce, grace_s=20)
    pair.next(stream)
    pair.close(stream)
    assert "clean-up failed" in caplog.text


def test_a_hundred_closed_streams_leave_nothing(pair):
    def once():
        stream = pair.open(thread_source, task_source)
        assert pair.next(stream) == 0
        pair.close(stream)
        return weakref.ref(stream._pipe)

    once()
    gc.collect()
    threads, finalizers = threading.active_count(), len(weakref.finalize._registry)
    pipes = [once() for _ in range(100)]
    if pair.loop is not None:
        pair.loop.run_until_complete(asyncio.sleep(0))
        assert not asyncio.all_tasks(pair.loop)
    gc.collect()
    assert threading.active_count() <= threads + 2
    assert len(weakref.finalize._registry) == finalizers
    for _ in range(1000):
        if sum(pipe() is not None for pipe in pipes) <= 2:  # an idle thread may be about to put down its last
            break
        threading.Event().wait(0.005)
        gc.collect()
    assert sum(pipe() is not None for pipe in pipes) <= 2


def test_a_reader_that_left_a_wake_up_and_found_an_item_does_not_sleep_for_ever():
    """The wake-up that it left must not be the one that the next item uses up."""

    def stale():
        return None

    pipe, got = Pipe(), []
    pipe.readers.append(stale)
    reader = threading.Thread(target=lambda: got.append(pipe.get()), daemon=True)
    reader.start()
    for _ in range(10_000):
        if pipe.readers and pipe.readers[-1] is not stale:
            break
        threading.Event().wait(0.001)
    pipe.push("item")
    reader.join(20)
    assert got == ["item"]


def test_a_closed_pipe_keeps_no_waiting_producer():
    pipe = Pipe(limit=1)
    full = threading.Event()
    outcome = []

    def write():
        try:
            pipe.push(0)
            full.set()
            pipe.put(1)
        except StreamClosed:
            outcome.append("closed")

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    assert full.wait(20)
    pipe.close()
    writer.join(20)
    assert outcome == ["closed"]
    assert not pipe.items
    pipe.end()
    with pytest.raises(StreamClosed):
        pipe.put(1)


def test_a_reader_whose_loop_has_closed_ends_its_producer(gate):
    ended = []

    def produce(pipe):
        pipe.put(1)
        gate.hold()
        try:
            pipe.put(2)
        except BaseException as error:
            ended.append(type(error))
            raise

    async def main():
        stream = AsyncStream(produce, thread=True)
        assert await anext(stream) == 1
        waiting = asyncio.ensure_future(stream._pipe.aget())
        await asyncio.sleep(0)
        waiting.cancel()
        return stream

    stream = asyncio.run(main())
    gate.opened.set()
    assert stream._producer.ended.wait(20)
    assert ended == [StreamClosed]


# -- inline streams


def inline(flow):
    return InlineStream(lambda driver: flow)


def test_an_inline_stream_runs_only_while_it_is_read():
    reached = []

    async def task(number):
        await Emit(("task", number))

    async def flow():
        for number in range(3):
            reached.append(number)
            await Emit(number)
        await RunTasks([lambda: task(1)])

    stream = inline(flow())
    assert reached == []
    assert next(stream) == 0
    assert reached == [0]
    assert list(stream) == [1, 2, ("task", 1)]
    assert list(stream) == []


def test_an_inline_stream_raises_what_the_run_raises():
    async def flow():
        await Emit(1)
        try:
            await Call(callee(lambda: 1 // 0))
        except ZeroDivisionError:
            await Emit("caught")
        raise KeyError("end")

    stream = inline(flow())
    assert [next(stream), next(stream)] == [1, "caught"]
    with pytest.raises(KeyError):
        next(stream)
    assert list(stream) == []


def test_closing_an_inline_stream_unwinds_the_run_with_effects_in_its_clean_up():
    log = []

    def fail():
        raise ValueError("a step of the clean-up fails")

    async def flow():
        try:
            await Emit(1)
            await Emit(2)
        except StreamClosed:
            log.append("closed")
            raise
        finally:
            try:
                await Call(callee(fail))
            except ValueError:
                log.append("caught")
            await Call(callee(log.append), "saved")

    with inline(flow()) as stream:
        assert next(stream) == 1
    assert log == ["closed", "caught", "saved"]
    assert list(stream) == []


def test_an_error_of_an_inline_streams_clean_up_reaches_who_closes_it():
    async def flow():
        try:
            await Emit(1)
            await Emit(2)
        finally:
            await Call(callee(lambda: 1 // 0))

    stream = inline(flow())
    next(stream)
    with pytest.raises(ZeroDivisionError):
        stream.close()


def test_dropping_an_inline_stream_cleans_up_elsewhere():
    """A finalizer runs anywhere, under any lock: the clean-up must not run inside it."""
    ended = threading.Event()
    thread = []

    def save():
        thread.append(threading.current_thread())
        ended.set()

    async def flow():
        try:
            await Emit(1)
            await Emit(2)
        finally:
            await Call(callee(save))

    stream = inline(flow())
    next(stream)
    del stream
    assert ended.wait(20)
    assert thread[0] is not threading.current_thread()

    unread = inline(flow())
    del unread  # never begun: no clean-up, and no warning about it


def test_two_threads_may_read_one_inline_stream():
    async def flow():
        for number in range(200):
            await Emit(number)

    stream, seen = inline(flow()), []

    def read():
        try:
            seen.extend(iter(lambda: next(stream), None))
        except StopIteration:
            return

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(20)
    assert sorted(seen) == list(range(200))
