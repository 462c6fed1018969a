"""Functions as steps: both colours, generators, what they are given, and what they may give."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

from runwell.drivers import cheap
from runwell.errors import InvalidInput, NodeError
from runwell.observe import BaseCallbackHandler
from runwell.ports.runtime import Runtime
from runwell.runnables import (
    Runnable,
    RunnableBranch,
    RunnableGenerator,
    RunnableLambda,
    RunnableParallel,
    RunnableSequence,
)


def plain(value):
    return value + 1


async def asynchronous(value):
    return value + 1


class Callable:
    def __call__(self, value):
        return value + 1


class AsyncCallable:
    async def __call__(self, value):
        return value + 1


@pytest.mark.parametrize("function", [plain, asynchronous, Callable(), AsyncCallable(), lambda v: asynchronous(v)])
def test_a_function_of_either_colour_works_in_both(function, driver):
    step = RunnableLambda(function)
    assert driver.invoke(step, 1) == 2
    assert driver.stream(step, 1) == [2]
    assert driver.batch(step | plain, [1, 2]) == [3, 4]


def test_each_colour_uses_its_own_form(driver):
    async def other(value):
        return "async"

    step = RunnableLambda(lambda value: "sync", other)
    assert driver.invoke(step, 1) == driver.colour
    assert driver.stream(step, 1) == [driver.colour]


def test_config_and_runtime_are_given_by_name(driver):
    def look(value, config):
        return config["configurable"]["user"], config["tags"]

    def lookup(value, *, runtime: Runtime):
        return runtime.config["configurable"]["user"]

    config = {"configurable": {"user": "ann"}, "tags": ["t"]}
    assert driver.invoke(RunnableLambda(look), 1, config) == ("ann", ["t"])
    assert driver.invoke(RunnableLambda(lookup) | str.upper, 1, config) == "ANN"
    assert driver.invoke(RunnableLambda(lambda config: config), "first parameter") == "first parameter"


def test_keyword_arguments_reach_the_function(driver):
    step = RunnableLambda(lambda value, times=1: value * times)
    assert driver.invoke(step, "a", times=3) == "aaa"
    assert driver.invoke(step.bind(times=2), "a") == "aa"
    assert driver.invoke(step.bind(times=2), "a", times=4) == "aaaa"
    assert driver.invoke(step.bind(times=2) | str.upper, "a") == "AA"


def test_a_function_that_gives_a_part_has_it_called(driver):
    by_size = RunnableLambda(lambda text: RunnableLambda(str.upper) if len(text) < 3 else RunnableLambda(str.title))
    assert driver.invoke(by_size, "ab") == "AB"
    assert driver.invoke(by_size | str.strip, "abc") == "Abc"
    letters = RunnableGenerator(lambda chunks: (letter for chunk in chunks for letter in chunk))
    assert driver.stream(RunnableLambda(lambda text: letters), "abc") == ["a", "b", "c"]


def words(text):
    yield from text.split()


async def awords(text):
    for word in text.split():
        yield word


@pytest.mark.parametrize("function", [words, awords])
def test_a_generator_function_streams_and_adds_up(function, driver):
    step = RunnableLambda(function)
    assert driver.stream(step, "a b c") == ["a", "b", "c"]
    assert driver.invoke(step, "a b c") == "abc"


def shout(chunks):
    for chunk in chunks:
        yield chunk.upper()


async def ashout(chunks):
    async for chunk in chunks:
        yield chunk.upper()


@pytest.mark.parametrize("function", [shout, ashout])
def test_a_generator_in_a_chain_passes_chunks_on(function, driver):
    made = RunnableLambda(words) | function | ashout
    assert driver.stream(made, "a b c") == ["A", "B", "C"]
    assert driver.invoke(made, "a b c") == "ABC"


def test_a_plain_step_buffers_and_a_generator_does_not(driver):
    """One return where a yield was wanted turns 212 chunks into one."""
    source = RunnableLambda(digits)
    assert len(driver.stream(source | shout, 212)) == 212
    assert len(driver.stream(source | str.upper, 212)) == 1


def digits(count):
    for number in range(count):
        yield str(number % 10)


def test_plain_functions_leave_the_event_loop_free_and_cheap_ones_stay(driver):
    threads = []

    def where(value):
        threads.append(threading.current_thread())
        return value

    driver.invoke(RunnableLambda(where), 1)
    assert (threads[0] is threading.main_thread()) == (driver.colour == "sync")
    driver.invoke(RunnableLambda(cheap(where)), 1)
    assert threads[1] is threading.main_thread()


def test_run_07_piping_a_bound_method_does_not_keep_its_object(driver):
    class Holder:
        def __init__(self):
            self.buffer = bytearray(10_000_000)

        def method(self, value):
            return value

    holder = Holder()
    gone = weakref.ref(holder)
    made = holder.method | RunnableLambda(lambda value: value)
    assert isinstance(made, RunnableSequence)
    assert driver.invoke(made, 1) == 1
    del holder, made
    gc.collect()
    assert gone() is None


def test_run_07_the_same_for_a_bound_generator(driver):
    class Holder:
        def method(self, chunks):
            yield from chunks

    holder = Holder()
    gone = weakref.ref(holder)
    made = RunnableLambda(str.upper) | holder.method
    assert driver.stream(made, "a") == ["A"]
    del holder, made
    gc.collect()
    assert gone() is None


def stops(value):
    raise StopIteration("early")


async def astops(value):
    raise StopIteration("early")


async def astops_async(value):
    raise StopAsyncIteration("early")


class Stopping(Runnable):
    def invoke(self, input, config=None, **kwargs):
        raise StopIteration("early")


@pytest.mark.parametrize("how", ["invoke", "stream", "batch"])
def test_functions_that_give_each_other_are_told_that_it_never_ends(how, driver):
    one = RunnableLambda(lambda text: other, name="one")
    other = RunnableLambda(lambda text: one, name="other")
    with pytest.raises(InvalidInput, match=r"'o.*' gives 'o.*' for the input.*in circles") as caught:
        getattr(driver, how)(one, ["x"] if how == "batch" else "x")
    assert "must give an output" in caught.value.hint


WAYS = {
    "alone": lambda step: step,
    "first": lambda step: step | str,
    "last": lambda step: RunnableLambda(lambda x: x) | step,
    "beside": lambda step: RunnableParallel(a=step, b=str),
    "only branch": lambda step: RunnableParallel(a=step),
    "condition": lambda step: RunnableBranch((step, str), str),
    "retried": lambda step: step.with_retry(stop_after_attempt=1),
    "fallback": lambda step: RunnableLambda(stops).with_fallbacks([step]),
    "bound": lambda step: step.bind(),
    "timed": lambda step: step.with_timeout(5),
    "cached": lambda step: step.with_cache(),
    "watched": lambda step: step.with_config(callbacks=[BaseCallbackHandler()]),
}


@pytest.mark.parametrize("how", ["invoke", "stream", "batch"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("function", [stops, astops, astops_async])
def test_the_end_of_an_iteration_out_of_a_function_is_told_as_an_error_everywhere(function, way, how, driver):
    made = WAYS[way](RunnableLambda(function))
    with pytest.raises(NodeError, match="early") as caught:
        getattr(driver, how)(made, ["x"] if how == "batch" else "x")
    assert caught.value.hint
    assert isinstance(caught.value.__cause__, StopIteration | StopAsyncIteration | RuntimeError)


@pytest.mark.parametrize("how", ["invoke", "stream", "batch"])
@pytest.mark.parametrize("way", ["first", "last"])
def test_the_same_out_of_a_class_of_the_users_own_in_a_chain(way, how, driver):
    with pytest.raises(NodeError, match="early"):
        getattr(driver, how)(WAYS[way](Stopping()), ["x"] if how == "batch" else "x")
