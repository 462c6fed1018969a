"""A class of one's own knows nothing of runs; its calls are runs all the same, and hand on what every run does."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from runwell.errors import InvalidConfig, NodeError
from runwell.observe import BaseCallbackHandler
from runwell.runnables import Runnable, RunnableLambda, RunnableParallel


class Told(BaseCallbackHandler):
    """Each run as (name, the name of the run around it, tags), in the order they began."""

    def __init__(self):
        self.names = {}
        self.runs = []
        self.ended = 0

    def on_chain_start(self, serialized, inputs, *, run_id, parent_run_id=None, tags=None, name=None, **kwargs):
        self.names[run_id] = name
        self.runs.append((name, self.names.get(parent_run_id), tuple(tags or ())))

    def on_chain_end(self, outputs, **kwargs):
        self.ended += 1


inner = RunnableLambda(lambda text: text, name="inner")


class ByInvoke(Runnable[str, str]):
    def invoke(self, input, config=None, **kwargs):
        return inner.invoke(input).upper()


class ByAinvoke(Runnable[str, str]):
    async def ainvoke(self, input, config=None, **kwargs):
        return (await inner.ainvoke(input)).upper()


class ByTransform(Runnable[str, str]):
    def transform(self, input, config=None, **kwargs):
        for chunk in input:
            yield inner.invoke(chunk).upper()


class ByAtransform(Runnable[str, str]):
    async def atransform(self, input, config=None, **kwargs):
        async for chunk in input:
            yield (await inner.ainvoke(chunk)).upper()


KINDS = [ByInvoke, ByAinvoke, ByTransform, ByAtransform]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request):
    return request.param


@pytest.mark.parametrize("call", ["invoke", "stream", "transform", "batch", "completed"])
def test_every_call_is_one_run_that_nested_calls_belong_to(kind, call, driver):
    told = Told()
    given = "ab" if call in ("invoke", "stream") else ["ab"]
    getattr(driver, call)(kind(), given, {"callbacks": [told], "tags": ["nightly"]})
    assert told.runs == [(kind.__name__, None, ("nightly",)), ("inner", kind.__name__, ("nightly",))]
    assert told.ended == 2


def test_a_step_of_a_chain_belongs_to_the_chain(kind, driver):
    told = Told()
    assert driver.invoke(RunnableLambda(str) | kind(), "ab", {"callbacks": [told]}) == "AB"
    assert [run[:2] for run in told.runs] == [
        ("RunnableSequence", None),
        ("str", "RunnableSequence"),
        (kind.__name__, "RunnableSequence"),
        ("inner", kind.__name__),
    ]


def test_its_listeners_are_told_and_its_tags_are_inherited(kind, driver):
    ended, told = [], Told()
    part = kind().with_listeners(on_end=lambda run: ended.append(run.outputs)).with_config(tags=["own"])
    driver.invoke(RunnableParallel(a=part), "ab", {"callbacks": [told]})
    assert ended == ["AB"]
    assert ("inner", kind.__name__, ("own",)) in told.runs


def test_a_config_that_cannot_be_is_refused(kind, driver):
    with pytest.raises(InvalidConfig, match="did you mean 'tags'"):
        driver.invoke(kind(), "ab", {"tagz": ["nightly"]})


def test_its_chunks_are_events():
    async def events():
        return [(event["event"], event["name"]) async for event in ByAtransform().astream_events("ab")]

    told = [event for event, name in asyncio.run(events()) if name == "ByAtransform"]
    assert told == ["on_chain_start", "on_chain_stream", "on_chain_end"]


def test_a_method_may_leave_config_out(driver):
    class Short(Runnable[str, str]):
        def invoke(self, input):
            return input.upper()

    for config in (None, {"tags": ["nightly"]}):
        assert driver.invoke(Short(), "ab", config) == "AB"
        assert driver.stream(RunnableLambda(str) | Short(), "ab", config) == ["AB"]
        assert driver.batch(Short(), ["a", "b"], config) == ["A", "B"]


def test_a_method_is_given_the_config_that_holds(driver):
    class Reads(Runnable[str, list[str]]):
        def invoke(self, input, config=None, **kwargs):
            return config["tags"]

    assert driver.invoke(RunnableLambda(str) | Reads().with_config(tags=["b"]), "x", {"tags": ["a"]}) == ["a", "b"]


class Base(Runnable[int, int]):
    def invoke(self, input, config=None, **kwargs):
        return input + 1


class Twice(Base):
    def invoke(self, input, config=None, **kwargs):
        return super().invoke(super().invoke(input, config), config)


class Downwards(Runnable[int, int]):
    def invoke(self, input, config=None, **kwargs):
        return 0 if input == 0 else self.invoke(input - 1)


class Conventional(Runnable[int, int]):
    def invoke(self, input, config=None, **kwargs):
        return self._call_with_config(lambda given: given + 1, input, config)


@dataclass(slots=True, eq=False)
class Add(Runnable[int, int]):
    much: int = 1

    def invoke(self, input, config=None, **kwargs):
        return input + self.much


@pytest.mark.parametrize(
    ("part", "given", "output", "runs"),
    [(Twice(), 1, 3, 1), (Downwards(), 2, 0, 3), (Conventional(), 1, 2, 1), (Add(4), 1, 5, 1)],
    ids=["super", "itself", "call_with_config", "dataclass"],
)
def test_only_a_call_from_outside_or_of_itself_is_a_run(part, given, output, runs, driver):
    told = Told()
    assert driver.invoke(part, given, {"callbacks": [told]}) == output
    assert [run[0] for run in told.runs] == [type(part).__name__] * runs
    assert told.ended == runs


def test_another_method_under_the_name_of_one_is_left_alone(driver):
    class Odd(Runnable[int, int]):
        def stream(self):
            return "mine"

        def invoke(self, input, config=None, **kwargs):
            return input

    assert Odd().stream() == "mine"
    assert driver.invoke(Odd(), 1, {"tags": ["a"]}) == 1


class Stops(Runnable[int, int]):
    def invoke(self, input):
        raise StopIteration


class AsyncStops(Runnable[int, int]):
    async def ainvoke(self, input):
        raise StopIteration


@pytest.mark.parametrize("part", [Stops(), AsyncStops()], ids=["plain", "async"])
@pytest.mark.parametrize("config", [None, {"tags": ["a"]}], ids=["bare", "with config"])
def test_the_end_of_an_iteration_ends_nothing_else(part, config, driver):
    for call in (driver.invoke, driver.stream):
        with pytest.raises(NodeError, match="StopIteration"):
            call(part, 1, config)


def test_an_error_keeps_its_cause_and_its_kind(driver):
    class Fails(Runnable[int, int]):
        async def ainvoke(self, input):
            raise RuntimeError("mine") from KeyError("why")

    with pytest.raises(RuntimeError, match="mine") as caught:
        driver.invoke(Fails(), 1)
    assert isinstance(caught.value.__cause__, KeyError)
