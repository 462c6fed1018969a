"""Retries and fallbacks."""

from __future__ import annotations

import pytest

from runwell.errors import InvalidInput, ModelRateLimitError, RunCancelled
from runwell.observe import BaseCallbackHandler
from runwell.runnables import Runnable, RunnableLambda


class Flaky:
    """Fails so many times, then works."""

    def __init__(self, failures, error=ValueError):
        self.calls = 0
        self.failures = failures
        self.error = error

    def __call__(self, value):
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error(f"try {self.calls}")
        return value


def now(**kwargs):
    return {"wait_exponential_jitter": False, **kwargs}


def test_it_tries_again_and_no_more_than_asked(driver):
    assert driver.invoke(RunnableLambda(Flaky(2)).with_retry(**now(stop_after_attempt=3)), "x") == "x"
    flaky = Flaky(5)
    with pytest.raises(ValueError, match="try 3") as caught:
        driver.invoke(RunnableLambda(flaky).with_retry(**now(stop_after_attempt=3)), "x")
    assert flaky.calls == 3
    assert [str(each) for each in caught.value.attempts] == ["try 1", "try 2", "try 3"]
    assert any("after 3 attempts" in note for note in caught.value.__notes__)


def test_only_the_named_exceptions_are_tried_again(driver):
    flaky = Flaky(1, KeyError)
    with pytest.raises(KeyError):
        driver.invoke(RunnableLambda(flaky).with_retry(**now(retry_if_exception_type=(ValueError,))), "x")
    assert flaky.calls == 1


def test_a_mistake_in_the_call_is_not_tried_again(driver):
    flaky = Flaky(1, InvalidInput)
    with pytest.raises(InvalidInput):
        driver.invoke(RunnableLambda(flaky).with_retry(**now()), "x")
    assert flaky.calls == 1


def test_signals_pass_through_retries_and_fallbacks(driver):
    flaky = Flaky(1, RunCancelled)
    made = RunnableLambda(flaky).with_retry(**now()).with_fallbacks([RunnableLambda(lambda value: "fallback")])
    with pytest.raises(RunCancelled):
        driver.invoke(made, "x")
    assert flaky.calls == 1


def test_it_waits_as_long_as_the_provider_asks(driver):
    waits = []

    class Watch(BaseCallbackHandler):
        def on_retry(self, retry_state, **kwargs):
            waits.append((retry_state.attempt_number, retry_state.wait))

    flaky = Flaky(1, lambda text: ModelRateLimitError(text, retry_after=0.01))
    driver.invoke(RunnableLambda(flaky).with_retry(**now()), "x", {"callbacks": [Watch()]})
    assert waits == [(1, 0.01)]


def test_a_stream_is_tried_again_only_before_its_first_chunk(driver):
    calls = []

    def early(text):
        calls.append("early")
        if len(calls) == 1:
            raise ValueError("early")
        yield "a"
        yield "b"

    assert driver.stream(RunnableLambda(early).with_retry(**now()), "x") == ["a", "b"]

    def late(text):
        calls.append("late")
        yield "a"
        raise ValueError("late")

    with pytest.raises(ValueError, match="late"):
        driver.stream(RunnableLambda(late).with_retry(**now()), "x")
    assert calls == ["early", "early", "late"]


@pytest.mark.parametrize("wrong", [{"stop_after_attempt": 0}, {"exponential_jitter_params": {"base": 2}}])
def test_a_wrong_retry_is_refused_when_made(wrong):
    with pytest.raises(InvalidInput):
        RunnableLambda(str).with_retry(**wrong)


def failing(error):
    def fail(value):
        raise error

    return RunnableLambda(fail)


def test_fallbacks_are_tried_in_turn(driver):
    made = failing(ValueError("a")).with_fallbacks([failing(KeyError("b")), RunnableLambda(str.upper)])
    assert driver.invoke(made, "x") == "X"
    assert driver.stream(made, "x") == ["X"]
    assert driver.batch(made, ["x", "y"]) == ["X", "Y"]


def test_when_all_fail_the_first_error_is_raised_and_knows_the_others(driver):
    first, second = ValueError("a"), KeyError("b")
    made = failing(first).with_fallbacks([failing(second)])
    for call in (driver.invoke, driver.stream):
        with pytest.raises(ValueError, match="a") as caught:
            call(made, "x")
        assert caught.value is first
        assert caught.value.attempts == [first, second]
        assert any("KeyError('b')" in note for note in caught.value.__notes__)


def test_only_the_named_exceptions_are_handled(driver):
    made = failing(ValueError("a")).with_fallbacks([str.upper], exceptions_to_handle=(KeyError,))
    with pytest.raises(ValueError, match="a"):
        driver.invoke(made, "x")


def test_a_fallback_can_see_the_error_before_it(driver):
    error = ValueError("a")
    made = failing(error).with_fallbacks([lambda given: given["error"]], exception_key="error")
    assert driver.invoke(made, {"text": "x"}) is error
    with pytest.raises(InvalidInput, match="must be a dict"):
        driver.invoke(made, "x")


def nothing(text):
    yield from ()


def one(text):
    yield "B"


async def anothing(text):
    return
    yield


@pytest.mark.parametrize("empty", [nothing, anothing])
def test_strm_06_an_empty_stream_is_an_answer_not_a_failure(empty, driver):
    made = RunnableLambda(empty).with_fallbacks([RunnableLambda(one)])
    assert driver.stream(made, "x") == []
    retried = RunnableLambda(empty).with_retry(**now()).with_fallbacks([RunnableLambda(one)])
    assert driver.stream(retried, "x") == []
    assert driver.stream(made | RunnableLambda(one), "x") == []


def breaks(text):
    yield "A"
    raise ValueError("after A")


async def abreaks(text):
    yield "A"
    raise ValueError("after A")


@pytest.mark.parametrize("primary", [breaks, abreaks])
def test_strm_07_after_the_first_chunk_the_error_is_raised_and_nothing_starts_over(primary, driver):
    seen = []

    class Watch(Runnable):
        async def atransform(self, input, config=None, **kwargs):
            async for chunk in input:
                seen.append(chunk)
                yield chunk

    made = RunnableLambda(primary).with_fallbacks([RunnableLambda(one)]) | Watch()
    with pytest.raises(ValueError, match="after A"):
        driver.stream(made, "x")
    assert seen == ["A"]


def test_strm_07_before_the_first_chunk_the_fallback_answers_alone(driver):
    def at_once(text):
        raise ValueError("at once")
        yield

    assert driver.stream(RunnableLambda(at_once).with_fallbacks([RunnableLambda(one)]), "x") == ["B"]
