"""Listeners, timeouts, caches, routers and tools around a runnable."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from pydantic import BaseModel

from runwell.errors import InvalidInput, NodeTimeoutError, ToolDefinitionError
from runwell.messages import HumanMessage
from runwell.runnables import (
    OutputCache,
    RouterRunnable,
    Runnable,
    RunnableGenerator,
    RunnableLambda,
    RunnablePassthrough,
)


class Told:
    """Notes what its listeners are called with."""

    def __init__(self):
        self.calls = []

    def start(self, run):
        self.calls.append(("start", run.inputs, run.outputs))

    def end(self, run, config):
        self.calls.append(("end", run.inputs, run.outputs, config["tags"], run.end_time >= run.start_time))

    async def error(self, run):
        self.calls.append(("error", run.inputs, repr(run.error)))

    def on(self, part, **options):
        return part.with_listeners(on_start=self.start, on_end=self.end, on_error=self.error, **options)


def half(x):
    return 12 // x


def test_listeners_hear_of_the_calls_of_one_part_and_of_no_others(driver):
    told = Told()
    chain = RunnableLambda(lambda x: x) | told.on(RunnableLambda(half) | (lambda x: x + 1)) | (lambda x: -x)
    assert driver.invoke(chain, 4, {"tags": ["t"]}) == -4
    assert told.calls == [("start", 4, None), ("end", 4, 4, ["t"], True)]
    told.calls.clear()
    with pytest.raises(ZeroDivisionError):
        driver.invoke(chain, 0)
    assert told.calls == [
        ("start", 0, None),
        ("error", 0, "ZeroDivisionError('integer division or modulo by zero')"),
    ]


def test_listeners_hear_streams_and_each_item_of_a_batch(driver):
    told = Told()
    part = told.on(RunnableGenerator(lambda chunks: (each for chunk in chunks for each in chunk)))
    assert driver.stream(part, "abc") == ["a", "b", "c"]
    assert [call[:3] for call in told.calls] == [("start", "abc", None), ("end", "abc", "abc")]
    told.calls.clear()
    driver.batch(part, ["x", "y", "z"])
    assert sorted(call[1] for call in told.calls if call[0] == "end") == ["x", "y", "z"]


def test_a_part_called_inside_itself_is_heard_both_times(driver):
    told = Told()

    def countdown(n):
        return part.invoke(n - 1) if n else 0

    part = told.on(RunnableLambda(countdown))
    driver.invoke(part, 2)
    assert [call[1] for call in told.calls if call[0] == "start"] == [2, 1, 0]


def test_async_listeners_have_been_awaited_when_the_call_returns(driver):
    heard = []

    async def end(run):
        await asyncio.sleep(0)
        heard.append(run.outputs)

    driver.invoke(RunnableLambda(half).with_alisteners(on_end=end), 4)
    assert heard == [3]


def test_a_failing_listener_breaks_nothing_and_a_wrong_one_is_refused(driver, caplog):
    def broken(run):
        raise RuntimeError("listener broke")

    assert driver.invoke(RunnableLambda(half).with_listeners(on_start=broken), 4) == 3
    assert "listener broke" in caplog.text
    with pytest.raises(InvalidInput, match="on_end"):
        RunnableLambda(half).with_listeners(on_end="x")


# -- timeouts


class Stuck(Runnable):
    """Waits until told, in its own colour."""

    def __init__(self, asynchronous):
        self.go = threading.Event()
        self.cancelled = threading.Event()
        self.started = False
        self.asynchronous = asynchronous

    def part(self):
        async def wait(x):
            self.started = True
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise

        def block(x):
            self.go.wait(20)

        return RunnableLambda(wait if self.asynchronous else block, name="stuck")

    def stream(self):
        async def awords(chunks):
            yield "first"
            try:
                await asyncio.Event().wait()
            except (asyncio.CancelledError, GeneratorExit):
                self.cancelled.set()
                raise

        def words(chunks):
            yield "first"
            self.go.wait(20)

        return RunnableGenerator(awords if self.asynchronous else words, name="stuck")


@pytest.fixture(params=[False, True], ids=["plain", "asynchronous"])
def stuck(request):
    made = Stuck(request.param)
    yield made
    made.go.set()


def test_a_call_is_given_up_on(stuck, driver):
    began = time.monotonic()
    with pytest.raises(NodeTimeoutError, match=r"'stuck' took longer than its timeout of 0.05 s") as caught:
        driver.invoke(stuck.part().with_timeout(0.05), 1)
    assert time.monotonic() - began < 15  # it would wait for 20 s
    assert isinstance(caught.value, TimeoutError)
    if stuck.asynchronous and stuck.started:  # on a busy machine it may be given up on before it begins
        assert stuck.cancelled.wait(5)


def test_a_stream_is_given_up_on_after_what_it_gave(stuck, driver):
    seen = []
    part = stuck.stream() | RunnableGenerator(lambda chunks: (seen.append(each) or each for each in chunks))
    with pytest.raises(NodeTimeoutError):
        driver.stream(part.with_timeout(0.2), "x")
    assert seen == ["first"]
    if stuck.asynchronous:
        assert stuck.cancelled.wait(5)


def test_in_time_nothing_changes_and_own_timeouts_pass(driver):
    part = RunnableLambda(half).with_timeout(20)
    assert driver.invoke(part, 4) == 3
    assert driver.stream(RunnableGenerator(lambda chunks: iter("abc")).with_timeout(20), "") == ["a", "b", "c"]

    def own(x):
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        driver.invoke(RunnableLambda(own).with_timeout(20), 1)
    with pytest.raises(ZeroDivisionError):
        driver.stream(part, 0)


@pytest.mark.parametrize("seconds", [0, -1, "1", True])
def test_a_wrong_timeout_is_refused(seconds):
    with pytest.raises(InvalidInput, match="timeout"):
        RunnableLambda(half).with_timeout(seconds)


def test_a_timeout_is_a_failure_to_fall_back_from(stuck, driver):
    part = stuck.part().with_timeout(0.05).with_fallbacks([lambda x: "backup"])
    assert driver.invoke(part, 1) == "backup"


# -- caches


def counted(function):
    calls = []

    def call(x):
        calls.append(x)
        return function(x)

    return RunnableLambda(call), calls


def test_an_equal_input_is_not_called_for_again(driver):
    part, calls = counted(lambda x: {"said": [x]})
    cached = part.with_cache()
    first = driver.invoke(cached, {"b": 1, "a": HumanMessage("hi")})
    first["said"].append("changed by the caller")
    second = driver.invoke(cached, {"b": 1, "a": HumanMessage("hi")})
    assert second == {"said": [{"b": 1, "a": HumanMessage("hi")}]}
    second["said"].clear()
    assert driver.invoke(cached, {"a": HumanMessage("hi"), "b": 1})["said"]
    assert len(calls) == 1
    driver.invoke(cached, {"b": True, "a": HumanMessage("hi")})
    driver.invoke(cached, {"b": 1, "a": HumanMessage("hi", name="ann")})
    assert len(calls) == 3


def test_kwargs_and_configurable_are_part_of_the_question(driver):
    calls = []

    def call(x, config, scale=1):
        calls.append(x)
        return x * scale * config["configurable"].get("n", 1)

    cached = RunnableLambda(call).with_cache()
    assert [driver.invoke(cached, 2), driver.invoke(cached, 2, scale=3)] == [2, 6]
    assert driver.invoke(RunnablePassthrough() | cached, 2, {"configurable": {"n": 5}}) == 10
    assert driver.invoke(cached, 2, {"configurable": {"n": 5}}) == 10
    assert len(calls) == 3


def test_a_stream_is_kept_when_it_is_whole(driver):
    runs = []

    def words(chunks):
        runs.append(1)
        yield from "abc"

    cached = RunnableGenerator(words).with_cache()
    assert driver.stream(cached, "x", take=2) == ["a", "b"]
    assert driver.stream(cached, "x") == ["a", "b", "c"]
    assert driver.stream(cached, "x") == ["abc"]
    assert driver.invoke(cached, "x") == "abc"
    assert len(runs) == 2


def test_failures_are_not_kept(driver):
    part, calls = counted(half)
    cached = part.with_cache()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            driver.invoke(cached, 0)
    assert calls == [0, 0]


def test_none_is_an_output_like_any_other(driver):
    part, calls = counted(lambda x: None)
    cached = part.with_cache()
    assert driver.invoke(cached, 1) is driver.invoke(cached, 1) is None
    assert calls == [1]


def test_a_cache_of_ones_own_may_be_async(driver):
    kept = {}

    class Own:
        async def get(self, key):
            return (kept[key],) if key in kept else None

        def set(self, key, output):
            kept[key] = output

    part, _ = counted(half)
    cached = part.with_cache(Own(), key=lambda x: f"n{x % 2}")
    assert [driver.invoke(cached, x) for x in (2, 4, 3)] == [6, 6, 4]
    assert kept == {"n0": 6, "n1": 4}


def test_what_has_no_form_to_compare_is_told(driver):
    part, _ = counted(lambda x: 1)
    with pytest.raises(InvalidInput, match="key="):
        driver.invoke(part.with_cache(), object())
    with pytest.raises(InvalidInput, match="'set'"):
        part.with_cache({})


def test_the_least_used_and_the_old_are_forgotten(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("runwell.runnables.cache.time.monotonic", lambda: now[0])
    cache = OutputCache(maxsize=2, ttl_s=10)
    cache.set("a", 1)
    cache.set("b", 2)
    assert cache.get("a") == (1,)
    cache.set("c", 3)
    assert cache.get("b") is None
    now[0] = 11.0
    assert cache.get("a") is None
    assert len(cache) == 1


# -- routers


def test_a_router_calls_the_step_that_the_input_names(driver):
    def words(chunks):
        yield from "ab"

    router = RouterRunnable({"half": half, "words": RunnableGenerator(words)})
    assert driver.invoke(router, {"key": "half", "input": 4}) == 3
    assert driver.stream(router, {"key": "words", "input": ""}) == ["a", "b"]
    assert driver.batch(router, [{"key": "half", "input": n} for n in (1, 2)]) == [12, 6]
    with pytest.raises(InvalidInput, match=r"'haf'.*'half'"):
        driver.invoke(router, {"key": "haf", "input": 4})
    for wrong in (4, {"key": "half"}):
        with pytest.raises(InvalidInput, match="'key' and 'input'"):
            driver.invoke(router, wrong)
    with pytest.raises(InvalidInput, match="dict of steps"):
        RouterRunnable({})


# -- tools


class Query(BaseModel):
    city: str
    days: int = 1


def test_a_chain_becomes_a_tool(driver):
    chain = RunnableLambda(lambda query: f"{query['city']} {query['days']}") | str.upper
    made = chain.as_tool(Query, name="forecast", description="Says the weather.")
    assert made.name == "forecast"
    assert driver.invoke(made, {"city": "Oslo"}) == "OSLO 1"
    call = {"type": "tool_call", "name": "forecast", "args": {"city": "Oslo", "days": 2}, "id": "c"}
    assert driver.invoke(made, call).content == "OSLO 2"


def test_a_function_as_a_tool_is_described_by_its_docstring(driver):
    def double(x: int) -> int:
        """Double a number."""
        return x * 2

    made = RunnableLambda(double).as_tool()
    assert (made.name, made.description) == ("double", "Double a number.")
    assert driver.invoke(made, {"input": 4}) == 8
    with pytest.raises(ToolDefinitionError, match="description"):
        (RunnableLambda(double) | double).as_tool()
    typed = RunnableLambda(lambda q: q["x"]).as_tool(arg_types={"x": int}, name="x", description="X.")
    assert driver.invoke(typed, {"x": 3}) == 3
