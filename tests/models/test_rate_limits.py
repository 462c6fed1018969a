"""Calls go no faster than a limiter allows: in order, in either colour, in one process or several."""

from __future__ import annotations

import asyncio
import copy
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runwell.errors import InvalidConfig, InvalidInput, ModelOverloaded, StorageError
from runwell.messages import AIMessage
from runwell.models import BaseRateLimiter, InMemoryCache, InMemoryRateLimiter, RedisRateLimiter, RetryPolicy
from runwell.models.rate_limits import Bucket
from runwell.testing import FakeChatModel, RedisServer


@pytest.fixture(params=["memory", "redis"])
def make(request: pytest.FixtureRequest) -> Iterator[Any]:
    made: list[Any] = []
    if request.param == "memory":
        yield InMemoryRateLimiter
        return
    url = request.getfixturevalue("redis_server").new_database()

    def limiter(**numbers: Any) -> RedisRateLimiter:
        made.append(RedisRateLimiter(url, **numbers))
        return made[-1]

    yield limiter
    for each in made:
        each.close()


class Takes:
    """Takes turns in one colour."""

    def __init__(self, driver: Any) -> None:
        self.sync = driver.colour == "sync"

    def turn(self, limiter: Any, **asked: Any) -> bool:
        return limiter.acquire(**asked) if self.sync else asyncio.run(limiter.aacquire(**asked))


@pytest.fixture
def takes(driver: Any) -> Takes:
    return Takes(driver)


def test_turns_come_at_the_rate_after_those_saved_up(make: Any, takes: Takes) -> None:
    limiter = make(requests_per_second=50, max_bucket_size=3)
    start = time.monotonic()
    for _ in range(8):
        assert takes.turn(limiter)
    assert 5 / 50 <= time.monotonic() - start < 5


def test_without_waiting_it_says_whether_there_is_a_turn(make: Any, takes: Takes) -> None:
    limiter = make(requests_per_second=0.01, max_bucket_size=2)
    assert [takes.turn(limiter, blocking=False) for _ in range(4)] == [True, True, False, False]


def test_a_model_takes_a_turn_for_each_attempt_and_none_for_a_cached_answer(make: Any, driver: Any) -> None:
    class Quick(FakeChatModel):
        retry_policy = RetryPolicy(first_s=0.001)

    limiter = make(requests_per_second=0.01, max_bucket_size=3)
    model = Quick([ModelOverloaded("busy"), "yes", "no"], max_retries=1, rate_limiter=limiter, cache=InMemoryCache())
    assert [driver.invoke(model, text).text for text in ("a", "a", "b")] == ["yes", "yes", "no"]
    assert not limiter.acquire(blocking=False)


def test_a_stream_takes_one_turn(make: Any, driver: Any) -> None:
    limiter = make(requests_per_second=0.01, max_bucket_size=2)
    model = FakeChatModel(["one two three"], rate_limiter=limiter)
    assert len(driver.stream(model, "a")) > 1
    assert limiter.acquire(blocking=False)
    assert not limiter.acquire(blocking=False)


def test_those_who_wait_are_let_through_in_order(make: Any) -> None:
    limiter = make(requests_per_second=200, max_bucket_size=1)
    came: list[int] = []

    async def one(number: int) -> None:
        await limiter.aacquire()
        came.append(number)

    async def all_of_them() -> None:
        await asyncio.gather(*map(one, range(20)))

    asyncio.run(all_of_them())
    assert came == list(range(20))


def test_a_waiter_that_is_cancelled_costs_nobody_a_turn_and_keeps_the_order() -> None:
    limiter = InMemoryRateLimiter(requests_per_second=20, max_bucket_size=1)
    came: list[int] = []

    async def one(number: int) -> None:
        await limiter.aacquire()
        came.append(number)

    async def run() -> float:
        await limiter.aacquire()
        tasks = [asyncio.create_task(one(number)) for number in range(43)]
        await asyncio.sleep(0)
        for task in tasks[:40]:
            task.cancel()
        start = time.monotonic()
        await asyncio.gather(*tasks, return_exceptions=True)
        return time.monotonic() - start

    assert asyncio.run(run()) < 1.0  # 43 turns would take 2.1 s
    assert came == [40, 41, 42]


def test_a_turn_given_to_one_who_is_gone_is_given_back() -> None:
    limiter = InMemoryRateLimiter(requests_per_second=0.01, max_bucket_size=1)
    limiter._thread = threading.current_thread()  # this test gives the turns

    async def run() -> None:
        task = asyncio.create_task(limiter.aacquire())
        await asyncio.sleep(0)
        with limiter._lock:  # its turn comes, and it is cancelled before it wakes
            (waiter,) = limiter._line.values()
            limiter._take(1, 0)
            limiter._hand(None)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert waiter.error is None

    limiter._requests.level = 0.0
    asyncio.run(run())
    assert limiter._requests.level == pytest.approx(0.0, abs=0.1)


def test_a_blocked_event_loop_holds_nobody_up() -> None:
    """A plain call waits on the very loop whose task stands before it in the line."""
    limiter = InMemoryRateLimiter(requests_per_second=100, max_bucket_size=1)

    async def run() -> bool:
        await limiter.aacquire()
        before = asyncio.create_task(limiter.aacquire())
        await asyncio.sleep(0)
        assert limiter.acquire()  # blocks the loop
        return await before

    assert asyncio.run(asyncio.wait_for(run(), 20))


def test_a_loop_that_ended_with_one_waiting_holds_nobody_up() -> None:
    limiter = InMemoryRateLimiter(requests_per_second=100, max_bucket_size=1)
    loop = asyncio.new_event_loop()
    limiter.acquire()
    left = loop.create_task(limiter.aacquire())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert limiter.acquire()
    assert not left.done()
    left.get_coro().close()  # type: ignore[union-attr]


def test_both_colours_and_many_threads_share_one_limit(make: Any) -> None:
    limiter = make(requests_per_second=200, max_bucket_size=1)
    times: list[float] = []

    def plain() -> None:
        for _ in range(5):
            limiter.acquire()
            times.append(time.monotonic())

    async def asynchronous() -> None:
        for _ in range(5):
            await limiter.aacquire()
            times.append(time.monotonic())

    threads = [threading.Thread(target=plain) for _ in range(3)]
    threads.append(threading.Thread(target=lambda: asyncio.run(asynchronous())))
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(times) == 20
    assert max(times) - start >= 19 / 200


def test_tokens_per_minute_hold_back_what_is_read_and_what_was_written(make: Any, driver: Any) -> None:
    limiter = make(requests_per_second=1000, max_bucket_size=1000, tokens_per_minute=6000)
    usage = {"input_tokens": 10, "output_tokens": 6010, "total_tokens": 6020}
    model = FakeChatModel([AIMessage("long", usage_metadata=usage)], rate_limiter=limiter, cycle=True)
    driver.invoke(model, "hello")
    assert not limiter.acquire(blocking=False, tokens=1)  # 20 tokens are owed
    start = time.monotonic()
    driver.stream(model, "hello")
    assert 20 / 100 <= time.monotonic() - start < 10
    assert not limiter.acquire(blocking=False, tokens=1)


def test_a_call_larger_than_the_minute_waits_for_a_full_bucket_and_no_longer(make: Any) -> None:
    limiter = make(requests_per_second=1000, tokens_per_minute=600)
    assert limiter.acquire(blocking=False, tokens=5000)
    assert not limiter.acquire(blocking=False, tokens=1)


@pytest.mark.parametrize(
    "numbers",
    [
        {"requests_per_second": 0},
        {"requests_per_second": -1},
        {"requests_per_second": float("nan")},
        {"requests_per_second": float("inf")},
        {"requests_per_second": "1"},
        {"requests_per_second": True},
        {"max_bucket_size": 0},
        {"max_bucket_size": 0.5},
        {"max_bucket_size": float("inf")},
        {"tokens_per_minute": 0},
        {"tokens_per_minute": "many"},
    ],
)
def test_numbers_that_cannot_be_kept_are_refused(numbers: dict[str, Any]) -> None:
    for kind in (InMemoryRateLimiter, RedisRateLimiter):
        with pytest.raises(InvalidInput, match=next(iter(numbers))):
            kind(**numbers)
    with pytest.raises(InvalidInput, match="check_every"):
        InMemoryRateLimiter(check_every_n_seconds=0)


def test_what_is_no_limiter_is_refused_by_the_model() -> None:
    with pytest.raises(InvalidInput, match="rate_limiter=5"):
        FakeChatModel(["a"], rate_limiter=5)
    with pytest.raises(InvalidConfig, match="none of a Redis"):
        RedisRateLimiter("localhost:6379")
    with pytest.raises(InvalidConfig, match="int"):
        RedisRateLimiter.__init__.__wrapped__(object.__new__(RedisRateLimiter), 5)  # type: ignore[attr-defined]


def test_one_of_your_own(driver: Any) -> None:
    class Counting(BaseRateLimiter):
        asked = 0

        def acquire(self, *, blocking: bool = True) -> bool:
            self.asked += 1
            return True

        async def aacquire(self, *, blocking: bool = True) -> bool:
            return self.acquire(blocking=blocking)

    limiter = Counting()
    driver.invoke(FakeChatModel(["a"], rate_limiter=limiter), "hi")
    assert limiter.asked == 1


def test_copies_and_the_repr() -> None:
    limiter = InMemoryRateLimiter(requests_per_second=2, max_bucket_size=3, tokens_per_minute=100)
    assert repr(limiter) == "InMemoryRateLimiter(requests_per_second=2, max_bucket_size=3, tokens_per_minute=100)"
    for twin in (copy.deepcopy(limiter), pickle.loads(pickle.dumps(limiter))):
        assert repr(twin) == repr(limiter)
        assert twin.acquire(blocking=False)


def test_the_bucket_counts_by_the_clock() -> None:
    bucket = Bucket(rate=2, size=4)
    assert bucket.wait_s(1, now=10) == 0
    bucket.take(5)
    assert bucket.wait_s(1, now=10) == 1.0
    assert bucket.wait_s(1, now=10.5) == 0.5
    assert bucket.wait_s(100, now=11) == 1.5  # a full bucket
    assert bucket.wait_s(1, now=5) == 0  # a clock that went back takes nothing away
    assert bucket.level == 1.0


PROGRAM = """
import sys, time
from runwell.models import RedisRateLimiter
limiter = RedisRateLimiter(sys.argv[1], requests_per_second=50, max_bucket_size=1)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(10):
    limiter.acquire()
    print(time.time(), flush=True)
"""


@pytest.mark.integration
def test_two_processes_share_one_limit(redis_server: RedisServer, tmp_path: Path) -> None:
    url = redis_server.new_database()
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path
        )
        for _ in range(2)
    ]
    for program in programs:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
    for program in programs:
        assert program.stdin is not None
        program.stdin.write("go\n")
        program.stdin.flush()
    times = [float(line) for program in programs for line in program.communicate(timeout=30)[0].split()]
    assert len(times) == 20
    assert max(times) - min(times) >= 19 / 50 - 0.02
    halves = sorted((moment, number) for number, part in enumerate((times[:10], times[10:])) for moment in part)
    assert {number for _, number in halves[:8]} == {0, 1}  # neither waits for the other to end


def test_a_server_out_of_reach_is_said(driver: Any, tmp_path: Path) -> None:
    limiter = RedisRateLimiter(f"unix://{tmp_path / 'nothing'}", requests_per_second=1)
    model = FakeChatModel(["a"], rate_limiter=limiter, max_retries=0)
    with pytest.raises(StorageError, match="RedisRateLimiter") as caught:
        driver.invoke(model, "hi")
    assert caught.value.retryable
