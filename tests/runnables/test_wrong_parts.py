"""What cannot be a part, or a setting of one, is refused while composing, in words that say what to do."""

from __future__ import annotations

import pytest

from runwell.errors import InvalidConfig, InvalidInput
from runwell.messages import AIMessage
from runwell.runnables import RunnableGenerator, RunnableLambda, RunnableParallel, streamable

part = RunnableLambda(len)


class Holder:
    def takes_nothing(self):
        return 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: part | (lambda: 1),
        lambda: RunnableLambda(Holder().takes_nothing),
        lambda: RunnableGenerator(3),
        lambda: RunnableGenerator(atransform=3),
        lambda: RunnableParallel("a"),
        lambda: RunnableParallel([len]),
        lambda: streamable(3),
        lambda: streamable(hold="a")(3),
        lambda: part.with_timeout(float("nan")),
        lambda: part.with_retry(stop_after_attempt="2"),
        lambda: part.with_retry(retry_if_exception_type=(3,)),
        lambda: part.with_retry(retry_if_exception_type=ValueError("an instance")),
        lambda: part.with_fallbacks([len], exceptions_to_handle="ValueError"),
        lambda: part.with_fallbacks([len], exceptions_to_handle=(ValueError, None)),
    ],
)
def test_it_is_refused_while_composing(make):
    with pytest.raises(InvalidInput):
        make()


def test_functions_of_any_number_of_arguments_may_be_called_with_one(driver):
    assert driver.invoke(RunnableLambda(lambda *given: given), 1) == (1,)
    assert driver.invoke(RunnableLambda(lambda one=2: one), 1) == 1


def test_one_exception_class_needs_no_tuple(driver):
    failing = RunnableLambda(lambda number: 1 / number)
    assert driver.invoke(failing.with_fallbacks([str], exceptions_to_handle=ZeroDivisionError), 0) == "0"
    assert driver.invoke(failing.with_fallbacks([str], exceptions_to_handle=[ZeroDivisionError]), 0) == "0"


def test_tags_are_strings(driver):
    with pytest.raises(InvalidConfig, match="list of strings"):
        driver.invoke(part, "ab", {"tags": ["a", 1]})


class Shouting:
    def __call__(self, chunks):
        for chunk in chunks:
            yield chunk.upper()


class AsyncShouting:
    async def __call__(self, chunks):
        async for chunk in chunks:
            yield chunk.upper()


@pytest.mark.parametrize("shouting", [Shouting(), AsyncShouting()], ids=["plain", "async"])
def test_an_object_called_as_a_generator_function_is_one(shouting, driver):
    letters = RunnableLambda(lambda text: iter_of(text))
    assert driver.transform(letters | shouting, ["ab"]) == ["A", "B"]
    assert driver.transform(RunnableGenerator(shouting), ["a", "b"]) == ["A", "B"]


def iter_of(text):
    def letters(_):
        yield from text

    return RunnableLambda(letters)


def test_whole_messages_are_no_chunks_of_one(driver):
    def two(_):
        yield AIMessage("a")
        yield AIMessage("b")

    assert len(driver.stream(RunnableLambda(two), 1)) == 2
    with pytest.raises(InvalidInput, match="cannot be added up"):
        driver.invoke(RunnableLambda(two), 1)
