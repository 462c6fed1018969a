"""Chunks flow as they come, and everything ends when the reader goes."""

from __future__ import annotations

import asyncio
import gc
import re
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runwell.errors import InvalidInput
from runwell.runnables import (
    AddableDict,
    ConfigurableField,
    RouterRunnable,
    Runnable,
    RunnableBranch,
    RunnableGenerator,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
    RunnablePick,
    add,
    streamable,
)


def words(text):
    for word in text.split():
        yield word + " "


def upper(chunks):
    for chunk in chunks:
        yield chunk.upper()


async def aupper(chunks):
    async for chunk in chunks:
        yield chunk.upper()


def test_closing_the_stream_closes_every_generator(driver):
    closed = []

    def source(text):
        try:
            for number in range(1_000_000):
                yield str(number)
        finally:
            closed.append("source")

    def middle(chunks):
        try:
            yield from chunks
        finally:
            closed.append("middle")

    async def last(chunks):
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            closed.append("last")

    made = RunnableLambda(source) | middle | last
    assert driver.stream(made, "x", take=2) == ["0", "1"]
    assert sorted(closed) == ["last", "middle", "source"]


def test_dropping_a_plain_stream_closes_it():
    closed = threading.Event()

    def source(text):
        try:
            while True:
                yield "x"
        finally:
            closed.set()

    stream = (RunnableLambda(source) | upper).stream("x")
    next(stream)
    del stream
    gc.collect()
    assert closed.wait(5)


def test_closing_reaches_a_source_whose_reader_somebody_still_holds(driver):
    closed, kept = [], []

    def source(text):
        try:
            yield "a"
            yield "b"
        finally:
            closed.append(True)

    def keeps(chunks):
        kept.append(chunks)
        for chunk in chunks:
            yield chunk.upper()

    assert driver.stream(RunnableLambda(source) | keeps, "x", take=1) == ["A"]
    assert closed == [True]
    assert len(kept) == 1


def test_breaking_out_of_an_async_stream_does_not_cancel_the_reader():
    async def main():
        made = RunnableLambda(words) | aupper
        async for _ in made.astream("a b c"):
            break
        await asyncio.sleep(0)
        return "still here"

    assert asyncio.run(main()) == "still here"


def test_closing_while_the_source_is_silent():
    """A plain generator that waits for more keeps neither the reader nor its own thread waiting."""
    ended = threading.Event()

    async def silent(text):
        yield "first"
        await asyncio.Event().wait()

    def through(chunks):
        try:
            yield from chunks
        finally:
            ended.set()

    async def main():
        stream = (RunnableLambda(silent) | through).astream("x")
        first = await anext(stream)
        await stream.aclose()
        return first

    assert asyncio.run(main()) == "first"
    assert ended.wait(5)


def test_an_error_in_the_middle_comes_after_what_went_before(driver):
    def breaks(chunks):
        for number, chunk in enumerate(chunks):
            if number == 2:
                raise ValueError("third")
            yield chunk

    seen = []
    made = RunnableLambda(words) | breaks | RunnableGenerator(lambda chunks: (seen.append(c) or c for c in chunks))
    with pytest.raises(ValueError, match="third") as caught:
        driver.stream(made, "a b c")
    assert seen == ["a ", "b "]
    assert len(caught.value.__notes__) == 1
    assert "in step 2 of 3, 'breaks'" in caught.value.__notes__[0]


def test_parallel_branches_interleave_and_a_late_one_holds_nobody_up(driver):
    gate = threading.Event()

    def late(text):
        assert gate.wait(10)
        yield "late"

    def early(text):
        yield "one"
        yield "two"

    both = RunnableParallel(late=RunnableLambda(late), early=RunnableLambda(early))
    got = []

    def release(chunks):
        for chunk in chunks:
            got.append(chunk)
            if len(got) == 2:
                gate.set()
            yield chunk

    chunks = driver.stream(both | release, "x")
    assert chunks == [{"early": "one"}, {"early": "two"}, {"late": "late"}]
    assert add(chunks) == {"early": "onetwo", "late": "late"}


def slow_and_quick(lag):
    """A dict of a branch that dawdles over each chunk and one that does not; `lag` is told how far it is behind."""
    pause = threading.Event()

    def slow(chunks):
        for chunk in chunks:
            pause.wait(0.001)
            lag.read += 1
            yield chunk

    async def aslow(chunks):
        async for chunk in chunks:
            await asyncio.sleep(0.001)
            lag.read += 1
            yield chunk

    return RunnableParallel(slow=RunnableGenerator(slow, aslow), quick=RunnablePassthrough())


class Lag:
    def __init__(self, count):
        self.count, self.made, self.read, self.most = count, 0, 0, 0

    def source(self):
        for _ in range(self.count):
            self.made += 1
            self.most = max(self.most, self.made - self.read)
            yield "x"


def test_the_quickest_branch_is_only_so_far_ahead_of_the_slowest(driver, monkeypatch):
    monkeypatch.setattr("runwell.runnables.interleave.AHEAD", 8)
    lag = Lag(150)
    assert add(driver.transform(slow_and_quick(lag), lag.source())) == {"slow": "x" * 150, "quick": "x" * 150}
    assert 8 <= lag.most <= 10


def test_branches_that_take_turns_in_waiting_for_each_other_come_to_an_end(driver, monkeypatch):
    monkeypatch.setattr("runwell.runnables.interleave.AHEAD", 2)
    both = RunnableParallel(one=RunnablePassthrough(), two=RunnablePassthrough(), three=RunnablePassthrough())
    got = add(driver.transform(both, ["x"] * 1000))
    assert got == {"one": "x" * 1000, "two": "x" * 1000, "three": "x" * 1000}


def test_a_branch_that_is_not_to_begin_before_another_ends_holds_it_not_up(driver, monkeypatch):
    monkeypatch.setattr("runwell.runnables.interleave.AHEAD", 8)
    both = RunnableParallel(a=RunnablePassthrough(), b=RunnablePassthrough(), c=RunnablePassthrough())
    got = driver.transform(both, ["x"] * 100, {"max_concurrency": 1})
    assert add(got) == {"a": "x" * 100, "b": "x" * 100, "c": "x" * 100}


def test_a_branch_that_stops_reading_holds_nobody_up(driver, monkeypatch):
    monkeypatch.setattr("runwell.runnables.interleave.AHEAD", 8)

    def first(chunks):
        yield next(chunks)

    async def afirst(chunks):
        async for chunk in chunks:
            yield chunk
            return

    both = RunnableParallel(first=RunnableGenerator(first, afirst), all=RunnablePassthrough())
    assert add(driver.transform(both, ["x"] * 100)) == {"first": "x", "all": "x" * 100}


def test_a_branch_that_fails_while_another_waits_for_it_ends_the_stream(driver, monkeypatch):
    monkeypatch.setattr("runwell.runnables.interleave.AHEAD", 4)
    made = []

    def source():
        for number in range(1000):
            made.append(number)
            yield "x"

    def fails(chunks):
        next(chunks)
        while len(made) < 5:  # the other one is as far ahead as it may be
            threading.Event().wait(0.001)
        raise ValueError("behind")

    async def afails(chunks):
        await anext(chunks)
        while len(made) < 5:
            await asyncio.sleep(0.001)
        raise ValueError("behind")
        yield

    def whole(text):
        raise AssertionError("a step was given an input cut short")

    both = RunnableParallel(a=RunnableGenerator(fails, afails), b=RunnablePassthrough(), c=whole)
    with pytest.raises(ValueError, match="behind"):
        driver.transform(both, source())
    assert len(made) < 10


def test_closing_ends_a_branch_that_waits_for_another(driver, monkeypatch):
    monkeypatch.setattr("runwell.runnables.interleave.AHEAD", 4)
    closed = threading.Event()
    behind = threading.Event()

    def endless(text):
        try:
            while True:
                yield "x"
        finally:
            closed.set()

    def stuck(chunks):
        next(chunks)
        behind.wait(10)
        yield from chunks

    async def astuck(chunks):
        await anext(chunks)
        await asyncio.Event().wait()
        yield

    both = RunnableLambda(endless) | RunnableParallel(a=RunnableGenerator(stuck, astuck), b=RunnablePassthrough())

    def release(chunks):
        try:
            yield from chunks
        finally:
            behind.set()

    assert len(driver.stream(both | release, "x", take=4)) == 4
    assert closed.wait(5)


def test_closing_a_parallel_stream_ends_its_branches(driver):
    begun = [threading.Event(), threading.Event()]
    ended = [threading.Event(), threading.Event()]

    def endless(number):
        def branch(text):
            begun[number].set()
            try:
                assert begun[1 - number].wait(5)  # neither is to be closed before it began
                while True:
                    yield str(number)
            finally:
                ended[number].set()

        return RunnableLambda(branch)

    chunks = driver.stream(RunnableParallel(a=endless(0), b=endless(1)), "x", take=3)
    assert len(chunks) == 3
    assert all(event.wait(5) for event in ended)


def test_a_failing_branch_ends_the_parallel_stream(driver):
    under_way = threading.Event()

    def fails(text):
        assert under_way.wait(10)
        yield "a"
        raise ValueError("branch")

    def endless(text):
        while True:
            yield "b"
            under_way.set()

    with pytest.raises(ValueError, match="branch"):
        driver.stream(RunnableParallel(a=RunnableLambda(fails), b=RunnableLambda(endless)), "x")


def test_branches_see_the_same_chunks(driver):
    both = RunnableParallel(loud=RunnableGenerator(upper), count=lambda text: len(text), same=RunnablePassthrough())
    total = add(driver.transform(both, ["ab", "c", "de"]))
    assert total == {"loud": "ABCDE", "count": 5, "same": "abcde"}


def test_assign_passes_the_rest_on_and_adds(driver):
    made = RunnablePassthrough.assign(b=lambda d: d["a"] * 2, c=lambda d: d["a"] * 3)
    assert driver.invoke(made, {"a": 1, "b": "old"}) == {"a": 1, "b": 2, "c": 3}
    chunks = driver.stream(made, {"a": 1, "b": "old"})
    assert chunks[0] == {"a": 1}
    assert add(chunks) == {"a": 1, "b": 2, "c": 3}
    assert driver.invoke(RunnableParallel(a=len).assign(b=lambda d: d["a"] + 1), "xyz") == {"a": 3, "b": 4}


def test_pick_passes_chunks_of_its_key_on(driver):
    both = RunnableParallel(a=RunnableLambda(words), b=len)
    assert driver.stream(both | RunnablePick("a"), "x y") == ["x ", "y "]
    assert driver.invoke(both.pick("b"), "x y") == 3
    assert driver.invoke(both.pick(["b"]), "x y") == {"b": 3}
    with pytest.raises(InvalidInput, match="no key 'z'"):
        driver.invoke(both.pick("z"), "x y")
    with pytest.raises(InvalidInput, match="'z'"):
        driver.stream(both.pick("z"), "x y")
    assert driver.transform(RunnablePick("z"), []) == []
    with pytest.raises(InvalidInput, match="works on a dict"):
        driver.invoke(RunnablePick("z"), "x y")


def test_a_branch_streams_the_step_it_chooses(driver):
    made = RunnableBranch((lambda text: "!" in text, RunnableLambda(words) | upper), lambda text: text)
    assert driver.stream(made, "a b!") == ["A ", "B! "]
    assert driver.stream(made, "a b") == ["a b"]
    assert driver.invoke(made, "a b!") == "A B! "


def test_a_branch_refuses_what_is_no_pair():
    for wrong in [(str.upper,), (str.upper, str.lower), ((len, len, len), len), ((len, len),)]:
        with pytest.raises(InvalidInput):
            RunnableBranch(*wrong)


def test_chunks_that_cannot_be_added_are_named_with_what_to_do(driver):
    def dicts(text):
        yield {"a": 1}
        yield {"b": 1}

    with pytest.raises(InvalidInput, match="AddableDict"):
        driver.invoke(RunnableLambda(dicts), "x")
    with pytest.raises(InvalidInput, match="str and int"):
        driver.invoke(RunnableLambda(lambda _: None) | RunnableGenerator(lambda _: iter(["a", 1])), "x")


class Growing(Runnable):
    """Gives a longer list each time, as a parser of unfinished JSON does."""

    streams_snapshots = True

    def transform(self, input, config=None, **kwargs):
        seen = []
        for chunk in input:
            for letter in chunk:
                seen.append(letter)
                yield list(seen)


def test_snapshots_replace_each_other_instead_of_adding_up(driver):
    made = RunnablePassthrough() | Growing()
    assert driver.stream(made, "ab") == [["a"], ["a", "b"]]
    assert driver.invoke(made, "ab") == ["a", "b"]
    assert driver.stream(made | len, "ab") == [2]
    both = RunnableParallel(grown=made, same=RunnablePassthrough()) | RunnablePassthrough()
    assert driver.invoke(both, "ab") == {"grown": ["a", "b"], "same": "ab"}
    assert add(driver.stream(both, "ab")) == {"grown": ["a", "b"], "same": "ab"}
    assert driver.stream(both | (lambda d: d["grown"]), "ab") == [["a", "b"]]


def test_addable_dicts_add_key_by_key():
    total = AddableDict(a="x") + {"a": "y", "b": 1} + AddableDict(c=None, b=None)
    assert total == {"a": "xy", "b": 1, "c": None}
    assert {"a": "x"} + AddableDict(a="y") == {"a": "xy"}


def test_adding_many_chunks_is_linear():
    chunks = [AddableDict(a="x" * 100) for _ in range(20_000)]
    assert len(add(chunks)["a"]) == 2_000_000


STEPS = {
    "double": RunnableLambda(lambda text: text + text),
    "upper": RunnableGenerator(upper),
    "aupper": RunnableGenerator(aupper),
    "words": RunnableLambda(words),
    "same": RunnablePassthrough(),
    "pair": RunnableParallel(a=RunnableGenerator(upper), b=RunnablePassthrough()) | (lambda d: d["a"] + d["b"]),
    "branch": RunnableBranch((lambda text: len(text) > 3, str.upper), RunnableGenerator(aupper)),
    "bound": RunnableLambda(lambda text, tail="": text + tail).bind(tail="."),
    "held": streamable(hold="aa+")(lambda text: re.sub("aa+", "#", text)),
    "timed": RunnableLambda(words).with_timeout(60),
    "retried": RunnableGenerator(upper).with_retry(),
    "backed": RunnableLambda(words).with_fallbacks([str.upper]),
    "heard": RunnableGenerator(aupper).with_listeners(on_end=lambda run: None),
    "chosen": RunnableLambda(str.upper).configurable_alternatives(
        ConfigurableField(id="x"), other=RunnableLambda(words)
    ),
    "routed": RunnableLambda(lambda text: {"key": "a", "input": text})
    | RouterRunnable({"a": RunnableGenerator(upper)}),
}


def compose(names):
    made = RunnablePassthrough() | STEPS[names[0]]
    for name in names[1:]:
        made = made | STEPS[name]
    return made


TEXTS = st.text(alphabet="ab ", max_size=5).map("a{}".format)
"""Never blank: a generator that yields nothing gives None, which the next step may not be made for."""


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4), TEXTS)
def test_every_way_of_calling_a_composition_gives_the_same(names, text):
    made = compose(names)
    want = made.invoke(text)

    async def aside():
        whole = await made.ainvoke(text)
        chunks = [chunk async for chunk in made.astream(text)]
        return whole, add(chunks), (await made.abatch([text]))[0]

    assert add(made.stream(text)) == want
    assert made.batch([text]) == [want]
    assert asyncio.run(aside()) == (want, want, want)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from(sorted(STEPS)), min_size=3, max_size=3),
    TEXTS,
)
def test_composition_is_associative(names, text):
    a, b, c = (STEPS[name] for name in names)
    start = RunnablePassthrough()
    left = ((start | a) | b) | c
    right = start | (RunnablePassthrough() | a | (RunnablePassthrough() | b | c))
    assert left.invoke(text) == right.invoke(text)
    assert [s for s in right.steps if type(s) is not RunnablePassthrough] == [
        s for s in left.steps if type(s) is not RunnablePassthrough
    ]
