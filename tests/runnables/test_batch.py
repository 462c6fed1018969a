"""Many inputs: order, bounds, failures, and leaving early."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from runwell.errors import InvalidConfig, InvalidInput, MissingExtra, RunCancelled
from runwell.runnables import BatchResult, Runnable, RunnableLambda


class Gauge:
    """How many calls are under way at once."""

    def __init__(self):
        self.now = self.most = 0
        self.lock = threading.Lock()
        self.full = threading.Event()

    def __call__(self, value):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.full.wait(0.002)
        with self.lock:
            self.now -= 1
        return value * 2


@pytest.mark.parametrize(
    ("config", "bound"), [(None, 16), ({"max_concurrency": 3}, 3), ({"max_concurrency": None}, 40)]
)
def test_order_is_kept_and_the_bound_holds(config, bound, driver):
    gauge = Gauge()
    assert driver.batch(RunnableLambda(gauge), list(range(40)), config) == [n * 2 for n in range(40)]
    assert 1 < gauge.most <= bound


def test_a_bound_of_one_runs_one_at_a_time(driver):
    gauge = Gauge()
    driver.batch(RunnableLambda(gauge).with_config(max_concurrency=1), list(range(10)))
    assert gauge.most == 1


def test_an_empty_batch_is_an_empty_list(driver):
    assert driver.batch(RunnableLambda(str), []) == []
    assert driver.completed(RunnableLambda(str), []) == []


def test_a_failure_is_raised_itself_and_keeps_what_the_others_gave(driver):
    def some(value):
        if value == 2:
            raise KeyError("two")
        return value * 10

    with pytest.raises(KeyError, match="two") as caught:
        driver.batch(RunnableLambda(some), list(range(6)), {"max_concurrency": 1})
    kept = caught.value.batch
    assert isinstance(kept, BatchResult)
    assert kept.results == {0: 0, 1: 10}
    assert list(kept.errors) == [2]
    assert kept.errors[2] is caught.value
    assert kept.not_run == [3, 4, 5]


def test_of_several_failures_the_first_in_order_is_raised(driver):
    first_failed = threading.Event()

    def fails(value):  # the second one fails while the first is under way
        if value == 0:
            assert first_failed.wait(10)
        else:
            first_failed.set()
        raise ValueError(value)

    async def afails(value):
        if value == 0:
            await asyncio.sleep(0)  # one turn of the loop: not enough for it to be cancelled
        raise ValueError(value)

    with pytest.raises(ValueError, match="0") as caught:
        driver.batch(RunnableLambda(fails, afails), [0, 1], {"max_concurrency": 2})
    assert list(caught.value.batch.errors) == [0, 1]


def test_async_code_still_under_way_is_cancelled_and_is_no_failure():
    cancelled = []

    async def fails(value):
        if value == 1:
            raise ValueError(value)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(value)
            raise

    with pytest.raises(ValueError, match="1") as caught:
        asyncio.run(RunnableLambda(fails).abatch([0, 1, 2], {"max_concurrency": 3}))
    assert cancelled == [0, 2]
    assert caught.value.batch.not_run == [0, 2]


def test_failures_can_be_returned_in_place(driver):
    def some(value):
        if value % 2:
            raise ValueError(value)
        return value

    got = driver.batch(RunnableLambda(some), [0, 1, 2, 3], return_exceptions=True)
    assert [type(each).__name__ for each in got] == ["int", "ValueError", "int", "ValueError"]
    got = dict(driver.completed(RunnableLambda(some), [0, 1], return_exceptions=True))
    assert got[0] == 0
    assert isinstance(got[1], ValueError)


def test_signals_are_not_results(driver):
    def stops(value):
        raise RunCancelled()

    with pytest.raises(RunCancelled):
        driver.batch(RunnableLambda(stops), [1], return_exceptions=True)


def test_results_are_handed_over_as_they_end(driver):
    seen = {}

    def some(value):
        if value == 1:
            raise ValueError("one")
        return value * 2

    driver.batch(RunnableLambda(some), [0, 1, 2], return_exceptions=True, on_result=seen.__setitem__)
    assert seen[0] == 0
    assert seen[2] == 4
    assert isinstance(seen[1], ValueError)


def test_each_item_may_have_a_config(driver):
    def who(value, config):
        return config["configurable"]["user"]

    configs = [{"configurable": {"user": name}} for name in "abc"]
    assert driver.batch(RunnableLambda(who), [1, 2, 3], configs) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ([{}], "2 inputs was given 1 config"),
        ({"max_concurrency": 0}, "'max_concurrency' wants"),
        ({"max_concurency": 2}, "did you mean 'max_concurrency'"),
        ({"run_id": "00000000-0000-0000-0000-000000000001"}, "cannot name 2 runs"),
    ],
)
def test_bad_configs_are_refused_before_anything_runs(config, told, driver):
    calls = []
    with pytest.raises(InvalidConfig, match=told):
        driver.batch(RunnableLambda(calls.append), [1, 2], config)
    assert calls == []


def test_run_01_retries_keep_every_result_in_its_place(driver):
    failed = set()

    def once(value):
        if value == 0 and value not in failed:
            failed.add(value)
            raise ValueError("first try")
        return value

    step = RunnableLambda(once).with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
    assert driver.batch(step, [0, 1, 2]) == [0, 1, 2]


def test_run_01_only_failed_items_run_again_and_lists_of_every_shape_keep_their_places(driver):
    calls = []

    def flaky(value):
        calls.append(value)
        if value % 2 == 0 and calls.count(value) < 3:
            raise ValueError(value)
        return value

    step = (RunnableLambda(flaky) | (lambda n: n)).with_retry(stop_after_attempt=3, wait_exponential_jitter=False)
    assert driver.batch(step, list(range(9))) == list(range(9))
    assert driver.invoke(step.map(), [9, 11]) == [9, 11]
    assert all(calls.count(n) == (3 if n % 2 == 0 else 1) for n in range(9))


class Slow(Runnable):
    """Item 0 is done at once, the others wait to be cancelled."""

    def __init__(self):
        self.started = 0
        self.finished = 0
        self.cancelled = 0
        self.all_started = asyncio.Event()

    async def ainvoke(self, input, config=None, **kwargs):
        self.started += 1
        if input == 0:
            while self.started < 10:
                await asyncio.sleep(0)
            return "first"
        if input == "boom":
            while self.started < 10:
                await asyncio.sleep(0)
            raise ValueError("boom")
        try:
            await asyncio.sleep(60)
            self.finished += 1
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


def test_run_03_leaving_an_async_batch_early_cancels_the_rest():
    slow = Slow()

    async def main():
        items = slow.abatch_as_completed(list(range(10)))
        async for index, output in items:
            assert (index, output) == (0, "first")
            break
        await items.aclose()

    asyncio.run(main())
    assert (slow.finished, slow.cancelled) == (0, 9)


def test_run_03_dropping_it_without_closing_cancels_too():
    slow = Slow()

    async def main():
        async for _ in slow.abatch_as_completed(list(range(10))):
            break
        while slow.cancelled < 9:
            await asyncio.sleep(0)

    asyncio.run(main())
    assert slow.finished == 0


def test_run_03_an_error_cancels_the_rest():
    slow = Slow()

    async def main():
        with pytest.raises(ValueError, match="boom"):
            async for _ in slow.abatch_as_completed(["boom", *range(1, 10)]):
                pass

    asyncio.run(main())
    assert (slow.finished, slow.cancelled) == (0, 9)


def test_run_03_a_plain_reader_leaving_early_cancels_async_items():
    slow = Slow()
    done = threading.Event()
    original = slow.ainvoke

    async def counted(input, config=None, **kwargs):
        try:
            return await original(input, config, **kwargs)
        finally:
            if slow.cancelled == 9:
                done.set()

    slow.ainvoke = counted
    for index, output in slow.batch_as_completed(list(range(10))):
        assert (index, output) == (0, "first")
        break
    assert done.wait(5)
    assert slow.finished == 0


def test_run_03_a_failing_batch_cancels_its_async_items():
    slow = Slow()

    async def main():
        with pytest.raises(ValueError, match="boom") as caught:
            await slow.abatch(["boom", *range(1, 10)])
        return caught.value

    error = asyncio.run(main())
    assert (slow.finished, slow.cancelled) == (0, 9)
    assert error.batch.not_run == list(range(1, 10))


def test_map_works_on_a_list(driver):
    made = RunnableLambda(str.split) | RunnableLambda(str.upper).map() | "-".join
    assert driver.invoke(made, "a b c") == "A-B-C"


def test_progress_is_told_in_order_up_to_the_last(driver):
    told = []
    part = RunnableLambda(lambda number: 10 // number)
    found = driver.batch(
        part, [1, 0, 2, 5], return_exceptions=True, progress=lambda ended, of: told.append((ended, of))
    )
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert isinstance(found[1], ZeroDivisionError)


def test_a_progress_bar_is_shown_on_standard_error_when_asked_for(driver, capsys):
    part = RunnableLambda(lambda number: 10 // number)
    assert driver.batch(part, [1, 2], progress=True) == [10, 5]
    shown = capsys.readouterr()
    assert "2/2" in shown.err
    assert shown.out == ""
    with pytest.raises(ZeroDivisionError):
        driver.batch(part, [0, 1], progress=True)
    capsys.readouterr()
    assert driver.batch(part, [1]) == [10]
    assert capsys.readouterr().err == ""  # the bar of the batch that failed is gone


def test_a_progress_bar_needs_its_package(monkeypatch, driver):
    monkeypatch.setitem(sys.modules, "rich", None)
    with pytest.raises(MissingExtra, match=r"runwell\[cli\]"):
        driver.batch(RunnableLambda(lambda x: x), [1], progress=True)


def test_case_3_a_crash_keeps_what_ended_and_only_the_failed_run_again(driver):
    """10,000 tickets of which 12 fail: 9,988 results are handed over as they end, and the 12 are run again."""
    kept, failing = {}, set(range(0, 10_000, 833)[:12])

    def classify(ticket):
        if ticket in failing:
            raise ConnectionError("429")
        return ticket % 3

    def save(index, output):
        if not isinstance(output, Exception):
            kept[index] = output

    part = RunnableLambda(classify)
    outputs = driver.batch(part, list(range(10_000)), {"max_concurrency": 20}, return_exceptions=True, on_result=save)
    assert len(kept) == 9_988
    failed = [index for index, output in enumerate(outputs) if isinstance(output, Exception)]
    failing.clear()
    assert len(failed) == 12
    driver.batch(part, failed, on_result=lambda place, output: kept.update({failed[place]: output}))
    assert [kept[index] for index in range(10_000)] == [index % 3 for index in range(10_000)]


@pytest.mark.parametrize("colour", ["plain", "async"])
@pytest.mark.parametrize("progress", [False, lambda ended, total: None], ids=["alone", "with progress"])
def test_on_result_is_awaited_if_it_is_async(colour, progress, driver):
    kept = {}

    async def save(index, output):
        await asyncio.sleep(0)
        kept[index] = str(output)

    def plain(value):
        return 1 / value

    async def slow(value):
        return 1 / value

    part = RunnableLambda(plain if colour == "plain" else slow)
    driver.batch(part, [1, 0, 2], return_exceptions=True, on_result=save, progress=progress)
    assert kept == {0: "1.0", 1: "division by zero", 2: "0.5"}


@pytest.mark.parametrize("wrong", ["ab", b"ab", 3, None, {"a": 1}])
@pytest.mark.parametrize("call", ["batch", "completed"])
def test_what_is_no_list_of_inputs_is_refused(wrong, call, driver):
    with pytest.raises(InvalidInput, match="a list, not"):
        getattr(driver, call)(RunnableLambda(str), wrong)
    with pytest.raises(InvalidInput, match="a list, not"):
        driver.invoke(RunnableLambda(str).map(), wrong)


def test_any_other_iterable_is_a_list_of_inputs(driver):
    assert driver.batch(RunnableLambda(str), (n for n in range(3))) == ["0", "1", "2"]
    assert driver.invoke(RunnableLambda(str).map(), range(2)) == ["0", "1"]
    assert sorted(driver.completed(RunnableLambda(str), iter([7]))) == [(0, "7")]


async def slowly(ended, total):
    """No progress function: nobody would await it."""


@pytest.mark.parametrize(
    "wrong", [{"on_result": 3}, {"progress": "bar"}, {"progress": slowly}], ids=["on_result", "progress", "async"]
)
def test_a_hook_that_cannot_be_called_is_refused_before_anything_runs(wrong, driver):
    ran = []
    with pytest.raises(InvalidInput, match="function"):
        driver.batch(RunnableLambda(ran.append), [1], **wrong)
    assert ran == []
