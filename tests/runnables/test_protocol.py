"""Writing any one method of a runnable gives all the others, in both colours."""

from __future__ import annotations

import sys
import traceback

import pytest

from runwell.errors import InvalidInput, UsageError
from runwell.prompts import ChatPromptTemplate
from runwell.runnables import (
    Runnable,
    RunnableGenerator,
    RunnableLambda,
    RunnablePassthrough,
    RunnableSequence,
    chain,
)


class ByInvoke(Runnable[str, str]):
    def invoke(self, input, config=None, **kwargs):
        return input.upper()


class ByAinvoke(Runnable[str, str]):
    async def ainvoke(self, input, config=None, **kwargs):
        return input.upper()


class ByTransform(Runnable[str, str]):
    def transform(self, input, config=None, **kwargs):
        for chunk in input:
            for letter in chunk:
                yield letter.upper()


class ByAtransform(Runnable[str, str]):
    async def atransform(self, input, config=None, **kwargs):
        async for chunk in input:
            for letter in chunk:
                yield letter.upper()


ALL = [ByInvoke(), ByAinvoke(), ByTransform(), ByAtransform()]


@pytest.mark.parametrize("part", ALL, ids=lambda part: type(part).__name__)
def test_one_written_method_gives_every_other(part, driver):
    assert driver.invoke(part, "abc") == "ABC"
    assert "".join(driver.stream(part, "abc")) == "ABC"
    assert "".join(driver.transform(part, ["ab", "c"])) == "ABC"
    assert driver.batch(part, ["a", "b", "c"]) == ["A", "B", "C"]
    assert sorted(driver.completed(part, ["a", "b"])) == [(0, "A"), (1, "B")]


@pytest.mark.parametrize("part", [ByTransform(), ByAtransform()], ids=["plain", "async"])
def test_a_transform_streams_in_both_colours(part, driver):
    assert driver.stream(part, "abc") == ["A", "B", "C"]
    assert driver.transform(part, ["ab", "c"]) == ["A", "B", "C"]


@pytest.mark.parametrize("part", [ByInvoke(), ByAinvoke()], ids=["plain", "async"])
def test_a_part_that_cannot_stream_waits_for_its_whole_input(part, driver):
    assert driver.transform(part, ["ab", "c"]) == ["ABC"]


@pytest.mark.parametrize("first", ALL, ids=lambda part: type(part).__name__)
@pytest.mark.parametrize("second", ALL, ids=lambda part: type(part).__name__)
def test_any_two_compose(first, second, driver):
    both = first | second
    assert driver.invoke(both, "abc") == "ABC"
    assert "".join(driver.stream(both, "abc")) == "ABC"


def test_a_part_that_says_nothing_is_told_what_to_write(driver):
    class Nothing(Runnable):
        pass

    with pytest.raises(UsageError, match="invoke, ainvoke, transform or atransform"):
        driver.invoke(Nothing(), 1)


def test_at_most_three_frames_stand_between_the_caller_and_a_function():
    seen = []

    def look(value):
        seen.append(traceback.extract_stack(sys._getframe()))
        return value

    (RunnableLambda(lambda value: value) | look | (lambda value: value)).invoke(1)
    names = [frame.filename.endswith("test_protocol.py") for frame in seen[0]]
    ours = len(names) - 1 - max(n for n, mine in enumerate(names[:-1]) if mine) - 1
    assert ours <= 3


def test_functions_generators_and_dicts_become_parts():
    def letters(chunks):
        for chunk in chunks:
            yield from chunk

    async def plus(value):
        return value + "!"

    made = RunnableLambda(lambda text: text * 2) | letters | {"loud": plus, "same": lambda text: text}
    assert made.invoke("ab") == {"loud": "abab!", "same": "abab"}
    assert isinstance(made.steps[1], RunnableGenerator)
    assert ((lambda text: text + "?") | RunnableLambda(str.upper)).invoke("a") == "A?"


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda part: part | 5, "Step 2 of the chain is 5"),
        (lambda part: part | None, "Step 2 of the chain is None"),
        (lambda part: None | part, "Step 1 of the chain is None"),
        (lambda part: part.pipe(part, None), "Step 3 of the chain is None"),
        (lambda part: RunnableSequence(part, None, part), "Step 2 of the chain is None"),
        (lambda part: RunnableSequence(first=part, middle=[None], last=part), "Step 2 of the chain is None"),
        (lambda part: part | {"a": None}, "The entry 'a' of a parallel step is None"),
        (lambda part: ChatPromptTemplate.from_template("{x}") | None, "Step 2 of the chain is None"),
        (lambda part: part | {"a": part, "b": 5}, "The entry 'b' of a parallel step is 5"),
        (lambda part: part.with_fallbacks(part), "fallbacks is a list"),
        (lambda part: RunnableLambda("x"), "wants a function"),
    ],
)
def test_what_cannot_be_a_part_is_refused_while_composing(make, told):
    with pytest.raises(InvalidInput, match=told):
        make(RunnableLambda(str.upper))


def test_a_failing_step_is_named_with_its_input(driver):
    def broken(value):
        raise KeyError("nope")

    made = (RunnableLambda(str.upper) | broken | str.lower).with_config(run_name="whole")
    with pytest.raises(KeyError) as caught:
        driver.invoke(made, "abc")
    assert caught.value.__notes__ == ["in step 2 of 3, 'broken', of the chain 'whole'; its input was 'ABC'"]
    with pytest.raises(KeyError) as caught:
        driver.stream(made, "abc")
    assert caught.value.__notes__ == ["in step 2 of 3, 'broken', of the chain 'whole'; its input was a stream"]


def test_an_outer_chain_adds_where_the_inner_one_stood_but_not_the_input_again(driver):
    def broken(value):
        raise KeyError("nope")

    inner = RunnableLambda(str.upper) | broken
    outer = RunnableLambda(str.strip) | RunnableLambda(lambda text: inner.invoke(text), name="wrapper")
    with pytest.raises(KeyError) as caught:
        driver.invoke(outer, " abc ")
    assert len(caught.value.__notes__) == 2
    assert "'ABC'" in caught.value.__notes__[0]
    assert caught.value.__notes__[1] == "in step 2 of 2, 'wrapper', of the chain 'RunnableSequence'"


def test_repr_reads_like_the_source():
    def double(text):
        return text * 2

    made = RunnableLambda(double) | {"a": str.upper} | RunnableLambda(len).with_retry(stop_after_attempt=2)
    shown = "RunnableLambda(double) | {'a': RunnableLambda(str.upper)} | RunnableLambda(len).with_retry("
    assert repr(made).startswith(shown)


def test_a_decorated_function_is_a_part(driver):
    @chain
    def double(text):
        return text * 2

    assert driver.invoke(double | len, "ab") == 4
    assert double.get_name() == "double"


def test_schemas_come_from_the_types():
    def count(text: str) -> int:
        return len(text)

    made = RunnableLambda(count) | RunnableLambda(lambda n: n)
    assert made.get_input_jsonschema()["type"] == "string"
    assert RunnableLambda(count).get_output_jsonschema()["type"] == "integer"
    assert ByInvoke().InputType is str
    typed = RunnableLambda(lambda n: n).with_types(input_type=int)
    assert typed.get_input_jsonschema()["type"] == "integer"


def test_graph_shows_the_parts_offline():
    made = RunnableLambda(str.upper, name='up "x"') | {"a": len, "b": str.lower}
    text = made.get_graph().draw_mermaid()
    assert "up #34;x#34;" in text
    assert text.count("-->") == 6


def fails(_):
    raise ValueError("boom")


async def afails(_):
    raise ValueError("boom")


@pytest.mark.parametrize("broken", [fails, afails])
@pytest.mark.parametrize("others", [{}, {"b": len}, {"b": len, "c": str}], ids=len)
def test_an_error_side_by_side_says_in_which_entry(broken, others, driver):
    both = RunnableLambda(str) | {**others, "a": broken}
    for call in (driver.invoke, driver.stream):
        with pytest.raises(ValueError, match="boom") as caught:
            call(both, "q")
        entry, step = caught.value.__notes__
        assert entry.startswith(f"in the entry 'a', '{broken.__name__}', of 'RunnableParallel<")
        assert entry.endswith("; its input was 'q'" if call == driver.invoke else "; its input was a stream")
        assert step.startswith("in step 2 of 2, 'RunnableParallel<")


def test_an_error_of_assign_says_in_which_entry(driver):
    for call in (driver.invoke, driver.stream):
        with pytest.raises(ValueError, match="boom") as caught:
            call(RunnablePassthrough.assign(a=fails), {"q": 1})
        assert caught.value.__notes__[0].startswith("in the entry 'a', 'fails', of ")


def test_an_error_before_the_entries_is_none_of_theirs(driver):
    def breaks(_):
        yield "a"
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom") as caught:
        driver.stream(RunnableLambda(breaks) | {"a": RunnablePassthrough(), "b": len}, 1)
    assert "in step 1 of 2, 'breaks'" in caught.value.__notes__[0]
    assert not any("in the entry" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("named", ["bound", "called", "made"])
def test_the_note_calls_a_chain_by_its_name(named, driver):
    chain_ = RunnableLambda(str) | fails
    config = {"run_name": "triage"} if named == "called" else None
    if named == "bound":
        chain_ = chain_.with_config(run_name="triage")
    elif named == "made":
        chain_ = RunnableSequence(str, fails, name="triage")
    for call in (driver.invoke, driver.stream):
        with pytest.raises(ValueError, match="boom") as caught:
            call(chain_, "q", config)
        assert caught.value.__notes__[0].startswith("in step 2 of 2, 'fails', of the chain 'triage'")


def test_any_iterable_is_a_stream_of_chunks():
    parts = [*ALL, ALL[2] | ALL[3], RunnableLambda(str) | str.upper, RunnableGenerator(letters), RunnablePassthrough()]
    for part in parts:
        assert "".join(part.transform(["ab", "c"])).upper() == "ABC"
    assert list((RunnablePassthrough() | {"a": ByTransform(), "b": ByTransform()}).transform(["a"]))
    assert list(RunnablePassthrough.assign(b=len).transform([{"a": 1}])) == [{"a": 1}, {"b": 1}]


def letters(chunks):
    yield from chunks
